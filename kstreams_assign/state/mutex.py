"""KIP-441's mutex between reporting lags and cleaning ("Race between assignment and state cleanup").

A member that joins promises the leader the state it reports; until the assignment is here and the folders are locked,
or the join is given up, the cleaner must not take it away. So the mutex belongs to a rebalance, not to a call: many
members of the process may hold the reporting side at once, the cleaner holds the other side alone and briefly.
Neither side waits: the report is made on the loop that also sends heartbeats.

How long it can be held: until the member's machine lets go (``ReleaseMutex``: tasks locked, member closed, or
its thread ended by an error; a member whose membership is lost joins anew at once, and holds on), and no longer than ``hold_ms``, counted from the first report of a rebalance
and not from the last retry. ``Worker`` and ``GroupMember`` set it to twice ``max_poll_interval_ms``, because the broker waits
that long at most for every JoinGroup and once more for every SyncGroup. So a join that is never answered, or tried
again for ever, cannot starve the cleaner. A hold that is overdue ends when the cleaner wants to run and not before.
Whoever lets go of what it does not hold any more (``release_report`` is false) has told the leader what may not be
so, and reports once more in a rebalance of its own, but not before the cleaner is through.

Several members of one process may share a mutex, a directory and a cleaner; each then needs its own table of what it
owns, or the leader hears of two owners of each task. A ``Worker`` or ``GroupMember`` is one member and has its own.

Order of locks: a member's own, then this one's, which is innermost: nothing is called while it is taken. Being inside as
the cleaner is no lock, but for each rename it takes the directory's; whoever has that one asks for nothing here.

``MutexState`` decides and is pure; ``ReportMutex`` puts a lock and a clock around it. ``python -m tests.state.interleavings``
walks every order of steps of members, cleaner and broker over it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

Holder = Hashable
"""Whoever reports: one token a member, such as its client id."""


def hold_limit_ms(max_poll_interval_ms: int) -> int:
    """How long a rebalance can take at most: all JoinGroups, then all SyncGroups, each within the rebalance timeout."""
    return 2 * max_poll_interval_ms


@dataclass(frozen=True, slots=True)
class MutexState:
    """Who is inside, and since when (ms). Never both: ``cleaning`` implies that nobody is ``reporting``."""

    held: frozenset[tuple[Holder, int]] = frozenset()
    cleaning: bool = False

    @property
    def reporting(self) -> frozenset[Holder]:
        return frozenset(holder for holder, _ in self.held)

    def report(self, holder: Holder, now_ms: int = 0) -> MutexState | None:
        """``holder`` is going to report; ``None`` if the cleaner runs. A second join goes on holding it since the first."""
        if self.cleaning:
            return None
        return self if holder in self.reporting else MutexState(self.held | {(holder, now_ms)})

    def release(self, holder: Holder) -> MutexState:
        """``holder``'s rebalance is over. Fine for one who holds nothing."""
        kept = frozenset(hold for hold in self.held if hold[0] != holder)
        return self if kept == self.held else MutexState(kept, self.cleaning)

    def clean(self, overdue_ms: int | None = None) -> MutexState | None:
        """The cleaner begins; ``None`` if a rebalance is under way or a cleaner runs already.

        Holds since ``overdue_ms`` or longer end with it; None: a hold never is overdue.
        """
        if self.cleaning or any(overdue_ms is None or since_ms > overdue_ms for _, since_ms in self.held):
            return None
        return MutexState(cleaning=True)

    def end_clean(self) -> MutexState:
        return MutexState(self.held)


class ReportMutex:
    """One for each process's state directory. No method waits for anything but the other methods.

    ``clock_ms`` is monotonic. Without ``hold_ms`` a report is held until it is released.
    """

    def __init__(self, *, clock_ms: Callable[[], int] = lambda: 0, hold_ms: int | None = None) -> None:
        self._state = MutexState()
        self._guard = threading.Lock()
        self._clock_ms = clock_ms
        self._hold_ms = hold_ms

    @property
    def state(self) -> MutexState:
        """As it was a moment ago."""
        return self._state

    def try_report(self, holder: Holder) -> bool:
        """Before the user-data for a JoinGroup is made. True: it is held until ``release_report``, or is overdue.

        False: the cleaner runs; report what this process owns and nothing dormant, and report again soon.
        """
        now_ms = self._clock_ms()
        with self._guard:
            return self._entered(self._state.report(holder, now_ms))

    def release_report(self, holder: Holder) -> bool:
        """Once the assignment is adopted and its task folders are locked, or the join is given up. Idempotent.

        False: it was not held (any more); what was reported since it was last taken may be gone.
        """
        with self._guard:
            held = holder in self._state.reporting
            self._state = self._state.release(holder)
        return held

    def try_clean(self) -> bool:
        """Before the first folder moves. False: a rebalance is under way; try again later."""
        overdue_ms = None if self._hold_ms is None else self._clock_ms() - self._hold_ms
        with self._guard:
            return self._entered(self._state.clean(overdue_ms))

    def end_clean(self) -> None:
        """Called by the one for whom ``try_clean`` was true, and by nobody else."""
        with self._guard:
            self._state = self._state.end_clean()

    def _entered(self, state: MutexState | None) -> bool:
        if state is None:
            return False
        self._state = state
        return True
