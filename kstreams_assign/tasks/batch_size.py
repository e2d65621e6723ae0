"""How many records the next batch may have, and how much may wait for a commit. Pure: no clock, no records.

A commit covers whole calls of the user's function only, since a function may read ahead and hold results in variables.
So a batch that takes long delays commits, revocations and the sign of life that ``max_poll_interval_ms`` asks for, and
the writes of a batch have to fit into memory and into one transaction. ``BatchSize`` learns from each batch,
``CommitSize`` from each commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

FIRST_RECORDS = 16
"""The first batch is small, because the cost of a record is unknown; doubling gets to thousands in eight batches."""

CALL_MS = 250
"""How long a batch should take. Java works on one record at a time and can commit between any two."""

_COMMIT_BYTES_MIN = 64 << 10
"""A commit is never too large because of so few bytes."""

_SIMILAR = 1.5
"""Two batches whose sizes differ by less say nothing about what a record costs."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Work that was done: input records, bytes of the keys and values that it wrote and sent, milliseconds."""

    records: int = 0
    written_bytes: int = 0
    took_ms: float = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.records + other.records, self.written_bytes + other.written_bytes, self.took_ms + other.took_ms
        )


class _Cost(NamedTuple):
    """What a batch of so many records took, in milliseconds."""

    records: int
    took_ms: float


@dataclass(slots=True)
class BatchSize:
    """Records of the next batch, from 1 to ``records_max``.

    ``bytes_max`` bounds what a batch writes and sends. ``interval_ms`` (``max_poll_interval_ms``) is when the group
    gives a member up. A function may have a cost for each call (a request, for example) beside the cost of each record.
    Smaller batches do not reduce the cost of a call. So two batches of different size separate the costs, and only the
    cost of the records is kept within ``CALL_MS``.
    """

    records_max: int
    bytes_max: int
    interval_ms: int
    records: int = 0
    _last: _Cost | None = None
    _other: _Cost | None = None

    def __post_init__(self) -> None:
        self.records = min(FIRST_RECORDS, self.records_max)

    def learn(self, batch: Amount) -> str | None:
        """Take a batch of at least one record into account. Return which limit made the next one smaller, or None."""
        records, written_bytes, took_ms = batch.records, batch.written_bytes, batch.took_ms
        self._remember(_Cost(records, took_ms))
        by_time, by_bytes = self._within_time(), self._within_bytes(records, written_bytes)
        if written_bytes > self.bytes_max and by_bytes < self.records:
            self.records = by_bytes
            return f"max_poll_bytes = {self.bytes_max}: {records} records wrote {written_bytes:,} bytes"
        if took_ms > CALL_MS and by_time < self.records:
            self.records = by_time
            return f"{records} records took {took_ms / 1000:.1f} s"
        if records >= self.records:
            allowed = self.records_max if took_ms * 2 <= CALL_MS else by_time
            self.records = max(self.records, min(2 * self.records, allowed, by_bytes))
        return None

    def _remember(self, cost: _Cost) -> None:
        """Keep the last batch, and the last one whose size was another, as long as both can have the same two costs."""
        if self._last is not None and not _similar(self._last.records, cost.records):
            self._other = self._last
        if self._other is not None and (_similar(self._other.records, cost.records) or _changed(self._other, cost)):
            self._other = None
        self._last = cost

    def _within_time(self) -> int:
        """Return how many records take ``CALL_MS``, or as long as the call itself costs.

        Never so many that the group gives the member up.
        """
        assert self._last is not None
        records, took_ms = self._last
        each_ms = took_ms / records
        if self._other is not None:
            each_ms = max(0.0, (took_ms - self._other.took_ms) / (records - self._other.records))
        call_ms = max(0.0, took_ms - each_ms * records)
        allowed_ms = max(CALL_MS, call_ms)
        wanted = self.records_max if allowed_ms >= each_ms * self.records_max else int(allowed_ms / each_ms)
        if took_ms > self.interval_ms / 4:
            wanted = min(wanted, int(records * self.interval_ms / 4 / took_ms))
        return max(1, min(wanted, self.records_max))

    def _within_bytes(self, records: int, written_bytes: int) -> int:
        return self.records_max if written_bytes == 0 else max(1, records * self.bytes_max // written_bytes)


def _similar(records: int, other_records: int) -> bool:
    return max(records, other_records) < min(records, other_records) * _SIMILAR


def _changed(cost: _Cost, other: _Cost) -> bool:
    """Whether the smaller batch took clearly longer: what a record or a call costs has changed between them."""
    small, large = sorted([cost, other])
    return small.took_ms > large.took_ms * _SIMILAR


@dataclass(slots=True)
class CommitSize:
    """How many records, and how many bytes written by them, may wait for a commit or be part of one."""

    records_max: int
    bytes_max: int
    records: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.records, self.bytes = self.records_max, self.bytes_max

    def shrink(self, failed: Amount) -> None:
        """After a commit that failed, of at least one record: the next one gets half of it."""
        self.records = max(1, min(self.records, failed.records // 2))
        self.bytes = max(_COMMIT_BYTES_MIN, min(self.bytes, failed.written_bytes // 2))

    def grow(self, done: Amount) -> None:
        """After a commit that succeeded: the next one may be a quarter larger, if this one came near the limit."""
        if done.records * 2 < self.records and done.written_bytes * 2 < self.bytes:
            return
        self.records = min(self.records_max, self.records + self.records // 4 + 1)
        self.bytes = min(self.bytes_max, self.bytes + self.bytes // 4)

    def left(self, waiting: Amount) -> int:
        """Return how many more records may be worked on beside those that wait; 0 if a commit has to come first."""
        return max(0, self.records - waiting.records) if waiting.written_bytes < self.bytes else 0
