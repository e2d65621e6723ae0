"""A task's life in one process, as one table.

A task is assigned as active or as a replica (standby or warm-up). An active task restores, then runs; a replica tails
its changelog. A replica that becomes active keeps its store and reads on to the end of its changelog; an active task
that becomes a replica keeps its store too. A revoked task is closed and its folder released. An active task whose
commit failed drops what is not committed and is restored; it stays here.

A running task that leaves as an assignment says is committed before its row is taken (``engine.tasks``).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import Enum

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId


class TaskState(Enum):
    __hash__ = object.__hash__  # Enum's own, in Python, is slow in the keys of a table

    RESTORING = "restoring"  # active, its state not complete yet
    RUNNING = "running"  # active, processing
    TAILING = "tailing"  # a standby or a warm-up
    CLOSED = "closed"


class TaskEvent(Enum):
    __hash__ = object.__hash__  # Enum's own, in Python, is slow in the keys of a table

    MADE_ACTIVE = "made active"
    MADE_COPY = "made copy"
    RESTORED = "restored"
    FAILED = "failed"  # its commit failed, and it is still assigned here
    TAKEN_AWAY = "taken away"
    LOST = "lost"


class Step(Enum):
    """One step of a transition. Each is finished before the next begins."""

    RUN = "run"  # read input from the committed offsets
    STOP = "stop"  # process no more, and forget what is not committed
    RESTORE = "restore"  # open the store if it is not open, and read the changelog to its end as of now
    TAIL = "tail"  # open the store if it is not open, and read the changelog for as long as it grows
    CLOSE = "close"  # stop reading, close the store, remember its offsets, release the folder


_S, _E = TaskState, TaskEvent
TRANSITIONS: Mapping[tuple[TaskState, TaskEvent], tuple[TaskState, tuple[Step, ...]]] = {
    (_S.CLOSED, _E.MADE_ACTIVE): (_S.RESTORING, (Step.RESTORE,)),
    (_S.CLOSED, _E.MADE_COPY): (_S.TAILING, (Step.TAIL,)),
    (_S.TAILING, _E.MADE_ACTIVE): (_S.RESTORING, (Step.RESTORE,)),
    (_S.RESTORING, _E.RESTORED): (_S.RUNNING, (Step.RUN,)),
    (_S.RESTORING, _E.MADE_COPY): (_S.TAILING, (Step.TAIL,)),
    (_S.RUNNING, _E.FAILED): (_S.RESTORING, (Step.STOP, Step.RESTORE)),
    (_S.RUNNING, _E.MADE_COPY): (_S.TAILING, (Step.STOP, Step.TAIL)),
    (_S.RUNNING, _E.TAKEN_AWAY): (_S.CLOSED, (Step.STOP, Step.CLOSE)),
    (_S.RESTORING, _E.TAKEN_AWAY): (_S.CLOSED, (Step.CLOSE,)),
    (_S.TAILING, _E.TAKEN_AWAY): (_S.CLOSED, (Step.CLOSE,)),
    (_S.RUNNING, _E.LOST): (_S.CLOSED, (Step.STOP, Step.CLOSE)),
    (_S.RESTORING, _E.LOST): (_S.CLOSED, (Step.CLOSE,)),
    (_S.TAILING, _E.LOST): (_S.CLOSED, (Step.CLOSE,)),
}
"""(state, event) -> (next state, steps). A missing pair changes nothing."""


def move(state: TaskState, event: TaskEvent) -> tuple[TaskState, tuple[Step, ...]]:
    """Return the next state, and the steps to it."""
    return TRANSITIONS.get((state, event), (state, ()))


@dataclass(frozen=True, slots=True)
class Changes:
    """What an assignment asks of the present tasks; those that leave come first, to be committed soonest."""

    leaving: Mapping[TaskId, TaskEvent] = field(default_factory=dict)
    arriving: Mapping[TaskId, TaskEvent] = field(default_factory=dict)


def changes(current: Mapping[TaskId, TaskState], active: AbstractSet[TaskId], copies: AbstractSet[TaskId]) -> Changes:
    """Compare the present tasks with the assignment. A task that stays as it is does not appear."""
    leaving: dict[TaskId, TaskEvent] = {}
    arriving: dict[TaskId, TaskEvent] = {}
    for task in sorted(current.keys() - active - copies):
        leaving[task] = TaskEvent.TAKEN_AWAY
    for task in sorted(copies):
        target = leaving if current.get(task) is TaskState.RUNNING else arriving
        _note(target, current, task, TaskEvent.MADE_COPY)
    for task in sorted(active):
        _note(arriving, current, task, TaskEvent.MADE_ACTIVE)
    return Changes(leaving, arriving)


def _note(target: dict[TaskId, TaskEvent], current: Mapping[TaskId, TaskState], task: TaskId, event: TaskEvent) -> None:
    if move(current.get(task, TaskState.CLOSED), event)[1]:
        target[task] = event
