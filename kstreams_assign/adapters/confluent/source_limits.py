"""The limit of reading back a source topic that is also a changelog: what the group has committed of it.

What lies behind is input that no task has processed yet; a store with it would see values too early
(Kafka: ``StoreChangelogReader`` with ``topology.optimization``). Belongs to ``ConfluentChangelogReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Message

from kstreams_assign.adapters.confluent.feed import offset_of, runs
from kstreams_assign.model import TopicPartition

Committed = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Next offsets that the group has committed; those it never committed are absent. Raises ``BrokerUnavailable``."""


class SourceLimits:
    """The limits of the partitions of ``topics``. Used by one thread."""

    def __init__(self, topics: Collection[str], committed: Committed) -> None:
        self._topics = frozenset(topics)
        self._committed = committed
        self._at: dict[TopicPartition, int] = {}

    def look_up(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The limits as of now of those that have one; 0 where nothing is committed. Raises ``BrokerUnavailable``."""
        mine = [partition for partition in partitions if partition.topic in self._topics]
        if mine:
            self._at |= dict.fromkeys(mine, 0) | dict(self._committed(mine))
        return {partition: self._at[partition] for partition in mine}

    def cut(
        self, messages: list[Message], ends: Mapping[TopicPartition, int]
    ) -> tuple[list[Message], dict[TopicPartition, int]]:
        """The messages that may be used, and the partitions that have come to their limit, with it."""
        if not self._at:
            return messages, {}
        kept: list[Message] = []
        stopped = {p: self._at[p] for p, end in ends.items() if p in self._at and end >= self._at[p]}
        for partition, run in runs(messages):
            limit = self._at.get(partition)
            if limit is None or offset_of(run[-1]) + 1 < limit:
                kept += run
                continue
            kept += [message for message in run if offset_of(message) < limit]
            stopped[partition] = limit
        return kept, stopped
