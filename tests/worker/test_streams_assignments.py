"""Assignments of a streams group on their way to the loop: inputs, what is kept warm, topics that grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_assign.engine.streams_events import AdoptTasks, StreamsTasks
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import AssignedEvent, Event, LookupFailedEvent
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.worker import streams_assignments
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.streams_assignments import BEFORE_ASSIGNMENTS, BROKERS, Assignments

SHAPE = TopologyShape((SubtopologyShape(("orders", "users")),))


class Surroundings:
    """The loop and the brokers of a test."""

    turned_ms = None

    def __init__(self) -> None:
        self.counts: dict[str, int] | None = {"orders": 4, "users": 2}
        self.given: list[tuple[int, Adopted]] = []
        self.dropped: list[str] = []
        self.events: list[Event] = []
        log = EventLog("me", self.events.append)
        self.assignments = Assignments(SHAPE, self, self, log)  # type: ignore[arg-type]

    def partition_counts(self, _topics: Any, _timeout_s: float) -> dict[str, int]:
        if self.counts is None:
            raise BrokerUnavailable("no broker answered")
        return self.counts

    def adopt(self, number: int, adopted: Adopted) -> None:
        self.given.append((number, adopted))

    def drop_all(self, reason: str, then: Callable[[], None]) -> None:
        self.dropped.append(reason)
        then()

    def commit_now(self) -> None:
        raise AssertionError


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    monkeypatch.setattr(streams_assignments, "WATCH_S", 0.0)
    return Surroundings()


def tasks(*partitions: int) -> frozenset[TaskId]:
    return frozenset(TaskId(0, partition) for partition in partitions)


def adopted(active: dict[TaskId, Any], standby: frozenset[TaskId], warmup: frozenset[TaskId]) -> Adopted:
    return Adopted(active, standby, warmup, assignor=BROKERS, follow_up=bool(warmup))


def order(number: int, *active: int, standby: frozenset[TaskId] = frozenset()) -> AdoptTasks:
    return AdoptTasks(number, 7, StreamsTasks(tasks(*active), standby))


def inputs(*partitions: int, users: int = 2) -> dict[TaskId, tuple[TopicPartition, ...]]:
    return {
        TaskId(0, n): (TopicPartition("orders", n), *([TopicPartition("users", n)] if n < users else []))
        for n in partitions
    }


def test_a_task_reads_its_partition_of_each_topic_that_has_one(around: Surroundings) -> None:
    around.assignments.take(order(1, 0, 3, standby=tasks(2)))
    assert around.assignments.waits
    around.assignments.turn()
    assert around.given == [(1, adopted(inputs(0, 3), tasks(2), frozenset()))]
    assert around.assignments.owns([TopicPartition("orders", 3)])
    assert not around.assignments.owns([TopicPartition("orders", 2)])
    (event,) = around.events
    assert isinstance(event, AssignedEvent)
    assert (event.generation, event.epoch, event.active, event.standby) == (1, 7, ("0_0", "0_3"), ("0_2",))


def test_an_assignment_waits_until_the_brokers_tell_all_inputs(around: Surroundings) -> None:
    around.counts = None
    around.assignments.take(order(1, 3))
    around.assignments.turn()
    assert isinstance(around.events[0], LookupFailedEvent)
    around.counts = {"orders": 3, "users": 2}  # the topic has grown, and this broker does not know it yet
    around.assignments.turn()
    assert (around.given, around.assignments.waits) == ([], True)
    around.counts = {"orders": 4, "users": 2}
    around.assignments.turn()
    assert [number for number, _ in around.given] == [1]


def test_new_partitions_become_input_of_tasks_that_are_here(around: Surroundings) -> None:
    around.assignments.take(order(1, 2))
    around.assignments.turn()
    around.assignments.turn()
    assert len(around.given) == 1, "nothing has changed"
    around.counts = {"orders": 4, "users": 3}
    around.assignments.turn()
    assert around.given[1] == (1, adopted(inputs(2, users=3), frozenset(), frozenset()))


def test_what_was_warmed_up_is_kept_until_its_task_has_come_or_does_not_come(around: Surroundings) -> None:
    around.assignments.warm_up(tasks(0, 1, 2))
    assert around.given == [(BEFORE_ASSIGNMENTS, adopted({}, frozenset(), tasks(0, 1, 2)))]
    around.assignments.take(order(1, 0))
    around.assignments.turn()
    assert around.given[1] == (1, adopted(inputs(0), frozenset(), tasks(1, 2)))
    around.assignments.turn()
    assert len(around.given) == 2, "nothing has changed"
    around.assignments.take(order(2, 0, 1))
    around.assignments.turn()
    assert around.given[2] == (2, adopted(inputs(0, 1), frozenset(), tasks(2)))
    around.assignments.end_warm_up()
    around.assignments.turn()
    assert around.given[3] == (2, adopted(inputs(0, 1), frozenset(), frozenset()))


def test_tasks_of_members_that_leave_are_kept_up_to_date_beside_the_assignment(around: Surroundings) -> None:
    around.assignments.take(order(1, 0, standby=tasks(3)))
    around.assignments.turn()
    around.assignments.keep_for_leavers(tasks(1, 2, 3))
    around.assignments.turn()
    assert around.given[1] == (1, adopted(inputs(0), tasks(3), tasks(1, 2)))
    around.assignments.end_warm_up()
    around.assignments.turn()
    assert len(around.given) == 2, "that ends what was restored before the join"
    around.assignments.drop_all("fenced", lambda: None)
    around.assignments.take(order(2, 0, 1))
    around.assignments.turn()
    assert around.given[2] == (2, adopted(inputs(0, 1), frozenset(), tasks(2, 3))), "they come all the same"
    around.assignments.keep_for_leavers(frozenset())
    around.assignments.turn()
    assert around.given[3] == (2, adopted(inputs(0, 1), frozenset(), frozenset()))


def test_a_lost_membership_drops_everything_and_what_was_on_its_way(around: Surroundings) -> None:
    around.assignments.warm_up(tasks(1))
    around.assignments.take(order(1, 0))
    calls: list[str] = []
    around.assignments.drop_all("fenced", lambda: calls.append("dropped"))
    around.assignments.turn()
    assert (around.dropped, calls) == (["fenced"], ["dropped"])
    assert len(around.given) == 1, "the assignment before the loss is not given any more"
    assert (around.assignments.adopted, around.assignments.number) == (None, None)
