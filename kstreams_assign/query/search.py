"""Which process to ask next for a key: events in, effects out, and the clock as an argument.

A search goes in rounds. In a round it asks each process at most once: the first member, the active task's process, the
standbys' if a lag is allowed, then the other members. Every answer without a value may name owners; those of the
highest generation count, whichever process named them. The processes that are left to ask share the time that is left,
so one that hangs does not take it all; an owner shares it with the other owners only. No share is so short that a
healthy process far away could not answer. After a round without a value the search pauses, and it ends at its deadline.
So it cannot go round in circles, however the processes contradict each other.

What must not live here: sockets, threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from kstreams_assign.query.messages import RETRY_MS, Answer, Found, Owners, Reason, Refused, Unanswered

ASK_MS_MAX = 2_000
"""Milliseconds that one process may take: a machine that has died does not even refuse a connection."""
PAUSE_MS_MAX = 1_000
SHARE_MS_MIN = 500
"""As long as that is left: a new connection takes several trips to the process and back."""
ASKED_MAX = 64
"""Processes that one round asks at most."""
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Begin:
    """The search begins."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A process has answered."""

    endpoint: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A process could not be asked, or did not answer in time."""

    endpoint: str
    text: str


@dataclass(frozen=True, slots=True)
class Woke:
    """A pause is over."""


Event = Begin | Answered | Unreachable | Woke


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask this process, and give it up after so many milliseconds."""

    endpoint: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class Return:
    """Return this value."""

    endpoint: str
    found: Found


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise: the query is wrong."""

    refused: Refused


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Raise: no process could answer in time. ``retry_after_ms``: when to ask again."""

    text: str
    retry_after_ms: int


Effect = Ask | Pause | Return | Refuse | GiveUp


class Then(Enum):
    """What follows from an answer without a value."""

    ASK_NEXT = "ask the next process"
    RAISE = "raise: no process would answer this query"


THEN: dict[str, Then] = {
    Reason.NOT_PRESENT: Then.ASK_NEXT,
    Reason.NOT_ACTIVE: Then.ASK_NEXT,
    Reason.NOT_UP_TO_BOUND: Then.ASK_NEXT,
    Reason.NOT_READY: Then.ASK_NEXT,
    "wrong_application": Then.ASK_NEXT,  # another application has taken over the address of a process that ended
    "malformed": Then.RAISE,
    "bad_request": Then.RAISE,
    "unsupported_version": Then.RAISE,
    "unauthorized": Then.RAISE,
    "does_not_exist": Then.RAISE,
    "too_large": Then.RAISE,
}
"""Every error of ``protocol/query.json``; one that is not known is raised."""


class Search:
    """One query on its way. ``members``: the first is asked first in each round; with ``max_lag`` replicas may answer.

    ``handle`` returns what to do next; the answer to each ``Ask`` is one event, the end of each ``Pause`` another.
    """

    def __init__(self, members: Sequence[str], deadline_ms: int, *, replicas: bool) -> None:
        assert members
        self._members = tuple(members)
        self._deadline_ms = deadline_ms
        self._replicas = replicas
        self._named: dict[str, Owners] = {}
        """The owners of the highest generation heard of, by the process that named them."""
        self._asked: dict[str, str] = {}
        """In this round: the reason why each did not answer."""
        self._failed: dict[str, str] = {}
        """The reasons of the last complete round."""
        self._hint_ms: int | None = None
        self._backoff_ms = RETRY_MS
        self._refused: Refused | None = None
        self._only_refused = True

    def handle(self, event: Event, now_ms: int) -> Effect:
        """Decide what follows."""
        match event:
            case Answered(endpoint, Found() as found):
                return Return(endpoint, found)
            case Answered(endpoint, Refused(code, text) as refused):
                if THEN.get(code, Then.RAISE) is Then.RAISE:
                    return Refuse(refused)
                self._asked[endpoint] = text
                self._refused = refused
            case Answered(endpoint, Unanswered() as answer):
                self._note(endpoint, answer)
            case Unreachable(endpoint, text):
                self._asked[endpoint] = text
                self._only_refused = False
            case Begin() | Woke():
                pass
        return self._next(now_ms)

    def _note(self, endpoint: str, answer: Unanswered) -> None:
        self._asked[endpoint] = answer.text
        self._only_refused = False
        hint_ms = answer.retry_after_ms
        self._hint_ms = hint_ms if self._hint_ms is None else min(hint_ms, self._hint_ms)
        if answer.owners is not None:
            self._note_owners(endpoint, answer.owners)

    def _note_owners(self, endpoint: str, owners: Owners) -> None:
        newest = max((each.generation for each in self._named.values()), default=owners.generation)
        if owners.generation > newest:
            self._named.clear()
        if owners.generation >= newest:
            self._named[endpoint] = owners

    def _next(self, now_ms: int) -> Effect:
        left_ms = self._deadline_ms - now_ms
        if left_ms <= 0:
            return self._give_up()
        left_to_ask = [endpoint for endpoint in dict.fromkeys(self._candidates()) if endpoint not in self._asked]
        if left_to_ask and len(self._asked) < ASKED_MAX:
            return Ask(left_to_ask[0], self._share_ms(left_to_ask, left_ms))
        if self._refused is not None and self._only_refused:
            return Refuse(self._refused)
        return self._pause(left_ms)

    def _candidates(self) -> Iterator[str]:
        yield self._members[0]
        yield from self._owners_to_ask()
        yield from self._members[1:]

    def _owners_to_ask(self) -> Iterator[str]:
        yield from (owners.active for owners in self._named.values() if owners.active is not None)
        if self._replicas:
            for owners in self._named.values():
                yield from owners.standbys

    def _share_ms(self, left_to_ask: Sequence[str], left_ms: int) -> int:
        """Return the time of the first of these. An owner shares with owners only: others cannot have the value."""
        owners = set(self._owners_to_ask()).intersection(left_to_ask)
        sharing = len(owners) if left_to_ask[0] in owners else len(left_to_ask)
        return min(max(left_ms // sharing, SHARE_MS_MIN), left_ms, ASK_MS_MAX)

    def _pause(self, left_ms: int) -> Effect:
        pause_ms = min(max(self._backoff_ms, self._hint_ms or 0), PAUSE_MS_MAX)
        self._failed, self._asked, self._hint_ms = self._asked, {}, None
        self._refused, self._only_refused = None, True
        self._backoff_ms = min(2 * self._backoff_ms, PAUSE_MS_MAX)
        if pause_ms >= left_ms:
            return self._give_up(pause_ms)
        return Pause(pause_ms)

    def _give_up(self, retry_after_ms: int | None = None) -> GiveUp:
        reasons = list((self._failed | self._asked).items())
        shown = [f"{endpoint or 'this process'}: {text}" for endpoint, text in reasons[:SHOWN_MAX]]
        if len(reasons) > SHOWN_MAX:
            shown.append(f"and {len(reasons) - SHOWN_MAX} more")
        if not any(owners.active is not None for owners in self._named.values()):
            shown.append("no process with the active task and an application_server is known")
        return GiveUp("; ".join(shown), retry_after_ms or self._backoff_ms)
