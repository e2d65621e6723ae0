"""The tasks of one process: what an assignment asks of each, when a commit begins, and what waits for its end.

``Tasks.handle(event, now_ms)`` changes the tasks (``tasks_in_hand``) and returns effects, which a shell carries out in
order; it reports back with further events (``task_events``).

These rules connect the tasks with the commits. A task that ran is committed before it is released, with the others that
leave. Stores are not handed over while a commit is under way, as it may read and write them. While the group rebalances
a commit begins by itself, or for a task that starts again, only if its records have time to arrive: no heartbeat renews
the session meanwhile. At least once, outputs leave before their commit under a lease that outlasts them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

from kstreams_assign.client_settings import delivery_limit_ms
from kstreams_assign.engine.effects import (
    AbandonCommit,
    AnnounceAdoption,
    AnnounceFailure,
    AnnounceLoss,
    BeginCommit,
    CommitTimes,
    DiscardWork,
    Effect,
    EndLoop,
    FinishCommit,
    Inputs,
    LockFolder,
    QueueWarmups,
    RepairTask,
    ReportNothing,
    ReportStore,
    RestoreTask,
    StopInput,
    StopWork,
    TellMember,
)
from kstreams_assign.engine.task_events import (
    Closed,
    CommitEnded,
    Event,
    InputsLost,
    Restored,
    StopAsked,
    StoreFailed,
    Turned,
)
from kstreams_assign.engine.tasks_in_hand import TasksInHand
from kstreams_assign.frozen import dataclass
from kstreams_assign.group import member
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.lifecycle import TaskEvent, TaskState, changes

# --- what waits for a commit --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LetGo:
    """Release what the newest assignment took away."""


@dataclass(frozen=True, slots=True)
class _StartAgain:
    """Look the positions of a task's inputs, as the newest assignment has them, up again, and go on from there."""

    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class _LetJoin:
    """Let the member join."""


_Waiting = _LetGo | _StartAgain | _LetJoin


class Tasks:
    """The machine. Times are milliseconds of one clock, from the caller."""

    def __init__(self, commit_interval_ms: int, write_lease_ms: int, *, exactly_once: bool) -> None:
        self._commit_interval_ms = commit_interval_ms
        self._lease_needed_ms = write_lease_ms / 2
        self._lease_ahead_ms = delivery_limit_ms(write_lease_ms)
        self._exactly_once = exactly_once
        self._tasks = TasksInHand()
        self._generation: int | None = None
        self._leaving: dict[TaskId, TaskEvent] = {}
        """What the newest assignment took away."""
        self._active: Mapping[TaskId, Inputs] = {}
        """The active tasks of the newest assignment."""
        self._releasing: frozenset[TaskId] | None = None
        self._rejoining = self._fenced = self._last_commit = self._ended = False
        self._stop: StopAsked | None = None
        self._next_commit_ms = 0
        self._wait_for_next: list[_Waiting] = []
        self._wait_for_present: list[_Waiting] = []
        self._left_commit: set[TaskId] = set()
        """The tasks whose stores failed while the commit under way holds records of theirs."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    # --- looking ---------------------------------------------------------------------

    def states(self) -> dict[TaskId, TaskState]:
        """Return the state of each task that is assigned here, or still runs here. From any thread."""
        return self._tasks.states()

    def state(self, task: TaskId) -> TaskState:
        """Return the state of one task."""
        return self._tasks.state(task)

    @property
    def committing(self) -> bool:
        """Whether a commit is under way."""
        return self._tasks.committing

    @property
    def commit_is_near(self) -> bool:
        """Whether a commit is under way, or begins in the next turn."""
        return self._tasks.committing or self._must_begin

    def is_due(self, now_ms: int, *, full: bool) -> bool:
        """Return whether ``Turned`` has something to do."""
        if not self._tasks.committing:
            due = now_ms >= self._next_commit_ms or full or self._wait_for_next
            if due and not self._fenced:
                return True
        pause_ends_ms = self._tasks.pause_ends_ms
        return pause_ends_ms is not None and now_ms >= pause_ends_ms

    def may_send_ahead(self, lease_left_ms: float) -> bool:
        """Return whether outputs may leave before their commit: under a lease that lasts longer than they may take."""
        return not (self._exactly_once or self._fenced) and lease_left_ms >= self._lease_ahead_ms

    def due_ms(self) -> int | None:
        """Return when ``Turned`` has something to do if nothing else happens; None: never."""
        pause_ends_ms = self._tasks.pause_ends_ms
        if self._tasks.committing or self._fenced or not self._tasks.any_runs:
            return pause_ends_ms
        return self._next_commit_ms if pause_ends_ms is None else min(pause_ends_ms, self._next_commit_ms)

    # --- assignments -----------------------------------------------------------------

    def _adopt(self, event: member.Adopt, _now_ms: int) -> list[Effect]:
        """Take over an assignment. What leaves gets no more input, and goes once its work is committed.

        The same assignment may be given again, with other inputs or replicas. That takes no further running task away,
        so a release that waits for a commit already waits for no other.

        Once a commit was fenced, its work is gone and the next ones would leave it out, so only ``DropAll`` follows.
        """
        if self._fenced:
            return []
        adopted = event.adopted
        todo = changes(self.states(), adopted.active.keys(), adopted.standby | adopted.warmup)
        self._generation, self._leaving, self._active = event.generation, dict(todo.leaving), adopted.active
        self._rejoining = False
        effects: list[Effect] = [LockFolder(task) for task in todo.arriving if task not in self._tasks]
        effects.append(QueueWarmups(adopted.queue))
        for task, change in todo.arriving.items():
            self._tasks.take(task, adopted.active.get(task, ()))
            effects += self._tasks.move(task, change)
        running = self._tasks.running(todo.leaving)
        effects += [StopInput(task, self._tasks[task].inputs) for task in running]
        effects.append(AnnounceAdoption(event.generation, adopted, [*todo.leaving], [*todo.arriving]))
        effects += self._change_inputs()
        if self._waits(_LetGo()):
            return effects
        if running:
            self._wait_for_next.append(_LetGo())
            return effects
        if not self._left_commit.isdisjoint({*todo.leaving, *todo.arriving}):  # their records may still arrive
            self._wait_for_present.append(_LetGo())
            return effects
        return effects + self._let_go()

    def _waits(self, waiting: _Waiting) -> bool:
        return waiting in self._wait_for_present or waiting in self._wait_for_next

    def _change_inputs(self) -> list[Effect]:
        """Note other inputs of tasks that stay: a topic has grown, or another topic matches a pattern."""
        effects: list[Effect] = []
        for task, inputs in self._active.items():
            held = self._tasks[task]
            if set(held.inputs) == set(inputs):
                continue
            if held.state is TaskState.RUNNING:
                start = _StartAgain(task, "its input partitions have changed")
                self._wait_for_next += [] if self._waits(start) else [start]
                continue
            held.inputs = inputs
            if held.pause_ends_ms is None and not self._tasks.is_held_back(task):
                effects.append(RestoreTask(task, inputs))
        return effects

    def _start_again(self, task: TaskId, reason: str) -> list[Effect]:
        if self._tasks.state(task) not in (TaskState.RUNNING, TaskState.RESTORING):
            return []
        held = self._tasks[task]
        running = held.state is TaskState.RUNNING
        effects = self._tasks.fall_back(task) if running else []
        held.inputs = self._active.get(task, held.inputs)
        if running:
            effects.append(DiscardWork([task], reason))
            effects += self._tasks.hand_over(RestoreTask(task, held.inputs))
        return effects

    def _let_go(self) -> list[Effect]:
        running = frozenset(self._tasks.running(self._leaving))
        effects: list[Effect] = [CommitTimes(sorted(running))] if running and self._exactly_once else []
        for task, change in self._leaving.items():
            effects += self._tasks.move(task, change)
        closing = frozenset(task for task in running if self._tasks.is_closing(task))
        self._releasing = closing if self._releasing is None else self._releasing | closing
        return effects + self._report_released()

    def _report_released(self) -> list[Effect]:
        if self._releasing is None or any(self._tasks.is_closing(task) for task in self._releasing):
            return []
        self._releasing = None
        return [TellMember(member.TasksReleased(self._generation))]

    def _drop_all(self, event: member.DropAll, _now_ms: int) -> list[Effect]:
        """Write and commit nothing more of what runs; replicas stay on disk, and are closed too."""
        if self._ended:
            return []
        self._wait_for_present, self._wait_for_next = [], []
        self._left_commit.clear()
        self._fenced = False
        effects: list[Effect] = [AbandonCommit(), *self._tasks.free()]
        for task in self._tasks:
            effects += self._tasks.move(task, TaskEvent.LOST)
        self._releasing = None
        effects.append(AnnounceLoss(event.reason))
        self._ended = self._stop is not None
        return [*effects, EndLoop()] if self._ended else effects

    # --- what the restore thread reports -------------------------------------------------

    def _restored(self, event: Restored, _now_ms: int) -> list[Effect]:
        """Run the task, unless it is to leave: no commit would hold what it does now."""
        restoring = self._tasks.state(event.task) is TaskState.RESTORING
        return self._tasks.restored(event, self._leaving.pop(event.task, None) if restoring else None)

    def _closed(self, event: Closed, _now_ms: int) -> list[Effect]:
        return self._tasks.closed(event) + self._report_released()

    # --- failures ------------------------------------------------------------------------

    def _store_failed(self, event: StoreFailed, _now_ms: int) -> list[Effect]:
        """Discard the uncommitted work of the task; its store is repaired, or created again."""
        task, reason = event.task, str(event.error)
        if self.state(task) is not TaskState.RUNNING:
            return []
        held = self._tasks[task]
        if self._tasks.committing:
            self._left_commit.add(task)
        return [
            *self._tasks.fall_back(task),
            ReportNothing(task),
            AnnounceFailure(task, reason, 0),
            DiscardWork([task], reason),
            *self._tasks.hand_over(RepairTask(task, held.inputs, event.error)),
        ]

    def _commit_failed(self, tasks: Collection[TaskId], reason: str, now_ms: int) -> list[Effect]:
        """Forget what the commit held; the tasks pause, and are then restored."""
        failed = self._tasks.running(tasks)
        effects: list[Effect] = []
        for task in failed:
            effects += [*self._tasks.fall_back(task), ReportStore(task)]
            effects.append(AnnounceFailure(task, reason, self._tasks.pause(task, now_ms)))
        return [*effects, DiscardWork(failed, reason)]

    def _inputs_lost(self, event: InputsLost, _now_ms: int) -> list[Effect]:
        """Commit what the tasks have done, then start them again where ``auto_offset_reset`` says."""
        reason = "the brokers no longer hold its input"
        lost = set(event.inputs)
        self._wait_for_next += [
            _StartAgain(task, reason)
            for task in self._tasks.running(self._tasks)
            if lost.intersection(self._tasks[task].inputs)
        ]
        return []

    # --- commits -------------------------------------------------------------------------

    def _turned(self, event: Turned, now_ms: int) -> list[Effect]:
        """Restore what has paused long enough; begin the next commit when it is due, or something waits for it."""
        effects = self._tasks.restore_paused(now_ms)
        if self._tasks.committing:
            return effects
        due = now_ms >= self._next_commit_ms or event.full or self._wait_for_next
        if self._must_begin or (due and self._may_commit(event)):
            return [*effects, *self._begin_commit(now_ms)]
        return effects

    @property
    def _must_begin(self) -> bool:
        """Whether a commit begins in the next turn, however long the session lasts.

        While the group rebalances, a task that only starts again waits: a commit after the lease loses all tasks. After
        a fenced commit nothing follows but ``DropAll``: another commit would leave out the work of that one.
        """
        if self._fenced:
            return False
        if self._rejoining:
            return any(not isinstance(waiting, _StartAgain) for waiting in self._wait_for_next)
        return bool(self._wait_for_next)

    def _may_commit(self, event: Turned) -> bool:
        """Return whether a commit may begin that need not begin at once."""
        if self._fenced:
            return False
        if event.joined and not self._rejoining:
            return True
        return event.lease_left_ms >= self._lease_needed_ms

    def _begin_commit(self, now_ms: int) -> list[Effect]:
        self._next_commit_ms = now_ms + self._commit_interval_ms
        self._wait_for_present, self._wait_for_next = self._wait_for_next, []
        self._tasks.committing = True
        return [BeginCommit()]

    def _commit_before_join(self, _event: member.Commit, now_ms: int) -> list[Effect]:
        """Commit what is due, then let the member join: once JoinGroup has left, input offsets may have to wait.

        What was committed less than an interval ago (a follow-up comes right after a release) is not committed again.
        """
        if self._tasks.committing:
            self._wait_for_present.append(_LetJoin())
        elif now_ms < self._next_commit_ms:
            return self._let_join()
        else:
            self._wait_for_next.append(_LetJoin())
        return []

    def _let_join(self) -> list[Effect]:
        self._rejoining = True
        return [TellMember(member.WorkCommitted())]

    def _commit_ended(self, event: CommitEnded, now_ms: int) -> list[Effect]:
        effects = self._tasks.free()
        self._left_commit.clear()
        waited, self._wait_for_present = self._wait_for_present, []
        if event.end is CommitEnd.FENCED:
            self._fenced, self._wait_for_next = True, []
            lost = member.MembershipLost(f"commit ended as {event.end.value}")
            effects += [FinishCommit(event.end), TellMember(lost)]
            return effects + self._end_commits(event, now_ms)
        if event.failed:
            effects += self._commit_failed(event.failed, event.reason, now_ms)
        elif event.end is CommitEnd.DONE:
            for task in event.tasks:
                if task in self._tasks:
                    self._tasks[task].failures = 0
        effects.append(FinishCommit(event.end))
        for waiting in waited:
            effects += self._go_on(waiting)
        return effects + self._end_commits(event, now_ms)

    def _go_on(self, waiting: _Waiting) -> list[Effect]:
        match waiting:
            case _LetGo():
                return self._let_go()
            case _StartAgain(task, reason):
                return self._start_again(task, reason)
            case _LetJoin():
                return self._let_join()

    # --- the end ---------------------------------------------------------------------------

    def _stop_asked(self, event: StopAsked, now_ms: int) -> list[Effect]:
        """Let the commit under way end, and make another one if the group allows it; then close everything."""
        self._stop = event
        if event.failed:
            self._wait_for_present, self._wait_for_next = [], []
            self._left_commit.clear()
            return [AbandonCommit(), *self._tasks.free(), *self._close_all()]
        return [] if self._tasks.committing else self._commit_last(now_ms)

    def _end_commits(self, event: CommitEnded, now_ms: int) -> list[Effect]:
        """While the process ends: make the last commit, unless the one before failed; another would fare no better."""
        if self._stop is None:
            return []
        if self._last_commit or event.end in (CommitEnd.FAILED, CommitEnd.FENCED):
            return self._close_all()
        return self._commit_last(now_ms)

    def _commit_last(self, now_ms: int) -> list[Effect]:
        if self._rejoining or self._fenced or self._stop is None or not self._stop.joined:
            return self._close_all()
        self._last_commit = True
        return self._begin_commit(now_ms)

    def _close_all(self) -> list[Effect]:
        self._ended = True
        running = self._tasks.running(self._tasks)
        given_up = self._stop is not None and self._stop.failed  # what the last commit began with may not be committed
        times = running and self._exactly_once and not (self._rejoining or self._fenced or given_up)
        effects: list[Effect] = [CommitTimes(running)] if times else []
        effects.append(StopWork())
        for task in self._tasks:
            effects += self._tasks.move(task, TaskEvent.TAKEN_AWAY)
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
