"""The first look at the brokers, before anything joins: what the topology cannot work with is refused at the start.

What must not live here: what a leader makes or refuses (``leading``), and anything that is looked up again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, ConfigError
from kstreams_assign.model import TopologyShape
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.kinds import refuse_foreign_stores
from kstreams_assign.worker.events import EventLog

FIRST_ANSWER_S = 30.0
SETTINGS_S = 5.0


def refuse_missing_sinks(admin: ClusterAdmin, flows: Sequence[Flow], shape: TopologyShape) -> None:
    """Found out now, or each commit would fail: no record can be written to a topic that is not there."""
    sinks = {sink for flow in flows for sink in flow.sinks.values()} - shape.repartition_topics.keys()
    there = admin.partition_counts(sinks, FIRST_ANSWER_S)
    if missing := sorted(sinks - there.keys()):
        raise ConfigError(f"topology: sink topics that do not exist: {', '.join(missing)}; create them first")


def refuse_changelogs_of_other_kinds(config: Config, admin: ClusterAdmin, shape: TopologyShape, log: EventLog) -> None:
    """Java's windowed and versioned stores by their changelogs, where there are some and their settings may be read."""
    try:
        settings = admin.own_settings(shape.changelog_topics(config.application_id), SETTINGS_S)
    except BrokerError as cause:
        log.emit("lookup_failed", what="settings of changelogs", reason=str(cause))
        settings = {}
    refuse_foreign_stores(shape, config.application_id, settings)
