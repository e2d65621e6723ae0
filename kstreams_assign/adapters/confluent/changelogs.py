"""Changelogs read back, many partitions at once (``restore.ports.ChangelogReader``).

What must not live here: what a store does with the records. The idea: nothing is done per record that C code in
librdkafka's wrapper cannot do for a whole batch; that is what makes restoring faster than Java's.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import cast

from confluent_kafka import Message

from kstreams_assign.adapters.confluent.admin import ClusterAdmin
from kstreams_assign.adapters.confluent.faults import UnreadableRecords
from kstreams_assign.adapters.confluent.feed import BATCH_BYTES_MAX, BUFFER_BYTES, Feed, Taken, offset_of, runs
from kstreams_assign.adapters.confluent.headers import headers_of, readable_headers
from kstreams_assign.adapters.confluent.settings import Setting
from kstreams_assign.adapters.confluent.source_limits import SourceLimits
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.ports import Bounds, ChangelogBatch
from kstreams_assign.tasks.stamped import stamped_all
from kstreams_assign.tasks.stores import Write
from kstreams_assign.topology.kinds import refuse_headers

_TUNING: Mapping[str, Setting] = {
    # How long a fetch without news holds back a partition that has just been added.
    "fetch.wait.max.ms": 50,
    # The default, 1 s, leaves a reader that empties 100,000 records in 150 ms without work for the rest.
    "fetch.queue.backoff.ms": 5,
}
_LEADER_TIMEOUT_S = 1.0
"""The reader waits meanwhile, so a leader that takes longer is asked again, and the other partitions go on."""
_NEEDED: Mapping[str, Setting] = {"enable.partition.eof": True}
_TIME = itemgetter(1)  # of what ``Message.timestamp`` answers
_NONE: Mapping[str, str] = MappingProxyType({})


class ConfluentChangelogReader:
    """Reads changelog partitions at given offsets. Used by one thread.

    ``admin`` answers ``bounds`` and stays the caller's to close. ``read_committed`` holds back what an open transaction
    wrote. ``poll`` takes at most ``max_records``. ``limits``: source topics among the changelogs, and how far they may
    be read. Values from the topics ``timestamped`` come as their stores hold them, each behind its record's timestamp.
    ``bare``: topics whose records may have no headers, each with its store; ``poll`` raises ``ConfigError`` for the
    first that has some. ``buffer_bytes`` bounds what is fetched ahead.
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
        limits: SourceLimits | None = None,
        timestamped: frozenset[str] = frozenset(),
        bare: Mapping[str, str] = _NONE,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._bare = bare
        self._limits = limits or SourceLimits((), lambda _asked: {})
        self._stopped: set[TopicPartition] = set()
        self._without_limit: list[TopicPartition] = []
        self._admin = admin
        self._max_records = max_records
        self._bounds_timeout_s = bounds_timeout_s
        self._feed = Feed(
            bootstrap_servers,
            client,
            group_id=group_id,
            read_committed=read_committed,
            tuning=_TUNING,
            needed=_NEEDED,
            max_bytes=min(BATCH_BYTES_MAX, buffer_bytes),
            buffer_bytes=buffer_bytes,
        )
        self._next: dict[TopicPartition, int] = {}
        self._timestamped = timestamped

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading at these offsets; the others read on undisturbed."""
        self._feed.add(positions)
        self._next |= positions

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        leaving = list(partitions)
        self._feed.remove(leaving)
        self._stopped.difference_update(leaving)
        for partition in leaving:
            self._next.pop(partition, None)

    def poll(self, timeout_s: float) -> list[ChangelogBatch]:
        """Whatever has arrived, at most one batch a partition. Records without a key are passed over, as Java does."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                taken = self._within_limits(self._feed.take(self._max_records, max(0.0, deadline - time.monotonic())))
            except UnreadableRecords as cause:
                return [self._unreadable(cause)]
            batches = {**self._batches(taken), **self._gone(taken)}
            # An end that is known already is no news.
            if batches or time.monotonic() >= deadline:
                return list(batches.values())

    def bounds(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Bounds | None]:
        """Return the bounds of each partition that exists. Raises ``BrokerUnavailable``.

        None while its leader does not answer, and while its limit is not known (an open transaction holds it back).
        """
        bounds, ids = self._admin.bounds_and_ids(partitions, self._bounds_timeout_s, _LEADER_TIMEOUT_S)
        led = {at: its for at, its in bounds.items() if its is not None}
        limits = self._look_up_limits(led)
        self._read_on(limits)
        known = {
            at: Bounds(*its, ids.get(at.topic), limits.get(at))
            for at, its in led.items()
            if at not in self._without_limit
        }
        return {at: known.get(at) for at in bounds}

    def close(self) -> None:
        self._feed.close()

    def _look_up_limits(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the limits of those that have one; ``_without_limit`` then holds those whose limit is not known now.

        A pending offset holds back the answer about all partitions of a question. So these partitions are asked about
        one by one, each topic only until one is not answered, as the restore waits meanwhile. That one is asked last
        the next time.
        """
        limits: dict[TopicPartition, int] = {}
        singly: Iterable[TopicPartition] = [at for at in self._without_limit if at in partitions]
        try:
            limits |= self._limits.look_up([at for at in partitions if at not in self._without_limit])
        except BrokerUnavailable:
            singly = partitions
        skipped = [at for at in self._without_limit if at not in partitions]
        pending: dict[str, TopicPartition] = {}
        for at in singly:
            if at.topic in pending:
                skipped.append(at)
                continue
            try:
                limits |= self._limits.look_up([at])
            except BrokerUnavailable:
                pending[at.topic] = at
        self._without_limit = [*skipped, *pending.values()]
        return limits

    def _within_limits(self, taken: Taken) -> Taken:
        """Without what lies behind a limit; a partition at its limit is not read until the limit has moved."""
        messages, stopped = self._limits.cut(taken.messages, taken.ends)
        if not stopped:
            return taken
        self._feed.remove(stopped)
        self._stopped |= stopped.keys()
        return Taken(messages, {**taken.ends, **stopped}, taken.out_of_range)

    def _read_on(self, limits: Mapping[TopicPartition, int]) -> None:
        moved = {p: self._next[p] for p in self._stopped.intersection(limits) if self._next[p] < limits[p]}
        self._feed.add(moved)
        self._stopped -= moved.keys()

    def _batches(self, taken: Taken) -> dict[TopicPartition, ChangelogBatch]:
        writes, reached = _by_partition(taken.messages, self._timestamped, self._bare)
        for partition, end in taken.ends.items():
            # The end lies behind the last record where markers or compacted offsets close the log.
            reached[partition] = max(end, reached.get(partition, 0))
        news = {partition: offset for partition, offset in reached.items() if offset > self._next.get(partition, -1)}
        self._next |= news
        return {p: ChangelogBatch(p, writes.get(p, []), offset) for p, offset in news.items()}

    def _gone(self, taken: Taken) -> dict[TopicPartition, ChangelogBatch]:
        self._stopped.difference_update(taken.out_of_range)
        for partition in taken.out_of_range:
            self._next.pop(partition, None)
        return {p: ChangelogBatch(p, [], asked, in_range=False) for p, asked in taken.out_of_range.items()}

    def _unreadable(self, cause: UnreadableRecords) -> ChangelogBatch:
        next_offset = self._next.pop(cause.partition, cause.offset)
        return ChangelogBatch(cause.partition, [], next_offset, unreadable=str(cause))


def _by_partition(
    messages: list[Message], timestamped: frozenset[str] = frozenset(), bare: Mapping[str, str] = _NONE
) -> tuple[dict[TopicPartition, list[Write]], dict[TopicPartition, int]]:
    """Writes and next offset of each partition. Raises ``ConfigError`` for headers in one of ``bare``."""
    writes: dict[TopicPartition, list[Write]] = {}
    reached: dict[TopicPartition, int] = {}
    for partition, run in runs(messages):
        if partition.topic in bare:
            _refuse_headers(partition.topic, bare[partition.topic], run)
        values = _stored_values(run) if partition.topic in timestamped else _values(run)
        writes.setdefault(partition, []).extend(_writes(run, values))
        reached[partition] = offset_of(run[-1]) + 1
    return writes, reached


def _refuse_headers(topic: str, store: str, messages: list[Message]) -> None:
    """One call for each record, in C, of which nearly all have none."""
    try:
        headers = set(chain.from_iterable(filter(None, map(headers_of, messages))))
    except SystemError:
        headers = set(chain.from_iterable(filter(None, readable_headers(messages))))
        headers.add(("a name that is not UTF-8", None))
    if headers:
        refuse_headers(topic, store, headers)


def _values(messages: list[Message]) -> Iterable[bytes | None]:
    return cast("Iterable[bytes | None]", map(Message.value, messages))


def _stored_values(messages: list[Message]) -> Iterable[bytes | None]:
    """As a timestamped store holds them."""
    values = cast("list[bytes | None]", list(map(Message.value, messages)))
    return stamped_all(values, list(map(_TIME, map(Message.timestamp, messages))))


def _writes(messages: list[Message], values: Iterable[bytes | None]) -> list[Write]:
    keys = list(map(Message.key, messages))
    if None not in keys:
        return cast("list[Write]", list(zip(keys, values, strict=True)))
    return [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
