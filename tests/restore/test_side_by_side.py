"""Active tasks are restored side by side: none waits for another's end."""

from __future__ import annotations

from kstreams_assign.restore.loop import Purpose, Restored
from tests.restore.logs import P0, P1, T0, T1, DictStores, Log, LogReader, only, records, restorer, steps


def test_active_tasks_move_side_by_side_and_come_to_their_ends_together():
    reader = LogReader({P0: Log(entries=records(40)), P1: Log(entries=records(40))})
    loop, stores = restorer(reader), {T0: DictStores(), T1: DictStores()}
    loop.add(T0, stores[T0], {P0: "s"}, Purpose.ACTIVE)
    loop.add(T1, stores[T1], {P1: "s"}, Purpose.ACTIVE)
    assert not only(Restored, steps(loop, 4))
    assert (stores[T0].held, stores[T1].held) == ({P0: 12}, {P1: 12})
    assert only(Restored, steps(loop, 10)) == [Restored(task, stores[task]) for task in (T0, T1)]
    assert [task_stores.data for task_stores in stores.values()] == [{"s": dict(records(40))}] * 2


def test_a_short_task_that_comes_later_is_handed_over_while_a_long_one_goes_on():
    reader = LogReader({P0: Log(entries=records(40)), P1: Log(entries=records(6))})
    loop, long, short = restorer(reader), DictStores(), DictStores()
    loop.add(T0, long, {P0: "s"}, Purpose.ACTIVE)
    steps(loop, 2)
    loop.add(T1, short, {P1: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop, 3)) == [Restored(T1, short)]
    assert long.held == {P0: 15}, "and it has not stood still meanwhile"
    assert only(Restored, steps(loop)) == [Restored(T0, long)]
