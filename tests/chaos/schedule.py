"""The schedule of faults: a pure function of the seed and the length of the run.

The settings of a run, the faults and their draw live here; processes and clocks do not belong here. The planner knows
which workers exist at each time, so that a fault always has a target. Faults come from a bag with every kind, so that a
short run has most of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

BROKER = "broker"


class Kind(StrEnum):
    """The kinds of faults; ``lasts_s`` of a fault is its duration."""

    KILL = "kill"  # SIGKILL, started again after a while
    SLEEP = "sleep"  # SIGSTOP, past the session timeout, then SIGCONT
    NAP = "nap"  # SIGSTOP for less than the session timeout
    SLOW = "slow"  # stopped most of the time, in short turns
    JUMP = "clock_jump"  # its wall clock is set an hour off; the next time right again
    WIPE = "wipe"  # SIGKILL, its state directory is deleted, started again
    DAMAGE = "damage"  # SIGKILL, its state directory is damaged, started again
    ADD = "add"  # another process starts
    DRAIN = "drain"  # leaves after warm hand-over
    CLOSE = "close"  # leaves at once
    BROKER = "broker_kill"  # SIGKILL of the broker, started again on its data


BAG: dict[Kind, int] = {
    Kind.KILL: 3,
    Kind.SLEEP: 2,
    Kind.NAP: 2,
    Kind.SLOW: 1,
    Kind.JUMP: 1,
    Kind.WIPE: 1,
    Kind.DAMAGE: 2,
    Kind.ADD: 2,
    Kind.DRAIN: 1,
    Kind.CLOSE: 1,
    Kind.BROKER: 2,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run, all drawn from the seed and printed first."""

    seed: int
    seconds: float
    guarantee: str
    workers: int
    protocol: str = "classic"
    workers_max: int = 5
    workers_min: int = 2
    partitions: int = 6
    inputs_per_s: int = 400
    keys: int = 200
    inputs_per_key: int = 50
    standbys: int = 0
    warmups_max: int = 2
    assignor: str = "least_movement"
    session_timeout_s: float = 6.0
    gap_s: float = 4.5
    at_once: float = 0.25
    bag: dict[Kind, int] = field(default_factory=lambda: dict(BAG))

    @property
    def quiet_s(self) -> float:
        """The end of the run without faults, to heal, converge and count."""
        return min(25.0, self.seconds / 2.5)


@dataclass(frozen=True, slots=True)
class Fault:
    """``target``: a worker's number, or the broker. ``salt``: the seed for draws while it happens."""

    at_s: float
    kind: Kind
    target: int | str
    lasts_s: float
    salt: int

    def __str__(self) -> str:
        who = self.target if self.target == BROKER else f"w{self.target}"
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:6.1f} s  {self.kind:<11} {who}{lasts}"


def draw_settings(
    seed: int, seconds: float, guarantee: str, without: Sequence[Kind] = (), protocol: str = "classic"
) -> Settings:
    """The settings of a seed; ``without`` some kinds of faults."""
    draw = Random(f"settings {seed}")
    return Settings(
        seed=seed,
        seconds=seconds,
        guarantee=guarantee,
        protocol=protocol,
        workers=draw.choice((3, 4)),
        standbys=draw.choice((0, 1)),
        assignor=draw.choice(("least_movement", "least_movement", "high_availability")),
        bag={kind: count for kind, count in BAG.items() if kind not in without},
    )


def schedule(settings: Settings) -> list[Fault]:
    """Return the faults of a run, in order."""
    return list(_Planner(settings).faults())


class _Planner:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._draw = Random(f"schedule {settings.seed}")
        # A live or restarting worker -> the time from which on another fault may hit it.
        self._free_s: dict[int | str, float] = dict.fromkeys(range(settings.workers), 6.0)
        self._free_s[BROKER] = 6.0
        self._left_s: dict[int, float] = {}

    def faults(self) -> Iterator[Fault]:
        now, end = 6.0, self._settings.seconds - self._settings.quiet_s
        bag: list[Kind] = []
        while now < end:
            if not bag:
                bag = [kind for kind, count in self._settings.bag.items() for _ in range(count)]
                self._draw.shuffle(bag)
            fault = self._fault(now, self._next(bag, now))
            if fault is not None:
                yield fault
            if fault is None or self._draw.random() >= self._settings.at_once:
                now = round(now + self._draw.uniform(0.3, 1.7) * self._settings.gap_s, 1)

    def _next(self, bag: list[Kind], now: float) -> Kind | None:
        """Return the first kind in the bag that has a target now."""
        for place, kind in enumerate(bag):
            if self._targets(kind, now):
                return bag.pop(place)
        return None

    def _targets(self, kind: Kind, now: float) -> list[int | str]:
        if kind is Kind.BROKER:
            return [BROKER] if self._free_s[BROKER] <= now else []
        there = [number for number in self._free_s if number != BROKER]
        if kind is Kind.ADD:
            absent = [n for n in range(self._settings.workers_max) if n not in self._free_s]
            return [n for n in absent if self._left_s.get(n, 0.0) <= now]
        if kind in (Kind.DRAIN, Kind.CLOSE) and len(there) <= self._settings.workers_min:
            return []
        return [number for number in there if self._free_s[number] <= now]

    def _fault(self, now: float, kind: Kind | None) -> Fault | None:
        if kind is None:
            return None
        target = self._draw.choice(sorted(self._targets(kind, now), key=str))
        lasts_s = round(self._lasts_s(kind), 1)
        self._note(now, kind, target, lasts_s)
        return Fault(now, kind, target, lasts_s, self._draw.randrange(2**32))

    def _lasts_s(self, kind: Kind) -> float:
        session_s = self._settings.session_timeout_s
        ranges = {
            Kind.SLEEP: (session_s + 2, session_s + 5),
            Kind.NAP: (0.5, session_s / 2),
            Kind.SLOW: (6, 12),
            Kind.BROKER: (0.2, session_s + 2),
            Kind.KILL: (0.1, session_s + 2),
            Kind.WIPE: (0.1, 4),
            Kind.DAMAGE: (0.1, 4),
        }
        return self._draw.uniform(*ranges[kind]) if kind in ranges else 0.0

    def _note(self, now: float, kind: Kind, target: int | str, lasts_s: float) -> None:
        """Note which workers exist, and from when on a fault may hit them again: a new one needs time to start."""
        if kind in (Kind.DRAIN, Kind.CLOSE):
            assert isinstance(target, int)
            del self._free_s[target]
            self._left_s[target] = now + (25 if kind is Kind.DRAIN else 8)
        else:
            self._free_s[target] = now + lasts_s + (5 if kind in (Kind.ADD, Kind.BROKER) else 2)
