"""The last generation of a group from ``__consumer_offsets``: generation and leader, which no request returns.

The group's partition is read from its end backwards, in steps that grow, because it may hold gigabytes and the record
sought is among the last. What lives here: finding the record. What must not: what a generation means.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, kept_in
from kstreams_assign.adapters.confluent.faults import FAILED_READS, PARTITION_EOF, PASSING, fault, translating
from kstreams_assign.adapters.confluent.feed import offset_of
from kstreams_assign.adapters.confluent.settings import Setting, made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import GroupMetadataKey, encode_offsets_key

FIRST_STEP = 500
GROWTH = 4
BATCH = 2_000
TURN_S = 0.2

_NEEDED: Mapping[str, Setting] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    # A step back begins where the log may just have been compacted away: then read from what is left.
    "auto.offset.reset": "earliest",
}


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The last record under a group's key: its value (None: a tombstone, the group was deleted) and its time."""

    value: bytes | None
    timestamp_ms: int


def last_group_record(
    bootstrap_servers: str, client: Mapping[str, str] | None, group: str, timeout_s: float
) -> GroupRecord | None:
    """The newest record of this classic group; None where there is none.

    Raises ``BrokerError`` where the topic may not be read, ``BrokerUnavailable`` where reading back to the record takes
    longer than ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    admin = ClusterAdmin(bootstrap_servers, client)
    where = kept_in(admin, OFFSETS_TOPIC, group, timeout_s)
    begin, end = admin.bounds([where], timeout_s)[where]
    return _Tail(bootstrap_servers, client, group, where, deadline).last(begin, end)


class _Tail:
    """Reads one partition from its end backwards, for one group's key."""

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None,
        group: str,
        where: TopicPartition,
        deadline: float,
    ) -> None:
        self._key = encode_offsets_key(GroupMetadataKey(group))
        self._where = where
        self._deadline = deadline
        needed: Mapping[str, Setting] = {**_NEEDED, "group.id": group}
        settings = merged(ClientRole.CONSUMER, bootstrap_servers, client, {}, needed)
        self._consumer = made(Consumer, settings, client, f"reader of {where}")

    def last(self, begin: int, end: int) -> GroupRecord | None:
        """Steps of 500, 2,000, 8,000 … offsets; the first that holds the key ends the search."""
        step, upper = FIRST_STEP, end
        try:
            while upper > begin:
                lower = max(begin, upper - step)
                record = self._newest_within(lower, upper)
                if record is not None:
                    return record
                step, upper = step * GROWTH, lower
            return None
        finally:
            self._consumer.close()

    def _newest_within(self, lower: int, upper: int) -> GroupRecord | None:
        record: GroupRecord | None = None
        self._consumer.assign([ClientPartition(*self._where, lower)])
        while time.monotonic() < self._deadline:
            with translating(f"read {self._where}"):
                messages = self._consumer.consume(BATCH, TURN_S)
            for message in messages:
                error = message.error()
                if error is not None:
                    if self._is_end(error):
                        return record
                elif offset_of(message) >= upper:
                    return record
                elif message.key() == self._key:
                    record = _record(message)
            if messages and not messages[-1].error() and offset_of(messages[-1]) == upper - 1:
                return record
        raise BrokerUnavailable(f"reading back {self._where} took too long; no record of the group so far")

    def _is_end(self, error: KafkaError) -> bool:
        if error.code() == PARTITION_EOF:
            return True
        if error.code() not in PASSING | FAILED_READS:
            raise fault(error, f"read {self._where}")
        return False


def _record(message: Message) -> GroupRecord:
    return GroupRecord(message.value(), message.timestamp()[1])
