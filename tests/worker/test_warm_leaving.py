"""The shell of a drain in a streams group without brokers: two members, a topic in memory, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.errors import BrokerError, BrokerUnavailable, RecordRefused
from kstreams_assign.events import (
    DrainRefusedEvent,
    Event,
    NoRoomEvent,
    ProgressUnreadableEvent,
    WarmingElsewhereEvent,
    WarmingUpEvent,
    WarmLeaveEvent,
    WarmLeaveOffEvent,
)
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker import warm_leaving
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.warm_leaving import WarmLeaving
from tests.observe.test_streams_reasons import LOG, member, snapshot, tasks

MIB, SECONDS = 1 << 20, 20
STATEFUL = TopologyShape((SubtopologyShape(("orders",)), SubtopologyShape(("by-key",), stores=(Store("totals"),))))
GROUP = snapshot(
    member("a", tasks("0_0", "1_0"), tasks("0_0", "1_0")),
    member("b", tasks("0_1", "1_1", "1_2"), tasks("0_1", "1_1", "1_2")),
    ends=dict.fromkeys(LOG, 100_010),
)
MOVES = (TaskId(1, 1), TaskId(1, 2))
"""What ``a`` gets when ``b`` leaves."""

REFUSED = RecordRefused("no right to write", "progress", 0, b"b-id", absent=False, forbidden=True)


class Bus:
    """What has been written to the topic; each reader has its own place."""

    def __init__(self) -> None:
        self.records: list[Record] = []


class Topic:
    """The topic as one member has it."""

    partition = TopicPartition("progress", 0)

    def __init__(self, bus: Bus, fails: Exception | None = None) -> None:
        self._bus, self.fails = bus, fails
        self.refuses: Exception | None = None
        """What a write meets."""
        self.refuses_late: Exception | None = None
        """What is only known of a write once it is awaited."""
        self._at = 0

    def publish(self, key: bytes, value: bytes, headers: Any, _clients: ExitStack) -> None:
        if (failure := self.fails or self.refuses) is not None:
            raise failure
        self._bus.records.append(Record("progress", 0, len(self._bus.records), 0, key, value, headers))

    def flush(self, _timeout_s: float) -> None:
        if self.refuses_late is not None:
            raise self.refuses_late

    def read(self, _clients: ExitStack) -> list[Record]:
        if self.fails is not None:
            raise self.fails
        records = self._bus.records[self._at :]
        self._at += len(records)
        return records


class Side:
    """One member: its thread, and what it was asked to do."""

    adopted = None

    def __init__(self, name: str, bus: Bus, *, free_bytes: int = 1 << 40, **settings: Any) -> None:
        self.kept: list[frozenset[TaskId]] = []
        self.awaited: list[frozenset[TaskId]] = []
        self.events: list[Event] = []
        self.lag: Callable[[TaskId], int] = lambda _task: 0
        self.free_bytes = free_bytes
        self.topic = Topic(bus)
        self.drained, self.stopped = threading.Event(), EndRequest()
        self.group: StreamsSnapshot | Exception = GROUP
        shape = settings.pop("shape", STATEFUL)
        self.leaving = WarmLeaving(
            Config("app", "localhost:9092", group_protocol="streams", **settings),
            shape,
            f"{name}-id",
            self.topic,  # type: ignore[arg-type]
            self.open_look,  # type: ignore[arg-type]
            self,
            self.lags,
            self.disk,
            EventLog(name, self.events.append),
            self.awaited.append,
            self.drained.set,
        )
        self._thread = threading.Thread(target=self.leaving.run, args=(self.stopped,), daemon=True)
        self._thread.start()

    @contextmanager
    def open_look(self) -> Iterator[Side]:
        yield self

    def snapshot(self) -> StreamsSnapshot:
        if isinstance(self.group, Exception):
            raise self.group
        return self.group

    def keep_for_leavers(self, tasks: frozenset[TaskId]) -> None:
        self.kept.append(tasks)

    def lags(self) -> Mapping[TaskId, int]:
        return {task: self.lag(task) for task in (self.kept[-1] if self.kept else ())}

    def disk(self) -> Disk:
        return Disk(self.free_bytes, 0, dict.fromkeys(self.kept[-1], 16 * MIB))

    def reported(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IDLE_S", "BUSY_S"):
        monkeypatch.setattr(warm_leaving, name, 0.01)


@pytest.fixture
def sides() -> Iterator[Callable[..., Side]]:
    made: list[Side] = []
    bus = Bus()

    def make(name: str, **settings: Any) -> Side:
        made.append(Side(name, bus, **settings))
        return made[-1]

    yield make
    for side in made:
        side.stop()


def test_a_member_leaves_once_another_has_restored_its_tasks(sides: Callable[..., Side]) -> None:
    stayer, leaver = sides("a"), sides("b")
    cold = threading.Event()

    def lag(_task: TaskId) -> int:
        return 0 if cold.is_set() else 50_000

    stayer.lag = lag
    assert leaver.leaving.view() is None
    leaver.leaving.drain()
    while not stayer.kept:
        assert not leaver.drained.wait(0.01)
    view = leaver.leaving.view()
    assert view is not None
    assert view.owners == dict.fromkeys(MOVES, "a-id")
    assert (view.warm, stayer.kept) == (frozenset(), [frozenset(MOVES)])
    assert not leaver.drained.wait(0.2), "it waits"
    cold.set()
    assert leaver.drained.wait(SECONDS)
    (expected,) = leaver.reported(WarmingElsewhereEvent)
    assert expected.tasks == {"1_1": "a-id", "1_2": "a-id"}
    (left,) = leaver.reported(WarmLeaveEvent)
    assert (left.reason, left.warm, left.cold) == ("2 tasks are warm", ("1_1", "1_2"), ())
    (warming,) = stayer.reported(WarmingUpEvent)
    assert (warming.tasks, warming.leavers) == (("1_1", "1_2"), ("b-id",))
    while not stayer.awaited:
        assert not stayer.stopped.wait(0.01)
    assert stayer.awaited == [frozenset(MOVES)]


def test_a_member_that_is_away_is_waited_for_and_named(sides: Callable[..., Side]) -> None:
    stayer, leaver = sides("a"), sides("b")
    gone, here = GROUP.group.members
    leaver.group = snapshot(replace(gone, member_epoch=-2, instance_id="i1"), here, ends=GROUP.end_offsets)
    leaver.leaving.drain()
    while not leaver.reported(WarmingElsewhereEvent):
        assert not leaver.drained.wait(0.01)
    (expected,) = leaver.reported(WarmingElsewhereEvent)
    assert (expected.tasks, expected.away) == ({"1_1": "a-id", "1_2": "a-id"}, ("i1",))
    view = leaver.leaving.view()
    assert view is not None
    assert view.away == ("i1",)
    while not stayer.kept:
        assert not leaver.drained.wait(0.01)
    assert not leaver.drained.wait(0.2), "it waits, whatever was answered"
    leaver.group = GROUP
    assert leaver.drained.wait(SECONDS)
    assert leaver.reported(WarmingElsewhereEvent)[-1].away == ()
    assert [left.reason for left in leaver.reported(WarmLeaveEvent)] == ["2 tasks are warm"]


def test_tasks_without_room_are_named_on_both_sides(sides: Callable[..., Side]) -> None:
    stayer, leaver = sides("a", free_bytes=16 * MIB), sides("b")
    stayer.lag = lambda task: 0 if len(stayer.kept) > 1 else 50_000 - task.partition
    leaver.leaving.drain()
    assert leaver.drained.wait(SECONDS)
    (no_room,) = stayer.reported(NoRoomEvent)
    (warning,) = no_room.warnings
    assert f"the state of {no_room.tasks[0]} is not restored before their owner leaves" in warning
    (left,) = leaver.reported(WarmLeaveEvent)
    assert left.cold == no_room.tasks
    assert {*left.warm, *left.cold} == {"1_1", "1_2"}


def test_foreign_records_are_skipped(sides: Callable[..., Side]) -> None:
    stayer, leaver = sides("a"), sides("b")
    for headers, value in ([("leave", b"1")], b"rubbish"), ([("generation", b"1")], b"another kind"), (None, None):
        leaver.topic.publish(b"k", value, headers, ExitStack())  # type: ignore[arg-type]
    leaver.leaving.drain()
    assert leaver.drained.wait(SECONDS)
    assert len(stayer.reported(ProgressUnreadableEvent)) == 1
    assert leaver.reported(WarmLeaveEvent)


def test_a_member_that_does_not_join_warm_leaves_at_once_and_helps_no_other(sides: Callable[..., Side]) -> None:
    leaver, other = sides("b", warm_join=False), sides("a")
    other.leaving.drain()
    leaver.leaving.drain()
    assert leaver.drained.is_set()
    (refused,) = leaver.reported(DrainRefusedEvent)
    assert refused.warnings == ("warm_join = false: this member leaves without warming its tasks up elsewhere",)
    while not other.reported(WarmingElsewhereEvent):
        assert not other.drained.wait(0.01)
    assert not leaver.kept


def test_an_application_without_state_is_left_at_once(sides: Callable[..., Side]) -> None:
    leaver = sides("b", shape=TopologyShape((SubtopologyShape(("orders",)),)))
    leaver.leaving.drain()
    assert leaver.drained.is_set()
    assert [event.reason for event in leaver.reported(WarmLeaveEvent)] == ["no task has state"]
    assert not leaver.reported(DrainRefusedEvent)


def test_a_refusal_of_the_brokers_ends_the_help_and_the_drain(sides: Callable[..., Side]) -> None:
    leaver = sides("b")
    leaver.topic.fails = BrokerError("not allowed")
    while not leaver.reported(WarmLeaveOffEvent):
        assert not leaver.stopped.wait(0.01)
    leaver.leaving.drain()
    assert leaver.drained.is_set()
    assert leaver.reported(DrainRefusedEvent)[0].warnings[0].startswith("not allowed: ")


def test_a_drain_under_way_ends_when_the_brokers_refuse(sides: Callable[..., Side]) -> None:
    leaver = sides("b")
    leaver.leaving.drain()
    while not leaver.reported(WarmingElsewhereEvent):
        assert not leaver.drained.wait(0.01)
    leaver.topic.fails = BrokerError("not allowed")
    assert leaver.drained.wait(SECONDS)
    assert len(leaver.reported(DrainRefusedEvent)) == 1


@pytest.mark.parametrize("when", ["refuses", "refuses_late"])
def test_a_member_that_may_not_write_the_topic_leaves_cold_with_a_warning(
    sides: Callable[..., Side], when: str
) -> None:
    sides("a")
    leaver = sides("b")
    setattr(leaver.topic, when, REFUSED)
    leaver.leaving.drain()
    assert leaver.drained.wait(SECONDS)
    (off,) = leaver.reported(WarmLeaveOffEvent)
    assert off.warnings == ("no right to write; no tasks are warmed up when a member drains",)
    (refused,) = leaver.reported(DrainRefusedEvent)
    assert refused.warnings == ("no right to write: this member leaves without warming its tasks up elsewhere",)


def test_a_member_that_may_not_answer_restores_nothing_for_one_that_leaves(sides: Callable[..., Side]) -> None:
    stayer, leaver = sides("a"), sides("b")
    stayer.lag = lambda _task: 50_000
    stayer.topic.refuses = REFUSED
    leaver.leaving.drain()
    while not stayer.reported(WarmLeaveOffEvent):
        assert not leaver.drained.wait(0.01), "it waits longer for an answer"
    stayer.stop()
    assert stayer.kept == [frozenset(MOVES), frozenset()]


def test_an_outage_only_delays_a_drain(sides: Callable[..., Side]) -> None:
    sides("a")
    leaver = sides("b")
    leaver.topic.fails = leaver.group = BrokerUnavailable("no answer")
    leaver.leaving.drain()
    assert not leaver.drained.wait(0.2)
    leaver.topic.fails, leaver.group = None, GROUP
    assert leaver.drained.wait(SECONDS)
    assert leaver.reported(WarmLeaveEvent)
    assert not leaver.reported(WarmLeaveOffEvent)


def test_a_group_without_another_member_is_left_at_once(sides: Callable[..., Side]) -> None:
    leaver = sides("b")
    leaver.group = snapshot(replace(GROUP.group.members[1], member_id="b-id"))
    leaver.leaving.drain()
    assert leaver.drained.wait(SECONDS)
    assert leaver.reported(DrainRefusedEvent)[0].warnings[0].startswith("no other member stays in the group: ")
