"""The faults of a simulation and their probabilities. ``plan`` draws the faults of processes beforehand.

Planned faults can be left out one at a time, which is how a failing seed is reduced (``shrink``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from random import Random
from typing import NamedTuple

from kstreams_assign.errors import ConfigError

PROCESS_FAULTS = (
    "kill",
    "wreck",
    "pause",
    "cut_off",
    "leave",
    "move_coordinator",
    "damage",
    "fail",
    "drain",
    "full_disk",
    "slow_disk",
    "unreadable",
    "restart",
)
"""The planned faults: probabilities per minute and process; ``move_coordinator`` per minute."""

LONGEST_MS = 40_000
"""Four sessions: long enough that the group goes on without the process."""

_WRITTEN = re.compile(
    rf"({'|'.join(PROCESS_FAULTS)}) (\d{{1,15}}) at (\d{{1,15}}) for (\d{{1,15}})",
    re.ASCII,
)


class Fault(NamedTuple):
    """A fault of the process in place ``slot``, which ends after ``lasts_ms``."""

    at_ms: int
    kind: str
    slot: int
    lasts_ms: int

    def __str__(self) -> str:
        return f"{self.kind} {self.slot} at {self.at_ms} for {self.lasts_ms}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse the output of ``str``. Raises ``ConfigError``."""
        written = _WRITTEN.fullmatch(" ".join(text.split()))
        if written is None:
            raise ConfigError(
                f"{text!r} is not a fault; write KIND PLACE at MS for MS, KIND one of {', '.join(PROCESS_FAULTS)}"
            )
        kind, slot, at_ms, lasts_ms = written.groups()
        return cls(int(at_ms), kind, int(slot), int(lasts_ms))


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities: the first block per minute, the second per message, end offset request, cleaning or commit.

    ``kill``: the process dies and comes back; ``wreck``: it comes back with an empty disk; ``pause``: it sleeps;
    ``cut_off``: no message gets through; ``leave``: it closes; ``move_coordinator``: another broker loads the group
    from its log; ``damage``: each folder on its disk is found damaged when it is opened or written next; until the
    fault ends, so are new folders; ``fail``: it closes after an error of the user's function, and commits nothing more;
    ``drain``: it asks the group to warm up its tasks elsewhere, closes once it has none, and comes back later;
    ``full_disk``: no store can be written; ``slow_disk``: restores and writes take much longer; ``unreadable``: the
    stores of running tasks are found damaged; ``restart``: it announces that it restarts, closes, and comes back later.
    New kinds come last, so that a seed keeps its other faults.
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

    damage: float = 0.0
    fail: float = 0.0
    drain: float = 0.0
    full_disk: float = 0.0
    slow_disk: float = 0.0
    unreadable: float = 0.0
    restart: float = 0.0

    @classmethod
    def draw(cls, rng: Random) -> Faults:
        """Draw the probabilities. Half of the seeds leave a kind out, as one fault may hide the effect of another."""
        often = dict.fromkeys(PROCESS_FAULTS, 0.15) | {
            "lost_message": 0.01,
            "slow_message": 0.02,
            "failed_lookup": 0.1,
            "slow_cleaner": 0.3,
            "slow_commit": 0.1,
        }
        return cls(**{field.name: often[field.name] * rng.choice((0, 0, 1, 3)) for field in fields(cls)})

    def plan(self, rng: Random, slots: int, safety_ms: int) -> tuple[Fault, ...]:
        """Draw the faults of processes, in order of time; all begin within ``safety_ms``."""
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
        """The faults with a probability above 0."""
        return {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}


NO_FAULTS = Faults()
