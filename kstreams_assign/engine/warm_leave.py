"""When a member that drains leaves a streams group (KIP-1071): once its tasks are warm where they will go.

The brokers' assignor has no warm-ups: a task that moves to a process without its state is silent until that is
restored. So a member that drains predicts who gets its tasks, announces that, and goes on with them while the others
restore. It leaves once they answer that all is warm, or when its time is up. It looks at the group again and again, as
members come and go. ``WarmLeave.handle(event, now_ms)`` returns effects, which a shell carries out in order.

A member that does not answer, such as one of Java, is not waited for. A static member that is away is: its tasks run
nowhere until it is back, or until its session ends and the brokers give them to others. Members that drain at the same
time hear of each other, and predict that all of them leave. What must not live here: the prediction
(``observe.streams_leave``), and what the others do (``warm_takeover``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from kstreams_assign.engine.warm_join import LOOK_INTERVAL_MS, LookFailed
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import LeaveOutlook
from kstreams_assign.model import TaskId
from kstreams_assign.wire.leave_messages import LeaveAnnounced, LeaveMessage, WarmReported

REPEAT_MS = 5_000
"""How often an announcement is repeated: a member may listen since. Answers are repeated as often."""

ANSWER_MS = 10_000
"""How long a member that has not answered is waited for. Members listen several times a second."""

STATELESS = "no task that moves has state"

FORGET_MS = 3 * REPEAT_MS
"""When another member that drains is forgotten unless it is heard of again."""

# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaveSeen:
    """What the others would get now. ``offsets``: how much the changelogs of each task hold."""

    outlook: LeaveOutlook
    offsets: Mapping[TaskId, int]


@dataclass(frozen=True, slots=True)
class MessageHeard:
    """A message of any member, this one included."""

    message: LeaveMessage


@dataclass(frozen=True, slots=True)
class Turned:
    """Time has passed."""


Event = Started | LeaveSeen | LookFailed | MessageHeard | Turned

# --- effects ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookAtLeave:
    """Look at the group, then report ``LeaveSeen`` or ``LookFailed``. ``others``: members that leave, too."""

    others: frozenset[str]


@dataclass(frozen=True, slots=True)
class Announce:
    """Write this for the other members. ``is_news``: it differs from the last one."""

    message: LeaveAnnounced
    is_news: bool


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Leave now. ``warm`` and ``cold``: the tasks with state that move.

    ``is_refused``: tasks with state move, as far as known, and none of them was warmed up elsewhere.
    """

    reason: str
    warm: frozenset[TaskId] = frozenset()
    cold: frozenset[TaskId] = frozenset()
    is_refused: bool = False


Effect = LookAtLeave | Announce | LeaveGroup


class WarmLeave:
    """The machine, for one drain. Times are milliseconds of one clock, from the caller.

    ``drain_id`` is another one in each drain, so that an answer to an earlier one counts nothing.
    """

    def __init__(self, drain_id: str, member_id: str, timeout_ms: int) -> None:
        self._drain_id, self._member_id = drain_id, member_id
        self._timeout_ms = timeout_ms
        self._ends_ms = self._looked_ms = self._announced_ms = 0
        self._offsets: Mapping[TaskId, int] = {}
        self._seen_ms: dict[str, int] = {}
        """Since when each member has been there among those that get tasks."""
        self._reports: dict[str, WarmReported] = {}
        self._others: dict[str, int] = {}
        """Members that drain, too, and when they were heard of last."""
        self.gains: Mapping[str, frozenset[TaskId]] = {}
        """Member id -> the tasks with state that it will get."""
        self.away: Mapping[str, str] = {}
        """Member id -> instance id of those that will get tasks, and run none until they are back."""
        self.leaves = False
        """Whether ``LeaveGroup`` was returned: then nothing more follows."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return [] if self.leaves else self._REACTIONS[type(event)](self, event, now_ms)

    @property
    def warm(self) -> frozenset[TaskId]:
        """The tasks that are warm at the members that will get them, by their last answers."""
        answered = self._reports.keys() - self.away.keys()
        warm = (tasks & self._reports[member].warm for member, tasks in self.gains.items() if member in answered)
        return frozenset().union(*warm)

    def _started(self, _event: Started, now_ms: int) -> list[Effect]:
        self._ends_ms = now_ms + self._timeout_ms
        return self._look(now_ms)

    def _look(self, now_ms: int) -> list[Effect]:
        self._looked_ms = now_ms
        return [LookAtLeave(frozenset(name for name, at in self._others.items() if now_ms < at + FORGET_MS))]

    def _leave_seen(self, event: LeaveSeen, now_ms: int) -> list[Effect]:
        outlook = event.outlook
        if outlook.at_once is not None or not (outlook.state or outlook.away):
            self.gains, self.away = {}, {}
            return self._leave(outlook.at_once or STATELESS, is_refused=outlook.at_once is not None)
        is_news = (outlook.state, outlook.away) != (self.gains, self.away)
        self.gains, self.away, self._offsets = outlook.state, outlook.away, event.offsets
        self._seen_ms = {member: self._seen_ms.get(member, now_ms) for member in self.gains.keys() - self.away.keys()}
        return self._announce(now_ms, is_news=True) if is_news else []

    def _look_failed(self, event: LookFailed, now_ms: int) -> list[Effect]:
        if not event.passing:
            return self._leave(f"what the others will get is not known: {event.reason}", is_refused=True)
        return self._time_out(now_ms)

    def _message_heard(self, event: MessageHeard, now_ms: int) -> list[Effect]:
        message = event.message
        if isinstance(message, LeaveAnnounced):
            if message.member_id != self._member_id:
                self._others[message.member_id] = now_ms
        elif message.drain_id == self._drain_id:
            self._reports[message.member_id] = message
        return []

    def _turned(self, _event: Turned, now_ms: int) -> list[Effect]:
        if ended := self._time_out(now_ms):
            return ended
        if self.gains and not self.away and all(self._is_settled(*gain, now_ms) for gain in self.gains.items()):
            return self._leave(self._outcome())
        effects: list[Effect] = []
        if (self.gains or self.away) and now_ms >= self._announced_ms + REPEAT_MS:
            effects += self._announce(now_ms, is_news=False)
        return effects + (self._look(now_ms) if now_ms >= self._looked_ms + LOOK_INTERVAL_MS else [])

    def _is_settled(self, member: str, tasks: frozenset[TaskId], now_ms: int) -> bool:
        """Return whether a member has answered for all of these tasks, or does not answer at all."""
        report = self._reports.get(member)
        if report is None:
            return now_ms >= self._seen_ms[member] + ANSWER_MS
        return tasks <= report.warm | report.without_room

    def _announce(self, now_ms: int, *, is_news: bool) -> list[Effect]:
        self._announced_ms = now_ms
        return [Announce(self._message(leaves=False), is_news)]

    def _message(self, *, leaves: bool) -> LeaveAnnounced:
        tasks = {member: {task: self._offsets.get(task, 0) for task in gain} for member, gain in self.gains.items()}
        return LeaveAnnounced(self._drain_id, self._member_id, tasks, leaves)

    def _outcome(self) -> str:
        if not self._reports.keys() & self.gains.keys():
            return "no member that gets its tasks restores them first"
        warm = self.warm
        cold = sum(map(len, self.gains.values())) - len(warm)
        texts = [f"{len(warm)} {'task is' if len(warm) == 1 else 'tasks are'} warm"]
        if cold:
            texts.append(f"{cold} {'is' if cold == 1 else 'are'} not: its member has no room or does not answer")
        return ", and ".join(texts)

    def _time_out(self, now_ms: int) -> list[Effect]:
        if now_ms < self._ends_ms:
            return []
        names = ", ".join(sorted(self.away.values()))
        away = f", and {names} {'is' if len(self.away) == 1 else 'are'} away" if self.away else ""
        return self._leave(f"not all is warm after warm_join_timeout_ms = {self._timeout_ms}{away}")

    def _leave(self, reason: str, *, is_refused: bool = False) -> list[Effect]:
        """Leave. The members that get tasks hear of it, to ask for them at once."""
        self.leaves = True
        farewell: list[Effect] = [Announce(self._message(leaves=True), is_news=False)] if self.gains else []
        tasks = frozenset().union(*self.gains.values())
        is_refused = is_refused or bool(tasks and not self.warm)
        return [*farewell, LeaveGroup(reason, self.warm, tasks - self.warm, is_refused)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Started: _started,
        LeaveSeen: _leave_seen,
        LookFailed: _look_failed,
        MessageHeard: _message_heard,
        Turned: _turned,
    }
