"""A member's side of the group protocol: one table, and actions that are returned, not carried out.

``Member.handle(event, now_ms)`` changes the state as ``TRANSITIONS`` says and returns actions; a shell carries them
out in order and reports back with further events. Nothing here waits, reads a clock or knows a client library, so the
worker and the simulator drive the same machine.

JoinGroup is a promise: from there to the assignment the brokers take no input offsets outside a transaction. So running
work is committed before a rejoin that this member starts; revoked tasks are written, committed and closed before the
next JoinGroup releases them. A request to rejoin at a bad moment is kept and not lost (kafka-python forgets one made
during a join).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar

from kstreams_assign.frozen import dataclass
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import NO_PROBE_MS


class State(Enum):
    """Where a member stands between two assignments."""

    UNJOINED = "unjoined"  # no generation, nothing owned
    PREPARING = "preparing"  # a rejoin is wanted; running work is being committed first
    JOINING = "joining"  # JoinGroup may leave at any moment: from here to the assignment input offsets may have to wait
    RELEASING = "releasing"  # an assignment revoked tasks; they are being written, committed and closed
    STABLE = "stable"
    CLOSED = "closed"

    __hash__ = object.__hash__  # Enum's own, in Python, is slow in the keys of a table


FOLLOW_UP = "follow-up: the leader has announced it"
PROBE = "probing rebalance"

# --- events -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The member may join the group for the first time."""


@dataclass(frozen=True, slots=True)
class RejoinWanted:
    """A rebalance is requested: by the broker (another member joined or left), or by this member for ``reason``."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkCommitted:
    """What ``Commit`` asked for is done or was given up; the join need not wait any longer."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """SyncGroup answered."""

    generation: int
    adopted: Adopted


@dataclass(frozen=True, slots=True)
class TasksReleased:
    """Every task that ``Adopt`` revoked is written, committed and closed.

    ``generation`` is that ``Adopt``'s; an older one is ignored. None: the newest generation.
    """

    generation: int | None = None


@dataclass(frozen=True, slots=True)
class MembershipLost:
    """The group went on without this member: its tasks already belong to others."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The application wants to stop."""


Event = Started | RejoinWanted | WorkCommitted | Assigned | TasksReleased | MembershipLost | Tick | CloseAsked

# --- actions ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit everything that runs, then report ``WorkCommitted``. The generation is still good."""


@dataclass(frozen=True, slots=True)
class Join:
    """Send JoinGroup. ``WorkCommitted`` has come, or nothing was running."""

    reason: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """Take over this assignment; report ``TasksReleased`` once every task that is not in it is released.

    The remaining tasks run on meanwhile. Task directories are locked before the lag-report mutex is released.
    """

    generation: int
    adopted: Adopted


@dataclass(frozen=True, slots=True)
class DropAll:
    """Forget all tasks without writing or committing anything: they run elsewhere."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseMutex:
    """The reported lags have been used, or never will be: the state cleaner may run again."""


Action = Commit | Join | Adopt | DropAll | ReleaseMutex

# --- the table --------------------------------------------------------------

_S = State
TRANSITIONS: Mapping[tuple[State, type], State] = {
    (_S.UNJOINED, Started): _S.JOINING,
    (_S.UNJOINED, RejoinWanted): _S.JOINING,
    (_S.JOINING, Started): _S.JOINING,  # a request to rejoin came first
    (_S.STABLE, RejoinWanted): _S.PREPARING,
    (_S.PREPARING, RejoinWanted): _S.PREPARING,
    (_S.JOINING, RejoinWanted): _S.JOINING,
    (_S.RELEASING, RejoinWanted): _S.RELEASING,
    (_S.PREPARING, WorkCommitted): _S.JOINING,
    (_S.JOINING, WorkCommitted): _S.JOINING,
    (_S.RELEASING, WorkCommitted): _S.RELEASING,
    (_S.STABLE, WorkCommitted): _S.STABLE,
    (_S.JOINING, Assigned): _S.RELEASING,
    (_S.RELEASING, TasksReleased): _S.STABLE,
    (_S.STABLE, TasksReleased): _S.STABLE,
    (_S.JOINING, TasksReleased): _S.JOINING,
    **{(state, MembershipLost): _S.JOINING for state in _S if state not in (_S.CLOSED, _S.UNJOINED)},
    (_S.UNJOINED, MembershipLost): _S.UNJOINED,
    **{(state, Tick): state for state in _S},
    **{(state, CloseAsked): _S.CLOSED for state in _S},
    **{
        (_S.CLOSED, late): _S.CLOSED
        for late in (Started, RejoinWanted, WorkCommitted, Assigned, TasksReleased, MembershipLost)
    },
}
"""Every transition of a member. An event that is missing for a state is a bug in the shell (``KeyError``)."""


class Member:
    """The machine: a state, a pending request to rejoin, a date. Times are wall-clock milliseconds from the caller.

    ``rejoin_at_ms`` is when this member has to ask for a rebalance (``NO_PROBE_MS``: never), as its assignment says.
    """

    def __init__(self) -> None:
        self.state = State.UNJOINED
        self.generation: int | None = None
        self.rejoin_at_ms = NO_PROBE_MS
        self.wish: str | None = None

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        """Handle one event and return the actions in order. Raises ``KeyError`` for an impossible event."""
        if self.is_stale(event):
            return []
        before, self.state = self.state, TRANSITIONS[self.state, type(event)]
        if before is State.CLOSED:  # its client may lose the membership, and join again, before the last commit begins
            return [DropAll(event.reason)] if isinstance(event, MembershipLost) else []
        actions = self._REACTIONS[type(event)](self, event, before, now_ms)
        return actions + self._wish_granted(now_ms)

    def is_stale(self, event: Event) -> bool:
        """Return whether the event belongs to an assignment that a newer one has replaced."""
        return isinstance(event, TasksReleased) and event.generation not in (None, self.generation)

    def is_due(self, now_ms: int) -> bool:
        """Return whether a stable member has to rejoin: a request is pending, or its date has come."""
        return self.wish is not None or now_ms >= self.rejoin_at_ms

    def rest(self) -> None:
        """Forget what is to be joined for: no request is pending, and no date is set."""
        self.wish, self.rejoin_at_ms = None, NO_PROBE_MS

    def set_back(self, step_ms: int) -> None:
        """Move the date by as much as the wall clock was set back: just as much time is left as before."""
        if self.rejoin_at_ms not in (0, NO_PROBE_MS):
            self.rejoin_at_ms -= step_ms

    def _wish_granted(self, now_ms: int) -> list[Action]:
        """Start the next rejoin if the member is stable and a request is pending or its date has come."""
        if self.state is not State.STABLE:
            return []
        if not self.is_due(now_ms):
            return []
        if self.wish is None:
            self.wish = FOLLOW_UP if self.rejoin_at_ms == 0 else PROBE
        self.state = State.PREPARING
        return [Commit()]

    def _started(self, _event: Event, before: State, _now_ms: int) -> list[Action]:
        return [Join("first join")] if before is State.UNJOINED else []

    def _rejoin_wanted(self, event: RejoinWanted, before: State, _now_ms: int) -> list[Action]:
        if before is State.UNJOINED:
            return [Join(event.reason)]
        self.wish = self.wish or event.reason
        return [Commit()] if before is State.STABLE else []

    def _work_committed(self, _event: Event, before: State, _now_ms: int) -> list[Action]:
        if before is not State.PREPARING:
            return []
        reason, self.wish = self.wish or "rebalance", None
        self.rejoin_at_ms = NO_PROBE_MS
        return [Join(reason)]

    def _assigned(self, event: Assigned, _before: State, _now_ms: int) -> list[Action]:
        self.generation = event.generation
        self.rejoin_at_ms = event.adopted.next_rebalance_ms
        if event.adopted.follow_up:
            self.rejoin_at_ms = 0
        return [Adopt(event.generation, event.adopted)]

    def _released(self, _event: Event, before: State, _now_ms: int) -> list[Action]:
        return [ReleaseMutex()] if before is State.RELEASING else []

    def _lost(self, event: MembershipLost, before: State, _now_ms: int) -> list[Action]:
        """Drop everything and join at once, unless a join is under way already: its report keeps the mutex.

        That report may be older than a request to rejoin, which is kept then.
        """
        self.generation, self.rejoin_at_ms = None, NO_PROBE_MS
        self.wish = self.wish if before is State.JOINING else None
        drop = DropAll(event.reason)
        return [drop, ReleaseMutex()] if before is State.UNJOINED else [drop, Join(event.reason)]

    def _tick(self, _event: Event, _before: State, _now_ms: int) -> list[Action]:
        return []

    def _close(self, _event: Event, _before: State, _now_ms: int) -> list[Action]:
        return [ReleaseMutex()]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Action]]]] = {
        Started: _started,
        RejoinWanted: _rejoin_wanted,
        WorkCommitted: _work_committed,
        Assigned: _assigned,
        TasksReleased: _released,
        MembershipLost: _lost,
        Tick: _tick,
        CloseAsked: _close,
    }
