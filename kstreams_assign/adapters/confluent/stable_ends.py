"""Where a reader of committed records ends in a topic: the last stable offsets (Java: ``endOffsets`` of such a reader).

What lies behind them is of open transactions, for which a global table does not wait. Belongs to
``ConfluentChangelogReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Message

from kstreams_assign.adapters.confluent.source_limits import SourceLimits
from kstreams_assign.model import TopicPartition


class StableEnds(SourceLimits):
    """The last stable offsets, to which the brokers themselves limit a reader of committed records.

    ``look_up_ends`` asks for those of partitions that have a leader. Raises ``BrokerUnavailable``.
    """

    def __init__(self, look_up_ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]) -> None:
        super().__init__((), look_up_ends)

    def look_up(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._committed(list(partitions))

    def cut(
        self,
        messages: list[Message],
        ends: Mapping[TopicPartition, int],  # noqa: ARG002
    ) -> tuple[list[Message], dict[TopicPartition, int]]:
        """Nothing: the brokers send no record behind."""
        return messages, {}
