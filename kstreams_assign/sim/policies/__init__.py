"""Policies to compare. Each is a small module with its changes to the real leader, member and assignor, and its source.

Begin with ``policy``, then ``simple`` and ``current``. ``FIRST``: the ideas from which KIP-441 grew, and their
successors; "the proposal" is "Incremental Cooperative Rebalancing for Streams" (Apache Kafka's wiki, 2017).
``RELATED``: the rules of other systems, as KIP-441 describes them under "Related Work".
"""

from kstreams_assign.sim.policies import (
    bootstrap,
    cruise_control,
    current,
    delayed,
    delayed_bootstrap,
    elasticsearch,
    flink,
    heron,
    kafka_consumer,
    kip_441,
    learners,
    least_movement,
    redis_cluster,
    samza,
    simple,
    yarn,
)
from kstreams_assign.sim.policies.policy import Policy

FIRST: tuple[Policy, ...] = (
    current.POLICY,
    simple.POLICY,
    delayed.POLICY,
    bootstrap.POLICY,
    delayed_bootstrap.POLICY,
    learners.POLICY,
    kip_441.POLICY,
    least_movement.POLICY,
)
RELATED: tuple[Policy, ...] = (
    kafka_consumer.POLICY,
    cruise_control.POLICY,
    redis_cluster.POLICY,
    elasticsearch.POLICY,
    yarn.POLICY,
    flink.POLICY,
    samza.POLICY,
    heron.POLICY,
    kip_441.POLICY,
    least_movement.POLICY,
)

__all__ = ["FIRST", "RELATED", "Policy"]
