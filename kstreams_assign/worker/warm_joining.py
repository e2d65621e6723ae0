"""The shell of ``engine.warm_join``: look at a streams group, have state restored, wait until it is time to join."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from secrets import randbelow
from typing import Protocol, assert_never

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.config import Config
from kstreams_assign.engine import warm_join as engine
from kstreams_assign.engine.joiners import Joiners
from kstreams_assign.engine.warm_disk import Disk, Shortage
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, MalformedUserData, NotAStreamsGroup
from kstreams_assign.events import NoRoomEvent, WarmingUpEvent
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import Newcomer
from kstreams_assign.model import TaskId, task_names
from kstreams_assign.observe.streams_join import NotAssigned, outlook
from kstreams_assign.status.views import JoinView
from kstreams_assign.wire import DescribedStreamsMember
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.join_announcements import JoinAnnouncements
from kstreams_assign.worker.streams_look import GroupLook

TURN_S = 0.05

AT_ONCE = engine.JoinGroup("warm_join = false")


def draw_stagger_ms() -> int:
    """Return a moment to wait, another one in each process."""
    return randbelow(engine.STAGGER_MS)


def no_room(config: Config, shortage: Shortage, before: str) -> NoRoomEvent:
    """Return the warning that state is not restored ``before`` its tasks come."""
    tasks = task_names(shortage.tasks)
    if shortage.limit == "state_dir":
        fix = "give its disk more room, or start more processes"
    else:
        fix = "raise it to restore more first"
    text = (
        f"{shortage.limit} = {getattr(config, shortage.limit)}: the state of {', '.join(tasks)} is not restored before "
        f"{before}: about {shortage.needed_bytes:,} bytes are still missing, and there is room for "
        f"{shortage.room_bytes:,}; these tasks will be silent while it is restored; {fix}"
    )
    return NoRoomEvent(tasks=tasks, warnings=(text,))


class Copies(Protocol):
    """Who restores the state of tasks that others run."""

    def warm_up(self, tasks: frozenset[TaskId]) -> None:
        """Restore the state of these tasks, and no other's."""
        ...


class WarmJoining:
    """For one thread, until the first heartbeat was answered; ``view`` is for any thread."""

    def __init__(
        self,
        config: Config,
        newcomer: Newcomer,
        group: GroupLook,
        copies: Copies,
        announcements: JoinAnnouncements,
        lags: Callable[[], Mapping[TaskId, int]],
        disk: Callable[[], Disk | None],
        log: EventLog,
    ) -> None:
        self._config = config
        self._newcomer = newcomer
        self._group = group
        self._copies = copies
        self._announcements = announcements
        self._lags = lags
        self._disk = disk
        self._log = log
        self._joiners = Joiners(newcomer, wall_ms())
        self._engine = engine.WarmJoin(
            self._joiners,
            config.acceptable_recovery_lag,
            config.warm_join_timeout_ms,
            draw_stagger_ms(),
            config.warm_join_max_bytes,
        )
        self._is_refused = False
        self._others: tuple[str, ...] = ()
        self._join: engine.JoinGroup | None = None
        self.view: JoinView | None = None
        """What it restores before it joins; None while it does not wait."""

    def wait(self, ended: Callable[[], bool]) -> engine.JoinGroup | None:
        """Return why to join now, and what to expect; None once ``ended``. Call ``end`` after that."""
        if not self._config.warm_join:
            return AT_ONCE
        self._handle(Started())
        while self._join is None and not ended():
            threading.Event().wait(TURN_S)
            self._turn()
        self.view = None
        return self._join

    def join_at_once(self, reason: str) -> None:
        """End the wait; from any thread."""
        self._join = engine.JoinGroup(reason)

    def _turn(self) -> None:
        for message in self._announcements.heard():
            self._handle(engine.JoinHeard(message))
        if self._announcements.is_refused and not self._is_refused:
            self._is_refused = True
            self._handle(engine.AnnouncementsRefused())
        self._handle(engine.LagsMeasured(self._lags()))
        if (expected := self._engine.outlook) is not None:
            warm = expected.restorable & self._engine.warm()
            self.view = JoinView(expected.restorable, warm, self._joiners.count(monotonic_ms()))

    def end(self, *, is_member: bool) -> None:
        """Let the others know that this process is a member, or will not be one. Later calls have no effect."""
        self._handle(engine.JoinEnded(is_member))
        self._announcements.close()

    def _handle(self, event: engine.Event) -> None:
        for effect in self._engine.handle(event, monotonic_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: engine.Effect) -> None:
        match effect:
            case engine.LookAtGroup():
                self._others = tuple(each.member_id for each in effect.joining if each != self._newcomer)
                self._handle(self._look(effect))
                if (disk := self._disk()) is not None:
                    self._handle(engine.DiskMeasured(disk))
            case engine.WarmUp(tasks):
                self._log.emit(WarmingUpEvent(tasks=task_names(tasks), joiners=self._others))
                self._copies.warm_up(tasks)
            case engine.ReportShortage(shortage):
                self._log.emit(no_room(self._config, shortage, "this process joins"))
            case engine.AnnounceJoin(message):
                self._announcements.publish(message)
            case engine.JoinGroup():
                self._join = effect
            case _:
                assert_never(effect)

    def _look(self, effect: engine.LookAtGroup) -> engine.GroupSeen | engine.LookFailed:
        is_open = effect.is_interval_open
        try:
            snapshot = self._group.snapshot()
            seen, offsets = outlook(snapshot, self._newcomer, effect.joining, is_interval_open=is_open)
        except (BrokerUnavailable, NotAssigned) as cause:
            return engine.LookFailed(str(cause), passing=True)
        except (BrokerError, MalformedUserData, NotAStreamsGroup, ConfigError) as cause:
            return engine.LookFailed(str(cause), passing=False)
        group = None if snapshot is None else snapshot.group
        if group is None:
            return engine.GroupSeen(seen, offsets)
        is_assigned = group.assignment_epoch == group.group_epoch
        assigned = (member for member in group.members if is_assigned or member.target_assignment.active_tasks)
        return engine.GroupSeen(seen, offsets, _ids(group.members), _ids(assigned))


def _ids(members: Iterable[DescribedStreamsMember]) -> frozenset[str]:
    return frozenset(member.member_id for member in members)
