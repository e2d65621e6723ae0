"""What may go wrong, and how often: one value a seed, printed first. ``plan`` draws the faults of processes beforehand.

Faults that are drawn beforehand can be left out one by one, which is how a failing seed is shrunk (``shrink``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import NamedTuple

from kstreams_assign.errors import ConfigError

PROCESS_FAULTS = ("kill", "wreck", "pause", "cut_off", "leave", "move_coordinator")
"""Those with a time of their own, as probabilities a minute (and process, but for the last)."""

LONGEST_MS = 40_000
"""Four sessions: long enough that the group goes on without whoever is away."""


class Fault(NamedTuple):
    """Something that happens to the process in place ``slot`` and is over after ``lasts_ms``."""

    at_ms: int
    kind: str
    slot: int
    lasts_ms: int

    def __str__(self) -> str:
        return f"{self.kind} {self.slot} at {self.at_ms} for {self.lasts_ms}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read what ``str`` writes. Raises ``ConfigError``."""
        words = text.split()
        if len(words) != 6 or words[0] not in PROCESS_FAULTS or words[2::2] != ["at", "for"]:
            raise ConfigError(
                f"{text!r} is no fault; write KIND PLACE at MS for MS, KIND one of {', '.join(PROCESS_FAULTS)}"
            )
        return cls(int(words[3]), words[0], int(words[1]), int(words[5]))


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities. The first block counts by the minute, the second by the message, look-up, clean-up or commit.

    ``kill``: the process dies at once and comes back; ``wreck``: with an empty disk; ``pause``: it sleeps; ``cut_off``: no message
    gets through; ``leave``: it stops as asked; ``move_coordinator``: another broker reads the group from its log.
    """

    kill: float = 0.0
    wreck: float = 0.0
    pause: float = 0.0
    cut_off: float = 0.0
    leave: float = 0.0
    move_coordinator: float = 0.0

    lost_message: float = 0.0
    slow_message: float = 0.0
    failed_lookup: float = 0.0
    slow_cleaner: float = 0.0
    slow_commit: float = 0.0

    @classmethod
    def draw(cls, rng: Random) -> Faults:
        """Each is left out by half of the seeds, so that what two of them hide is seen without one of them."""
        often = dict.fromkeys(PROCESS_FAULTS, 0.15) | {
            "lost_message": 0.01,
            "slow_message": 0.02,
            "failed_lookup": 0.1,
            "slow_cleaner": 0.3,
            "slow_commit": 0.1,
        }
        return cls(**{one.name: often[one.name] * rng.choice((0, 0, 1, 3)) for one in fields(cls)})

    def plan(self, rng: Random, slots: int, safety_ms: int) -> tuple[Fault, ...]:
        """The faults of processes, in order of time. ``safety_ms``: they begin within it."""
        drawn: list[Fault] = []
        for kind in PROCESS_FAULTS:
            for slot in range(1 if kind == "move_coordinator" else slots):
                for minute in range(safety_ms // 60_000):
                    at_ms = minute * 60_000 + rng.randrange(60_000)
                    lasts_ms = rng.choice((rng.randrange(50, 2_000), rng.randrange(2_000, LONGEST_MS)))
                    if rng.random() < getattr(self, kind):
                        drawn.append(Fault(at_ms, kind, slot, lasts_ms))
        return tuple(sorted(drawn))

    @property
    def named(self) -> dict[str, float]:
        """Those that may happen."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}


NO_FAULTS = Faults()
