"""Another topic under the changelog's name, and none at all."""

from __future__ import annotations

import pytest

from kstreams_assign.restore.loop import Missing, Purpose, Restored, StartedOver
from tests.restore.logs import P0, P1, PACING, Q0, T0, T1, DictStores, Log, LogReader, only, records, restorer, steps


@pytest.mark.parametrize("count", [0, 3, 10, 25], ids="created again with {} records".format)
@pytest.mark.parametrize("purpose", Purpose)
def test_a_recreated_changelog_is_recognised_by_its_id(count, purpose):
    reader = LogReader({P0: Log(entries=records(10), topic_id="old")})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop, 6)
    assert (stores.held, stores.ids) == ({P0: 10}, {P0.topic: "old"})
    stores = loop.remove(T0)
    reader.logs[P0] = Log(entries=records(count, 100), topic_id="new")
    loop.add(T0, stores, {P0: "s"}, purpose)
    events = steps(loop)
    assert [event.task for event in only(StartedOver, events)] == [T0]
    assert (stores.data.get("s", {}), stores.ids) == (dict(records(count, 100)), {P0.topic: "new"})


def test_a_changelog_recreated_during_a_restore_is_noticed_before_the_hand_over():
    reader = LogReader({P0: Log(entries=records(40), topic_id="old")})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    steps(loop, 4)
    reader.logs[P0] = Log(entries=records(40, 100), topic_id="new")  # the reader stands inside it
    reader.now_ms += PACING.bounds_age_ms + 1
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(40, 100))}


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("read_before", [0, 2], ids="{} records read before".format)
def test_a_late_answer_about_the_topic_before_does_not_empty_the_stores_again(purpose, read_before):
    """The new topic is noticed by its id first, and then the broker refuses the old offset."""
    reader = LogReader({P0: Log(entries=records(10), topic_id="old")})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop, 6)
    loop.remove(T0)
    reader.logs[P0] = Log(entries=records(read_before, 100), topic_id="new")
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop, 3)
    assert (stores.wipes, stores.held.get(P0, 0)) == (1, read_before)
    reader.logs[P0].append(*records(5, 200))
    reader.late = {P0: 10}
    if purpose is Purpose.ACTIVE:
        loop.promote(T0)
    events = steps(loop)
    assert only(StartedOver, events) == []
    assert stores.data == {"s": dict(records(read_before, 100) + records(5, 200))}
    assert bool(only(Restored, events)) is (purpose is Purpose.ACTIVE)


def test_a_topic_created_again_empties_the_stores_once_though_each_partition_answers_for_itself():
    reader = LogReader({P0: Log(entries=records(5)), P1: Log(entries=records(5, 50))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s", P1: "s"}, Purpose.STANDBY)
    steps(loop, 4)
    reader.logs[P0] = Log(entries=records(2, 100))
    events = loop.step(0.1)
    reader.logs[P1] = Log(entries=records(3, 150))
    reader.late = {P1: 5}
    events += steps(loop)
    assert [event.reason for event in only(StartedOver, events)] == [f"{P0}: the changelog no longer has offset 5"]
    assert stores.data == {"s": dict(records(2, 100) + records(3, 150))}


def test_after_a_late_answer_the_topic_is_compared_before_the_stores_are_handed_over():
    """The answer is a sign that the topic was created again, also where the reader stands within the new one."""
    reader = LogReader({P0: Log(entries=records(9), topic_id="old"), P1: Log(entries=records(3), topic_id="old")})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s", P1: "s"}, Purpose.ACTIVE)
    steps(loop, 2)
    assert stores.held == {P0: 6, P1: 3}
    reader.logs = {P0: Log(entries=records(9, 100), topic_id="new"), P1: Log(entries=records(3, 200), topic_id="new")}
    reader.late = {P1: 7}
    assert only(Restored, loop.step(0.1)) == []
    events = steps(loop)
    assert len(only(StartedOver, events)) == len(only(Restored, events)) == 1
    assert stores.data == {"s": dict(records(9, 100) + records(3, 200))}


def test_a_store_of_an_earlier_version_takes_the_topic_that_is_there():
    reader = LogReader({P0: Log(entries=records(10), topic_id="a")})
    loop, stores = restorer(reader), DictStores({P0: 10}, {"s": dict(records(10))})
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop))
    assert (stores.wipes, stores.ids) == (0, {P0.topic: "a"})


def test_data_whose_offset_is_lost_is_wiped_since_what_was_deleted_meanwhile_would_stay():
    reader = LogReader({P0: Log(entries=records(3))})
    loop, stores = restorer(reader), DictStores({}, {"s": {b"stale": b"1"}})
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(3))}


def test_a_missing_changelog_is_logged_once_and_the_others_go_on():
    reader = LogReader({P1: Log(entries=records(5))})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s", Q0: "t"}, Purpose.ACTIVE)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.ACTIVE)
    events = steps(loop, 100)
    assert only(Missing, events) == [Missing(T0, (P0, Q0))]
    assert [event.task for event in only(Restored, events)] == [T1]
    reader.logs |= {P0: Log(entries=records(2)), Q0: Log()}
    assert [event.task for event in only(Restored, steps(loop))] == [T0]
