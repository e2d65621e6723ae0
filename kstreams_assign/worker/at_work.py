"""The current record of a task: writes take its time, outputs its headers too (Kafka: ``ProcessorRecordContext``).

``batch.Batch`` keeps it up to date. What must not live here: what is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.tasks.record import Record


class AtWork:
    """Remember the current record and its batch; before the first, a record of no topic at ``now_ms``."""

    __slots__ = ("_batch", "_newest_ms", "_passed", "record")

    def __init__(self, now_ms: int) -> None:
        self.record = Record("", -1, -1, now_ms, None, None)
        self._batch: Sequence[Record] = ()
        self._passed, self._newest_ms = 0, -1

    def begin(self, batch: Sequence[Record]) -> None:
        """Begin a batch of records of one partition, oldest first, at its first record."""
        self.record = batch[0]
        self._batch = batch
        self._passed, self._newest_ms = 0, -1

    def end(self) -> None:
        """Forget the batch, which was worked on: an idle task holds no records but the current one."""
        self._batch = ()

    def newest_ms(self) -> int:
        """Return the newest timestamp of the batch up to the current record, in milliseconds since 1970.

        It is looked for when asked, so that functions that do not ask pay nothing, and each record once.
        """
        batch, offset = self._batch, self.record.offset
        while self._passed < len(batch) and batch[self._passed].offset <= offset:
            self._newest_ms = max(self._newest_ms, batch[self._passed].timestamp_ms)
            self._passed += 1
        return self._newest_ms
