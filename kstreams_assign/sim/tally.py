"""What came of many seeds so far, and how fast: kept in few numbers, however many there are.

What lives here: counting, and the words for it. What must not: playing, printing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import times
from time import perf_counter
from typing import Any, NamedTuple

from kstreams_assign.sim.checkers import Violation

TOLD_MAX = 10


class Outcome(NamedTuple):
    """Of one seed."""

    seed: int
    rebalances: int
    violations: tuple[Violation, ...]


def cpu_s() -> float:
    """CPU time of this process and of those that it started and that have ended."""
    return sum(times()[:4])


@dataclass
class Tally:
    """``asked`` seeds are to be played. Seconds begin with it."""

    asked: int
    played: int = 0
    rebalances: int = 0
    failed: list[Outcome] = field(default_factory=list)
    _began_s: float = field(default_factory=perf_counter)
    _cpu_began_s: float = field(default_factory=cpu_s)

    def add(self, one: Outcome) -> None:
        self.played += 1
        self.rebalances += one.rebalances
        if one.violations:
            self.failed.append(one)

    @property
    def seconds(self) -> float:
        return max(perf_counter() - self._began_s, 1e-9)

    @property
    def cpu_seconds(self) -> float:
        """Of this process, and of those that it started and that have ended."""
        return max(cpu_s() - self._cpu_began_s, 1e-9)

    def progress(self) -> str:
        """``12,300 of 100,000 seeds, 0 failed; 702 rebalances a second, 22 min left``."""
        left_s = (self.asked - self.played) * self.seconds / max(self.played, 1)
        left = f"{left_s:.0f} s" if left_s < 100 else f"{left_s / 60:.0f} min"
        pace = f"{self.rebalances / self.seconds:.0f} rebalances a second, {left} left"
        return f"{self.played:,} of {self.asked:,} seeds, {len(self.failed)} failed; {pace}"

    def summary(self) -> str:
        """``100 seeds, 0 failed; 1034 rebalances in 3.1 s, 330 a second (335 a CPU second)``."""
        seeds = f"{self.played} seeds" if self.played == self.asked else f"{self.played} of {self.asked} seeds"
        which = ", ".join(str(one.seed) for one in self.failed[:TOLD_MAX])
        more = ", ..." if len(self.failed) > TOLD_MAX else ""
        failed = f"{len(self.failed)} failed" + (f" ({which}{more})" if which else "")
        pace = f"{self.rebalances / self.seconds:.0f} a second ({self.rebalances / self.cpu_seconds:.0f} a CPU second)"
        return f"{seeds}, {failed}; {self.rebalances} rebalances in {self.seconds:.1f} s, {pace}"

    def facts(self) -> Mapping[str, Any]:
        """For ``--json``."""
        return {
            "seeds": self.played,
            "asked": self.asked,
            "violations": [
                {"seed": one.seed, "invariant": it.invariant, "detail": it.detail}
                for one in self.failed
                for it in one.violations
            ],
            "rebalances": self.rebalances,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
        }
