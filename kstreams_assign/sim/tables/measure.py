"""Measure the costs of a policy in a situation, simulated with all checkers.

The simulation and the counting live here. Rules of a policy and words for numbers do not belong here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain

from kstreams_assign.assign import is_caught_up
from kstreams_assign.errors import SimulationStuck
from kstreams_assign.model import TaskId
from kstreams_assign.sim.checkers.checker import Violation, Watch
from kstreams_assign.sim.checkers.classic import every_checker
from kstreams_assign.sim.faults import NO_FAULTS, Fault
from kstreams_assign.sim.play import unsettled
from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.process import Process
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.ledger import RUNS, Bar, Ledger
from kstreams_assign.sim.tables.situations import Event, Situation
from kstreams_assign.sim.world import World

LOOK_MS = 1_000
BUSY_S = 10
WITHIN_MS = 4 * 3_600_000
NOT_AGAIN_MS = 10**9
SEED = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """``downtime_s``: task-seconds without processing. ``restored``: records read to restore or to update replicas.

    ``moves``: a task begins on another process than its last one. ``settled_s``: until no more rebalance was due.
    ``read_per_s``: records that all processes read per second in the busiest ten seconds. ``uneven``: in the end, the
    most active tasks on a process minus the fewest; ``uneven_replicas``: the same with standbys. ``bars`` and
    ``decided_s`` are for timelines, in milliseconds and seconds from the first event.
    """

    policy: str
    situation: str
    standbys: int
    rebalances: int
    downtime_s: float
    restored: int
    moves: int
    settled_s: float
    uneven: int = 0
    uneven_replicas: int = 0
    read_per_s: int = 0
    violations: tuple[Violation, ...] = ()
    bars: tuple[Bar, ...] = field(default=(), repr=False)
    decided_s: tuple[float, ...] = field(default=(), repr=False)


@dataclass(slots=True)
class Busiest:
    """The records read per second by all processes, a value for each second."""

    per_s: list[int] = field(default_factory=list)

    @property
    def most_per_s(self) -> int:
        """The mean of the busiest ten seconds."""
        sums = [0, *accumulate(self.per_s)]
        return max((b - a for a, b in zip(sums, sums[BUSY_S:], strict=False)), default=0) // BUSY_S


def measure(policy: Policy, situation: Situation, group: Scenario, *, seed: int = SEED) -> Measured:
    """Simulate from a group at rest to its next rest. Raises ``SimulationStuck`` if it takes more than four hours."""
    scenario = policy.applied(replace(group, processes=max(group.processes, _places(situation))))
    ledger = Ledger()
    watch = Watch(seed, [*every_checker(), ledger])
    world = World(scenario, NO_FAULTS, seed, watch, None, policy)
    for slot in situation.before:
        world.start(slot)
    _rest(world, policy, situation)
    began_ms, decided, restored = world.timeline.now_ms, len(ledger.rebalances), world.logs.restored
    for event in situation.events:
        world.timeline.at(began_ms + event.at_s * 1_000, _inflict, world, event)
    last_ms = began_ms + 1_000 * max(event.at_s for event in situation.events)
    world.timeline.run(last_ms)
    busiest = Busiest()
    ended_ms = last_ms if situation.ends else _rest(world, policy, situation, busiest)
    bars = tuple(
        bar._replace(from_ms=bar.from_ms - began_ms, to_ms=bar.to_ms - began_ms)
        for bar in ledger.between(began_ms, ended_ms)
    )
    busy_ms = sum(bar.to_ms - bar.from_ms for bar in bars if bar.role == RUNS)
    times = tuple((at_ms - began_ms) / 1_000 for at_ms in ledger.rebalances[decided:])
    return Measured(
        policy=policy.name,
        situation=situation.name,
        standbys=scenario.standbys,
        rebalances=len(times),
        downtime_s=(scenario.partitions * (ended_ms - began_ms) - busy_ms) / 1_000,
        restored=world.logs.restored - restored,
        moves=_moves(bars),
        settled_s=(ended_ms - began_ms) / 1_000,
        uneven=_uneven([_runs(process) for process in world.processes]),
        uneven_replicas=_uneven([_runs(process) + _holds(process) for process in world.processes]),
        read_per_s=busiest.most_per_s,
        violations=tuple(watch.violations),
        bars=bars,
        decided_s=times,
    )


def _places(situation: Situation) -> int:
    return 1 + max([*situation.before, *(event.slot for event in situation.events)])


def _inflict(world: World, event: Event) -> None:
    if event.kind == "start":
        world.start(event.slot)
    else:
        world.inflict(Fault(0, event.kind, event.slot, NOT_AGAIN_MS))


def _rest(world: World, policy: Policy, situation: Situation, busiest: Busiest | None = None) -> int:
    """Run until no rebalance is due and all replicas are caught up; return since when.

    Members notice the last event within two sessions.
    """
    timeline = world.timeline
    until_ms = timeline.now_ms + WITHIN_MS
    at_rest_ms = timeline.now_ms
    quiet_ms = 2 * world.scenario.session_timeout_ms
    while timeline.now_ms < at_rest_ms + quiet_ms:
        timeline.run(timeline.now_ms + LOOK_MS)
        if busiest is not None:
            busiest.per_s.append(_read_per_s(world))
        if why := next(chain(unsettled(world), _incomplete(world)), None):
            at_rest_ms = timeline.now_ms + LOOK_MS
        if timeline.now_ms > until_ms:
            raise SimulationStuck(f"{policy.name} in {situation.name} does not come to rest within four hours: {why}")
    return at_rest_ms


def _incomplete(world: World) -> Iterator[str]:
    for process in world.processes:
        yield from (f"{process.run.name}: {task} is not complete" for task in _copying(world, process))


def _copying(world: World, process: Process) -> Iterator[TaskId]:
    """Yield the tasks that the process restores and that are not caught up."""
    for task in process.loop.restoring.restorer.tasks:
        held = sum(process.disk.folders[task].values())
        if not is_caught_up(world.logs.ends[task] - held, world.config.acceptable_recovery_lag):
            yield task


def _read_per_s(world: World) -> int:
    """Estimate the records read per second: a process that restores uses its whole bandwidth."""
    copying = sum(next(_copying(world, process), None) is not None for process in world.processes)
    return copying * world.scenario.restored_per_s


def _runs(process: Process) -> int:
    return len(process.loop.running)


def _holds(process: Process) -> int:
    return len(process.loop.restoring.restorer.tasks)


def _uneven(loads: Sequence[int]) -> int:
    return max(loads, default=0) - min(loads, default=0)


def _moves(bars: tuple[Bar, ...]) -> int:
    last: dict[TaskId, int] = {}
    moves = 0
    for bar in sorted((bar for bar in bars if bar.role == RUNS), key=lambda bar: bar.from_ms):
        moves += last.setdefault(bar.task, bar.slot) != bar.slot
        last[bar.task] = bar.slot
    return moves
