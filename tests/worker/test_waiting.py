"""When the worker looks for open transactions, and which tasks wait for them. The test gives the brokers' answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import LookupFailedEvent
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.observe.transactions import Coordinated, ExaminedTransaction, OpenTransaction
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.input_progress import InputProgress, measured
from kstreams_assign.worker.waiting import ASK_INTERVAL_MS, IDLE_ASK_INTERVAL_MS, STILL_MS, WaitingTasks
from tests.hanging import own_id

T0, T1 = TaskId(0, 0), TaskId(0, 1)
LOG, OFFSETS = TopicPartition("app-s-changelog", 0), TopicPartition(OFFSETS_TOPIC, 3)
OPEN = OpenTransaction(LOG, producer_id=7, producer_epoch=0, coordinator_epoch=0, start_offset=40)
KNOWN = Coordinated(own_id("app-x"), "Ongoing", 7, 0, 60_000, frozenset({LOG, OFFSETS}))
RUNNING, HANGING = ExaminedTransaction(OPEN, KNOWN), ExaminedTransaction(OPEN, replace(KNOWN, state="CompleteCommit"))
AT_40 = {T0: TaskProgress.begin({LOG: 40}, {LOG: 47}, 0)}
AT_20 = {T0: TaskProgress.begin({LOG: 20}, {LOG: 47}, 0)}

INPUT = TopicPartition("in", 0)
NO_INPUTS: dict[TopicPartition, InputProgress] = {}
BEHIND = {INPUT: InputProgress(T1, position=5, end=50, moved_at_ms=0)}


class Brokers:
    """Answer as the test sets it, and keep the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[TopicPartition], bool]] = []
        self.answer: list[ExaminedTransaction] | BrokerUnavailable = [HANGING]

    def look(self, partitions, *, offsets):
        self.asked.append((list(partitions), offsets))
        if isinstance(self.answer, BrokerUnavailable):
            raise self.answer
        return self.answer


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def events() -> list:
    return []


@pytest.fixture
def waiting(brokers, events) -> Iterator[WaitingTasks]:
    waiting = WaitingTasks("app", "b:1", brokers.look, EventLog("p", events.append))
    yield waiting
    waiting.close()


def waits_at(waiting, progress, unanswered, now_ms, inputs=NO_INPUTS):
    """Ask at this time, and take the answer once it has come."""
    waiting.turn(progress, inputs, unanswered, now_ms)
    if (asked := waiting._asked) is not None:
        done = threading.Event()
        asked.add_done_callback(lambda _: done.set())
        assert done.wait(60)
        waiting.turn(progress, inputs, unanswered, now_ms)
    return {str(task): held.hangs for task, held in waiting.waiting().items()}


def test_a_task_that_moves_or_is_at_its_end_is_not_looked_up(waiting, brokers):
    assert waits_at(waiting, AT_40, {}, STILL_MS - 1) == {}
    assert waits_at(waiting, {T0: TaskProgress.begin({LOG: 47}, {LOG: 47}, 0)}, {}, STILL_MS) == {}
    assert waits_at(waiting, {}, {T1: 1}, STILL_MS) == {}
    assert brokers.asked == []


def test_a_hanging_transaction_is_reported_with_the_remedy_until_it_ends(waiting, brokers, events):
    assert waits_at(waiting, AT_40, {}, STILL_MS) == {"0_0": True}
    assert brokers.asked == [([LOG], False)]
    assert waits_at(waiting, AT_40, {}, STILL_MS + ASK_INTERVAL_MS - 1) == {"0_0": True}
    assert len(brokers.asked) == 1
    assert waits_at(waiting, AT_40, {}, STILL_MS + ASK_INTERVAL_MS) == {"0_0": True}
    assert len(brokers.asked) == 2
    [event] = events  # once, as it stays the same
    [warning] = event.warnings
    assert warning.endswith("; kstreams-assign transactions app -b b:1 --end")
    assert event.transactions[0].transactional_id == own_id("app-x")
    assert waits_at(waiting, {}, {}, STILL_MS + ASK_INTERVAL_MS + 1) == {}
    assert events[-1].warnings == events[-1].transactions == ()


def test_a_transaction_that_will_end_is_reported_without_a_warning(waiting, brokers, events):
    brokers.answer = [RUNNING]
    assert waits_at(waiting, AT_40, {}, STILL_MS) == {"0_0": False}
    assert events[0].warnings == ()


def test_a_task_before_the_transaction_waits_for_something_else(waiting):
    """A warm-up whose turn has not come, say; the owner's transaction is open at the end of its changelog."""
    assert waits_at(waiting, AT_20, {}, STILL_MS) == {}


def test_hanging_group_offsets_delay_the_tasks_that_wait_for_them(waiting, brokers):
    hanging = replace(HANGING, open=replace(OPEN, partition=OFFSETS))
    brokers.answer = [hanging]
    assert waits_at(waiting, {}, {T0: 0, T1: 5}, STILL_MS) == {"0_0": True}
    assert brokers.asked == [([], True)]
    of_another_group = replace(KNOWN, transactional_id=own_id("other-x"))
    brokers.answer = [replace(hanging, coordinated=of_another_group)]
    assert waits_at(waiting, {}, {T0: 0, T1: 5}, STILL_MS + ASK_INTERVAL_MS) == {}


def test_of_two_transactions_the_one_that_never_ends_is_reported(waiting, brokers):
    other = TopicPartition("app-z-changelog", 0)
    will_end = replace(RUNNING, open=replace(OPEN, partition=other))
    brokers.answer = [HANGING, will_end]
    both = {T0: TaskProgress.begin({LOG: 40, other: 40}, {LOG: 47, other: 47}, 0)}
    assert waits_at(waiting, both, {}, STILL_MS) == {"0_0": True}


def test_a_transaction_of_an_unknown_producer_is_a_warning(waiting, brokers, events):
    brokers.answer = [ExaminedTransaction(OPEN, None)]
    assert waits_at(waiting, AT_40, {}, STILL_MS) == {"0_0": True}
    assert events[0].warnings


def test_a_task_that_goes_on_is_no_longer_reported(waiting, brokers):
    both = {**AT_40, T1: TaskProgress.begin({OFFSETS: 1}, {OFFSETS: 2}, 0)}
    assert waits_at(waiting, both, {}, STILL_MS) == {"0_0": True}
    brokers.answer = BrokerUnavailable("no broker")
    del both[T0]
    assert waits_at(waiting, both, {}, STILL_MS + ASK_INTERVAL_MS) == {}


def test_unavailable_brokers_are_reported_and_asked_again(waiting, brokers, events):
    brokers.answer = BrokerUnavailable("no broker")
    assert waits_at(waiting, AT_40, {}, STILL_MS) == {}
    assert replace(events[0], time_ms=0) == LookupFailedEvent(
        process_id="p", what="open transactions", reason="no broker"
    )
    brokers.answer = [HANGING]
    assert waits_at(waiting, AT_40, {}, STILL_MS + ASK_INTERVAL_MS) == {"0_0": True}


def test_a_hanging_input_is_reported_for_the_running_task(waiting, brokers, events):
    brokers.answer = [replace(HANGING, open=replace(OPEN, partition=INPUT))]  # from 40 on: 5 to 39 are markers
    assert waits_at(waiting, {}, {}, STILL_MS - 1, BEHIND) == {}
    assert brokers.asked == []
    assert waits_at(waiting, {}, {}, STILL_MS, BEHIND) == {"0_1": True}
    assert brokers.asked == [([INPUT], False)]
    assert events[0].warnings[0].endswith(" --end --topic in"), "the topic has no task, so it must be named"
    at_end = {INPUT: BEHIND[INPUT]._replace(position=50)}
    assert waits_at(waiting, {}, {}, STILL_MS + 1, at_end) == {}


def test_of_an_input_only_hanging_transactions_are_reported(waiting, brokers, events):
    """Others write there: a transaction that may not be described is not unknown, and an open one ends by itself."""
    at = replace(OPEN, partition=INPUT)
    brokers.answer = [
        ExaminedTransaction(at, None),
        ExaminedTransaction(at, replace(KNOWN, partitions=frozenset({INPUT}))),
    ]
    assert waits_at(waiting, {}, {}, STILL_MS, BEHIND) == {}
    assert brokers.asked
    assert events == []


def test_the_end_of_an_input_is_looked_at_seldom_and_a_changelog_at_once(waiting, brokers):
    brokers.answer = []
    assert waits_at(waiting, {}, {}, STILL_MS, BEHIND) == {}
    assert waits_at(waiting, {}, {}, STILL_MS + IDLE_ASK_INTERVAL_MS - 1, BEHIND) == {}
    assert len(brokers.asked) == 1
    assert waits_at(waiting, AT_40, {}, STILL_MS + IDLE_ASK_INTERVAL_MS - 1, BEHIND) == {}
    assert brokers.asked[1:] == [([LOG, INPUT], False)]


def test_an_input_stands_since_it_moved_last_or_had_nothing_left():
    way = measured({}, [(T1, INPUT, 5)], {INPUT: 5}, 10)
    assert way == {INPUT: InputProgress(T1, 5, 5, 10)}
    way = measured(way, [(T1, INPUT, 5)], {INPUT: 9}, 20)
    assert way[INPUT].moved_at_ms == 20, "only now there is something to do"
    way = measured(way, [(T1, INPUT, 5)], {INPUT: 12}, 30)
    assert (way[INPUT].moved_at_ms, way[INPUT].lag) == (20, 7)
    assert measured(way, [(T1, INPUT, 6)], {INPUT: 12}, 40)[INPUT].moved_at_ms == 40
    assert measured(way, [(T0, INPUT, 5)], {INPUT: 12}, 40)[INPUT].moved_at_ms == 40, "another task's now"
    assert measured(way, [(T1, INPUT, 5)], {}, 40) == {}
