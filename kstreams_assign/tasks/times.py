"""Partition time: the newest timestamp of an input partition's records up to the committed offset.

It is committed with that offset, so that time does not go back when a task moves to another process, or another
language (Kafka: ``RecordQueue.partitionTime``). The mark of a paused task is committed beside it (``pausing``). What
must not live here: clocks, commits.
"""

from __future__ import annotations

from typing import NamedTuple

from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.wire.offset_metadata import OffsetMetadata, read_offset_metadata, write_offset_metadata


class Position(NamedTuple):
    """The offset to read from, and the metadata that was committed with it."""

    offset: int
    metadata: str = ""


class PartitionTime:
    """The newest timestamp of one input partition's records up to an offset that is to be committed."""

    __slots__ = ("_processor", "_seen", "time_ms")

    def __init__(self, metadata: str = "") -> None:
        self.time_ms, self._processor = read_offset_metadata(metadata)
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

    def commit(self, offset: int) -> str:
        """Return the metadata to commit with this next offset. A batch counts once its last record is committed."""
        passed = [time_ms for next_offset, time_ms in self._seen if next_offset <= offset]
        del self._seen[: len(passed)]
        known = [] if self.time_ms is None else [self.time_ms]
        self.time_ms = max([*known, *passed], default=None)
        return write_offset_metadata(OffsetMetadata(self.time_ms, self._processor))
