"""The time of an input partition, as a task works through it and hands it on.

What lives here: pure bookkeeping of one number a partition, and ``Position``, where a task begins to read. What must
not: clocks, commits. The idea (Kafka: ``RecordQueue.partitionTime``): the newest timestamp of the records before the
committed offset is committed with it, so that time does not go back when a task goes to another process, or another
language.
"""

from __future__ import annotations

from typing import NamedTuple

from kstreams_assign.wire.offset_metadata import OffsetMetadata, read_offset_metadata, write_offset_metadata


class Position(NamedTuple):
    """Where to read on, and the metadata that was committed there."""

    offset: int
    metadata: str = ""


class PartitionTime:
    """The newest timestamp of one input partition's records up to an offset that is to be committed."""

    __slots__ = ("_processor", "_seen", "time_ms")

    def __init__(self, metadata: str = "") -> None:
        self.time_ms, self._processor = read_offset_metadata(metadata)
        self._seen: list[tuple[int, int]] = []

    def saw(self, next_offset: int, time_ms: int) -> None:
        """Records up to here were handed out, the newest of them of that time. They may come again after a rollback."""
        while self._seen and self._seen[-1][0] >= next_offset:
            self._seen.pop()
        self._seen.append((next_offset, time_ms))

    def commit(self, offset: int) -> str:
        """The metadata to commit with this next offset. Offsets within what was seen at once count as before it."""
        passed = [time_ms for next_offset, time_ms in self._seen if next_offset <= offset]
        del self._seen[: len(passed)]
        known = [] if self.time_ms is None else [self.time_ms]
        self.time_ms = max([*known, *passed], default=None)
        return write_offset_metadata(OffsetMetadata(self.time_ms, self._processor))
