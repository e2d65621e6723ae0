"""What the page shows, as values: no drawing, no HTML, no files.

``build`` makes these from rows, ``payload`` and ``sections`` draw them. Generations and processes are given by their
index in the group's own lists, times are milliseconds since 1970 UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

FLAP_MOVES = 3
FLAP_WINDOW_MS = 3_600_000
"""A task flaps that changed its owner at least ``FLAP_MOVES`` times within some ``FLAP_WINDOW_MS``."""

STUCK_PROBES = 3
LONG_PROBING_MS = 6 * 3_600_000
"""A group never finishes probing if it still asks for probes, and the last ``STUCK_PROBES`` moved nothing, or it has
been asking for ``LONG_PROBING_MS``."""

CAUSES = (
    *("join", "leave", "replace", "probe", "follow_up", "rejoin"),
    *("topic_change", "leader_change", "first", "empty", "unknown"),
)
"""Causes of a rebalance as the table names them, in the order of legends; ``unknown`` if there is no evidence."""


class Role(IntEnum):
    """A replica's role. ``COPY`` is a standby or a warm-up of a leader that does not report which."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2
    COPY = 3


@dataclass(frozen=True, slots=True)
class Generation:
    """A completed rebalance. ``missing`` generations before it are in no record.

    ``by_broker``: it is of a streams group, which has no leader and no probes; then ``took_ms`` is how long it took,
    None where a clock was set back meanwhile.
    """

    number: int
    time_ms: int
    state: str
    cause: str
    confidence: str
    evidence: str
    leader: int | None
    members: int | None
    assignor: str | None
    joined: tuple[int, ...]
    gone: tuple[int, ...]
    owner_changes: int | None
    adopted: int | None
    probing: bool | None
    next_rebalance_ms: int | None
    missing: int
    unreadable: int
    by_broker: bool = False
    took_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """An instance, as its last readable member reported it."""

    process_id: str
    endpoint: str | None
    client_id: str | None
    host: str | None
    version: int | None
    ours: bool | None
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """One copy of a task over generations ``first`` to ``last``, both included, in a lane of the task's row.

    ``lags`` holds (generation, offsets) where the copy had reported a position and the changelog's end is known.
    """

    task: int
    lane: int
    process: int
    role: Role
    first: int
    last: int
    lags: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A row of the timeline. ``lanes`` counts the active replica's too; ``busiest_hour`` is the most moves an hour."""

    task: str
    subtopology: int
    lanes: int
    moves: int
    busiest_hour: int

    @property
    def flaps(self) -> bool:
        """Whether it moved often enough within an hour."""
        return self.busiest_hour >= FLAP_MOVES


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a task's owner. ``row`` and the processes are None where the group's lists do not have them.

    ``handover_ms``: from the old owner's release to the new owner's assignment; None of classic groups, and where a
    clock was set back in between.
    """

    generation: int
    number: int
    time_ms: int
    task: str
    source: int | None
    target: int | None
    planned: bool | None
    warm: bool | None
    held_ms: int | None
    gap_ms: int | None
    handover_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Probing:
    """The group's last state is: probing. ``idle_probes`` is how many probes in a row have moved nothing."""

    since_ms: int
    lasted_ms: int
    probes: int
    idle_probes: int

    @property
    def never_finishes(self) -> bool:
        """Whether waiting longer is no cure."""
        return self.idle_probes >= STUCK_PROBES or self.lasted_ms >= LONG_PROBING_MS


@dataclass(frozen=True, slots=True)
class Warmup:
    """A warm-up, from first generation to its end. ``outcome``: ``handed over``, ``given up``, ``under way``."""

    task: int
    process: int
    first: int
    lasted_ms: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Buckets:
    """Rebalances by time: ``counts[cause][i]`` happened from ``start_ms + i * width_ms`` on."""

    start_ms: int
    width_ms: int
    counts: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Span:
    """The time that the page is about."""

    start_ms: int
    end_ms: int

    @property
    def hours(self) -> float:
        """At least one: a group that lives for three minutes does not rebalance 400 times an hour."""
        return max(1.0, (self.end_ms - self.start_ms) / 3_600_000)


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in the overview."""

    group: str
    rebalances: int
    per_hour: float
    owner_changes: int
    adopted: int
    cold: int
    flapping: tuple[str, ...]
    probing: Probing | None
    members: int | None
    worst_gap_ms: int | None
    last_ms: int
    strip: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with everything that its section shows. ``skews`` maps a class of tasks to (generation, skew).

    ``drawn_ms``: where each generation begins on an axis of time, none before the one that it follows.
    """

    line: GroupLine
    span: Span
    generations: tuple[Generation, ...]
    processes: tuple[Process, ...]
    tasks: tuple[TaskRow, ...]
    bars: tuple[Bar, ...]
    moves: tuple[Move, ...]
    warmups: tuple[Warmup, ...]
    warmups_known: bool
    skews: Mapping[str, tuple[tuple[int, float], ...]]
    buckets: Buckets
    drawn_ms: tuple[int, ...]
    drawn_until_ms: int
    equal_widths: bool


@dataclass(frozen=True, slots=True)
class Damage:
    """What could not be used, by kind and reason."""

    kind: str
    reason: str
    records: int
    first: str


@dataclass(frozen=True, slots=True)
class InShort:
    """What the page opens with: a sentence for each question, about ``span``."""

    span: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetView:
    """The whole page but the groups' sections. Groups stand in the order of trouble."""

    span: Span
    lines: tuple[GroupLine, ...]
    buckets: Buckets
    counts: tuple[tuple[str, int], ...]
    damage: tuple[Damage, ...]
