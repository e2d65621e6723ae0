"""A changelog whose records cannot be read gives one task back; the others go on."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.restore.loop import Damaged, Purpose, Restored
from tests.restore.logs import P0, P1, Q0, T0, T1, DictStores, Log, LogReader, only, records, restorer, steps


@pytest.mark.parametrize("purpose", Purpose)
def test_its_task_is_given_back_with_the_reason_and_what_was_read_before(purpose):
    reader = LogReader({P0: Log(entries=records(9)), Q0: Log(entries=records(9)), P1: Log(entries=records(20))})
    reader.unreadable = {P0: 4}
    loop, stores, others = restorer(reader), DictStores(), DictStores()
    loop.add(T0, stores, {P0: "s", Q0: "t"}, purpose)
    loop.add(T1, others, {P1: "s"}, Purpose.ACTIVE)
    events = steps(loop)
    (given,) = only(Damaged, events)
    assert (given.task, given.stores, str(given.error)) == (T0, stores, "app-s-changelog-0 is damaged at 4")
    assert isinstance(given.error, StateError)
    assert not isinstance(given.error, StoreDamaged), "the store itself is kept"
    assert stores.held[P0] == 4
    assert stores.data["s"] == dict(records(4))
    assert (list(loop.tasks), list(reader.positions)) == ([], [])
    assert [event.task for event in only(Restored, events)] == [T1]
    assert others.data == {"s": dict(records(20))}


def test_it_goes_on_from_there_when_it_is_added_again_and_can_be_read():
    reader = LogReader({P0: Log(entries=records(9))})
    reader.unreadable = {P0: 4}
    loop, stores = restorer(reader), DictStores()
    for _ in range(2):
        loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
        assert only(Damaged, steps(loop))
    reader.unreadable = {}
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop))
    assert (stores.wipes, stores.data) == (0, {"s": dict(records(9))})
