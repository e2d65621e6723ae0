"""Count the outcomes of many seeds, and format progress and summary. Simulating and printing do not belong here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import times
from time import perf_counter
from typing import Any, NamedTuple

from kstreams_assign.sim.checkers.checker import Violation

NAMED_MAX = 10


class Outcome(NamedTuple):
    """The outcome of a seed."""

    seed: int
    rebalances: int
    violations: tuple[Violation, ...]


def cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(times()[:4])


@dataclass
class Tally:
    """``asked``: the number of seeds to simulate. Time counts from the constructor."""

    asked: int
    played: int = 0
    rebalances: int = 0
    failed: list[Outcome] = field(default_factory=list)
    _began_s: float = field(default_factory=perf_counter)
    _cpu_began_s: float = field(default_factory=cpu_s)

    def add(self, outcome: Outcome) -> None:
        self.played += 1
        self.rebalances += outcome.rebalances
        if outcome.violations:
            self.failed.append(outcome)

    @property
    def seconds(self) -> float:
        return max(perf_counter() - self._began_s, 1e-9)

    @property
    def cpu_seconds(self) -> float:
        """CPU time since the start, with that of children that have ended."""
        return max(cpu_s() - self._cpu_began_s, 1e-9)

    def progress(self) -> str:
        """Format ``12,300 of 100,000 seeds, 0 failed; 702 rebalances per second, 22 min left``."""
        left_s = (self.asked - self.played) * self.seconds / max(self.played, 1)
        left = f"{left_s:.0f} s" if left_s < 100 else f"{left_s / 60:.0f} min"
        pace = f"{self.rebalances / self.seconds:.0f} rebalances per second, {left} left"
        return f"{self.played:,} of {self.asked:,} seeds, {len(self.failed)} failed; {pace}"

    def summary(self) -> str:
        """Format ``100 seeds, 0 failed; 1034 rebalances in 3.1 s (330 per second, 335 per CPU second)``."""
        noun = "seed" if self.asked == 1 else "seeds"
        seeds = f"{self.played} {noun}" if self.played == self.asked else f"{self.played} of {self.asked} {noun}"
        which = ", ".join(str(outcome.seed) for outcome in self.failed[:NAMED_MAX])
        more = ", ..." if len(self.failed) > NAMED_MAX else ""
        failed = f"{len(self.failed)} failed" + (f" ({which}{more})" if which else "")
        pace = (
            f"{self.rebalances / self.seconds:.0f} per second, {self.rebalances / self.cpu_seconds:.0f} per CPU second"
        )
        return f"{seeds}, {failed}; {self.rebalances} rebalances in {self.seconds:.1f} s ({pace})"

    def facts(self) -> Mapping[str, Any]:
        """Return the result for ``--json``."""
        return {
            "seeds": self.played,
            "asked": self.asked,
            "violations": [
                {"seed": outcome.seed, "invariant": violation.invariant, "detail": violation.detail}
                for outcome in self.failed
                for violation in outcome.violations
            ],
            "rebalances": self.rebalances,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
        }
