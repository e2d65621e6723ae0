"""The restorer over a small but faithful changelog: gaps, markers, open transactions, truncation, outages."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Damaged, Missing, Progress, Purpose, Restored, Restorer
from tests.restore.logs import (
    P0,
    P1,
    PACING,
    Q0,
    T0,
    T1,
    DictStores,
    Log,
    LogReader,
    folded,
    only,
    records,
    restorer,
    steps,
)
from tests.samples import examples


def test_an_active_task_is_restored_once_and_its_stores_come_back():
    reader = LogReader({P0: Log(entries=records(10))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop)) == [Restored(T0, stores)]
    assert (stores.data, stores.held) == ({"s": dict(records(10))}, {P0: 10})
    assert (loop.tasks, reader.positions) == ({}, {})


def test_an_active_task_without_lag_is_restored_in_a_step():
    reader = LogReader({P0: Log(entries=records(10))})
    loop = restorer(reader)
    loop.add(T0, DictStores({P0: 10}), {P0: "s"}, Purpose.ACTIVE)
    loop.add(T1, DictStores(), {}, Purpose.ACTIVE)
    assert [event.task for event in only(Restored, loop.step(60.0))] == [T0, T1]
    assert reader.now_ms == 0


def test_restore_goes_on_from_the_stored_offset():
    reader = LogReader({P0: Log(entries=[*records(5), (b"key-2", None), *records(2, 5)])})
    stores = DictStores({P0: 5}, {"s": dict(records(5))})
    loop = restorer(reader)
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    steps(loop)
    assert stores.data["s"] == reader.logs[P0].state()
    assert stores.wipes == 0


def test_offsets_without_records_at_the_end_do_not_keep_a_task_from_being_restored():
    reader = LogReader({P0: Log(entries=[*records(2), None, None])})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop))


def test_an_active_task_waits_for_what_an_open_transaction_holds_back():
    log = Log(entries=records(4), held_back=2)
    loop, stores = restorer(LogReader({P0: log})), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert not only(Restored, steps(loop))
    log.held_back = 0
    assert only(Restored, steps(loop, 1))
    assert stores.data == {"s": dict(records(4))}


@pytest.mark.parametrize(("read", "left"), [(6, 20), (6, 6), (6, 4), (6, 0), (0, 20), (0, 0)])
def test_an_active_task_whose_changelog_loses_its_last_records_is_restored_to_the_new_end(read: int, left: int):
    """After an unclean election, or a crash of a broker that had the only replica. No later record reaches the old end.

    What the store has read beyond the new end is wiped.
    """
    log = Log(entries=records(30), held_back=30 - read)
    loop, stores = restorer(LogReader({P0: log})), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert not only(Restored, steps(loop, 4))
    assert stores.held.get(P0, 0) == read
    del log.entries[left:]
    log.held_back = 0
    assert only(Restored, steps(loop, 150)) == [Restored(T0, stores)]
    assert stores.data.get("s", {}) == dict(records(left))
    assert stores.held.get(P0, 0) == left
    assert stores.wipes == (read > left)


def test_a_task_with_two_changelogs_of_which_one_loses_its_last_records_is_restored():
    log = Log(entries=records(30))
    loop, stores = restorer(LogReader({P0: log, Q0: Log(entries=records(30))})), DictStores()
    loop.add(T0, stores, {P0: "s", Q0: "t"}, Purpose.ACTIVE)
    loop.step(0.1)
    del log.entries[20:]
    assert only(Restored, steps(loop, 150)) == [Restored(T0, stores)]
    assert stores.data == {"s": dict(records(20)), "t": dict(records(30))}


def test_a_restore_that_proceeds_asks_for_bounds_once_more_only_at_its_end():
    reader = LogReader({P0: Log(entries=records(900))}, batch_records=1)
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    while reader.logs[P0].end - loop.positions_of(T0).get(P0, 0) > 1:
        loop.step(0.1)
        reader.now_ms += PACING.stalled_ms - 1_000
    assert reader.bounds_asked == [[P0]]
    assert only(Restored, steps(loop))
    assert reader.bounds_asked == [[P0]] * 2


def test_an_active_task_that_waits_asks_for_bounds_seldom_and_reports_nothing():
    log = Log(entries=records(4), held_back=2)
    reader = LogReader({P0: log})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    steps(loop, 20)
    assert steps(loop, 600) == []
    assert reader.now_ms >= 60_000
    assert len(reader.bounds_asked) <= 1 + reader.now_ms // PACING.bounds_age_ms
    log.held_back = 0
    assert only(Restored, steps(loop))


def test_an_active_task_that_waits_without_a_leader_asks_patiently():
    reader = LogReader({P0: Log(entries=records(4), held_back=2)})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    steps(loop, 110)
    reader.leaderless = {P0}
    before = len(reader.bounds_asked)
    steps(loop, 200)  # 20 s
    assert 8 <= len(reader.bounds_asked) - before <= 12  # after 50 ms, 100 ms, ... 5 s
    del reader.logs[P0].entries[2:]
    reader.logs[P0].held_back, reader.leaderless = 0, set()
    assert only(Restored, steps(loop, 60))


def test_an_active_task_whose_changelog_is_deleted_while_it_waits_is_reported():
    log = Log(entries=records(4), held_back=2)
    reader = LogReader({P0: log})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    steps(loop, 4)
    reader.logs.clear()
    assert only(Missing, steps(loop, 200)) == [Missing(T0, (P0,))]
    reader.logs[P0] = Log(entries=records(1))
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(1))}


@pytest.mark.parametrize(("committed", "restored"), [(0, 0), (3, 3), (5, 5), (9, 5)])
def test_a_source_topic_is_read_to_what_is_committed_or_to_its_end(committed: int, restored: int):
    """It ends before the committed offset where it has lost its last records."""
    loop, stores = restorer(LogReader({P0: Log(entries=records(5), limit=committed)})), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    assert only(Restored, steps(loop)) == [Restored(T0, stores)]
    assert stores.data.get("s", {}) == dict(records(restored))


def test_a_standby_is_tailed_and_never_restored():
    log = Log(entries=records(4))
    loop, stores = restorer(LogReader({P0: log})), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    assert not only(Restored, steps(loop))
    log.append(*records(3, 4))
    assert not only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(7))}
    assert loop.tasks == {T0: Purpose.STANDBY}


def test_a_promoted_standby_reads_to_the_end_as_of_now_and_not_as_of_then():
    """The old owner wrote until the last moment; what it wrote after the last look must be in the store."""
    log = Log(entries=records(4))
    loop, stores = restorer(LogReader({P0: log})), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    loop.step(0.1)
    loop.step(0.1)
    log.append(*records(20, 4))
    assert loop.promote(T0)
    assert only(Restored, steps(loop)) == [Restored(T0, stores)]
    assert stores.data == {"s": dict(records(24))}


def test_a_promoted_standby_is_not_handed_over_before_its_end_is_known():
    reader = LogReader({P0: Log(entries=records(3))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop, 3)
    reader.logs[P0].append(*records(3, 3))
    reader.away = True
    loop.promote(T0)
    assert not only(Restored, steps(loop, 3))
    reader.away = False
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(6))}


def test_a_warm_standby_is_handed_over_in_the_step_after_its_promotion():
    loop = restorer(LogReader({P0: Log(entries=records(3))}))
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    steps(loop, 3)
    loop.promote(T0)
    assert only(Restored, loop.step(60.0))


def test_a_demoted_task_is_tailed_on():
    log = Log(entries=records(9))
    loop = restorer(LogReader({P0: log}))
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    loop.step(0.1)
    assert loop.demote(T0)
    assert not only(Restored, steps(loop))
    assert loop.tasks == {T0: Purpose.STANDBY}


@pytest.mark.parametrize("purpose", [Purpose.ACTIVE, Purpose.STANDBY])
def test_a_task_reports_its_progress_for_each_purpose_although_nothing_changes(purpose):
    """A replica that was stopped resumes with the report that it is at its end."""
    log = Log(entries=records(9), held_back=1)
    loop = restorer(LogReader({P0: log}))
    loop.add(T0, DictStores(), {P0: "s"}, purpose)
    steps(loop)
    assert not only(Progress, steps(loop))
    change = loop.demote if purpose is Purpose.ACTIVE else loop.promote
    change(T0)
    assert [event.purpose for event in only(Progress, steps(loop))] == [*{*Purpose} - {purpose}]


def test_a_removed_task_hands_its_stores_back_and_is_read_no_more():
    reader = LogReader({P0: Log(entries=records(9))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    loop.step(0.1)
    assert loop.remove(T0) is stores
    assert not only(Restored, steps(loop))
    assert (reader.positions, stores.held) == ({}, {P0: 3})


def test_what_is_not_here_is_answered_and_not_raised_since_an_event_may_have_crossed_the_call():
    loop = restorer(LogReader({}))
    assert loop.remove(T0) is None
    assert not loop.promote(T0)
    assert not loop.demote(T0)


def test_a_task_is_added_once_only_and_a_changelog_has_one_task():
    loop = restorer(LogReader({P0: Log(), Q0: Log()}))
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    with pytest.raises(StateError, match="0_0"):
        loop.add(T0, DictStores(), {Q0: "t"}, Purpose.STANDBY)
    with pytest.raises(StateError, match="0_1"):
        loop.add(T1, DictStores(), {P0: "s"}, Purpose.STANDBY)


def test_bounds_of_all_new_tasks_are_asked_for_in_one_call():
    reader = LogReader({P0: Log(entries=records(3)), P1: Log(entries=records(3)), Q0: Log(entries=records(3))})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s", Q0: "t"}, Purpose.ACTIVE)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.STANDBY)
    loop.step(0.1)
    assert reader.bounds_asked == [[P0, P1, Q0]]


def test_standbys_learn_how_their_ends_move_in_one_call_now_and_then():
    log = Log(entries=records(2))
    reader = LogReader({P0: log, P1: Log()})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.STANDBY)
    steps(loop, 2)
    log.append(*records(30, 2))
    log.held_back = 30
    progress = only(Progress, steps(loop, 60))
    assert reader.bounds_asked == [[P0, P1]] * 2
    assert [(event.task, event.progress.remaining) for event in progress] == [(T0, 30)]


@pytest.mark.parametrize("stored", [3, 99], ids=["below the changelog's start", "beyond its end"])
def test_an_offset_outside_the_changelog_wipes_the_store_with_one_warning(stored, caplog):
    log = Log(first=5, entries=records(10, 5))
    loop, stores = restorer(LogReader({P0: log, Q0: Log(entries=records(2))})), DictStores({P0: stored, Q0: 1})
    stores.data = {"s": {b"stale": b"1"}, "t": {}}
    loop.add(T0, stores, {P0: "s", Q0: "t"}, Purpose.ACTIVE)
    with caplog.at_level(logging.WARNING):
        assert only(Restored, steps(loop))
    assert stores.data == {"s": log.state(), "t": dict(records(2))}
    assert len(caplog.records) == 1
    assert "app-s-changelog-0" in caplog.text


def test_a_changelog_truncated_under_a_reader_wipes_the_store_and_starts_over(caplog):
    log = Log(entries=records(20))
    loop, stores = restorer(LogReader({P0: log, Q0: Log(entries=records(9))})), DictStores()
    loop.add(T0, stores, {P0: "s", Q0: "t"}, Purpose.ACTIVE)
    loop.step(0.1)
    log.truncate_to(15)
    with caplog.at_level(logging.WARNING):
        assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(5, 15)), "t": dict(records(9))}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_recreated_changelog_is_noticed_when_a_standby_is_promoted():
    reader = LogReader({P0: Log(entries=records(20))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop)
    reader.logs[P0] = Log(entries=records(2, 100))
    loop.promote(T0)
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(2, 100))}


def test_standbys_are_not_read_while_an_active_task_has_much_to_restore():
    reader = LogReader({P0: Log(entries=records(40)), P1: Log(entries=records(40))})
    loop, active, standby = restorer(reader), DictStores(), DictStores()
    loop.add(T1, standby, {P1: "s"}, Purpose.STANDBY)
    loop.step(0.1)
    loop.add(T0, active, {P0: "s"}, Purpose.ACTIVE)
    while reader.logs[P0].end - active.held.get(P0, 0) > PACING.standby_budget_records:
        loop.step(0.1)
        assert standby.held == {P1: 3}
    steps(loop)
    assert (active.held, standby.held) == ({P0: 40}, {P1: 40})
    assert standby.data == {"s": dict(records(40))}


def test_queued_warm_ups_are_read_in_order_and_no_more_at_a_time_than_allowed():
    ours = {TaskId(0, n): TopicPartition("app-s-changelog", n) for n in range(4)}
    reader = LogReader({partition: Log(entries=records(10)) for partition in ours.values()})
    loop = Restorer(reader, now_ms=lambda: reader.now_ms, pacing=replace(PACING, caught_up=2))
    loop.queue([TaskId(0, 2), TaskId(0, 0), TaskId(0, 3)], at_once=1)
    stores = {task: DictStores() for task in ours}
    for task, partition in ours.items():
        loop.add(task, stores[task], {partition: "s"}, Purpose.STANDBY)
    begun = []
    while len(begun) < len(ours):
        loop.step(0.1)
        begun += [task for task in ours if stores[task].held and task not in begun]
        queued = [task for task in (TaskId(0, 2), TaskId(0, 0), TaskId(0, 3)) if stores[task].held]
        assert sum(next(iter(stores[task].held.values())) < 8 for task in queued) <= 1
    assert [task for task in begun if task != TaskId(0, 1)] == [TaskId(0, 2), TaskId(0, 0), TaskId(0, 3)]
    steps(loop)
    assert all(task_stores.held == {ours[task]: 10} for task, task_stores in stores.items()), (
        "restored tasks are still tailed"
    )


@pytest.mark.parametrize("stuck", [Log(entries=records(40), held_back=40), None], ids=["transaction", "no changelog"])
def test_a_warm_up_that_does_not_get_on_keeps_the_queue_waiting_for_a_moment_only(stuck: Log | None):
    logs = {P1: Log(entries=records(10))} | ({} if stuck is None else {P0: stuck})
    reader = LogReader(logs)
    loop, stores = restorer(reader), DictStores()
    loop.queue([T0, T1], at_once=1)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    loop.add(T1, stores, {P1: "s"}, Purpose.STANDBY)
    began_ms = reader.now_ms
    while reader.now_ms - began_ms < PACING.stalled_ms:
        assert not stores.held
        loop.step(0.1)
    steps(loop)
    assert stores.held == {P1: 10}


def test_turns_in_the_queue_begin_again_after_active_tasks_were_restored():
    """The warm-ups were not read meanwhile, so none is taken for one that does not get on."""
    reader = LogReader({P0: Log(entries=records(10)), P1: Log(entries=records(10)), Q0: Log(entries=records(400))})
    loop, stores = restorer(reader), [DictStores(), DictStores()]
    loop.queue([T0, T1], at_once=1)
    for task, partition, task_stores in ((T0, P0, stores[0]), (T1, P1, stores[1])):
        loop.add(task, task_stores, {partition: "s"}, Purpose.STANDBY)
    loop.add(TaskId(1, 0), DictStores(), {Q0: "q"}, Purpose.ACTIVE)
    began_ms = reader.now_ms
    while not stores[0].held:
        loop.step(0.1)
        reader.now_ms += 100
    assert reader.now_ms - began_ms > PACING.stalled_ms
    assert not stores[1].held


def test_without_a_queue_all_warm_ups_are_read_again():
    reader = LogReader({P0: Log(entries=records(10)), P1: Log(entries=records(10))})
    loop, stores = restorer(reader), [DictStores(), DictStores()]
    loop.queue([T0, T1], at_once=1)
    for task, partition, task_stores in ((T0, P0, stores[0]), (T1, P1, stores[1])):
        loop.add(task, task_stores, {partition: "s"}, Purpose.STANDBY)
    loop.step(0.1)
    loop.step(0.1)
    assert not stores[1].held
    loop.queue([], at_once=0)
    loop.step(0.1)
    assert stores[1].held


def test_an_active_task_stuck_behind_a_transaction_does_not_hold_up_standbys():
    reader = LogReader({P0: Log(entries=records(40), held_back=40), P1: Log(entries=records(40))})
    loop, standby = restorer(reader), DictStores()
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    loop.add(T1, standby, {P1: "s"}, Purpose.STANDBY)
    steps(loop, 25)
    assert standby.held == {}
    steps(loop, 30)
    assert standby.held == {P1: 40}


def test_a_broker_that_is_away_is_waited_for_and_warned_about_once(caplog):
    reader = LogReader({P0: Log(entries=records(9))})
    loop, stores = restorer(reader), DictStores()
    reader.away = True
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    with caplog.at_level(logging.WARNING):
        assert steps(loop, 5) == []
    reader.away = False
    loop.step(0.1)
    reader.away = True
    with caplog.at_level(logging.WARNING):
        steps(loop, 5)
    reader.away = False
    assert only(Restored, steps(loop))
    assert stores.data == {"s": dict(records(9))}
    assert len(caplog.records) == 2


class SilentReader(LogReader):
    """As librdkafka's consumer: only ``bounds`` raises while all brokers are away.

    A poll brings what was fetched before, and then nothing.
    """

    fetched = True

    def poll(self, timeout_s):
        away, self.away = self.away, False
        try:
            if self.fetched or not away:
                return super().poll(timeout_s)
        finally:
            self.away = away
        self.now_ms += int(timeout_s * 1_000)
        return []


def test_an_outage_is_warned_about_once_though_records_come_that_were_fetched_before(caplog):
    reader = SilentReader({P0: Log(entries=records(90)), P1: Log(entries=records(9))})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    steps(loop, 2)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.ACTIVE)
    reader.away = True
    with caplog.at_level(logging.WARNING):
        for number in range(40):
            reader.logs[P0].entries.extend(records(number))
            steps(loop, 1)
    assert len(caplog.records) == 1


def test_an_outage_is_warned_about_once_though_polls_do_not_fail(caplog):
    reader = SilentReader({P0: Log(entries=records(9))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    for outages in (1, 2):
        reader.away, reader.fetched = True, False
        with caplog.at_level(logging.WARNING):
            assert only(Restored, steps(loop, 100)) == []
        assert len(caplog.records) == outages
        reader.away = False
        steps(loop, 60)
        assert stores.data == {"s": dict(records(9))}


@pytest.mark.parametrize("purpose", Purpose)
def test_a_changelog_without_a_leader_holds_up_its_own_task_only_and_is_warned_about_once(purpose, caplog):
    reader = LogReader({P0: Log(entries=records(3)), Q0: Log(), P1: Log(entries=records(9))})
    loop, stores = restorer(reader), DictStores()
    reader.leaderless = {P0}
    loop.add(T0, stores, {P0: "s", Q0: "t"}, purpose)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.ACTIVE)
    with caplog.at_level(logging.WARNING):
        events = steps(loop, 200)  # 20 s
    assert [event.task for event in only(Restored, events)] == [T1]
    assert not only(Missing, events)
    asked = len([names for names in reader.bounds_asked if P0 in names])
    assert 8 <= asked <= 12  # after 50 ms, 100 ms, ... 5 s
    assert [record.getMessage() for record in caplog.records] == [
        f"task 0_0 waits for its changelog {P0}: the brokers do not say where it ends; the restore tries again"
    ]
    reader.leaderless = set()
    steps(loop, 80)
    assert stores.data == {"s": dict(records(3))}


def test_a_copy_whose_changelog_loses_its_leader_stays_as_it_is():
    reader = LogReader({P0: Log(entries=records(3))})
    loop, stores = restorer(reader), DictStores()
    loop.add(T0, stores, {P0: "s"}, Purpose.STANDBY)
    steps(loop)
    reader.leaderless = {P0}
    steps(loop, 100)
    reader.leaderless = set()
    reader.logs[P0].append(*records(2, 3))
    loop.promote(T0)
    assert only(Restored, steps(loop, 100))
    assert stores.data == {"s": dict(records(5))}
    assert stores.wipes == 0


def test_a_changelog_that_does_not_exist_yet_is_looked_for_again():
    reader = LogReader({})
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.ACTIVE)
    assert steps(loop, 15) == []
    assert len(reader.bounds_asked) == 2  # at 0 ms and at 1,000 ms
    reader.logs[P0] = Log(entries=records(1))
    assert only(Restored, steps(loop))


def test_a_damaged_store_is_handed_back_with_its_error_and_the_others_go_on():
    reader = LogReader({P0: Log(entries=records(9)), P1: Log(entries=records(9))})
    loop, broken = restorer(reader), DictStores()
    broken.fails = StoreDamaged("a block is torn")
    loop.add(T0, broken, {P0: "s"}, Purpose.ACTIVE)
    loop.add(T1, DictStores(), {P1: "s"}, Purpose.ACTIVE)
    events = steps(loop)
    assert only(Damaged, events) == [Damaged(T0, broken, broken.fails)]
    assert [event.task for event in only(Restored, events)] == [T1]
    assert reader.positions == {}


def test_progress_is_reported_at_once_and_then_once_an_interval():
    reader = LogReader({P0: Log(entries=records(900))}, batch_records=1)
    loop = restorer(reader)
    loop.add(T0, DictStores(), {P0: "s"}, Purpose.STANDBY)
    progress = []
    for _ in range(30):
        progress += only(Progress, loop.step(0.1))
        reader.now_ms += 100
    assert [event.progress.position_sum for event in progress] == [1, 11, 21]
    assert {event.progress.end_sum for event in progress} == {900}


# Whatever happens on the way: what is handed back is the log read from a first offset it had, up to the stored offset.

happenings = st.lists(
    st.sampled_from(
        ["step", "step", "append", "delete", "gap", "away", "back", "promote", "demote", "truncate", "recreate"]
    ),
    max_size=40,
)


class Ordeal:
    """A standby with two changelogs, what befalls the first of them, and everything that was ever written to it."""

    def __init__(self) -> None:
        self.reader = LogReader({P0: Log(entries=records(7)), Q0: Log(entries=records(4))}, batch_records=2)
        self.loop, self.stores, self.handed = restorer(self.reader), DictStores(), []
        self.written = list(self.log.entries)
        self.born, self.firsts = 0, {0}
        self.loop.add(T0, self.stores, {P0: "s", Q0: "t"}, Purpose.STANDBY)

    @property
    def log(self) -> Log:
        return self.reader.logs[P0]

    def befall(self, what: str, number: int) -> None:
        match what:
            case "step":
                self.handed += only(Restored, self.loop.step(0.1))
            case "append":
                self._write(*records(3, number % 9))
            case "delete":
                self._write((b"key-%d" % (number % 9), None))
            case "gap":
                self._write(None)
            case "away" | "back":
                self.reader.away = what == "away"
            case "promote":
                self.loop.promote(T0)
            case "demote":
                self.loop.demote(T0)
            case "truncate":
                self.log.truncate_to((self.log.first + self.log.end) // 2)
                self.firsts.add(self.log.first)
            case "recreate":
                self._recreate()

    def _write(self, *entries) -> None:
        self.log.append(*entries)
        self.written += entries

    def _recreate(self) -> None:
        """The topic is deleted and made again; its offsets begin far off, so that no reader stands inside by chance."""
        self.born = self.log.end + 10
        self.reader.logs[P0] = Log(first=self.born)
        self.firsts, self.written = {self.born}, []

    def possible_states(self) -> list:
        upto = max(0, self.stores.held.get(P0, 0) - self.born)
        return [folded(self.written[first - self.born : upto]) for first in self.firsts]


@settings(max_examples=examples(300), deadline=None)
@given(happenings)
def test_whatever_happens_on_the_way_a_restored_store_is_the_log(happens):
    ordeal = Ordeal()
    for number, what in enumerate(happens):
        ordeal.befall(what, number)
        if ordeal.handed:
            break
    else:
        ordeal.reader.away = False
        ordeal.loop.promote(T0)
        ordeal.handed = only(Restored, steps(ordeal.loop, 60))
    assert [event.stores for event in ordeal.handed] == [ordeal.stores]
    assert ordeal.stores.data.get("s", {}) in ordeal.possible_states()
    assert ordeal.stores.data["t"] == dict(records(4))


def test_the_same_holds_on_rocksdb(tmp_path):
    reader = LogReader({P0: Log(entries=[*records(500), *[(b"key-%d" % n, None) for n in range(100)]])}, 50)
    loop = restorer(reader)
    stores = open_task_stores(tmp_path / "0_0", ["s"])
    loop.add(T0, stores, {P0: "s"}, Purpose.ACTIVE)
    [restored] = only(Restored, steps(loop))
    assert dict(restored.stores.range("s")) == reader.logs[P0].state()
    assert restored.stores.offsets() == {P0: 600}
    stores.close()
