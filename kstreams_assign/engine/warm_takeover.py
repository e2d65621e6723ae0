"""What a member of a streams group (KIP-1071) does for one that drains: restore what it will get, and answer.

``WarmTakeover.handle(event, now_ms)`` returns effects, which a shell carries out in order. Several members may drain at
a time. One that leaves says so: then its tasks come soon, and are asked for. One that is not heard of any more has
died or changed its mind, and nothing is restored for it any longer. A task without room on the disk (``warm_disk``) is
not restored, and the answer says so. What must not live here: the prediction, which is the leaver's (``warm_leave``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar

from kstreams_assign.engine.warm_disk import find_shortage
from kstreams_assign.engine.warm_join import LOOK_INTERVAL_MS, DiskMeasured, ReportShortage, WarmUp
from kstreams_assign.engine.warm_leave import REPEAT_MS, MessageHeard
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId
from kstreams_assign.wire.leave_messages import LeaveAnnounced, WarmReported

KEEP_MS = 60_000
"""How long state is kept up to date for a member that is not heard of, or that has left."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopiesMeasured:
    """Offsets that the state of each task here lacks, as far as known, and the tasks that are ``active`` here."""

    lags: Mapping[TaskId, int]
    active: frozenset[TaskId]


Event = MessageHeard | CopiesMeasured | DiskMeasured

# --- effects ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeasureDisk:
    """Measure the disk, then report ``DiskMeasured``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Write this for the member that drains."""

    message: WarmReported


@dataclass(frozen=True, slots=True)
class AwaitTasks:
    """These active tasks come soon: ask for them at once."""

    tasks: frozenset[TaskId]


Effect = WarmUp | MeasureDisk | ReportShortage | Answer | AwaitTasks


@dataclass(slots=True)
class _Leaver:
    """A member that drains. ``tasks``: those that come here, each with the offsets in its changelogs."""

    drain_id: str
    tasks: Mapping[TaskId, int]
    heard_ms: int
    leaves: bool = False
    answered: WarmReported | None = None
    answered_ms: int = 0
    without_room: frozenset[TaskId] = field(default_factory=frozenset)


class WarmTakeover:
    """The machine. Times are milliseconds of one clock, from the caller.

    ``max_bytes``: how much disk the state may take that is restored for others that leave.
    """

    def __init__(self, member_id: str, acceptable_recovery_lag: int, max_bytes: int | None = None) -> None:
        self._member_id = member_id
        self._acceptable = acceptable_recovery_lag
        self._max_bytes = max_bytes
        self._leavers: dict[str, _Leaver] = {}
        self._lags: Mapping[TaskId, int] = {}
        self._active: frozenset[TaskId] = frozenset()
        self._warming: frozenset[TaskId] = frozenset()
        self._measured_ms = 0

    @property
    def leavers(self) -> tuple[str, ...]:
        """The members that drain, or have just left, whose tasks come here."""
        return tuple(sorted(self._leavers))

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    def _message_heard(self, event: MessageHeard, now_ms: int) -> list[Effect]:
        message = event.message
        if not isinstance(message, LeaveAnnounced) or message.member_id == self._member_id:
            return []
        tasks = message.tasks.get(self._member_id, {})
        if not tasks:
            self._leavers.pop(message.member_id, None)
            return self._warm_up()
        leaver = self._leavers.get(message.member_id)
        if leaver is None or leaver.drain_id != message.drain_id:
            leaver = self._leavers[message.member_id] = _Leaver(message.drain_id, tasks, now_ms)
        leaver.tasks, leaver.heard_ms = tasks, now_ms
        effects = self._warm_up()
        if message.leaves and not leaver.leaves:
            leaver.leaves = True
            effects.append(AwaitTasks(frozenset(tasks)))
        return effects

    def _copies_measured(self, event: CopiesMeasured, now_ms: int) -> list[Effect]:
        self._lags, self._active = event.lags, event.active
        self._leavers = {name: each for name, each in self._leavers.items() if not self._is_over(each, now_ms)}
        effects = self._warm_up()
        for leaver in self._leavers.values():
            effects += self._answer(leaver, now_ms)
        if self._leavers and now_ms >= self._measured_ms + LOOK_INTERVAL_MS:
            self._measured_ms = now_ms
            effects.append(MeasureDisk())
        return effects

    def _is_over(self, leaver: _Leaver, now_ms: int) -> bool:
        has_come = leaver.leaves and leaver.tasks.keys() <= self._active
        return has_come or now_ms >= leaver.heard_ms + KEEP_MS

    def _disk_measured(self, event: DiskMeasured, _now_ms: int) -> list[Effect]:
        """Find the tasks without room. A task that did not fit once stays left out, so nothing is decided twice."""
        wanted = {task: offsets for leaver in self._leavers.values() for task, offsets in leaver.tasks.items()}
        left_out = self._without_room()
        first = wanted.keys() - left_out - self._active
        shortage = find_shortage(first, frozenset(), wanted, self._lags, event.disk, self._max_bytes, self._acceptable)
        if shortage is None:
            return []
        for leaver in self._leavers.values():
            leaver.without_room |= shortage.tasks & leaver.tasks.keys()
        return [ReportShortage(shortage), *self._warm_up()]

    def _without_room(self) -> frozenset[TaskId]:
        return frozenset().union(*(leaver.without_room for leaver in self._leavers.values()))

    def _warm_up(self) -> list[Effect]:
        tasks = frozenset().union(*(leaver.tasks for leaver in self._leavers.values())) - self._without_room()
        if tasks == self._warming:
            return []
        self._warming = tasks
        return [WarmUp(tasks)]

    def _answer(self, leaver: _Leaver, now_ms: int) -> list[Effect]:
        """Answer news at once, and the same again from time to time."""
        if leaver.leaves:
            return []
        warm = frozenset(
            task for task in leaver.tasks if task in self._active or self._lags.get(task, math.inf) <= self._acceptable
        )
        left_out = leaver.without_room & leaver.tasks.keys() - warm
        message = WarmReported(leaver.drain_id, self._member_id, warm, left_out)
        if message == leaver.answered and now_ms < leaver.answered_ms + REPEAT_MS:
            return []
        leaver.answered, leaver.answered_ms = message, now_ms
        return [Answer(message)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        MessageHeard: _message_heard,
        CopiesMeasured: _copies_measured,
        DiskMeasured: _disk_measured,
    }
