"""KIP-441's mutex between reporting lags and cleaning ("Race between assignment and state cleanup").

A member that joins promises the leader the state that it reports. Until the assignment has arrived and its folders are
locked, or the join is given up, the cleaner must not remove that state. So the mutex belongs to a rebalance, not to a
call: many members of the process may hold the reporting side at once; the cleaner holds the other side alone and
briefly. Neither side waits: the report is made on the loop that also sends heartbeats.

A member holds it until its machine releases it (``ReleaseMutex``: tasks locked, member closed, or its thread ended by
an error; a member that loses its membership joins again at once and keeps it), and at most ``hold_ms``, counted from
the first report of a rebalance and not from the last retry. ``Worker`` and ``GroupMember`` set twice
``max_poll_interval_ms``, because the broker waits at most that long for each JoinGroup and again for each SyncGroup. So
a join that is never answered, or retried for ever, cannot block the cleaner. An overdue hold ends only when the cleaner
wants to run. A member that releases a hold that has ended so (``release_report`` is false) may have reported deleted
state. It reports again in another rebalance, after the cleaner.

Several members of one process may share a mutex, a directory and a cleaner. Each then needs its own table of owned
tasks, or the leader would see two owners of each task. A ``Worker`` or ``GroupMember`` is one member and has its own.

Order of locks: first a member's own, then this one, which is innermost: no call is made while it is held. The cleaner's
side is not a lock; for each rename the cleaner takes the directory's lock, whose holders never ask for this one.

``MutexState`` decides and is pure; ``ReportMutex`` adds a lock and a clock. ``python -m tests.state.interleavings``
walks every order of steps of members, cleaner and broker over it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from kstreams_assign.frozen import dataclass

Holder = Hashable
"""The member that reports: one token a member, such as its client id."""


def hold_limit_ms(max_poll_interval_ms: int) -> int:
    """Return the longest time of a rebalance: JoinGroups, then SyncGroups, each within the rebalance timeout."""
    return 2 * max_poll_interval_ms


@dataclass(frozen=True, slots=True)
class MutexState:
    """The holders, and since when (ms) they hold it. While ``cleaning``, no member is ``reporting``."""

    held: frozenset[tuple[Holder, int]] = frozenset()
    cleaning: bool = False

    @property
    def reporting(self) -> frozenset[Holder]:
        return frozenset(holder for holder, _ in self.held)

    def report(self, holder: Holder, now_ms: int = 0) -> MutexState | None:
        """Let ``holder`` report; ``None`` if the cleaner runs. A second join keeps the time of the first."""
        if self.cleaning:
            return None
        return self if holder in self.reporting else MutexState(self.held | {(holder, now_ms)})

    def release(self, holder: Holder) -> MutexState:
        """End ``holder``'s rebalance; no error if it holds nothing."""
        kept = frozenset(hold for hold in self.held if hold[0] != holder)
        return self if kept == self.held else MutexState(kept, self.cleaning)

    def clean(self, overdue_ms: int | None = None) -> MutexState | None:
        """Let the cleaner begin; ``None`` if a rebalance is under way or a cleaner runs already.

        Holds since ``overdue_ms`` or longer end with it; None: holds are never overdue.
        """
        if self.cleaning or any(overdue_ms is None or since_ms > overdue_ms for _, since_ms in self.held):
            return None
        return CLEANING

    def end_clean(self) -> MutexState:
        return MutexState(self.held)


CLEANING = MutexState(cleaning=True)


class ReportMutex:
    """One for each process's state directory. No method waits, except for the others.

    ``clock_ms`` is monotonic. Without ``hold_ms`` a report is held until it is released.
    """

    def __init__(self, *, clock_ms: Callable[[], int] = lambda: 0, hold_ms: int | None = None) -> None:
        self._state = MutexState()
        self._guard = threading.Lock()
        self._clock_ms = clock_ms
        self._hold_ms = hold_ms

    @property
    def state(self) -> MutexState:
        """The state a moment ago."""
        return self._state

    def try_report(self, holder: Holder) -> bool:
        """Try to hold it, before the user-data for a JoinGroup is made.

        True: it is held until ``release_report``, or until it is overdue. False: the cleaner runs. Then report only the
        tasks that this process owns, no dormant ones, and report again soon.
        """
        now_ms = self._clock_ms()
        with self._guard:
            return self._entered(self._state.report(holder, now_ms))

    def release_report(self, holder: Holder) -> bool:
        """Release it, once the assignment's task folders are locked or the join is given up. Idempotent.

        False: it was no longer held; state that was reported since it was taken may be deleted.
        """
        with self._guard:
            held = holder in self._state.reporting
            self._state = self._state.release(holder)
        return held

    def try_clean(self) -> bool:
        """Try to begin cleaning, before the first folder moves. False: a rebalance is under way; try again later."""
        overdue_ms = None if self._hold_ms is None else self._clock_ms() - self._hold_ms
        with self._guard:
            return self._entered(self._state.clean(overdue_ms))

    def end_clean(self) -> None:
        """End cleaning; only after ``try_clean`` returned true."""
        with self._guard:
            self._state = self._state.end_clean()

    def _entered(self, state: MutexState | None) -> bool:
        if state is None:
            return False
        self._state = state
        return True
