"""The shell of ``engine.warm_leave`` and ``engine.warm_takeover``: a streams group prepares for a member that drains.

One thread reads and writes the application's topic (``progress_topic``): a record's key is the member id, its header
``leave`` marks it, and its value is a message of ``wire.leave_messages``. A process that may not write or read the
topic gets no help when it drains, and gives none. What must not live here: whom to wait for, and what to restore.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Protocol, assert_never
from uuid import uuid4

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.engine import warm_leave, warm_takeover
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.engine.warm_join import DiskMeasured, LookFailed, ReportShortage, WarmUp
from kstreams_assign.engine.warm_leave import MessageHeard
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    KStreamsAssignError,
    MalformedUserData,
    NotAStreamsGroup,
)
from kstreams_assign.events import (
    DrainRefusedEvent,
    ProgressUnreadableEvent,
    WarmingElsewhereEvent,
    WarmingUpEvent,
    WarmLeaveEvent,
    WarmLeaveOffEvent,
)
from kstreams_assign.group.member import Started
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopologyShape, task_names
from kstreams_assign.observe.streams_leave import leave_outlook
from kstreams_assign.status.views import DrainView
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.leave_messages import LeaveMessage, read_leave_message, write_leave_message
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.progress_topic import ProgressTopic, let_outages_pass
from kstreams_assign.worker.streams_look import GroupLook
from kstreams_assign.worker.warm_joining import no_room

IDLE_S, BUSY_S = 0.5, 0.1
"""How often the topic is read: while no member drains, and while one does."""

FLUSH_S = 2.0

LEAVE = "leave"

COLD = "this member leaves without warming its tasks up elsewhere"


class Replicas(Protocol):
    """Who restores the state of tasks that others run, and knows which tasks run here."""

    @property
    def adopted(self) -> Adopted | None:
        """The present assignment; None while this is no member."""
        ...

    def keep_for_leavers(self, tasks: frozenset[TaskId]) -> None:
        """Keep the state of these tasks up to date, and no other's for this reason."""
        ...


class WarmLeaving:
    """Runs in a thread of its own. ``drain`` and ``view`` are for any thread.

    ``await_tasks`` is called when tasks come soon, ``drained`` once this member may leave.
    """

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        member_id: str,
        topic: ProgressTopic,
        open_look: Callable[[], AbstractContextManager[GroupLook]],
        replicas: Replicas,
        lags: Callable[[], Mapping[TaskId, int]],
        disk: Callable[[], Disk | None],
        log: EventLog,
        await_tasks: Callable[[frozenset[TaskId]], None],
        drained: Callable[[], None],
    ) -> None:
        self._config = config
        self._member_id = member_id
        self._topic = topic
        self._open_look = open_look
        self._replicas = replicas
        self._lags = lags
        self._disk = disk
        self._log = log
        self._await_tasks = await_tasks
        self._drained = drained
        self._has_state = any(subtopology.logged for subtopology in shape.subtopologies)
        self._off = None if config.warm_join else "warm_join = false"
        self._asked = threading.Event()
        self._leave: warm_leave.WarmLeave | None = None
        self._takeover = warm_takeover.WarmTakeover(
            member_id, config.acceptable_recovery_lag, config.warm_join_max_bytes
        )
        self._look: GroupLook | None = None

    def drain(self) -> None:
        """Have the tasks warmed up where they will go, then call ``drained``; at once where that is off."""
        self._asked.set()
        if not self._has_state:
            self._log.emit(WarmLeaveEvent(reason="no task has state", warm=(), cold=()))
            self._drained()
        elif self._off is not None:
            self._refuse(self._off)

    def view(self) -> DrainView | None:
        """Return whose tasks are restored where, while this member drains."""
        leave = self._leave
        if leave is None:
            return None
        owners = {task: name for name, tasks in leave.gains.items() for task in tasks}
        return DrainView(owners, leave.warm, tuple(sorted(leave.away.values())))

    def run(self, stopped: EndRequest) -> None:
        """Run until ``stopped``. If the broker refuses, this ends with a warning; other errors are tried again."""
        if self._off is not None or not self._has_state:
            return
        with ExitStack() as clients:
            try:
                while not stopped.wait(BUSY_S if self._leave or self._takeover.leavers else IDLE_S):
                    self._turn(clients)
            except KStreamsAssignError as cause:
                self._turn_off(str(cause))

    def _turn_off(self, reason: str) -> None:
        self._off = reason
        self._log.emit(WarmLeaveOffEvent(warnings=(f"{reason}; no tasks are warmed up when a member drains",)))
        self._replicas.keep_for_leavers(frozenset())
        if self._asked.is_set():
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        self._log.emit(DrainRefusedEvent(warnings=(f"{reason}: {COLD}",)))
        self._drained()

    def _turn(self, clients: ExitStack) -> None:
        """Hear the others, and go on. The topic is read before the first drain, too, so that none is missed."""
        messages = list(self._heard(clients))
        if self._leave is None and self._asked.is_set():
            self._leave = warm_leave.WarmLeave(uuid4().hex, self._member_id, self._config.warm_join_timeout_ms)
            self._go_on(self._leave, Started(), clients)
        leave = self._leave
        for message in messages:
            if leave is not None:
                self._go_on(leave, MessageHeard(message), clients)
            else:
                self._take(MessageHeard(message), clients)
        if leave is not None:
            self._go_on(leave, warm_leave.Turned(), clients)
        elif self._takeover.leavers:
            adopted = self._replicas.adopted
            active = frozenset() if adopted is None else frozenset(adopted.active)
            self._take(warm_takeover.CopiesMeasured(self._lags(), active), clients)

    # --- a member that drains -----------------------------------------------------------

    def _go_on(self, leave: warm_leave.WarmLeave, event: warm_leave.Event, clients: ExitStack) -> None:
        for effect in leave.handle(event, monotonic_ms()):
            match effect:
                case warm_leave.LookAtLeave(others):
                    self._go_on(leave, self._seen(others, clients), clients)
                case warm_leave.Announce(message, is_news):
                    if is_news:
                        owners = {str(task): name for name, tasks in message.tasks.items() for task in tasks}
                        self._log.emit(WarmingElsewhereEvent(tasks=owners, away=tuple(sorted(leave.away.values()))))
                    self._publish(message, clients)
                    if message.leaves:  # its clients are closed soon
                        self._flush()
                case warm_leave.LeaveGroup():
                    self._leave_group(effect)
                case _:
                    assert_never(effect)

    def _leave_group(self, effect: warm_leave.LeaveGroup) -> None:
        if effect.is_refused:
            self._refuse(effect.reason)
            return
        warm, cold = task_names(effect.warm), task_names(effect.cold)
        self._log.emit(WarmLeaveEvent(reason=effect.reason, warm=warm, cold=cold))
        self._drained()

    def _seen(self, others: frozenset[str], clients: ExitStack) -> warm_leave.LeaveSeen | LookFailed:
        try:
            look = self._look = self._look or clients.enter_context(self._open_look())
            outlook, offsets = leave_outlook(look.snapshot(), self._member_id, others)
        except BrokerUnavailable as cause:
            return LookFailed(str(cause), passing=True)
        except (BrokerError, MalformedUserData, NotAStreamsGroup, ConfigError) as cause:
            return LookFailed(str(cause), passing=False)
        return warm_leave.LeaveSeen(outlook, offsets)

    # --- a member that stays --------------------------------------------------------------

    def _take(self, event: warm_takeover.Event, clients: ExitStack) -> None:
        for effect in self._takeover.handle(event, monotonic_ms()):
            match effect:
                case WarmUp(tasks):
                    if tasks:
                        self._log.emit(WarmingUpEvent(tasks=task_names(tasks), leavers=self._takeover.leavers))
                    self._replicas.keep_for_leavers(tasks)
                case warm_takeover.MeasureDisk():
                    if (disk := self._disk()) is not None:
                        self._take(DiskMeasured(disk), clients)
                case ReportShortage(shortage):
                    self._log.emit(no_room(self._config, shortage, "their owner leaves"))
                case warm_takeover.Answer(message):
                    self._publish(message, clients)
                case warm_takeover.AwaitTasks(tasks):
                    self._await_tasks(tasks)
                case _:
                    assert_never(effect)

    # --- the topic --------------------------------------------------------------------------

    def _publish(self, message: LeaveMessage, clients: ExitStack) -> None:
        """Write a message; one that does not arrive is repeated later, or was the last. Raises ``RecordRefused``."""
        with let_outages_pass():
            self._topic.publish(self._member_id.encode(), write_leave_message(message), [(LEAVE, b"1")], clients)

    def _flush(self) -> None:
        with let_outages_pass():
            self._topic.flush(FLUSH_S)

    def _heard(self, clients: ExitStack) -> Iterator[LeaveMessage]:
        records: list[Record] = []
        with suppress(BrokerUnavailable):
            records = self._topic.read(clients)
        for record in records:
            if record.value is not None and LEAVE in dict(record.headers or ()):
                try:
                    yield read_leave_message(record.value)
                except MalformedUserData as cause:
                    where = f"{self._topic.partition} at {record.offset}"
                    self._log.emit(ProgressUnreadableEvent(warnings=(f"{where}: {cause}",)))
