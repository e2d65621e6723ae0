"""The processes that are about to join a streams group, as one of them knows them from their announcements.

All that know the same announcements know the same order (``JoinAnnounced.place``): what each gets depends on it. An
announcement that is not repeated is forgotten, so a killed process holds up no other for long. What must not live
here: when a process joins (``warm_join``), and the topic.
"""

from __future__ import annotations

from collections.abc import Collection

from kstreams_assign.frozen import dataclass
from kstreams_assign.group.streams_outlook import Newcomer
from kstreams_assign.wire.join_messages import JoinAnnounced, Stage

REPEAT_MS = 5_000
"""How often an announcement is repeated."""

VALID_MS = 3 * REPEAT_MS
VALID_MAX_MS = 60_000
"""However long an announcement says that it holds: a damaged or foreign one must not last."""

OPEN_MS = 700
"""How long after the assignment to one that joined the others may count on being assigned together.

The brokers assign once a second (``group.streams.assignment.interval.ms``); the rest is for the way there.
"""


ASSIGNED_MS = 5_000
"""How long after a join its assignment is waited for."""


@dataclass(frozen=True, slots=True)
class _Heard:
    message: JoinAnnounced
    until_ms: int


class Joiners:
    """The others, and what this process has said. Times are milliseconds of one clock, from the caller.

    ``since_ms`` is the time of the process's own wall clock.
    """

    def __init__(self, newcomer: Newcomer, since_ms: int) -> None:
        self.newcomer = newcomer
        self._since_ms = since_ms
        self._heard: dict[str, _Heard] = {}
        self._said: JoinAnnounced | None = None
        self._said_ms = 0
        self.first_said_ms: int | None = None
        """When this process announced itself; None: it has not."""
        self.first_heard_ms: int | None = None
        """When it read its own announcement: then it has read all earlier ones, and the others can read it."""
        self.is_alone = False
        """Whether this process waits for no other any longer."""
        self._joined_ms = 0
        self._assigned_ms: int | None = None
        """When the last that joined was assigned, at the earliest; None: too long ago to matter."""
        self._just_joined: set[str] = set()
        self.is_first_assigned = False
        """Whether one that has just joined was assigned, as of the last look."""

    def hear(self, message: JoinAnnounced, now_ms: int) -> None:
        """Take a message of any process. At one that was not known, this process announces itself again."""
        name = message.member_id
        if name == self.newcomer.member_id:
            if self.first_heard_ms is None and message.since_ms == self._since_ms:
                self.first_heard_ms = now_ms
        elif message.stage is Stage.JOINED:
            self._take_out({name}, now_ms)
        elif message.stage is Stage.GONE:
            self._heard.pop(name, None)
        else:
            if name not in self._heard:
                self._said = None
            self._heard[name] = _Heard(message, now_ms + min(message.valid_ms, VALID_MAX_MS))

    def _take_out(self, joined: Collection[str], now_ms: int) -> None:
        """Forget the announcements of those that have joined, and remember for a moment that they have."""
        if known := self._heard.keys() & joined:
            self._heard = {name: each for name, each in self._heard.items() if name not in known}
            self._just_joined |= known
            self._joined_ms = self._assigned_ms = now_ms
            self.is_first_assigned = False

    def see(self, member_ids: Collection[str], assigned_ids: Collection[str], now_ms: int) -> None:
        """Take a look at the group: its members, and those that the brokers have assigned since they joined."""
        self._take_out(member_ids, now_ms)
        self.is_first_assigned = not self._just_joined.isdisjoint(assigned_ids)
        if not self.is_first_assigned and now_ms < self._joined_ms + ASSIGNED_MS:
            self._assigned_ms = now_ms

    def others(self, now_ms: int) -> tuple[JoinAnnounced, ...]:
        """Return the announcements that hold now, in the order of joining."""
        self._heard = {name: each for name, each in self._heard.items() if now_ms < each.until_ms}
        return tuple(sorted((each.message for each in self._heard.values()), key=lambda message: message.place))

    def order(self, now_ms: int) -> tuple[Newcomer, ...]:
        """Return the processes that this one counts on, itself among them, in the order of joining."""
        if self.is_alone:
            return (self.newcomer,)
        everyone = sorted([*self.others(now_ms), self._message(Stage.RESTORING)], key=lambda message: message.place)
        return tuple(Newcomer(message.member_id, message.process_id) for message in everyone)

    def follows(self, other: JoinAnnounced) -> bool:
        """Return whether this process comes after another."""
        return self._message(Stage.WARM).place > other.place

    def is_open(self, now_ms: int) -> bool:
        """Return whether another has joined so lately that those who join now are assigned together."""
        if self._assigned_ms is None or now_ms >= self._assigned_ms + OPEN_MS:
            self._assigned_ms = None
            self._just_joined.clear()
        return self._assigned_ms is not None

    def count(self, now_ms: int) -> int:
        """Return how many others join with this process, those that have just joined included."""
        return 0 if self.is_alone else len(self.others(now_ms)) + len(self._just_joined)

    def due(self, stage: Stage, now_ms: int) -> JoinAnnounced | None:
        """Return what to announce now: news at once, and the same again from time to time."""
        message = self._message(stage)
        if message == self._said and now_ms < self._said_ms + REPEAT_MS:
            return None
        self._said, self._said_ms = message, now_ms
        if self.first_said_ms is None:
            self.first_said_ms = now_ms
        return message

    def _message(self, stage: Stage) -> JoinAnnounced:
        newcomer = self.newcomer
        return JoinAnnounced(
            newcomer.member_id, newcomer.process_id, self._since_ms, stage, VALID_MS, is_alone=self.is_alone
        )
