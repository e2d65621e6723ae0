"""Commits without new input offsets, and how long the loop may wait until a call is due."""

from __future__ import annotations

import weakref

import pytest

from kstreams_assign import ConfigError, TaskId, TopicPartition
from kstreams_assign.model import Store, SubtopologyShape
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, KeyedTimers, topology_shape
from kstreams_assign.topology.numbering import number_flows
from kstreams_assign.wire.offset_metadata import OffsetMetadata, write_offset_metadata
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

TASK = TaskId(0, 1)
FIRST, SECOND = TopicPartition("a", 1), TopicPartition("b", 1)
SHAPE = SubtopologyShape(("a", "b"), (Store("totals"), Store("timers")))


class Bench:
    """A running task with two inputs, of which one has a committed time, and a clock."""

    def __init__(self, clock: KeyedTimers) -> None:
        self.now_ms = 100
        times = {FIRST: PartitionTime(write_offset_metadata(OffsetMetadata(40))), SECOND: PartitionTime()}
        self.stores = MemoryStores(["totals", "timers"])
        workspace = TaskWorkspace(TASK, SHAPE, {}, self.stores, AtWork(0), times, "app", clock, lambda: self.now_ms)
        self.running = Running(workspace, InputOffsets({SECOND: 9, FIRST: 5}), times)
        self.timing = self.running.timing
        self.timing.take(1)  # reads the store, which is empty


@pytest.fixture
def wall() -> Bench:
    return Bench(KeyedTimers("wall", "timers"))


@pytest.fixture
def stream() -> Bench:
    return Bench(KeyedTimers("stream", "timers"))


def test_work_without_new_offsets_commits_a_position_again_with_its_time(wall: Bench) -> None:
    """Without an offset the group would not be asked whether this member still has the task."""
    wall.running.task.store("totals").put(b"k", b"v")
    wall.running.seal({})
    work = wall.running.take()
    assert work.offsets == {FIRST: 5}
    assert work.metadata == {FIRST: write_offset_metadata(OffsetMetadata(40))}
    assert work.taken.writes == {"totals": {b"k": b"v"}}


def test_a_fired_timer_is_deleted_last_in_the_commit(wall: Bench) -> None:
    wall.running.task.timers.set(b"k", 50)
    wall.running.seal({})
    written = wall.running.take().taken.writes
    wall.stores.write({"timers": written["timers"].items()}, {})
    wall.running.workspace.landed()
    wall.running.task.timers.set(b"other", 500)
    wall.timing.timer_queue.done(wall.timing.take(9))
    wall.running.seal({})
    taken = wall.running.take().taken
    gone = {key for key, value in taken.writes["timers"].items() if value is None}
    assert taken.last == {"timers": gone}
    assert len(gone) == 2


def test_work_with_new_offsets_commits_these_alone(wall: Bench) -> None:
    wall.running.seal({SECOND: 10})
    assert wall.running.take().offsets == {SECOND: 10}


def test_the_loop_waits_until_the_next_wall_clock_time(wall: Bench) -> None:
    assert wall.timing.wait_ms() is None
    wall.timing.every(50, lambda _task, _time_ms: None, "wall")
    assert wall.timing.wait_ms() == 50
    wall.running.task.timers.set(b"k", 120)
    assert (wall.timing.wait_ms(), wall.timing.is_due()) == (20, False)
    wall.now_ms = 130
    assert (wall.timing.wait_ms(), wall.timing.is_due()) == (0, True)


def test_the_loop_does_not_wait_for_stream_time_which_records_move(stream: Bench) -> None:
    stream.running.task.timers.set(b"k", 60)
    assert (stream.timing.wait_ms(), stream.timing.is_due()) == (None, False)
    stream.running.saw(SECOND, [Record("b", 1, 9, 60, b"k", b"")])
    assert (stream.timing.wait_ms(), stream.timing.is_due()) == (0, True)
    assert [timer.key for timer in stream.timing.take(9)] == [b"k"]


def test_stream_time_begins_with_what_was_committed(stream: Bench) -> None:
    assert stream.timing.stream_ms() == 40
    stream.running.times[SECOND].saw(10, 30)
    assert stream.timing.stream_ms() == 40


JAVAS = """Topologies:
   Sub-topology: 0
    Source: source (topics: [a])
      --> process
    Processor: process (stores: [totals])
      --> none
      <-- source
"""


def test_an_idle_task_holds_no_batch_and_its_stream_time_stays(stream: Bench) -> None:
    class Records(list[Record]):
        """A list that can be referred to weakly."""

    task, workspace = stream.running.task, stream.running.workspace
    records = Records([Record("a", 1, 5, 60, None, None), Record("a", 1, 6, 50, None, None)])
    held = weakref.ref(records)
    times = [task.current_stream_time_ms() for _ in workspace.batch(records)]
    stream.running.saw(FIRST, records)
    del records
    assert held() is None
    assert [*times, task.current_stream_time_ms()] == [60, 60, 60]


def test_a_topology_that_java_members_share_refuses_timers_and_names_their_store() -> None:
    with pytest.raises(ConfigError, match="stores only here: reminders"):
        number_flows([Flow.of(["a"], ["totals"], timers=KeyedTimers("wall", "reminders"))], JAVAS)


def test_two_subtopologies_with_timers_need_two_stores() -> None:
    flows = [Flow.of([topic], timers=KeyedTimers("wall", "timers")) for topic in ("a", "b")]
    with pytest.raises(ConfigError, match="store names used twice: timers"):
        topology_shape(flows)
