"""Partition time: the newest timestamp of an input partition's records up to the committed offset.

It is committed with that offset, so that time does not go back when a task moves to another process, or another
language (Kafka: ``RecordQueue.partitionTime``). The mark of a paused task is committed beside it (``pausing``). What
must not live here: clocks, commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.tasks.timers import TIME_MAX
from kstreams_assign.wire.offset_metadata import OffsetMetadata, read_offset_metadata, write_offset_metadata


class Position(NamedTuple):
    """The offset to read from, and the metadata that was committed with it."""

    offset: int
    metadata: str = ""


class PartitionTime:
    """The newest timestamp of one input partition's records up to an offset that is to be committed."""

    __slots__ = ("_processor", "_seen", "newest_ms", "time_ms")

    def __init__(self, metadata: str = "") -> None:
        self.time_ms, self._processor = read_offset_metadata(metadata)
        self.newest_ms = self.time_ms
        """The newest time up to what was processed, committed or not."""
        self._seen: list[tuple[int, int]] = []

    @property
    def pause_mark(self) -> PauseMark:
        """Return whether the task is paused, as the metadata has it."""
        return PauseMark.read(self._processor)

    def mark_pause(self, mark: PauseMark) -> None:
        """Commit this with each offset from now on."""
        self._processor = mark.write_into(self._processor)

    def saw(self, next_offset: int, time_ms: int) -> None:
        """Note that records up to an offset were processed, and their newest time; a rollback may repeat them."""
        while self._seen and self._seen[-1][0] >= next_offset:
            self._seen.pop()
        self._seen.append((next_offset, time_ms))
        if self.newest_ms is None or time_ms > self.newest_ms:
            self.newest_ms = time_ms

    def roll_back(self, offset: int) -> None:
        """Forget the records from this offset on: they are processed again."""
        self.newest_ms = self.until(offset)
        self._seen = [seen for seen in self._seen if seen[0] <= offset]

    def until(self, offset: int) -> int | None:
        """Return what ``time_ms`` would be after a commit of this next offset."""
        passed = [time_ms for next_offset, time_ms in self._seen if next_offset <= offset]
        known = [] if self.time_ms is None else [self.time_ms]
        return max([*known, *passed], default=None)

    def commit(self, offset: int) -> str:
        """Return the metadata to commit with this next offset. A batch counts once its last record is committed."""
        self.time_ms = self.until(offset)
        self._seen = [seen for seen in self._seen if seen[0] > offset]
        return write_offset_metadata(OffsetMetadata(self.time_ms, self._processor))


class StreamTime:
    """The highest timestamp of a task's records so far, as a function sees it that reads them one after the other.

    After a restart it begins with what was committed (Kafka: ``PartitionGroup.streamTime``, ``setPartitionTime``).

    ``done_ms``: that of the records worked on. ``now_ms``: with those that the function has read of its batch; a batch
    that is worked on again begins at ``done_ms`` again. Both are -1 before the first record. ``ahead_ms``: that of a
    record that comes behind the timers that it passes. ``due_ms``: when the first timer is due that the function has
    set during its batch.
    """

    __slots__ = ("ahead_ms", "done_ms", "due_ms", "now_ms")

    def __init__(self, times: Iterable[PartitionTime]) -> None:
        self.due_ms = TIME_MAX
        self.begin(times)

    def begin(self, times: Iterable[PartitionTime]) -> None:
        """Begin, perhaps again, with the records that were processed so far."""
        known = [time.newest_ms for time in times if time.newest_ms is not None]
        self.done_ms = self.now_ms = self.ahead_ms = max(known, default=-1)

    @property
    def reached_ms(self) -> int:
        """The time by which timers are due: also that of a record that comes behind them."""
        return max(self.done_ms, self.ahead_ms)

    def read(self, time_ms: int) -> None:
        """Note a record that the function reads."""
        self.now_ms = max(self.now_ms, time_ms)

    def look_back(self, time_ms: int) -> None:
        """Stand at an earlier time, for a call that was due then; ``begin_batch`` ends this."""
        self.now_ms = min(self.reached_ms, time_ms)

    def begin_batch(self) -> None:
        """Stand at ``done_ms``: what was read and set in a batch that did not come to its end is forgotten."""
        self.now_ms, self.due_ms = self.done_ms, TIME_MAX

    def set_timer(self, at_ms: int) -> None:
        """Note a timer that the function sets."""
        self.due_ms = min(self.due_ms, at_ms)

    def is_passed_by(self, time_ms: int) -> bool:
        """Return whether a timer that was set during the batch is due before its next record, which has this time."""
        return self.due_ms <= max(self.now_ms, time_ms)

    def saw(self, time_ms: int) -> None:
        """Note the newest time of a batch that was worked on."""
        self.done_ms = self.now_ms = max(self.done_ms, time_ms)
