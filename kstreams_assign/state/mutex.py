"""KIP-441's mutex between reporting lags and cleaning ("Race between assignment and state cleanup").

A member that joins promises the leader the state it reports; until the assignment is here and the folders are locked,
or the join is given up, the cleaner must not take it away. So the mutex belongs to a rebalance, not to a call: many
members of the process may hold the reporting side at once, the cleaner holds the other side alone and briefly.
Neither side waits: the report is made on the loop that also sends heartbeats.

``MutexState`` decides and is pure; ``ReportMutex`` puts a lock around it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

Holder = Hashable
"""Whoever reports: one token a member, such as its client id."""


@dataclass(frozen=True, slots=True)
class MutexState:
    """Who is inside. Never both: ``cleaning`` implies that nobody is ``reporting``."""

    reporting: frozenset[Holder] = frozenset()
    cleaning: bool = False

    def report(self, holder: Holder) -> MutexState | None:
        """``holder`` is going to report; ``None`` if the cleaner runs. Holding it already is fine (a second join)."""
        return None if self.cleaning else MutexState(self.reporting | {holder})

    def release(self, holder: Holder) -> MutexState:
        """``holder``'s rebalance is over. Fine for one who holds nothing."""
        return MutexState(self.reporting - {holder}, self.cleaning)

    def clean(self) -> MutexState | None:
        """The cleaner begins; ``None`` if a rebalance is under way or a cleaner runs already."""
        return None if self.cleaning or self.reporting else MutexState(cleaning=True)

    def end_clean(self) -> MutexState:
        return MutexState(self.reporting)


class ReportMutex:
    """One for each process's state directory. No method waits for anything but the other methods."""

    def __init__(self) -> None:
        self._state = MutexState()
        self._guard = threading.Lock()

    @property
    def state(self) -> MutexState:
        """As it was a moment ago."""
        return self._state

    def try_report(self, holder: Holder) -> bool:
        """Before the user-data for a JoinGroup is made. True: it is held until ``release_report``.

        False: the cleaner runs; report what this process owns and nothing dormant, and ask to rejoin soon.
        """
        with self._guard:
            return self._entered(self._state.report(holder))

    def release_report(self, holder: Holder) -> None:
        """Once the assignment is adopted and its task folders are locked, or the join is given up. Idempotent."""
        with self._guard:
            self._state = self._state.release(holder)

    def try_clean(self) -> bool:
        """Before the first folder moves. False: a rebalance is under way; try again later."""
        with self._guard:
            return self._entered(self._state.clean())

    def end_clean(self) -> None:
        """Called by the one for whom ``try_clean`` was true, and by nobody else."""
        with self._guard:
            self._state = self._state.end_clean()

    def _entered(self, state: MutexState | None) -> bool:
        if state is None:
            return False
        self._state = state
        return True
