"""What a process answers to a query of its own stores: who it is that answers, how far behind, and when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import HostInfo, Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.query.messages import Found, Get, Owners, Reason, Refused, Role, Unanswered
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.worker.answering import QueryAnswers
from kstreams_assign.worker.fresh_ends import FreshEnds
from kstreams_assign.worker.lookup import Lookup, Reading

STORES = (Store("totals"), Store("scratch", logged=False), Store("timed", timestamped=True))
SHAPE = TopologyShape((SubtopologyShape(("orders",), STORES),))
TASK = TaskId(0, 1)
HOSTS = {HostInfo("one", 1): (TopicPartition("orders", 1),)}
STANDBYS = {HostInfo("two", 2): (TopicPartition("orders", 1),)}
OWNERS = Owners(7, "one:1", ("two:2",))


class Reader:
    """A thread that has one task's stores, or none; it answers at once, unless it is stuck."""

    def __init__(self, value: bytes | None = None, *, positions: Mapping | None = None, has: bool = True) -> None:
        self.value, self.positions, self.has, self.stuck = value, positions or {}, has, False

    def runs(self, task: TaskId) -> bool:
        return self.has and task == TASK

    def peek(self, task: TaskId, _store: str, _key: bytes, answer: Future[Reading | None]) -> None:
        if not self.stuck:
            answer.set_result(Reading(self.value, self.positions) if self.has and task == TASK else None)


NONE = Reader(has=False)


def answer(get: Get, running: Reader = NONE, replicas: Reader = NONE, *, end=10, lease_s=5.0, ending=False):
    def look(asked):
        if end is None:
            raise BrokerUnavailable("no broker")
        return dict.fromkeys(asked, end)

    lookup = Lookup(lambda: (SHAPE, {"orders": 4}), lambda: (HOSTS, STANDBYS), running, replicas)
    ends = FreshEnds(look)
    answers = QueryAnswers("app", SHAPE, lookup, running, replicas, ends, lambda: 7, lambda: lease_s, lambda: ending)
    try:
        return answers.answer(get)
    finally:
        ends.close()


def query(store: str = "totals", max_lag: int | None = None, timeout_ms: int = 20_000) -> Get:
    return Get(store, b"ann", 1, max_lag, timeout_ms)


def replica_at(position: int, store: str = "totals") -> Reader:
    return Reader(b"5", positions={TopicPartition(f"app-{store}-changelog", 1): position})


def test_the_active_task_answers_whatever_the_lag_allowed():
    for max_lag in (None, 0, 100):
        assert answer(query(max_lag=max_lag), Reader(b"5"), end=None) == Found(b"5", Role.ACTIVE, 0)
    assert answer(query(), Reader(None)) == Found(None, Role.ACTIVE, 0)


@pytest.mark.parametrize("lease_s", [0.0, -1.0])
def test_an_active_task_whose_lease_is_over_does_not_answer_as_another_may_have_it(lease_s):
    refusal = answer(query(), Reader(b"5"), lease_s=lease_s)
    assert (refusal.reason, refusal.retry_after_ms > 0) == (Reason.NOT_READY, True)
    assert refusal.owners == OWNERS, "a standby may answer"


@pytest.mark.parametrize(("position", "lag"), [(10, 0), (12, 0), (8, 2), (5, 5)])
def test_a_replica_within_the_bound_answers_with_its_lag(position, lag):
    assert answer(query(max_lag=5), NONE, replica_at(position)) == Found(b"5", Role.STANDBY, lag)


def test_a_replica_beyond_the_bound_says_how_far_it_is_and_who_has_the_task():
    refusal = answer(query(max_lag=5), NONE, replica_at(4))
    assert (refusal.reason, refusal.lag, refusal.owners) == (Reason.NOT_UP_TO_BOUND, 6, OWNERS)


def test_a_replica_counts_the_changelog_of_the_store_that_is_asked_for():
    refusal = answer(query("timed", max_lag=5), NONE, replica_at(10, "totals"))
    assert (refusal.reason, refusal.lag) == (Reason.NOT_UP_TO_BOUND, 10)


def test_a_replica_does_not_answer_without_a_bound_or_without_the_end_of_the_changelog():
    assert answer(query(), NONE, replica_at(10)).reason is Reason.NOT_ACTIVE
    assert answer(query(max_lag=99), NONE, replica_at(10), end=None).reason is Reason.NOT_READY


def test_a_store_without_a_changelog_has_no_replicas():
    refusal = answer(query("scratch", max_lag=99), NONE, Reader(b"old"))
    assert (refusal.reason, refusal.owners) == (Reason.NOT_PRESENT, Owners(7, "one:1", ()))
    assert answer(query("scratch"), Reader(b"new")) == Found(b"new", Role.ACTIVE, 0)


def test_a_process_without_the_task_names_its_owner():
    refusal = answer(query(max_lag=5))
    assert isinstance(refusal, Unanswered)
    assert (refusal.reason, refusal.owners) == (Reason.NOT_PRESENT, OWNERS)


def test_a_timestamped_value_comes_with_its_time():
    assert answer(query("timed"), Reader(stamped(b"5", 1_700))) == Found(b"5", Role.ACTIVE, 0, 1_700)


def test_a_busy_thread_and_an_ending_worker_say_so_in_time():
    stuck = Reader(b"5")
    stuck.stuck = True
    refusal = answer(query(timeout_ms=30), stuck)
    assert (refusal.reason, "busy" in refusal.text) == (Reason.NOT_READY, True)
    assert refusal.owners == OWNERS, "a standby may answer"
    assert answer(query(), Reader(b"5"), ending=True).reason is Reason.NOT_READY


@pytest.mark.parametrize("get", [query("nope"), Get("totals", b"ann", 4)])
def test_a_store_or_a_partition_that_is_not_there_is_refused(get):
    refusal = answer(get, Reader(b"5"))
    assert isinstance(refusal, Refused)
    assert refusal.code == "does_not_exist"
