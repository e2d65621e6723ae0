"""The tasks that a process has in hand: the state of each, and the orders to the threads that work with its stores.

A change is a row of ``tasks.lifecycle``, and its steps are returned as effects. While a commit is under way, orders
that pass stores to the restore thread are kept back, as the commit may read and write them. What must not live here:
when a commit begins, and what waits for its end (``engine.tasks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kstreams_assign.engine.effects import (
    CloseTask,
    Effect,
    HandOver,
    Inputs,
    ReleaseFolder,
    RepairTask,
    RestoreTask,
    RunTask,
    StopTask,
    TailTask,
)
from kstreams_assign.engine.task_events import Closed, Restored
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.lifecycle import Step, TaskEvent, TaskState, move

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 10_000
"""How long a task pauses after its first commit that failed; each further one in a row doubles it."""

_DOUBLINGS_MAX = 10


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


class TasksInHand:
    """All tasks of a process. ``committing``: a commit is under way."""

    def __init__(self) -> None:
        self.committing = False
        self._tasks: dict[TaskId, TaskInHand] = {}
        self._held_back: list[HandOver] = []
        self._closes = 0
        self._paused: set[TaskId] = set()
        """The tasks with a ``pause_ends_ms``."""

    # --- looking ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[TaskId]:
        return iter(list(self._tasks))

    def __contains__(self, task: TaskId) -> bool:
        return task in self._tasks

    def __getitem__(self, task: TaskId) -> TaskInHand:
        return self._tasks[task]

    def states(self) -> dict[TaskId, TaskState]:
        """Return the state of each task that is assigned here, or still runs here. From any thread."""
        return {task: held.state for task, held in list(self._tasks.items()) if held.state is not TaskState.CLOSED}

    def state(self, task: TaskId) -> TaskState:
        """Return the state of one task."""
        held = self._tasks.get(task)
        return TaskState.CLOSED if held is None else held.state

    def running(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """Return those of ``tasks`` that run."""
        return [task for task in tasks if self.state(task) is TaskState.RUNNING]

    @property
    def any_runs(self) -> bool:
        """Whether any task runs."""
        running = TaskState.RUNNING
        for held in self._tasks.values():  # noqa: SIM110 - asked after every event
            if held.state is running:
                return True
        return False

    def is_closing(self, task: TaskId) -> bool:
        """Return whether the stores of a task are still to be closed."""
        return task in self._tasks and self._tasks[task].closing is not None

    def is_held_back(self, task: TaskId) -> bool:
        """Return whether an order about the stores of a task waits for the end of the commit."""
        return any(order.task == task for order in self._held_back)

    @property
    def pause_ends_ms(self) -> int | None:
        """When the first pause ends; None: no task pauses, as nearly always."""
        if not self._paused:
            return None
        ends_ms = (self._tasks[task].pause_ends_ms for task in self._paused)
        return min((each for each in ends_ms if each is not None), default=None)

    # --- rows of the lifecycle table ---------------------------------------------------

    def take(self, task: TaskId, inputs: Inputs) -> None:
        """Take a task in hand, or other inputs of one that is."""
        self._tasks.setdefault(task, TaskInHand()).inputs = inputs

    def move(self, task: TaskId, event: TaskEvent) -> list[Effect]:
        """Take a row of the lifecycle table."""
        held = self._tasks[task]
        self._end_pause(task, held)
        held.state, steps = move(held.state, event)
        return [effect for step in steps for effect in self._carry(step, task, held)]

    def fall_back(self, task: TaskId) -> list[Effect]:
        """Take the row of a failure, but for the restore, whose time the caller knows."""
        held = self._tasks[task]
        held.state, steps = move(held.state, TaskEvent.FAILED)
        return [effect for step in steps if step is not Step.RESTORE for effect in self._carry(step, task, held)]

    def _carry(self, step: Step, task: TaskId, held: TaskInHand) -> list[Effect]:
        match step:
            case Step.RUN:
                return [RunTask(task, held.inputs)]
            case Step.STOP:
                return [StopTask(task, held.inputs)]
            case Step.RESTORE:
                return self.hand_over(RestoreTask(task, held.inputs))
            case Step.TAIL:
                held.inputs = ()
                return self.hand_over(TailTask(task))
            case Step.CLOSE:
                return self.hand_over(self._close(task, held))

    def _close(self, task: TaskId, held: TaskInHand) -> CloseTask:
        self._closes += 1
        held.closing = self._closes
        return CloseTask(task, self._closes)

    # --- stores ------------------------------------------------------------------------

    def hand_over(self, order: HandOver) -> list[Effect]:
        """Give a task's stores to the restore thread, once no commit under way can read or write them."""
        if not self.committing:
            return [order]
        self._held_back.append(order)
        return []

    def free(self) -> list[Effect]:
        """No commit is under way any more. Inputs may have changed since."""
        freed, self._held_back, self.committing = self._held_back, [], False
        return [
            replace(order, inputs=self._tasks[order.task].inputs)
            if isinstance(order, RestoreTask | RepairTask)
            else order
            for order in freed
        ]

    def restored(self, event: Restored, leaves: TaskEvent | None) -> list[Effect]:
        """Run the task, unless something else is wanted of it since its restore was asked for.

        ``leaves``: how an assignment took it away meanwhile.
        """
        task, held = event.task, self._tasks[event.task]
        if leaves is None and not event.brought and self._is_old(event, held):
            return []
        self._held_back = [order for order in self._held_back if order.task != task]  # what is said here replaces it
        if leaves is not None:
            return self.move(task, leaves)
        if held.closing is not None:  # handed over before it was taken away: another process may have worked since
            return [self._close(task, held), *self._wanted(task, held)]
        if held.state is not TaskState.RESTORING or not set(event.inputs).issuperset(held.inputs):
            return self._wanted(task, held)
        return self.move(task, TaskEvent.RESTORED)

    def _is_old(self, event: Restored, held: TaskInHand) -> bool:
        """Return whether a newer order is under way for a task without stores: no order has to wait for those."""
        ordered = held.closing is not None or held.pause_ends_ms is not None or self.is_held_back(event.task)
        return ordered or held.state is not TaskState.RESTORING or not set(event.inputs).issuperset(held.inputs)

    def _wanted(self, task: TaskId, held: TaskInHand) -> list[Effect]:
        """Order again what the restore thread could not do while the stores were on their way."""
        match held.state:
            case TaskState.RESTORING:
                return [RestoreTask(task, held.inputs)]
            case TaskState.TAILING:
                return [TailTask(task)]
            case _:
                return []

    def closed(self, event: Closed) -> list[Effect]:
        """Release the folder, unless the task is wanted again, or a later order to close it is under way."""
        task, held = event.task, self._tasks.get(event.task)
        if held is None or held.closing != event.number:
            return []
        held.closing = None
        if held.state is not TaskState.CLOSED:
            return []
        del self._tasks[task]
        return [ReleaseFolder(task)]

    # --- pauses ------------------------------------------------------------------------

    def pause(self, task: TaskId, now_ms: int) -> int:
        """Let a task pause until it is restored; return how long, in milliseconds."""
        held = self._tasks[task]
        pause_ms = min(FIRST_PAUSE_MS << min(held.failures, _DOUBLINGS_MAX), LONGEST_PAUSE_MS)
        held.failures, held.pause_ends_ms = held.failures + 1, now_ms + pause_ms
        self._paused.add(task)
        return pause_ms

    def restore_paused(self, now_ms: int) -> list[Effect]:
        """Restore the tasks that have paused long enough."""
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
