"""Far from its end a changelog is read into a store by ``rebuild``, near it by ``write``."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.restore.loop import Purpose, Restored, Restorer
from tests.restore.logs import P0, PACING, T0, DictStores, Log, LogReader, only, records, steps


class RecordingStores(DictStores):
    """Keeps how each batch was applied, by the offset after it."""

    def __init__(self) -> None:
        super().__init__()
        self.rebuilt, self.written = [], []

    def write(self, writes, offsets) -> None:
        self.written += offsets.values()
        super().write(writes, offsets)

    def rebuild(self, writes, offsets) -> None:
        self.rebuilt += offsets.values()
        super().write(writes, offsets)


def test_the_last_records_are_written_so_that_what_is_handed_over_outlasts_a_crash():
    reader = LogReader({P0: Log(entries=records(30))})
    loop = Restorer(reader, now_ms=lambda: reader.now_ms, pacing=replace(PACING, rebuild_records=12))
    stores = RecordingStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop)) == [Restored(T0, stores)]
    assert (stores.rebuilt, stores.written) == ([3, 6, 9, 12, 15], [18, 21, 24, 27, 30])
    assert stores.data == {"s": dict(records(30))}
