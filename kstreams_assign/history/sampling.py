"""The ends of the changelogs of groups that have just rebalanced, asked for on the driver, once a batch.

What lives here: which groups and topics to ask about. What must not: what an end means for a task. Running tasks report
-2 instead of an offset, so the lag of the copies is unknown without these samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import BrokerError
from kstreams_assign.history.records import EndOffset
from kstreams_assign.model import TopicPartition
from kstreams_assign.topology.internal import internal_topics_of

CHANGELOG = "-changelog"


class Sampler:
    """Asks the cluster; what it cannot say in time is left out, as if the generation had been seen late."""

    def __init__(self, admin: ClusterAdmin, timeout_s: float = 10.0) -> None:
        self._admin = admin
        self._timeout_s = timeout_s
        self._asked: set[str] = set()
        """All groups so far: the client lists no streams groups."""

    def ends(self, groups: Iterable[str]) -> tuple[dict[str, list[EndOffset]], str]:
        """The changelogs' ends by group, and in words what stood in the way, if anything did."""
        asked = sorted(set(groups))
        if not asked:
            return {}, ""
        try:
            topics = self._admin.topics(self._timeout_s)
            self._asked.update(asked)
            groups = self._admin.groups(self._timeout_s) | self._asked
            wanted = {group: changelogs(group, topics, groups) for group in asked}
            bounds = self._admin.bounds({at for own in wanted.values() for at in own}, self._timeout_s)
        except BrokerError as error:
            return {}, f"no end offsets for {', '.join(asked[:3])}: {error}"
        now_ms = wall_ms()
        return {
            group: [EndOffset(*at, bounds[at][1], bounds[at][0], now_ms) for at in own if at in bounds]
            for group, own in wanted.items()
        }, ""


def changelogs(group: str, topics: Mapping[str, int], groups: Iterable[str] = ()) -> list[TopicPartition]:
    """The changelog partitions of an application: Kafka Streams names them ``<application id>-<store>-changelog``.

    ``groups``: all that are known. A changelog is that of the group with the longest name that fits.
    """
    named = [topic for topic in internal_topics_of(group, topics, groups) if topic.endswith(CHANGELOG)]
    return [TopicPartition(topic, partition) for topic in named for partition in range(topics[topic])]
