"""When the leader asks for the next rebalance before the probing interval ends: two pure parts.

KIP-441 waits a fixed interval because leader and members "have no channel". Python members publish the positions of
their replicas (``worker.early``), so the leader knows what a rebalance *would* change: ``compute_gain`` asks the
assignor itself. A warm-up that has caught up and becomes a standby counts as a change although no owner changes: until
then the group is not at rest. ``Prober`` decides when that is worth a rebalance. Only the leader asks, once per
generation, so this never becomes the storm for which the KIP rejects rebalances that members trigger. Without news the
interval applies. A Java leader does not read progress, so under it each Python member asks for its own replicas, by
the same rule and only for those that were behind when the generation began: once they have caught up, none asks.

The waiting rule: two warm-ups that end together should need one rebalance, and one that never ends must not delay the
others. So the leader waits for replicas under way, but at most twice the time that the finished ones took: a group
asks at most once for every tripling of the time since its last rebalance, and a queue of replicas that end in sequence
is handed over as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from kstreams_assign.assign import (
    Client,
    TaskLags,
    compute_lag,
    is_caught_up,
)
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.member import PROBE
from kstreams_assign.group.values import LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

FLOOR_MS = 10_000
PATIENCE = 2
"""The wait for replicas under way, as a multiple of the time until the last gain."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rebalance would bring now.

    ``moves``: tasks that would change owners. ``under_way``: replicas that report a position but have not caught up.
    ``standbys``: warm-ups that have caught up and would become standbys, which changes no owner but ends the extra
    replica and the wait for it.
    """

    moves: int
    under_way: int
    standbys: int = 0

    @property
    def changes(self) -> int:
        """Return how many awaited changes a rebalance would bring."""
        return self.moves + self.standbys

    def __str__(self) -> str:
        moved = f"{self.moves} tasks can change hands" if self.moves or not self.standbys else ""
        settled = f"{self.standbys} warm-ups can become standbys" if self.standbys else ""
        waiting = f"{self.under_way} replicas are still on their way" if self.under_way else ""
        return ", ".join(part for part in (moved, settled, waiting) if part)


Sums = Mapping[TaskId, int]


def compute_gain(standing: LeaderState, published: Mapping[UUID, Sums], end_offset_sums: Sums) -> Gain:
    """Return what the assignor would change now. ``published``: offset sums that processes have published since.

    A process that publishes nothing (Java's) counts with the lag it had when it joined. Raises ``ConfigError`` as
    assignors do.
    """
    cluster = standing.cluster
    clients = tuple(_client_now(client, standing, published, end_offset_sums) for client in cluster.clients)
    plan = standing.assign(replace(cluster, clients=clients), standing.config)
    owners, then = standing.plan.owners, plan.owners
    acceptable = standing.config.acceptable_recovery_lag
    under_way = sum(
        not is_caught_up(client.lags[task], acceptable)
        for client in clients
        if client.process_id in published
        for task in client.prev_standby
    )
    standbys = sum(
        is_caught_up(client.lags[task], acceptable)
        for client in clients
        for task in standing.plan.placements[client.process_id].warmup & plan.placements[client.process_id].standby
    )
    return Gain(sum(owners.get(task) != process for task, process in then.items()), under_way, standbys)


def find_tasks_behind(
    tasks: Collection[TaskId], sums: Sums, end_offset_sums: Sums, acceptable: int
) -> frozenset[TaskId]:
    """Return the tasks that lack more than ``acceptable``.

    A task without a sum lacks everything; a task whose end is unknown does not count. This is for a member whose
    leader reads no progress (Java's): its own replicas alone show when a rebalance might be worth it.
    """
    return frozenset(
        task
        for task in tasks
        if task in end_offset_sums and not is_caught_up(compute_lag(end_offset_sums[task], sums.get(task)), acceptable)
    )


def _client_now(client: Client, standing: LeaderState, published: Mapping[UUID, Sums], ends: Sums) -> Client:
    placed = standing.plan.placements[client.process_id]
    copies = placed.standby | placed.warmup
    known = published.get(client.process_id)
    if known is None:
        known = {task: ends[task] - client.lags[task] for task in copies if 0 <= client.lags[task] <= ends[task]}
    sums = {task: known[task] for task in copies if task in known}
    sums.update(dict.fromkeys(placed.active & ends.keys(), RUNNING_OFFSET_SUM))
    return replace(client, prev_active=placed.active, prev_standby=copies, lags=TaskLags(ends, sums))


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """A generation has begun in which a probing rebalance is due."""


@dataclass(frozen=True, slots=True)
class GainReported:
    """Members published progress; ``gain`` is what a rebalance would bring."""

    gain: Gain


Event = GenerationStarted | GainReported


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing. Ask again at ``until_ms`` if there is no news before; None if only news can change the answer."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejoin:
    """Ask for a rebalance now."""

    reason: str


Answer = Wait | Rejoin


class Prober:
    """Decides when to ask for a rebalance. Times are milliseconds of one clock, given by the caller."""

    def __init__(self, floor_ms: int = FLOOR_MS) -> None:
        self._floor_ms = floor_ms
        self._began_ms = self._gained_ms = 0
        self._changes = 0
        self._asked = True  # nothing is due before a decision

    def handle(self, event: Event, now_ms: int) -> Answer:
        if isinstance(event, GenerationStarted):
            self._began_ms = self._gained_ms = now_ms
            self._changes, self._asked = 0, False
            return Wait()
        if self._asked:
            return Wait()
        return self._judge(event.gain, now_ms)

    def _judge(self, gain: Gain, now_ms: int) -> Answer:
        if gain.changes > self._changes:
            self._gained_ms = now_ms
        self._changes = gain.changes
        if not gain.changes:
            return Wait()
        due_ms = self._began_ms + self._floor_ms
        if gain.under_way:
            due_ms = max(due_ms, self._gained_ms + PATIENCE * (self._gained_ms - self._began_ms))
        if now_ms < due_ms:
            return Wait(due_ms)
        self._asked = True
        return Rejoin(f"{PROBE}, early: {gain}")
