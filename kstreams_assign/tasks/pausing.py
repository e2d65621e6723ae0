"""Whether a task is paused, as it is kept beside the committed offsets of its inputs.

The mark is two entries of Kafka's processor metadata: when the task was paused last, and when it was resumed last. A
Java member that runs the task in between merges the maps of all its inputs, keeps the greater value of each name, and
commits the result (``ProcessorMetadata.update``). So the later of the two times decides, and the same rule merges the
inputs of a task here: an input that was added later, or whose mark is older, changes nothing.

What must not live here: clocks, commits, and what a pause does to a task (``worker.pauses``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from kstreams_assign.wire.offset_metadata import read_processor_metadata, write_processor_metadata

PAUSED_MS = "kstreams_assign.paused_ms"
RESUMED_MS = "kstreams_assign.resumed_ms"

_NEVER = -1


class PauseMark(NamedTuple):
    """When a task was paused and resumed last, in milliseconds since 1970; -1: never."""

    paused_ms: int = _NEVER
    resumed_ms: int = _NEVER

    @property
    def is_paused(self) -> bool:
        """Return whether the task was paused after it was resumed."""
        return self.paused_ms > self.resumed_ms

    @property
    def since_ms(self) -> int | None:
        """Return since when the task is paused; None: it is not."""
        return self.paused_ms if self.is_paused else None

    def changed(self, now_ms: int, *, paused: bool) -> Self:
        """Return the mark of a task that is paused or resumed now. A clock that was set back does not matter."""
        if paused == self.is_paused:
            return self
        if paused:
            return self._replace(paused_ms=max(now_ms, self.resumed_ms + 1))
        return self._replace(resumed_ms=max(now_ms, self.paused_ms))

    @classmethod
    def read(cls, processor: bytes) -> Self:
        """Return the mark in processor metadata."""
        entries = read_processor_metadata(processor)
        return cls(entries.get(PAUSED_MS, _NEVER), entries.get(RESUMED_MS, _NEVER))

    @classmethod
    def merged(cls, marks: Iterable[PauseMark]) -> Self:
        """Return the mark of a task from those of its inputs."""
        all_marks: list[PauseMark] = [cls(), *marks]
        return cls(max(mark.paused_ms for mark in all_marks), max(mark.resumed_ms for mark in all_marks))

    def write_into(self, processor: bytes) -> bytes:
        """Return processor metadata with this mark; other entries stay."""
        if PauseMark.read(processor) == self:
            return processor
        times = {PAUSED_MS: self.paused_ms, RESUMED_MS: self.resumed_ms}
        entries = {name: value for name, value in read_processor_metadata(processor).items() if name not in times}
        known = {name: time_ms for name, time_ms in times.items() if time_ms != _NEVER}
        return write_processor_metadata(entries | known)
