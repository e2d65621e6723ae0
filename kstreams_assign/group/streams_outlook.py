"""What moves in a streams group (KIP-1071) when a process joins or leaves: predictions as the values to decide by.

What must not live here: the predictions (``observe.streams_join`` and ``streams_leave``), and whether to wait
(``engine.warm_join`` and ``warm_leave``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A process that is about to join with one member: what the brokers' assignor decides by."""

    member_id: str
    process_id: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a process would get if it joined now: ``active`` tasks, those of them with ``state``, ``standby`` tasks.

    If others join with it, that is what it has after all have joined. ``passing``: tasks with state that it would have
    besides, until the others have joined, too.

    ``at_once``: why it should join without restoring anything first, and then the tasks are not known; None: it may
    wait.
    """

    active: frozenset[TaskId] = frozenset()
    state: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    passing: frozenset[TaskId] = frozenset()
    at_once: str | None = None

    @property
    def restorable(self) -> frozenset[TaskId]:
        """Return the tasks whose state can be restored before joining."""
        return self.state | self.standby | self.passing


@dataclass(frozen=True, slots=True)
class LeaveOutlook:
    """What the others get if processes leave now: ``state`` has each member's new active tasks that have state.

    ``away``: the static members that would get tasks, with state or without, and run none until they are back; each
    with its instance id.
    ``at_once``: why they should leave without waiting, and then the tasks are not known; None: they may wait.
    """

    state: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    at_once: str | None = None
