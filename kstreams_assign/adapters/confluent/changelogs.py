"""Changelogs read back, many partitions at once (``restore.ports.ChangelogReader``).

What must not live here: what a store does with the records. The idea: nothing is done per record that C code in
librdkafka's wrapper cannot do for a whole batch; that is what makes restoring faster than Java's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import cast

from confluent_kafka import Message

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.adapters.confluent.feed import Feed, Taken, offset_of, runs
from kstreams_assign.adapters.confluent.settings import Setting
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.ports import Bounds, ChangelogBatch, Write

_TUNING: Mapping[str, Setting] = {
    # How long a fetch without news holds back a partition that has just been added.
    "fetch.wait.max.ms": 50,
    # The default, 1 s, leaves a reader that empties 100,000 records in 150 ms without work for the rest.
    "fetch.queue.backoff.ms": 5,
}
_NEEDED: Mapping[str, Setting] = {"enable.partition.eof": True}


class ConfluentChangelogReader:
    """Reads changelog partitions at given offsets. Used by one thread.

    ``admin`` answers ``bounds`` and stays the caller's to close. ``read_committed`` holds back what an open transaction
    wrote. ``poll`` takes at most ``max_records``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None = None,
        *,
        group_id: str,
        admin: ClusterAdmin,
        read_committed: bool = False,
        max_records: int = 20_000,
        bounds_timeout_s: float = 5.0,
    ) -> None:
        self._admin = admin
        self._max_records = max_records
        self._bounds_timeout_s = bounds_timeout_s
        self._feed = Feed(
            bootstrap_servers, client, group_id=group_id, read_committed=read_committed, tuning=_TUNING, needed=_NEEDED
        )
        self._next: dict[TopicPartition, int] = {}

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading at these offsets; the others read on undisturbed."""
        self._feed.add(positions)
        self._next |= positions

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        leaving = list(partitions)
        self._feed.remove(leaving)
        for partition in leaving:
            self._next.pop(partition, None)

    def poll(self, timeout_s: float) -> list[ChangelogBatch]:
        """Whatever has arrived, at most one batch a partition. Records without a key are passed over, as Java does."""
        deadline = time.monotonic() + timeout_s
        while True:
            taken = self._feed.take(self._max_records, max(0.0, deadline - time.monotonic()))
            batches = {**self._batches(taken), **self._gone(taken)}
            # An end that is known already is no news.
            if batches or time.monotonic() >= deadline:
                return list(batches.values())

    def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Of each partition that exists. Raises ``BrokerUnavailable``."""
        found, ids = self._admin.bounds_and_ids(partitions, self._bounds_timeout_s)
        return {partition: Bounds(*found[partition], ids.get(partition.topic)) for partition in found}

    def close(self) -> None:
        self._feed.close()

    def _batches(self, taken: Taken) -> dict[TopicPartition, ChangelogBatch]:
        writes, reached = _by_partition(taken.messages)
        for partition, end in taken.ends.items():
            # The end lies behind the last record where markers or compacted offsets close the log.
            reached[partition] = max(end, reached.get(partition, 0))
        news = {partition: offset for partition, offset in reached.items() if offset > self._next.get(partition, -1)}
        self._next |= news
        return {p: ChangelogBatch(p, writes.get(p, []), offset) for p, offset in news.items()}

    def _gone(self, taken: Taken) -> dict[TopicPartition, ChangelogBatch]:
        for partition in taken.out_of_range:
            self._next.pop(partition, None)
        return {p: ChangelogBatch(p, [], asked, in_range=False) for p, asked in taken.out_of_range.items()}


def _by_partition(messages: list[Message]) -> tuple[dict[TopicPartition, list[Write]], dict[TopicPartition, int]]:
    """Writes and next offset of each partition."""
    writes: dict[TopicPartition, list[Write]] = {}
    reached: dict[TopicPartition, int] = {}
    for partition, run in runs(messages):
        writes.setdefault(partition, []).extend(_writes(run))
        reached[partition] = offset_of(run[-1]) + 1
    return writes, reached


def _writes(messages: list[Message]) -> list[Write]:
    keys = list(map(Message.key, messages))
    values = map(Message.value, messages)
    if None not in keys:
        return cast("list[Write]", list(zip(keys, values, strict=True)))
    return [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
