"""The shell of ``engine.warm_join``: look at a streams group, have state restored, wait until it is time to join."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from secrets import randbelow
from typing import Protocol, assert_never

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.config import Config
from kstreams_assign.engine import warm_join as engine
from kstreams_assign.engine.warm_disk import Disk, Shortage
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, MalformedUserData, NotAStreamsGroup
from kstreams_assign.events import NoRoomEvent, WarmingUpEvent
from kstreams_assign.group.member import Started
from kstreams_assign.model import TaskId, task_names
from kstreams_assign.observe.streams_join import outlook
from kstreams_assign.worker.events import EventLog
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
    """For one thread, before the first heartbeat."""

    def __init__(
        self,
        config: Config,
        process_id: str,
        member_id: str,
        group: GroupLook,
        copies: Copies,
        lags: Callable[[], Mapping[TaskId, int]],
        disk: Callable[[], Disk | None],
        log: EventLog,
    ) -> None:
        self._config = config
        self._process_id, self._member_id = process_id, member_id
        self._group = group
        self._copies = copies
        self._lags = lags
        self._disk = disk
        self._log = log
        self._engine = engine.WarmJoin(
            config.acceptable_recovery_lag, config.warm_join_timeout_ms, draw_stagger_ms(), config.warm_join_max_bytes
        )
        self._join: engine.JoinGroup | None = None

    def wait(self, ended: Callable[[], bool]) -> engine.JoinGroup | None:
        """Return why to join now, and what to expect; None once ``ended``."""
        if not self._config.warm_join:
            return AT_ONCE
        self._handle(Started())
        while self._join is None and not ended():
            threading.Event().wait(TURN_S)
            self._handle(engine.LagsMeasured(self._lags()))
        return self._join

    def _handle(self, event: engine.Event) -> None:
        for effect in self._engine.handle(event, monotonic_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: engine.Effect) -> None:
        match effect:
            case engine.LookAtGroup():
                self._handle(self._look())
                if (disk := self._disk()) is not None:
                    self._handle(engine.DiskMeasured(disk))
            case engine.WarmUp(tasks):
                self._log.emit(WarmingUpEvent(tasks=task_names(tasks)))
                self._copies.warm_up(tasks)
            case engine.ReportShortage(shortage):
                self._log.emit(no_room(self._config, shortage, "this process joins"))
            case engine.JoinGroup():
                self._join = effect
            case _:
                assert_never(effect)

    def _look(self) -> engine.GroupSeen | engine.LookFailed:
        try:
            seen, offsets = outlook(self._group.snapshot(), self._process_id, self._member_id)
        except BrokerUnavailable as cause:
            return engine.LookFailed(str(cause), passing=True)
        except (BrokerError, MalformedUserData, NotAStreamsGroup, ConfigError) as cause:
            return engine.LookFailed(str(cause), passing=False)
        return engine.GroupSeen(seen, offsets)
