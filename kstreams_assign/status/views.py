"""What the parts of a worker show of themselves at one moment, as values. A ``Status`` is built from them (``build``).

What must not live here: how a part keeps what it shows (``worker``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from uuid import UUID

from kstreams_assign.engine.stops import Stop
from kstreams_assign.group.member import State
from kstreams_assign.group.probing import Answer, Gain
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.observe.transactions import HeldUp
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.wire import AwaitedProcess

# --- the member -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DrainView:
    """A member of a streams group that drains: task with state -> the member that gets it, and those that are warm.

    ``away``: the instance ids of members that get tasks, and run none until they are back.
    """

    owners: Mapping[TaskId, str]
    warm: frozenset[TaskId]
    away: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinView:
    """A process that is about to join a streams group: the ``tasks`` with state that it restores first, by prediction.

    ``joiners``: how many others are announced that join with it.
    """

    tasks: frozenset[TaskId]
    warm: frozenset[TaskId]
    joiners: int


@dataclass(frozen=True, slots=True)
class MemberView:
    """How the member stands, for status. ``standing``: the decision, where this member leads."""

    state: State
    generation: int | None
    adopted: Adopted | None
    leads: bool
    standing: LeaderState | None
    draining: bool
    outage: bool
    lease_left_s: float
    restarting: bool = False
    awaited: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    """Processes that restart, with the time that is left."""
    drain: DrainView | None = None
    """In a streams group, while it drains."""
    join: JoinView | None = None
    """In a streams group, until it joins."""


# --- early probing ----------------------------------------------------------------

Copies = Mapping[tuple[UUID, TaskId], TaskProgress]
"""The reported progress of other processes' replicas, ``ALL_CHANGELOGS`` of each task as one partition."""

ALL_CHANGELOGS = TopicPartition("all changelogs of the task", 0)
"""What is published of a task is one sum, so its progress is that of one partition."""


@dataclass(frozen=True, slots=True)
class EarlyView:
    """How early probing stands, for status. ``off`` says why it is; ``due``: a probing rebalance is.

    ``alone``: the leader does not read progress records, so this member asks for its own replicas. A leader, and a
    member alone, know the ``gain`` of a rebalance now and the ``answer`` to it (times are monotonic). Only the leader
    knows all ``copies``.
    """

    off: str | None = None
    due: bool = False
    gain: Gain | None = None
    answer: Answer | None = None
    copies: Copies = field(default_factory=dict)
    alone: bool = False


# --- meters -----------------------------------------------------------------------

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

TaskTopic = tuple[TaskId, str]


@dataclass(frozen=True, slots=True)
class DurationView:
    """How many durations fell into each bucket (the last one is beyond all bounds), and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum_s: float = 0.0

    def cumulative(self) -> list[tuple[str, int]]:
        """Upper bound -> how many lasted at most so long, as a Prometheus histogram has it."""
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Meters:
    """All meters at one moment."""

    rebalances: DurationView = field(default_factory=DurationView)
    commits: DurationView = field(default_factory=DurationView)
    commit_failures_total: int = 0
    records_consumed: Mapping[TaskTopic, int] = field(default_factory=dict)
    records_produced: Mapping[TaskTopic, int] = field(default_factory=dict)
    records_dropped: Mapping[TaskId, int] = field(default_factory=dict)
    dead_letters: Mapping[TaskId, int] = field(default_factory=dict)
    punctuated_total: int = 0
    timers_fired: Mapping[TaskId, int] = field(default_factory=dict)
    entries_expired: Mapping[TaskId, int] = field(default_factory=dict)
    restored: Mapping[TaskId, int] = field(default_factory=dict)
    updated: Mapping[TaskId, int] = field(default_factory=dict)
    state_bytes: Mapping[TaskId, int] = field(default_factory=dict)


# --- global tables ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GlobalTableView:
    """How a global table stands. ``lag``: offsets to the end of its topic, None if unknown.

    ``ready``: it may be read. ``stopped``: why it is not kept up to date, else empty.
    """

    name: str
    topic: str
    ready: bool
    lag: int | None
    stopped: str = ""


# --- all of them ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Views:
    """The parts' views, read one after the other. ``monotonic_ms`` is the clock of ``progress`` and ``early``.

    ``queued``: the warm-ups that the restorer does not read yet, as others of the queue come first.
    """

    member: MemberView
    early: EarlyView
    roles: Mapping[TaskId, str]
    states: Mapping[TaskId, TaskState]
    progress: Mapping[TaskId, TaskProgress]
    queued: frozenset[TaskId]
    warnings: Mapping[str, Sequence[str]]
    records_total: int
    commits_total: int
    turned_ms: int
    closing: bool
    failure: str | None
    now_ms: int
    monotonic_ms: int
    stopped: Mapping[TaskId, Stop] = field(default_factory=dict)
    waits: Mapping[TaskId, HeldUp] = field(default_factory=dict)
    transactions_aborted_total: int = 0
    records_out_total: int = 0
    input_lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    paused: Mapping[TaskId, int] = field(default_factory=dict)
    meters: Meters = field(default_factory=Meters)
    global_tables: Sequence[GlobalTableView] = ()
