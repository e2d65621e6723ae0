"""The current record of a task: writes take its time, outputs its headers too (Kafka: ``ProcessorRecordContext``).

``batch.Batch`` keeps it up to date. What must not live here: what is written.
"""

from __future__ import annotations

from kstreams_assign.tasks.record import Record


class AtWork:
    """Remember the current record; before the first, a record of no topic at ``now_ms``."""

    __slots__ = ("record",)

    def __init__(self, now_ms: int) -> None:
        self.record = Record("", -1, -1, now_ms, None, None)
