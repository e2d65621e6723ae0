"""Records are fed to a task while the wall clock goes on, and its timers become due at any moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest

from kstreams_assign import Config, Record, StateError, Task, TaskId, TopicPartition
from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.events import Event
from kstreams_assign.model import Store, SubtopologyShape
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import KeyedTimers
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.feeding import TURN_MS, Feeding
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

SOURCE, TASK = TopicPartition("in", 0), TaskId(0, 0)
SHAPE = SubtopologyShape(("in",), (Store("timers"),))
RECORDS = [Record("in", 0, offset, 7, b"k", b"v") for offset in range(20)]


class Loop:
    """A loop around the feeding; each look at the clock takes a millisecond."""

    def __init__(self) -> None:
        self.now_ms = self.housed_ms = 0
        self.batches: list[int] = []
        config = Config(application_id="app", bootstrap_servers="localhost:1", max_poll_records=4)
        functions = Functions([self.work], config, now_ms=lambda: 0)
        functions.connect(self, lambda: None)  # type: ignore[arg-type]
        times, timers = {SOURCE: PartitionTime()}, KeyedTimers("wall", "timers")
        stores = MemoryStores(["timers"])
        workspace = TaskWorkspace(TASK, SHAPE, {}, stores, AtWork(0), times, "app", timers, self.look)
        self.running = Running(workspace, InputOffsets({SOURCE: 0}), times)
        self.running.timing.take(1)
        clocks = Clocks(self.look, self.look)
        self.feeding = Feeding(self, functions, {TASK: self.running}, EventLog("process", None), clocks)

    def look(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def work(self, _task: Task, records: Sequence[Record]) -> None:
        self.batches.append(len(records))

    def keep_house(self) -> None:
        """Fire what is due."""
        self.housed_ms = self.now_ms
        self.running.timing.done(self.running.timing.take(10))

    def take_orders(self) -> None: ...

    def reads_on(self, _partition: TopicPartition) -> bool:
        return True

    def rewind(self, positions: Mapping[TopicPartition, int]) -> None:
        raise AssertionError(positions)

    def calling(self) -> AbstractContextManager[None]:
        return nullcontext()

    def send_ahead(self, running: Running) -> None: ...

    def broken(self, task: TaskId, error: StateError) -> None:
        raise AssertionError(task) from error

    def emit(self, event: Event) -> None: ...


@pytest.mark.parametrize("due_ms", range(1, TURN_MS))
def test_a_timer_may_become_due_at_any_moment_between_two_batches(due_ms: int) -> None:
    loop = Loop()
    loop.running.task.timers.set(b"k", due_ms)
    loop.feeding.feed(TASK, SOURCE, RECORDS)
    assert 0 not in loop.batches
    assert sum(loop.batches) == len(RECORDS)
