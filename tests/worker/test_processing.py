"""The loop with a real broker and a real store: commits, their end when the worker stops, and input lags."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kstreams_assign import Config, TaskId, TopicPartition
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import InputConsumer, RecordDeletions
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted, MemberId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.topology.flows import Flow, topology_shape
from kstreams_assign.worker import committing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.purging import Purging
from tests.adapters.confluent_cluster import put
from tests.worker.test_committing import Desk, Group, workspace_of

TASK = TaskId(0, 0)
NOTHING = Adopted({}, frozenset(), frozenset())


class HeldGroup(Group):
    """A member whose commits are answered once ``answer`` is set; it keeps its events."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()
        self.events: list[machine.Event] = []

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        _only_as: MemberId | None = None,
    ) -> None:
        assert (timeout_s > 0, metadata.keys()) == (True, offsets.keys())
        self.asked.set()
        assert self.answer.wait(60)
        self.committed.append(offsets)

    def joined(self) -> bool:
        return True

    def handle(self, event: machine.Event) -> None:
        self.events.append(event)


class Orders:
    """The restore thread's front: what it was asked, and with which stores."""

    def __init__(self) -> None:
        self.given: list[tuple[str, TaskStores | None]] = []

    def restore(self, _task: TaskId, stores: TaskStores | None, _inputs: object) -> None:
        self.given.append(("restore", stores))

    def failed(self, _task: TaskId, stores: TaskStores | None, _inputs: object, _error: StateError) -> None:
        self.given.append(("failed", stores))

    def tail(self, _task: TaskId, stores: TaskStores | None) -> None:
        self.given.append(("tail", stores))

    def close(self, _task: TaskId, stores: TaskStores | None, number: int) -> None:
        assert number > 0
        self.given.append(("close", stores))

    def queue(self, _queue: object) -> None:
        """Nothing is queued here."""


class Room:
    """A loop with one running task, turned by the test's own thread."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.desk = Desk(broker, name, folder / "store")
        self.source = TopicPartition(f"{name}-in", 0)
        self.desk.admin.create_topics({self.source.topic: 1, f"{name}-totals-changelog": 1}, 20)
        self.group, self.orders = HeldGroup(), Orders()
        self.inputs = InputConsumer(broker, group_id=name)
        self.directory = StateDirectory(folder, "app", clock_ms=monotonic_ms)
        self.active = Adopted({TASK: (self.source,)}, frozenset(), frozenset())
        flow = Flow.of([self.source.topic], ["totals"], [])
        config = Config(application_id=name, bootstrap_servers=broker, state_dir=str(folder), commit_interval_ms=100)
        self.loop = Processor(
            config,
            [flow],
            topology_shape([flow]),
            Functions([lambda _task, _records: None], config),
            self.inputs,
            self.desk.producer,
            self.directory,
            OffsetSums(),
            Purging((), 30_000, RecordDeletions(broker), monotonic_ms, EventLog("test", None)),
            EventLog("test", None),
        )
        self.loop.connect(self.group, self.orders, lambda _positions: None)

    def run(self) -> None:
        self.loop.adopt(1, self.active)
        self.loop.turn()
        self.loop.ready(TASK, self.desk.stores, {self.source: Position(0, "")}, 0)
        self.loop.turn()
        self.orders.given.clear()
        self.group.events.clear()

    def commit_on_its_way(self) -> None:
        running = self.loop._running[TASK]
        running.task.store("totals").put(b"k", b"v")
        running.seal({self.source: 1})
        while not self.group.asked.is_set():
            self.loop.turn()

    def end_commit(self) -> None:
        self.group.answer.set()
        while self.loop._engine.commit_is_near:
            self.loop.turn()

    def close(self) -> None:
        self.group.answer.set()
        self.inputs.close()
        self.loop._commits.close()
        self.desk.stores.close()
        self.desk.producer.close()
        self.directory.close()


@pytest.fixture
def room(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Room]:
    room = Room(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:], tmp_path)
    room.run()
    yield room
    room.close()


def test_a_store_that_breaks_while_its_commit_is_on_its_way_stays_until_that_is_over(room: Room) -> None:
    room.commit_on_its_way()
    room.loop.broken(TASK, StoreDamaged("spoilt"))
    room.loop.adopt(2, NOTHING)
    room.loop.turn()
    assert room.orders.given == []
    room.end_commit()
    assert room.orders.given == [("failed", room.desk.stores), ("close", None)]


def test_a_store_that_breaks_drops_what_other_tasks_have_sent_ahead_too(room: Room) -> None:
    workspace = workspace_of(room.desk)
    room.loop._commits._committer.send_ahead(workspace)
    assert not workspace.unsent()
    room.loop.broken(TASK, StoreDamaged("spoilt"))
    assert workspace.unsent(), "it is sent again"


def test_a_stop_ends_the_commit_on_its_way_and_then_hands_the_stores_back(room: Room) -> None:
    room.commit_on_its_way()
    room.group.answer.set()
    room.loop._stop()
    assert room.group.committed == [{room.source: 1}]
    assert room.desk.stores.get("totals", b"k") == b"v"
    assert room.orders.given == [("close", room.desk.stores)]


def test_a_stop_does_not_wait_for_a_group_that_does_not_answer(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "WAIT_S", 0.1)
    room.commit_on_its_way()
    room.loop._stop()
    assert room.group.committed == []
    assert room.orders.given == [("close", room.desk.stores)]


def test_input_lags_count_what_is_still_to_be_worked_on(room: Room) -> None:
    put(room.desk.broker, room.source, [(b"k", b"v")] * 5)
    while room.loop.feeding.records_total < 5 or input_lags(room) != {room.source: 0}:
        room.loop.turn()
    running = room.loop._running[TASK]
    running.offsets.handled[room.source] = 2
    room.loop.input_meter._measured_ms = 0
    room.loop._measure_inputs()
    assert input_lags(room) == {room.source: 3}


def input_lags(room: Room) -> dict[TopicPartition, int]:
    return {partition: at.lag for partition, at in room.loop.input_meter.progress.items()}
