"""How far one task's restore is, as a value: where it began, where it stands, where it ends, how fast it moves.

Pure: the clock is an argument. What lives here: the decision where to begin (``beginning``), when a task is done,
the estimate of the time left, when standbys wait. What must not: reading or writing anything (``restore.loop``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TopicPartition

PACE_WINDOW_MS = 30_000
"""Speed is measured over this long, so that a pause long ago does not colour the estimate."""

_MARK_INTERVAL_MS = 1_000

RATE_MS, RATE_OFFSETS = 1_000, 10_000
"""The rate of a process is measured over so long and so many offsets, at least."""

RATE_SPAN_MS = 10_000
"""A longer restore is measured in spans of this length: a broker with a quota may send in steps of many seconds."""


class Beginning(Enum):
    """Where the restore of one changelog partition begins, given what the store says it holds.

    All but the first two wipe the task's stores and start over.
    """

    FRESH = "the store has no offset of it: read from its first offset"
    CONTINUE = "the store's offset is within its bounds: read from there"
    OVERTAKEN = "it begins after the store's offset, so deletions may be missing"
    AHEAD = "it ends before the store's offset, so it is not the store's changelog"
    REPLACED = "it was deleted and created again: its topic id has changed"
    ORPHANED = "the store has data but no offset of it"

    @property
    def wipes(self) -> bool:
        return self is not Beginning.FRESH and self is not Beginning.CONTINUE


def beginning(stored: int | None, first: int, end: int, *, replaced: bool = False, data: bool = False) -> Beginning:
    """Decide it from the store's next offset (``None``: it has none) and the changelog's bounds.

    ``replaced``: the offset is of another topic of that name; ``data``: the store has entries. A stored 0 in a
    changelog whose first offset moved on counts as fresh: nothing was ever read.
    """
    if not stored:
        return Beginning.ORPHANED if data else Beginning.FRESH
    if replaced:
        return Beginning.REPLACED
    if stored > end:
        return Beginning.AHEAD
    return Beginning.OVERTAKEN if stored < first else Beginning.CONTINUE


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One changelog partition; all three are next offsets. ``end`` is the high watermark when it was looked up."""

    start: int
    position: int
    end: int

    @property
    def remaining(self) -> int:
        """Offsets still to read; an upper bound on records, as compaction and transactions leave gaps."""
        return max(0, self.end - self.position)

    @property
    def done(self) -> bool:
        return self.position >= self.end


class _Mark(NamedTuple):
    at_ms: int
    position: int
    remaining: int


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """All changelog partitions of one task, and marks along the way from which the pace is read."""

    partitions: Mapping[TopicPartition, PartitionProgress]
    moved_at_ms: int
    """When a position last changed, or the restore began."""
    marks: tuple[_Mark, ...] = field(default=(), repr=False)

    @classmethod
    def begin(
        cls, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_ms: int
    ) -> TaskProgress:
        """At ``positions``, with ``ends`` for the same partitions."""
        partitions = {name: PartitionProgress(at, at, ends[name]) for name, at in positions.items()}
        return cls(partitions, now_ms, _marked((), partitions, now_ms))

    def advanced(self, partition: TopicPartition, next_offset: int, now_ms: int) -> TaskProgress:
        """After a batch. A position never goes back."""
        at = self.partitions[partition]
        if next_offset <= at.position:
            return self
        partitions = {**self.partitions, partition: PartitionProgress(at.start, next_offset, at.end)}
        return TaskProgress(partitions, now_ms, _marked(self.marks, partitions, now_ms))

    def extended(self, ends: Mapping[TopicPartition, int], now_ms: int) -> TaskProgress:
        """With ends looked up again; partitions that ``ends`` lacks keep theirs."""
        partitions = self.partitions
        if ends != {name: at.end for name, at in partitions.items()}:
            partitions = {
                name: PartitionProgress(at.start, at.position, ends.get(name, at.end))
                for name, at in partitions.items()
            }
        return TaskProgress(partitions, self.moved_at_ms, _marked(self.marks, partitions, now_ms))

    @property
    def done(self) -> bool:
        for partition in self.partitions.values():  # noqa: SIM110 - asked in every step of the restore
            if partition.position < partition.end:
                return False
        return True

    @property
    def remaining(self) -> int:
        """Offsets still to read, over all partitions."""
        return self.marks[-1].remaining

    @property
    def position_sum(self) -> int:
        """What the task reports as its offset sum while it is not running."""
        return self.marks[-1].position

    @property
    def end_sum(self) -> int:
        return sum(partition.end for partition in self.partitions.values())

    @property
    def offsets_per_s(self) -> float | None:
        """Over the last ``PACE_WINDOW_MS``; ``None`` while there is too little to tell."""
        oldest, newest = self.marks[0], self.marks[-1]
        passed_ms = newest.at_ms - oldest.at_ms
        return None if passed_ms <= 0 else (newest.position - oldest.position) * 1000 / passed_ms

    @property
    def left_ms(self) -> int | None:
        """Time until done if ``remaining`` goes on shrinking as it did; ``None`` when it does not shrink.

        Measured on what remains and not on what was read: the end of a standby's changelog moves too.
        """
        if self.done:
            return 0
        oldest, newest = self.marks[0], self.marks[-1]
        shrunk, passed_ms = oldest.remaining - newest.remaining, newest.at_ms - oldest.at_ms
        return None if shrunk <= 0 or passed_ms <= 0 else newest.remaining * passed_ms // shrunk


class RestoreRate:
    """How fast this process restores, all its tasks together.

    Measured over a whole restore, from a second and many offsets on, or over each ``RATE_SPAN_MS`` of a longer one:
    so what replicas read at the ends of their changelogs hardly counts, nor does what a broker with a quota sends at
    once. The fastest time counts, because a slower one may have waited for a broker.
    """

    def __init__(self) -> None:
        self.offsets_per_s: float | None = None
        """None while nothing was measured."""
        self._since_ms: int | None = None
        self._read = 0
        self._least_ms = RATE_MS

    def count(self, read: int) -> None:
        """Count offsets that were read."""
        self._read += read

    def note(self, now_ms: int, *, behind: bool) -> None:
        """Measure up to now. ``behind``: there are more offsets to read."""
        if self._since_ms is None:
            if behind:
                self._begin(now_ms, RATE_MS)
            return
        passed_ms = now_ms - self._since_ms
        if passed_ms >= (RATE_SPAN_MS if behind else self._least_ms) and self._read >= RATE_OFFSETS:
            self.offsets_per_s = max(self.offsets_per_s or 0.0, self._read * 1000 / passed_ms)
            self._begin(now_ms, RATE_SPAN_MS)  # the rest of a restore may be one step of a quota
        if not behind:
            self._since_ms = None

    def _begin(self, now_ms: int, least_ms: int) -> None:
        self._since_ms, self._read, self._least_ms = now_ms, 0, least_ms


def standbys_wait(restoring: Iterable[TaskProgress], budget_records: int, stalled_ms: int, now_ms: int) -> bool:
    """Whether standbys stop reading, so that active tasks are restored sooner.

    They do while active tasks have more than ``budget_records`` to read. One that has not moved for ``stalled_ms``
    (it may wait for a transaction to end) does not count, or it would hold all standbys up with it.
    """
    moving = (progress for progress in restoring if now_ms - progress.moved_at_ms < stalled_ms)
    return sum(progress.remaining for progress in moving) > budget_records


def _marked(
    marks: Sequence[_Mark], partitions: Mapping[TopicPartition, PartitionProgress], now_ms: int
) -> tuple[_Mark, ...]:
    """The newest mark is now; those before it lie at least ``_MARK_INTERVAL_MS`` apart, inside the window."""
    first, last = 0, len(marks)
    while first < last and marks[first].at_ms < now_ms - PACE_WINDOW_MS:
        first += 1
    if last - first > 1 and marks[-1].at_ms - marks[-2].at_ms < _MARK_INTERVAL_MS:
        last -= 1
    position = remaining = 0
    for at in partitions.values():
        position += at.position
        remaining += at.remaining
    return (*marks[first:last], _Mark(now_ms, position, remaining))
