"""When a process joins a streams group (KIP-1071): once the state of the tasks that it will get is here.

The brokers' assignor has no warm-ups: a task that moves to a process without its state is silent until that is
restored. So a process restores first what the assignor would give it, while the present owners go on, and then joins.
``WarmJoin.handle(event, now_ms)`` returns effects, which a shell carries out in order.

It joins at once where waiting has no use: into a group without members or with tasks that have no owner, or if it
would get no state. Processes that start together would join together and get other tasks than was predicted for each
alone. So each waits a moment of its own once it is warm, looks at the group again, and follows it if another has
joined: they join one after the other. A task without room on the disk (``warm_disk``) is not restored first, and not
waited for. What must not live here: the prediction (``observe.streams_join``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar

from kstreams_assign.engine.warm_disk import Disk, Shortage, find_shortage
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import Outlook
from kstreams_assign.model import TaskId

LOOK_INTERVAL_MS = 1_000
"""How often the group is looked at: members that come and go change what this process will get."""

STAGGER_MS = 2_000
"""A warm process waits less than this for others that are warm, too."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """What this process would get if it joined now. ``offsets``: how much the changelogs of each task hold."""

    outlook: Outlook
    offsets: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookFailed:
    """The group could not be looked at. ``passing``: another attempt may succeed."""

    reason: str
    passing: bool


@dataclass(frozen=True, slots=True)
class LagsMeasured:
    """Offsets that each task's state here lacks; a task whose state is not open yet is missing."""

    lags: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True)
class DiskMeasured:
    """The disk of the state directory, as of now; reported after each look."""

    disk: Disk


Event = Started | GroupSeen | LookFailed | LagsMeasured | DiskMeasured

# --- effects ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookAtGroup:
    """Look at the group, then report ``GroupSeen`` or ``LookFailed``, and ``DiskMeasured``."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Restore the state of these tasks, and no other."""

    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class ReportShortage:
    """Warn that the state of tasks is not restored before joining, for want of room."""

    shortage: Shortage


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Join now. ``awaited``: the active tasks that should come."""

    reason: str
    awaited: frozenset[TaskId] = frozenset()


Effect = LookAtGroup | WarmUp | ReportShortage | JoinGroup


class WarmJoin:
    """The machine, for one join. Times are milliseconds of one clock, from the caller.

    ``stagger_ms``: how long this process waits once it is warm; another number in each process. ``max_bytes``: how much
    disk the state may take that it restores.
    """

    def __init__(
        self, acceptable_recovery_lag: int, timeout_ms: int, stagger_ms: int, max_bytes: int | None = None
    ) -> None:
        self._acceptable = acceptable_recovery_lag
        self._timeout_ms = timeout_ms
        self._max_bytes = max_bytes
        self._stagger_ms = stagger_ms
        self._ends_ms = self._looked_ms = 0
        self._turn_ms: int | None = None
        self._outlook: Outlook | None = None
        self._offsets: Mapping[TaskId, int] = {}
        self._lags: Mapping[TaskId, int] = {}
        self._without_room: frozenset[TaskId] = frozenset()
        """Tasks that did not fit once: they stay left out, so that a disk that is nearly full decides nothing twice."""
        self._warming: frozenset[TaskId] = frozenset()
        self.joins = False
        """Whether ``JoinGroup`` was returned: then nothing more follows."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return [] if self.joins else self._REACTIONS[type(event)](self, event, now_ms)

    def _started(self, _event: Started, now_ms: int) -> list[Effect]:
        self._ends_ms = now_ms + self._timeout_ms
        return self._look(now_ms)

    def _look(self, now_ms: int) -> list[Effect]:
        self._looked_ms = now_ms
        return [LookAtGroup()]

    def _group_seen(self, event: GroupSeen, _now_ms: int) -> list[Effect]:
        outlook = event.outlook
        if outlook.at_once is not None:
            return self._join(outlook.at_once)
        if not outlook.state:
            return self._join("it gets no task with state", outlook.active)
        before, self._outlook, self._offsets = self._outlook, outlook, event.offsets
        if before != outlook:
            self._turn_ms = None
        return self._warm_up(outlook)

    def _warm_up(self, outlook: Outlook) -> list[Effect]:
        tasks = outlook.restorable - self._without_room
        if tasks == self._warming:
            return []
        self._warming = tasks
        return [WarmUp(tasks)]

    def _look_failed(self, event: LookFailed, now_ms: int) -> list[Effect]:
        if not event.passing:
            return self._join(f"what it will get is not known: {event.reason}")
        return self._time_out(now_ms)

    def _lags_measured(self, event: LagsMeasured, now_ms: int) -> list[Effect]:
        self._lags = event.lags
        if ended := self._time_out(now_ms):
            return ended
        if self._outlook is not None and self._is_warm(self._outlook.state - self._without_room, event.lags):
            return self._take_turn(self._outlook, now_ms)
        self._turn_ms = None
        return self._look(now_ms) if now_ms >= self._looked_ms + LOOK_INTERVAL_MS else []

    def _disk_measured(self, event: DiskMeasured, _now_ms: int) -> list[Effect]:
        outlook = self._outlook
        if outlook is None:
            return []
        left = self._without_room
        first, then = outlook.state - left, outlook.standby - left
        shortage = find_shortage(first, then, self._offsets, self._lags, event.disk, self._max_bytes, self._acceptable)
        if shortage is None:
            return []
        self._without_room |= shortage.tasks
        return [ReportShortage(shortage), *self._warm_up(outlook)]

    def _is_warm(self, state: frozenset[TaskId], lags: Mapping[TaskId, int]) -> bool:
        return state <= {task for task, lag in lags.items() if lag <= self._acceptable}

    def _take_turn(self, outlook: Outlook, now_ms: int) -> list[Effect]:
        """Join if the group is as it was, as of a look that was made when the turn came."""
        if self._turn_ms is None:
            self._turn_ms = now_ms + self._stagger_ms
        if now_ms < self._turn_ms:
            return []
        if self._looked_ms < self._turn_ms:
            return self._look(now_ms)
        cold = outlook.state & self._without_room
        warm = f"{_counted(len(outlook.state - cold))} warm"
        return self._join(f"{warm}, and {len(cold)} had no room on the disk" if cold else warm, outlook.active)

    def _time_out(self, now_ms: int) -> list[Effect]:
        if now_ms < self._ends_ms:
            return []
        awaited = frozenset() if self._outlook is None else self._outlook.active
        return self._join(f"its state is not warm after warm_join_timeout_ms = {self._timeout_ms}", awaited)

    def _join(self, reason: str, awaited: frozenset[TaskId] = frozenset()) -> list[Effect]:
        self.joins = True
        return [JoinGroup(reason, awaited)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Started: _started,
        GroupSeen: _group_seen,
        LookFailed: _look_failed,
        LagsMeasured: _lags_measured,
        DiskMeasured: _disk_measured,
    }


def _counted(tasks: int) -> str:
    return "1 task is" if tasks == 1 else f"{tasks} tasks are"
