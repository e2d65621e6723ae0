"""When a process joins a streams group (KIP-1071): once the state of the tasks that it will get is here.

The brokers' assignor has no warm-ups: a task that moves to a process without its state is silent until that is
restored. So a process restores first what the assignor would give it, while the present owners go on, and then joins.
``WarmJoin.handle(event, now_ms)`` returns effects, which a shell carries out in order.

It joins at once where waiting has no use: into a group without members or with tasks that have no owner, or if it
would get no state. But tasks that a member has just left go to the others first, and it looks again after that. A task
without room on the disk (``warm_disk``) is not restored first, and not waited for.

Processes that start together would get other tasks than each predicts for itself alone, and other ones again in
another order of joining. So they announce themselves (``joiners``), agree on an order, and each predicts what it has
after all of them have joined. The brokers assign at a join, but only once a second. So the first joins once all are
warm; the others follow as soon as they hear that it has joined and see that it was assigned, and are assigned together.
Each looks at the group before it joins, so a change is noticed, and what is missing is restored first. What the first
has until the others come is restored, too, as long as that takes half of its time at most. State that was restored for
an earlier prediction is kept, as long as the disk has room.

No process waits for others longer than it restored itself (and ten seconds at least): then it joins alone, before
them. Where announcements cannot be exchanged, each waits a moment of its own once it is warm, looks at the group
again, and follows it if another has joined. What must not live here: the prediction (``observe.streams_join``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar

from kstreams_assign.engine.joiners import Joiners
from kstreams_assign.engine.warm_disk import Disk, Shortage, find_shortage
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import Newcomer, Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.wire.join_messages import JoinAnnounced, Stage

LOOK_INTERVAL_MS = 1_000
"""How often the group is looked at: members that come and go change what this process will get."""

STAGGER_MS = 2_000
"""A warm process without announcements waits less than this for others that are warm, too."""

GATHER_MS = 2_000
"""How long a process hears who else is about to join, after it has read its own announcement, before it joins."""

PATIENCE_MS = 10_000
"""How long a warm process waits at least for others that are not; at most as long as it restored itself."""

FOLLOW_MS = 100
"""How often the group is looked at until the brokers have assigned one that has just joined."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """What this process would get if it joined now. ``offsets``: how much the changelogs of each task hold."""

    outlook: Outlook
    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    member_ids: frozenset[str] = frozenset()
    assigned_ids: frozenset[str] = frozenset()
    """The members that the brokers have assigned since they joined, as far as can be seen."""


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


@dataclass(frozen=True, slots=True)
class JoinHeard:
    """An announcement of any process, this one included."""

    message: JoinAnnounced


@dataclass(frozen=True, slots=True)
class AnnouncementsRefused:
    """Announcements cannot be written or read, for good."""


@dataclass(frozen=True, slots=True)
class JoinEnded:
    """This process is a member now, or else will not be one."""

    is_member: bool


Event = Started | GroupSeen | LookFailed | LagsMeasured | DiskMeasured | JoinHeard | AnnouncementsRefused | JoinEnded

# --- effects ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookAtGroup:
    """Look at the group, then report ``GroupSeen`` or ``LookFailed``, and ``DiskMeasured``.

    ``joining``: the processes that join, in this order and this one among them. ``is_interval_open``: another has just
    joined.
    """

    joining: tuple[Newcomer, ...]
    is_interval_open: bool = False


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
    """Join now. ``awaited``: the active tasks that should come; if none is expected, those whose state is here."""

    reason: str
    awaited: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class AnnounceJoin:
    """Write this for the other processes."""

    message: JoinAnnounced


Effect = LookAtGroup | WarmUp | ReportShortage | JoinGroup | AnnounceJoin


class WarmJoin:
    """The machine, for one join. Times are milliseconds of one clock, from the caller.

    ``stagger_ms``: how long this process waits once it is warm, without announcements; another number in each process.
    ``max_bytes``: how much disk the state may take that it restores.
    """

    def __init__(
        self,
        joiners: Joiners,
        acceptable_recovery_lag: int,
        timeout_ms: int,
        stagger_ms: int,
        max_bytes: int | None = None,
    ) -> None:
        self._joiners = joiners
        self._acceptable = acceptable_recovery_lag
        self._timeout_ms = timeout_ms
        self._max_bytes = max_bytes
        self._stagger_ms = stagger_ms
        self._began_ms = self._looked_ms = self._seen_ms = 0
        self._look_made: LookAtGroup | None = None
        self._announces = True
        self._stage = Stage.RESTORING
        self._first_warm_ms: int | None = None
        self._turn_ms: int | None = None
        self.outlook: Outlook | None = None
        """What it will get, as of the last look; None: not known yet."""
        self._offsets: Mapping[TaskId, int] = {}
        self._lags: Mapping[TaskId, int] = {}
        self._without_room: frozenset[TaskId] = frozenset()
        """Tasks that did not fit once: they stay left out, so that a disk that is nearly full decides nothing twice."""
        self._warming: frozenset[TaskId] = frozenset()
        self._keeps = True
        """Whether state that was restored for an earlier prediction is kept."""
        self.joins = False
        """Whether ``JoinGroup`` was returned: then only the last announcement follows."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        is_over = self.joins and not isinstance(event, JoinEnded)
        return [] if is_over else self._REACTIONS[type(event)](self, event, now_ms)

    def warm(self) -> frozenset[TaskId]:
        """Return the tasks whose state here is within the acceptable lag."""
        return frozenset(task for task, lag in self._lags.items() if lag <= self._acceptable)

    def _started(self, _event: Started, now_ms: int) -> list[Effect]:
        self._began_ms = now_ms
        return self._look(now_ms)

    # --- what it will get -------------------------------------------------------------

    def _look(self, now_ms: int) -> list[Effect]:
        self._looked_ms, self._look_made = now_ms, self._next_look(now_ms)
        return [self._look_made]

    def _next_look(self, now_ms: int) -> LookAtGroup:
        return LookAtGroup(self._joiners.order(now_ms), self._joiners.is_open(now_ms))

    def _group_seen(self, event: GroupSeen, now_ms: int) -> list[Effect]:
        outlook, before = event.outlook, self.outlook
        self._seen_ms = self._looked_ms
        if outlook.at_once is not None:
            return self._join(outlook.at_once)
        if not outlook.state and self._joiners.first_said_ms is None:  # one that announced itself joins in its turn
            return self._join("it gets no task with state", outlook.active)
        self._joiners.see(event.member_ids, event.assigned_ids, now_ms)
        self.outlook, self._offsets = outlook, event.offsets
        if before != outlook:
            self._turn_ms, self._stage = None, Stage.RESTORING
        return [*self._warm_up(outlook), *(self._announce(now_ms) if before is None else [])]

    def _warm_up(self, outlook: Outlook) -> list[Effect]:
        """Restore what is expected, and keep what is here of what was."""
        kept = self._warming & self.warm() if self._keeps else frozenset()
        tasks = (outlook.restorable | kept) - self._without_room
        if tasks == self._warming:
            return []
        self._warming = tasks
        return [WarmUp(tasks)]

    def _look_failed(self, event: LookFailed, now_ms: int) -> list[Effect]:
        if not event.passing:
            return self._join(f"what it will get is not known: {event.reason}")
        return self._time_out(now_ms)

    def _disk_measured(self, event: DiskMeasured, _now_ms: int) -> list[Effect]:
        """Find the tasks without room. State that is only kept goes first."""
        outlook = self.outlook
        if outlook is None:
            return []
        first = outlook.state - self._without_room
        then = (self._warming | outlook.restorable) - first - self._without_room
        shortage = find_shortage(first, then, self._offsets, self._lags, event.disk, self._max_bytes, self._acceptable)
        if shortage is None:
            return []
        if self._warming - outlook.restorable:
            self._keeps = False
            return self._warm_up(outlook)
        self._without_room |= shortage.tasks
        return [ReportShortage(shortage), *self._warm_up(outlook)]

    # --- the others -------------------------------------------------------------------

    def _join_heard(self, event: JoinHeard, now_ms: int) -> list[Effect]:
        self._joiners.hear(event.message, now_ms)
        return []

    def _announcements_refused(self, _event: AnnouncementsRefused, _now_ms: int) -> list[Effect]:
        self._announces, self._joiners.is_alone, self._turn_ms = False, True, None
        return []

    def _announce(self, now_ms: int) -> list[Effect]:
        message = self._joiners.due(self._stage, now_ms) if self._announces else None
        return [] if message is None else [AnnounceJoin(message)]

    def _join_ended(self, event: JoinEnded, now_ms: int) -> list[Effect]:
        """Say once how it ended, if this process has announced itself."""
        is_known = self._joiners.first_said_ms is not None and self._stage in (Stage.RESTORING, Stage.WARM)
        self.joins, self._stage = True, Stage.JOINED if event.is_member else Stage.GONE
        return self._announce(now_ms) if is_known else []

    # --- when it joins ----------------------------------------------------------------

    def _lags_measured(self, event: LagsMeasured, now_ms: int) -> list[Effect]:
        self._lags = event.lags
        if ended := self._time_out(now_ms):
            return ended
        outlook = self.outlook
        if outlook is None:
            return self._look_if_due(now_ms, LOOK_INTERVAL_MS)
        is_warm = outlook.state - self._without_room <= self.warm()
        if is_warm:
            self._stage = Stage.WARM
            self._be_patient(now_ms)
        effects = self._announce(now_ms)
        if self._next_look(now_ms) != self._look_made:
            return effects + self._look(now_ms)
        return effects + (self._take_turn(outlook, now_ms) if is_warm else self._wait(now_ms))

    def _be_patient(self, now_ms: int) -> None:
        """Wait for no other any longer once the patience is over."""
        if self._first_warm_ms is None:
            self._first_warm_ms = now_ms
        if now_ms >= self._first_warm_ms + self._patience_ms and self._joiners.others(now_ms):
            self._joiners.is_alone = True

    @property
    def _patience_ms(self) -> int:
        restored_ms = 0 if self._first_warm_ms is None else self._first_warm_ms - self._began_ms
        return max(PATIENCE_MS, restored_ms)

    def _wait(self, now_ms: int, interval_ms: int = LOOK_INTERVAL_MS) -> list[Effect]:
        self._turn_ms = None
        return self._look_if_due(now_ms, interval_ms)

    def _look_if_due(self, now_ms: int, interval_ms: int) -> list[Effect]:
        return self._look(now_ms) if now_ms >= self._looked_ms + interval_ms else []

    def _take_turn(self, outlook: Outlook, now_ms: int) -> list[Effect]:
        """Join if the group is as it was, as of a look that was made when the turn came."""
        is_open = self._joiners.is_open(now_ms)
        if is_open and not self._joiners.is_first_assigned:
            return self._wait(now_ms, FOLLOW_MS)
        if self._announces and not self._is_my_turn(outlook, now_ms, is_open=is_open):
            return self._wait(now_ms)
        if self._turn_ms is None and is_open:
            self._turn_ms = self._looked_ms  # the last look was made since another has joined
        elif self._turn_ms is None:
            self._turn_ms = now_ms + (0 if self._announces else self._stagger_ms)
        if now_ms < self._turn_ms:
            return []
        if self._looked_ms < self._turn_ms:
            return self._look(now_ms)
        if self._seen_ms < self._turn_ms:  # that look has failed
            return self._look_if_due(now_ms, LOOK_INTERVAL_MS)
        return self._join(self._outcome(outlook, now_ms), outlook.active)

    def _is_my_turn(self, outlook: Outlook, now_ms: int, *, is_open: bool) -> bool:
        if not self._has_gathered(now_ms):
            return False
        others = self._joiners.others(now_ms)
        if self._joiners.is_alone:  # one after the other
            return not any(
                other.is_alone and other.stage is Stage.WARM and self._joiners.follows(other) for other in others
            )
        if any(other.stage is not Stage.WARM for other in others):
            return False
        is_first = self._joiners.order(now_ms)[0] == self._joiners.newcomer
        return is_open or (is_first and self._has_passing(outlook, now_ms))

    def _has_gathered(self, now_ms: int) -> bool:
        """Return whether this process has heard long enough who joins; in an outage it need not hear itself."""
        said_ms, heard_ms = self._joiners.first_said_ms, self._joiners.first_heard_ms
        if heard_ms is not None:
            return now_ms >= heard_ms + GATHER_MS
        return said_ms is not None and now_ms >= said_ms + PATIENCE_MS

    def _has_passing(self, outlook: Outlook, now_ms: int) -> bool:
        """Return whether what it has until the others have joined is warm, or not waited for any longer."""
        since_ms = now_ms if self._first_warm_ms is None else self._first_warm_ms
        return outlook.passing - self._without_room <= self.warm() or now_ms >= since_ms + self._patience_ms // 2

    def _outcome(self, outlook: Outlook, now_ms: int) -> str:
        cold = outlook.state & self._without_room
        text = f"{_counted(len(outlook.state - cold))} warm"
        if cold:
            text += f", and {len(cold)} had no room on the disk"
        count = self._joiners.count(now_ms)
        return f"{text}; {count} {'other joins' if count == 1 else 'others join'} with it" if count else text

    def _time_out(self, now_ms: int) -> list[Effect]:
        if now_ms < self._began_ms + self._timeout_ms:
            return []
        expected = frozenset() if self.outlook is None else self.outlook.active
        return self._join(f"its state is not warm after warm_join_timeout_ms = {self._timeout_ms}", expected)

    def _join(self, reason: str, expected: frozenset[TaskId] = frozenset()) -> list[Effect]:
        """Join. Where no active task is expected, await those whose state is restored here: they may come later."""
        self.joins = True
        standby = frozenset() if self.outlook is None else self.outlook.standby
        return [JoinGroup(reason, expected or self._warming - standby)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Started: _started,
        GroupSeen: _group_seen,
        LookFailed: _look_failed,
        LagsMeasured: _lags_measured,
        DiskMeasured: _disk_measured,
        JoinHeard: _join_heard,
        AnnouncementsRefused: _announcements_refused,
        JoinEnded: _join_ended,
    }


def _counted(tasks: int) -> str:
    return "1 task is" if tasks == 1 else f"{tasks} tasks are"
