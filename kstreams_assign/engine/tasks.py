"""The tasks of one process: what an assignment asks of each, when a commit begins, and what waits for its end.

``Tasks.handle(event, now_ms)`` changes the tasks as ``tasks.lifecycle`` says and returns effects, which a shell carries
out in order; it reports back with further events. Each task is one value, ``TaskInHand``.

Three rules connect the tasks with the commits. A task that ran is committed before it is released, with the others that
leave. Stores are not handed over while a commit is under way, as it may read and write them. From a member's promise to
join until its assignment no commit begins by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from kstreams_assign.engine.effects import (
    AbandonCommit,
    AnnounceAdoption,
    AnnounceFailure,
    AnnounceLoss,
    BeginCommit,
    CloseTask,
    CommitTimes,
    DiscardWork,
    Effect,
    EndLoop,
    FinishCommit,
    HandOver,
    Inputs,
    LockFolder,
    QueueWarmups,
    ReleaseFolder,
    RepairTask,
    ReportNothing,
    ReportStore,
    RestoreTask,
    RunTask,
    StopInput,
    StopTask,
    StopWork,
    TailTask,
    TellMember,
)
from kstreams_assign.errors import StateError
from kstreams_assign.frozen import dataclass
from kstreams_assign.group import member
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitStep
from kstreams_assign.tasks.lifecycle import Step, TaskEvent, TaskState, changes, move

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 10_000
"""How long a task pauses after its first commit that failed; each further one in a row doubles it."""

_DOUBLINGS_MAX = 10

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Restored:
    """The stores of an active task are restored and in the loop's hands, and the positions of ``inputs`` are known."""

    task: TaskId
    inputs: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Closed:
    """The stores of a task are closed; ``number`` is that of the order."""

    task: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """A store of a running task cannot be read."""

    task: TaskId
    error: StateError


@dataclass(frozen=True, slots=True)
class InputsLost:
    """The brokers no longer hold the records at which these inputs are; other positions have to be looked up."""

    inputs: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class Turned:
    """The loop has been round. ``joined``: the member may commit; ``full``: no more can be processed uncommitted.

    ``idle``: nothing has been processed since the last commit.
    """

    joined: bool
    full: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """``tasks`` took part in the commit. Those of ``failed`` go on from the commit before, for ``reason``."""

    end: CommitStep
    tasks: Collection[TaskId] = ()
    failed: Collection[TaskId] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process ends: commit what may be committed and close everything. With ``failed`` nothing is committed."""

    joined: bool
    failed: bool = False


Event = (
    member.Commit
    | member.Adopt
    | member.DropAll
    | Restored
    | Closed
    | StoreFailed
    | InputsLost
    | Turned
    | CommitEnded
    | StopAsked
)
"""The first three are the member's (``group.member``)."""

# --- what waits for a commit --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LetGo:
    """Release what an assignment took away."""

    leaving: Mapping[TaskId, TaskEvent]


@dataclass(frozen=True, slots=True)
class _StartAgain:
    """Look the positions of a task's inputs up again, and go on from there; None: of the same inputs."""

    task: TaskId
    inputs: Inputs | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Hold:
    """Hold commits until the next assignment, and let the member join."""


_Waiting = _LetGo | _StartAgain | _Hold


@dataclass(slots=True)
class TaskInHand:
    """A task in this process, from the lock of its folder to its release.

    ``closing``: the number of the last order to close its stores, until that is carried out; the task may be assigned
    again meanwhile. ``pause_ends_ms``: it failed and is restored then. ``failures``: in a row.
    """

    state: TaskState = TaskState.CLOSED
    inputs: Inputs = ()
    closing: int | None = None
    pause_ends_ms: int | None = None
    failures: int = 0


class Tasks:
    """The machine. Times are milliseconds of one clock, from the caller."""

    def __init__(self, commit_interval_ms: int, *, exactly_once: bool) -> None:
        self._commit_interval_ms = commit_interval_ms
        self._exactly_once = exactly_once
        self._tasks: dict[TaskId, TaskInHand] = {}
        self._generation: int | None = None
        self._releasing: frozenset[TaskId] | None = None
        self._holding = self._committing = self._last_commit = False
        self._stop: StopAsked | None = None
        self._next_commit_ms = 0
        self._wait_for_next: list[_Waiting] = []
        self._wait_for_present: list[_Waiting] = []
        self._held_back: list[HandOver] = []
        self._closes = 0
        self._paused: set[TaskId] = set()
        """The tasks with a ``pause_ends_ms``."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    # --- looking ---------------------------------------------------------------------

    def states(self) -> dict[TaskId, TaskState]:
        """Return the state of each task that is assigned here, or still runs here. From any thread."""
        return {task: held.state for task, held in list(self._tasks.items()) if held.state is not TaskState.CLOSED}

    def state(self, task: TaskId) -> TaskState:
        """Return the state of one task."""
        held = self._tasks.get(task)
        return TaskState.CLOSED if held is None else held.state

    @property
    def committing(self) -> bool:
        """Whether a commit is under way."""
        return self._committing

    @property
    def commit_is_near(self) -> bool:
        """Whether a commit is under way, or begins in the next turn."""
        return self._committing or bool(self._wait_for_next)

    def is_due(self, now_ms: int, *, full: bool) -> bool:
        """Return whether ``Turned`` has something to do."""
        if not self._committing:
            due = now_ms >= self._next_commit_ms or full
            if self._wait_for_next or (due and not self._holding):
                return True
        return any(now_ms >= ends_ms for ends_ms in self._pauses())

    def due_ms(self) -> int | None:
        """Return when ``Turned`` has something to do if nothing else happens; None: never."""
        due = self._pauses() if self._paused else []  # asked in every turn, and there is seldom any
        if not (self._committing or self._holding):
            for held in self._tasks.values():
                if held.state is TaskState.RUNNING:
                    due.append(self._next_commit_ms)
                    break
        return min(due, default=None)

    def _pauses(self) -> list[int]:
        """Return when each pause ends."""
        return [ends_ms for task in self._paused if (ends_ms := self._tasks[task].pause_ends_ms) is not None]

    # --- assignments -----------------------------------------------------------------

    def _adopt(self, event: member.Adopt, _now_ms: int) -> list[Effect]:
        """Take over an assignment. What leaves gets no more input, and goes once its work is committed."""
        adopted = event.adopted
        todo = changes(self.states(), adopted.active.keys(), adopted.standby | adopted.warmup)
        self._generation, self._holding = event.generation, False
        effects: list[Effect] = [LockFolder(task) for task in todo.arriving if task not in self._tasks]
        effects.append(QueueWarmups(adopted.queue))
        for task, change in todo.arriving.items():
            self._tasks.setdefault(task, TaskInHand()).inputs = adopted.active.get(task, ())
            effects += self._move(task, change)
        running = self._running(todo.leaving)
        effects += [StopInput(task, self._tasks[task].inputs) for task in running]
        effects.append(AnnounceAdoption(event.generation, adopted, [*todo.leaving], [*todo.arriving]))
        effects += self._change_inputs(adopted.active)
        if running:
            self._wait_for_next.append(_LetGo(todo.leaving))
            return effects
        return effects + self._let_go(todo.leaving)

    def _change_inputs(self, active: Mapping[TaskId, Inputs]) -> list[Effect]:
        """Note other inputs of tasks that stay: a topic has grown, or another topic matches a pattern."""
        effects: list[Effect] = []
        for task, inputs in active.items():
            held = self._tasks[task]
            if set(held.inputs) == set(inputs):
                continue
            if held.state is TaskState.RUNNING:
                self._wait_for_next.append(_StartAgain(task, inputs, "its input partitions have changed"))
                continue
            held.inputs = inputs
            if held.pause_ends_ms is None and not any(order.task == task for order in self._held_back):
                effects.append(RestoreTask(task, inputs))
        return effects

    def _start_again(self, task: TaskId, inputs: Inputs | None, reason: str) -> list[Effect]:
        held = self._tasks.get(task)
        if held is None or held.state not in (TaskState.RUNNING, TaskState.RESTORING):
            return []
        running = held.state is TaskState.RUNNING
        effects = self._fall_back(task, held) if running else []
        held.inputs = held.inputs if inputs is None else inputs
        if running:
            effects.append(DiscardWork([task], reason))
            effects += self._carry(Step.RESTORE, task, held)
        return effects

    def _let_go(self, leaving: Mapping[TaskId, TaskEvent]) -> list[Effect]:
        running = frozenset(self._running(leaving))
        effects: list[Effect] = [CommitTimes(sorted(running))] if running and self._exactly_once else []
        for task, change in leaving.items():
            effects += self._move(task, change)
        self._releasing = frozenset(task for task in running if self._is_closing(task))
        return effects + self._report_released()

    def _running(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        return [task for task in tasks if self.state(task) is TaskState.RUNNING]

    def _report_released(self) -> list[Effect]:
        if self._releasing is None or any(self._is_closing(task) for task in self._releasing):
            return []
        self._releasing = None
        return [TellMember(member.TasksReleased(self._generation))]

    def _is_closing(self, task: TaskId) -> bool:
        return task in self._tasks and self._tasks[task].closing is not None

    def _drop_all(self, event: member.DropAll, _now_ms: int) -> list[Effect]:
        """Write and commit nothing more of what runs; replicas stay on disk, and are closed too."""
        self._wait_for_present, self._wait_for_next = [], []
        effects: list[Effect] = [AbandonCommit(), *self._free()]
        for task in list(self._tasks):
            effects += self._move(task, TaskEvent.LOST)
        self._releasing = None
        effects.append(AnnounceLoss(event.reason))
        return effects if self._stop is None else [*effects, EndLoop()]

    # --- one task ----------------------------------------------------------------------

    def _move(self, task: TaskId, event: TaskEvent) -> list[Effect]:
        """Take a row of the lifecycle table."""
        held = self._tasks[task]
        self._end_pause(task, held)
        held.state, steps = move(held.state, event)
        return [effect for step in steps for effect in self._carry(step, task, held)]

    def _fall_back(self, task: TaskId, held: TaskInHand) -> list[Effect]:
        """Take the row of a failure, but for the restore, whose time the caller knows."""
        held.state, steps = move(held.state, TaskEvent.FAILED)
        return [effect for step in steps if step is not Step.RESTORE for effect in self._carry(step, task, held)]

    def _carry(self, step: Step, task: TaskId, held: TaskInHand) -> list[Effect]:
        match step:
            case Step.RUN:
                return [RunTask(task, held.inputs)]
            case Step.STOP:
                return [StopTask(task, held.inputs)]
            case Step.RESTORE:
                return self._hand_over(RestoreTask(task, held.inputs))
            case Step.TAIL:
                held.inputs = ()
                return self._hand_over(TailTask(task))
            case Step.CLOSE:
                return self._hand_over(self._close(task, held))

    def _close(self, task: TaskId, held: TaskInHand) -> CloseTask:
        self._closes += 1
        held.closing = self._closes
        return CloseTask(task, self._closes)

    def _hand_over(self, order: HandOver) -> list[Effect]:
        """Give a task's stores to the restore thread, once no commit under way can read or write them."""
        if not self._committing:
            return [order]
        self._held_back.append(order)
        return []

    def _free(self) -> list[Effect]:
        """No commit is under way any more. Inputs may have changed since."""
        freed, self._held_back, self._committing = self._held_back, [], False
        return [
            replace(order, inputs=self._tasks[order.task].inputs)
            if isinstance(order, RestoreTask | RepairTask)
            else order
            for order in freed
        ]

    def _restored(self, event: Restored, _now_ms: int) -> list[Effect]:
        """Run the task, unless something else is wanted of it since its restore was asked for."""
        task, held = event.task, self._tasks[event.task]
        self._held_back = [order for order in self._held_back if order.task != task]  # what is said here replaces it
        if held.closing is not None:  # handed over before it was taken away: another process may have worked since
            return [self._close(task, held), *self._wanted(task, held)]
        if held.state is not TaskState.RESTORING or not set(event.inputs).issuperset(held.inputs):
            return self._wanted(task, held)
        return self._move(task, TaskEvent.RESTORED)

    def _wanted(self, task: TaskId, held: TaskInHand) -> list[Effect]:
        """Order again what the restore thread could not do while the stores were on their way."""
        match held.state:
            case TaskState.RESTORING:
                return [RestoreTask(task, held.inputs)]
            case TaskState.TAILING:
                return [TailTask(task)]
            case _:
                return []

    def _closed(self, event: Closed, _now_ms: int) -> list[Effect]:
        task, held = event.task, self._tasks.get(event.task)
        effects: list[Effect] = []
        if held is not None and held.closing == event.number:  # not an earlier order's
            held.closing = None
            if held.state is TaskState.CLOSED:
                del self._tasks[task]
                effects.append(ReleaseFolder(task))
        return effects + self._report_released()

    # --- failures ------------------------------------------------------------------------

    def _store_failed(self, event: StoreFailed, _now_ms: int) -> list[Effect]:
        """Discard the uncommitted work of the task; its store is repaired, or created again."""
        task, reason = event.task, str(event.error)
        if self.state(task) is not TaskState.RUNNING:
            return []
        held = self._tasks[task]
        return [
            *self._fall_back(task, held),
            ReportNothing(task),
            AnnounceFailure(task, reason, 0),
            DiscardWork([task], reason),
            *self._hand_over(RepairTask(task, held.inputs, event.error)),
        ]

    def _commit_failed(self, tasks: Collection[TaskId], reason: str, now_ms: int) -> list[Effect]:
        """Forget what the commit held; the tasks pause, and are then restored."""
        failed = self._running(tasks)
        effects: list[Effect] = []
        for task in failed:
            held = self._tasks[task]
            effects += [*self._fall_back(task, held), ReportStore(task)]
            pause_ms = min(FIRST_PAUSE_MS << min(held.failures, _DOUBLINGS_MAX), LONGEST_PAUSE_MS)
            held.failures, held.pause_ends_ms = held.failures + 1, now_ms + pause_ms
            self._paused.add(task)
            effects.append(AnnounceFailure(task, reason, pause_ms))
        return [*effects, DiscardWork(failed, reason)]

    def _restore_paused(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for task in sorted(self._paused):
            held = self._tasks[task]
            if held.pause_ends_ms is not None and now_ms >= held.pause_ends_ms:
                self._end_pause(task, held)
                effects += self._carry(Step.RESTORE, task, held)
        return effects

    def _end_pause(self, task: TaskId, held: TaskInHand) -> None:
        held.pause_ends_ms = None
        self._paused.discard(task)

    def _inputs_lost(self, event: InputsLost, _now_ms: int) -> list[Effect]:
        """Commit what the tasks have done, then start them again where ``auto_offset_reset`` says."""
        reason = "the brokers no longer hold its input"
        lost = set(event.inputs)
        self._wait_for_next += [
            _StartAgain(task, None, reason)
            for task in self._running(self._tasks)
            if lost.intersection(self._tasks[task].inputs)
        ]
        return []

    # --- commits -------------------------------------------------------------------------

    def _turned(self, event: Turned, now_ms: int) -> list[Effect]:
        """Restore what has paused long enough; begin the next commit when it is due, or something waits for it."""
        effects = self._restore_paused(now_ms) if self._paused else []
        if self._committing:
            return effects
        due = (now_ms >= self._next_commit_ms or event.full) and event.joined and not self._holding
        if self._wait_for_next or (due and not (event.idle and self._stop is None)):
            return [*effects, *self._begin_commit(now_ms)]
        if due:
            self._next_commit_ms = now_ms + self._commit_interval_ms
        return effects

    def _begin_commit(self, now_ms: int) -> list[Effect]:
        self._next_commit_ms = now_ms + self._commit_interval_ms
        self._wait_for_present, self._wait_for_next = self._wait_for_next, []
        self._committing = True
        return [BeginCommit()]

    def _commit_before_join(self, _event: member.Commit, now_ms: int) -> list[Effect]:
        """Commit what is due, then hold commits until the assignment is here.

        What was committed less than an interval ago (a follow-up comes right after a release) is not committed again.
        """
        if self._committing:
            self._wait_for_present.append(_Hold())
        elif now_ms < self._next_commit_ms:
            return self._hold()
        else:
            self._wait_for_next.append(_Hold())
        return []

    def _hold(self) -> list[Effect]:
        self._holding = True
        return [TellMember(member.WorkCommitted())]

    def _commit_ended(self, event: CommitEnded, now_ms: int) -> list[Effect]:
        effects = self._free()
        waited, self._wait_for_present = self._wait_for_present, []
        if event.end is CommitStep.FENCED:
            self._holding, self._wait_for_next = True, []
            lost = member.MembershipLost(f"commit ended as {event.end.value}")
            effects += [FinishCommit(event.end), TellMember(lost)]
            return effects + self._end_commits(event, now_ms)
        if event.failed:
            effects += self._commit_failed(event.failed, event.reason, now_ms)
        elif event.end is CommitStep.DONE:
            for task in event.tasks:
                if task in self._tasks:
                    self._tasks[task].failures = 0
        effects.append(FinishCommit(event.end))
        for waiting in waited:
            effects += self._go_on(waiting)
        return effects + self._end_commits(event, now_ms)

    def _go_on(self, waiting: _Waiting) -> list[Effect]:
        match waiting:
            case _LetGo(leaving):
                return self._let_go(leaving)
            case _StartAgain(task, inputs, reason):
                return self._start_again(task, inputs, reason)
            case _Hold():
                return self._hold()

    # --- the end ---------------------------------------------------------------------------

    def _stop_asked(self, event: StopAsked, now_ms: int) -> list[Effect]:
        """Let the commit under way end, and make another one if the group allows it; then close everything."""
        self._stop = event
        if event.failed:
            self._wait_for_present, self._wait_for_next = [], []
            return [AbandonCommit(), *self._free(), *self._close_all()]
        return [] if self._committing else self._commit_last(now_ms)

    def _end_commits(self, event: CommitEnded, now_ms: int) -> list[Effect]:
        """While the process ends: make the last commit, unless the one before failed; another would fare no better."""
        if self._stop is None:
            return []
        if self._last_commit or event.end in (CommitStep.FAILED, CommitStep.FENCED):
            return self._close_all()
        return self._commit_last(now_ms)

    def _commit_last(self, now_ms: int) -> list[Effect]:
        if self._holding or self._stop is None or not self._stop.joined:
            return self._close_all()
        self._last_commit = True
        return self._begin_commit(now_ms)

    def _close_all(self) -> list[Effect]:
        running = self._running(self._tasks)
        given_up = self._stop is not None and self._stop.failed  # what the last commit began with may not be committed
        times = running and self._exactly_once and not self._holding and not given_up
        effects: list[Effect] = [CommitTimes(running)] if times else []
        effects.append(StopWork())
        for task in list(self._tasks):
            effects += self._move(task, TaskEvent.TAKEN_AWAY)
        return [*effects, EndLoop()]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        member.Commit: _commit_before_join,
        member.Adopt: _adopt,
        member.DropAll: _drop_all,
        Restored: _restored,
        Closed: _closed,
        StoreFailed: _store_failed,
        InputsLost: _inputs_lost,
        Turned: _turned,
        CommitEnded: _commit_ended,
        StopAsked: _stop_asked,
    }
