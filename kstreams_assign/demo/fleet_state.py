"""The group from its members' events: living workers, their tasks, decisions, moves.

Pure. The script, the table and the summary read it. Times are the events' own wall-clock milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.group.member import PROBE

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its worker last reported it. ``role``: active, standby, warmup; ``lag``: offsets left, or None."""

    role: str
    state: str
    lag: int | None


@dataclass(slots=True)
class Copy:
    """A standby or a warm-up, from the first report of its worker to the last."""

    worker: str
    task: str
    role: str
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class WorkerView:
    """A worker process as seen from outside. A restart begins a new one."""

    name: str
    alive: bool = True
    exit_status: int | None = None
    adopted_generation: int | None = None
    tasks: dict[str, TaskView] = field(default_factory=dict)
    copies: dict[tuple[str, str], Copy] = field(default_factory=dict)
    records_total: int = 0
    joining_since_ms: int | None = None
    probing: bool = False


@dataclass(slots=True)
class DecisionView:
    """A leader's decision. ``generation`` is known once the leader itself was assigned."""

    leader: str
    kind: str
    assignor: str
    members: int
    processes: frozenset[str]
    changed: Mapping[str, Any]
    adopted: tuple[str, ...]
    owner_changes_lower_bound: int
    withheld: tuple[str, ...]
    next_probe_ms: int | None
    generation: int | None = None


@dataclass(slots=True)
class Rebalance:
    """One generation, from the first member that joined for it to the last that adopted it."""

    generation: int
    start_ms: int
    end_ms: int
    probing: bool = False


@dataclass(frozen=True, slots=True)
class Takeover:
    """A worker began to run a task. ``restored``: changelog offsets that it had to read first."""

    time_ms: int
    worker: str
    task: str
    restored: int


@dataclass(slots=True)
class FleetState:
    """Everything heard so far."""

    workers: dict[str, WorkerView] = field(default_factory=dict)
    decisions: list[DecisionView] = field(default_factory=list)
    rebalances: dict[int, Rebalance] = field(default_factory=dict)
    takeovers: list[Takeover] = field(default_factory=list)
    deaths: list[tuple[str, int]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    next_probe_ms: int | None = None

    def hear(self, event: Event) -> None:
        """Take one event of the fleet."""
        kind = event["event"]
        self.counts[kind] += 1
        worker = self.workers.setdefault(event["worker"], WorkerView(event["worker"]))
        reaction = _REACTIONS.get(kind)
        if reaction is not None:
            reaction(self, worker, event)

    # --- questions ----------------------------------------------------------------

    @property
    def alive(self) -> list[WorkerView]:
        return [worker for worker in self.workers.values() if worker.alive]

    @property
    def owners(self) -> dict[str, str]:
        """Task -> the living worker that processes it."""
        return {
            task: worker.name
            for worker in self.alive
            for task, view in worker.tasks.items()
            if view.role == "active" and view.state == "running"
        }

    @property
    def settled(self) -> bool:
        """Every living worker is in the group and has adopted the last decision, and no task waits to be let go."""
        if not self.alive or not self.decisions:
            return False
        last = self.decisions[-1]
        adopted = {worker.adopted_generation for worker in self.alive}
        complete = last.kind != "refused" and last.members == len(self.alive) and not last.withheld
        return complete and adopted == {last.generation}

    def warm(self, lag: int) -> set[str]:
        """Return the tasks of which a living worker keeps a standby that lacks ``lag`` offsets at most."""
        return {
            task
            for worker in self.alive
            for task, view in worker.tasks.items()
            if view.role == "standby" and view.lag is not None and view.lag <= lag
        }

    @property
    def converged(self) -> bool:
        """Settled, and the leader wants nothing more: balanced, no warm-up, no probe."""
        return self.settled and self.decisions[-1].next_probe_ms is None


# --- what events do --------------------------------------------------------------------


def _started(fleet_state: FleetState, worker: WorkerView, _event: Event) -> None:
    fleet_state.workers[worker.name] = WorkerView(worker.name)


def _exited(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    worker.alive, worker.exit_status = False, event["status"]
    worker.tasks, worker.copies = {}, {}
    fleet_state.deaths.append((worker.name, event["time_ms"]))


def _joining(_fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    worker.joining_since_ms = worker.joining_since_ms or event["time_ms"]
    worker.probing = worker.probing or event["reason"].startswith(PROBE)


def _decision(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    fleet_state.decisions.append(
        DecisionView(
            leader=worker.name,
            kind=event["kind"],
            assignor=event["assignor"],
            members=event["members"],
            processes=frozenset(event["placements"]),
            changed=event["changed"],
            adopted=tuple(event["adopted"]),
            owner_changes_lower_bound=event["owner_changes_lower_bound"],
            withheld=tuple(event["withheld"]),
            next_probe_ms=event["next_probe_ms"],
        )
    )


def _assigned(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    now_ms, generation = event["time_ms"], event["generation"]
    if fleet_state.decisions and fleet_state.decisions[-1].leader == worker.name:
        fleet_state.decisions[-1].generation = fleet_state.decisions[-1].generation or generation
    start_ms = worker.joining_since_ms or now_ms
    rebalance = fleet_state.rebalances.setdefault(generation, Rebalance(generation, start_ms, now_ms))
    rebalance.start_ms = min(rebalance.start_ms, start_ms)
    rebalance.probing = rebalance.probing or worker.probing
    worker.joining_since_ms, worker.probing = None, False
    fleet_state.next_probe_ms = event["next_probe_ms"]


def _adopted(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    worker.adopted_generation = event["generation"]
    rebalance = fleet_state.rebalances[event["generation"]]
    rebalance.end_ms = max(rebalance.end_ms, event["time_ms"])


def _running(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    fleet_state.takeovers.append(Takeover(event["time_ms"], worker.name, event["task"], event["restored"]))


def _lost(_fleet_state: FleetState, worker: WorkerView, _event: Event) -> None:
    worker.adopted_generation = None


def _status(fleet_state: FleetState, worker: WorkerView, event: Event) -> None:
    now_ms = event["time_ms"]
    worker.tasks = {task: TaskView(**view) for task, view in event["tasks"].items()}
    kept = {(task, view.role) for task, view in worker.tasks.items() if view.role != "active"}
    new = {key: Copy(worker.name, *key, now_ms, now_ms) for key in sorted(kept - worker.copies.keys())}
    fleet_state.copies.extend(new.values())
    worker.copies = new | {key: copy for key, copy in worker.copies.items() if key in kept}
    for copy in worker.copies.values():
        copy.to_ms = now_ms
    worker.records_total = event["records_total"]


_REACTIONS: Mapping[str, Callable[[FleetState, WorkerView, Event], None]] = {
    "started": _started,
    "exited": _exited,
    "joining": _joining,
    "decision": _decision,
    "assigned": _assigned,
    "adopted": _adopted,
    "running": _running,
    "lost": _lost,
    "status": _status,
}
