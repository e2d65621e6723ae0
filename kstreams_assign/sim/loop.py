"""The processing loop in simulated time (``worker.processing``): it carries out what ``engine.tasks`` decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, assert_never

from kstreams_assign.engine import effects as do
from kstreams_assign.engine.task_events import (
    Closed,
    Event,
    Restored,
    StopAsked,
    StoreFailed,
    Turned,
)
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.errors import StoreDamaged
from kstreams_assign.group import member
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.committing import Commits, Running
from kstreams_assign.sim.inbox import Inbox
from kstreams_assign.sim.restoring import Restoring
from kstreams_assign.tasks.input_offsets import InputOffsets

if TYPE_CHECKING:
    from kstreams_assign.sim.disk import Stores
    from kstreams_assign.sim.process import Process

TURN_MS = 100
"""While a turn has to wait for the group."""


class Loop:
    """The tasks of one process. ``stores`` are in the loop's hands."""

    engine: type[Tasks] = Tasks

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._inbox = Inbox(process)
        scenario = process.world.scenario
        self.tasks = self.engine(
            scenario.commit_interval_ms, scenario.write_lease_ms, exactly_once=scenario.exactly_once
        )
        self.running: dict[TaskId, Running] = {}
        self.stores: dict[TaskId, Stores] = {}
        self._positions: dict[TaskId, Mapping[TopicPartition, int]] = {}
        self.restoring = Restoring(process)
        self._commits = Commits(process)
        self._turn_ms: int | None = None
        self._ended: Callable[[], None] = lambda: None

    # --- orders ------------------------------------------------------------------------------

    def commit_now(self) -> None:
        self._inbox.put(self.handle, member.Commit())

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self._inbox.put(self.handle, member.Adopt(generation, adopted))

    def drop_all(self, reason: str, then: Callable[[], None] | None = None) -> None:
        self._inbox.put(self.handle, member.DropAll(reason))
        if then is not None:
            self._inbox.put(then)

    def stop(self, ended: Callable[[], None], *, failed: bool) -> None:
        """Commit unless it ``failed``, close everything, then call."""
        self._ended = ended
        self._inbox.put(self._stop, failed)

    def _stop(self, failed: bool) -> None:
        self.handle(StopAsked(self._process.membership.client.joined, failed))

    def restored(self, task: TaskId, stores: Stores | None, positions: Mapping[TopicPartition, int]) -> None:
        """Take an active task over from the restore thread."""
        self._inbox.put(self._restored, task, stores, positions)

    def _restored(self, task: TaskId, stores: Stores | None, positions: Mapping[TopicPartition, int]) -> None:
        if stores is not None:
            self.stores[task] = stores
        self._positions[task] = positions
        self.handle(Restored(task, positions.keys(), brought=stores is not None))

    def closed(self, task: TaskId, number: int) -> None:
        """Note that the restore thread has closed a task's stores."""
        self._inbox.put(self.handle, Closed(task, number))

    def break_stores(self) -> None:
        """Damage the stores of the tasks that run, whose functions read them next."""
        for task in sorted(self.running.keys() & self.stores.keys()):
            self._process.disk.damaged.add(task)
            self._inbox.put(self.handle, StoreFailed(task, StoreDamaged(f"the stores of {task} are damaged")))

    # --- turns -------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Let the engine decide, carry out what it says, and schedule the next turn."""
        now_ms = self._world.timeline.now_ms
        for effect in self.tasks.handle(event, now_ms):
            self.carry_out(effect)
        if self.tasks.commit_is_near and not self.tasks.committing:
            self._turn_at(now_ms)
        elif (due_ms := self.tasks.due_ms()) is not None:
            waits_for_group = isinstance(event, Turned)  # or the turn would have done it
            self._turn_at(max(due_ms, now_ms + TURN_MS) if waits_for_group else due_ms)

    def _turn_at(self, due_ms: int) -> None:
        if self._turn_ms is None or due_ms < self._turn_ms:
            self._turn_ms = due_ms
            self._process.run.later(max(0, due_ms - self._world.timeline.now_ms), self._turn, due_ms)

    def _turn(self, due_ms: int) -> None:
        if due_ms == self._turn_ms:
            self._turn_ms = None
            client = self._process.membership.client
            self.handle(Turned(client.joined, lease_left_ms=client.lease_left_ms))

    # --- effects -----------------------------------------------------------------------------

    def carry_out(self, effect: do.Effect) -> None:  # noqa: C901, PLR0912 - a case for each effect
        """Carry out one effect of the engine."""
        match effect:  # the most frequent kinds come first
            case do.BeginCommit():
                self._commits.begin(self.running)
            case do.FinishCommit():
                self._commits.finish(effect.end, self.running)
            case do.TellMember():
                self._process.membership.handle(effect.event)
            case do.RestoreTask():
                self.restoring.restore(effect.task, self.stores.pop(effect.task, None), effect.inputs)
            case do.TailTask():
                self.restoring.tail(effect.task, self.stores.pop(effect.task, None))
            case do.CloseTask():
                self.restoring.close(effect.task, self.stores.pop(effect.task, None), effect.number)
            case do.RunTask():
                self._run(effect.task)
            case do.StopInput():
                self.running[effect.task].stopped = True
            case do.StopTask():
                self.running.pop(effect.task, None)
                self._world.watch.stopped(self._process, effect.task)
            case do.LockFolder():
                self._process.disk.locked.add(effect.task)
            case do.ReleaseFolder():
                self._process.disk.release(effect.task, self._world.timeline.now_ms)
            case do.QueueWarmups():
                self.restoring.queue(effect.queue)
            case do.AnnounceAdoption():
                self._world.watch.locked(self._process, effect.generation)
            case do.AbandonCommit():
                self._commits.abandon()
            case do.ReportStore():
                if effect.task in self.stores:
                    self._process.membership.sums.restoring(effect.task, self.stores[effect.task].offsets())
            case do.EndLoop():
                self._inbox.put(self._ended)
            case do.DiscardWork() | do.StopWork():
                self._commits.discard_work()
            case do.AnnounceFailure() | do.AnnounceLoss():
                pass  # nothing here but the engine looks at it
            case do.CommitTimes():
                self._commits.tell_times(self.running[task] for task in effect.tasks)
            case do.RepairTask(task, inputs, error):
                self.restoring.repair(task, self.stores.pop(task, None), inputs, error)
            case do.ReportNothing(task):
                self._process.membership.sums.forget(task)
            case _:
                assert_never(effect)

    def _run(self, task: TaskId) -> None:
        at = self._positions.pop(task)
        self.running[task] = Running(dict(at), InputOffsets(dict(at)), self._world.timeline.now_ms)
        if task in self.stores:
            self._process.membership.sums.running(task)
        self._world.watch.runs(self._process, task, at)
