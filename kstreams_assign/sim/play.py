"""Simulate a seed: faults for a while, then none, and the group has to come to rest."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from traceback import extract_tb

from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.group import member as machine
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.sim.checkers.checker import Violation, Watch
from kstreams_assign.sim.checkers.classic import every_checker
from kstreams_assign.sim.checkers.decisions import PlansHold
from kstreams_assign.sim.checkers.streams import every_streams_checker
from kstreams_assign.sim.checkers.waits import WaitsAreAnnounced
from kstreams_assign.sim.coordinator import GroupPhase
from kstreams_assign.sim.faults import NO_FAULTS, Fault, Faults
from kstreams_assign.sim.membership import classic
from kstreams_assign.sim.process import Process
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.streams_rest import unsettled_streams
from kstreams_assign.sim.timeline import START_MS
from kstreams_assign.sim.world import World
from kstreams_assign.tasks.lifecycle import TaskState

LOOK_MS = 1_000
REST_WITHIN_MS = 3_600_000
QUIET_MS = 70_000
"""Longer than a probing interval."""


RAISED = (
    KStreamsAssignError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that a bug in our rules may raise. They count as a violation of this seed; other seeds go on."""


@dataclass(frozen=True, slots=True)
class Script:
    """Everything that determines a simulation: the same script gives the same events."""

    seed: int
    scenario: Scenario
    faults: Faults
    plan: tuple[Fault, ...]

    @classmethod
    def draw(cls, seed: int, *, faults: bool, exactly_once: bool = False, streams: bool = False) -> Script:
        """Draw a group and its faults; they are the same under both guarantees, and in a streams group (``streams``).

        Java members and timeouts are drawn apart, so that seeds keep what was drawn for them before there were any.
        """
        rng = Random(seed)  # noqa: S311 - reproducible on purpose
        drawn_java, drawn_times = Random(f"{seed}-java"), Random(f"{seed}-times")  # noqa: S311
        scenario = replace(Scenario.draw(rng).mixed(drawn_java).timed(drawn_times), exactly_once=exactly_once)
        scenario = scenario.of_streams_group() if streams else scenario
        drawn = Faults.draw(rng) if faults else NO_FAULTS
        plan = drawn.plan(Random(f"{seed}-plan"), scenario.processes, scenario.safety_ms)  # noqa: S311
        return cls(seed, scenario, drawn, plan)


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of a script. ``rebalances`` and ``simulated_ms`` count to the end of the quiet time."""

    script: Script
    violations: tuple[Violation, ...]
    rebalances: int
    simulated_ms: int
    lines: Sequence[str] = field(default=(), repr=False)


def play(script: Script, *, logged: bool = False) -> Played:
    """Simulate a script to its end, or to the first violation."""
    with _without_collector():
        return _played(script, logged)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Leave cycles until the simulation ends; searching for them takes 3 % of its time, and it makes few."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _played(script: Script, logged: bool) -> Played:
    classic_checkers = [*every_checker(), WaitsAreAnnounced(), PlansHold()]
    watch = Watch(script.seed, every_streams_checker() if script.scenario.is_streams_group else classic_checkers)
    world = World(script.scenario, script.faults, script.seed, watch, [] if logged else None)
    with _nothing_raises(watch):
        _play(world, script, watch)
    rebalances, simulated_ms = world.group.rebalances, world.timeline.now_ms - START_MS
    if not (script.scenario.is_streams_group or watch.violations):
        with _nothing_raises(watch):
            _rebalance_at_rest(world, watch)
    return Played(script, tuple(watch.violations), rebalances, simulated_ms, world.lines or ())


@contextmanager
def _nothing_raises(watch: Watch) -> Iterator[None]:
    try:
        yield
    except RAISED as cause:
        at = extract_tb(cause.__traceback__)[-1]
        watch.violated("nothing raises", f"{type(cause).__name__}: {cause} ({Path(at.filename).name}, {at.name})")


def _play(world: World, script: Script, watch: Watch) -> None:
    timeline = world.timeline
    for slot, late_ms in enumerate(script.scenario.late):
        timeline.at(START_MS + late_ms, world.start, slot)
    for fault in script.plan:
        timeline.at(START_MS + fault.at_ms, world.inflict, fault)
    if timeline.run(START_MS + script.scenario.safety_ms, watch.violations.__len__):
        return
    world.heal()
    world.log("healed", None, "")
    timeline.run(timeline.now_ms + 2 * script.scenario.session_timeout_ms)  # time to notice the last faults
    if _come_to_rest(world, watch):
        world.log("at rest", None, "")
        _judge_rest(world, watch)


def _come_to_rest(world: World, watch: Watch) -> bool:
    """Play on until the group is at rest; return whether it is, without a violation."""
    timeline = world.timeline
    until_ms = timeline.now_ms + REST_WITHIN_MS
    while any(restless(world)):  # the first reason is enough
        if timeline.now_ms >= until_ms:
            watch.violated("the group comes to rest", "; ".join(restless(world)))
        if watch.violations:
            return False
        world.revive()
        timeline.run(timeline.now_ms + LOOK_MS)
    return True


def _judge_rest(world: World, watch: Watch) -> None:
    before = world.group.rebalances
    world.timeline.run(world.timeline.now_ms + QUIET_MS)
    if (more := world.group.rebalances - before) != 0:
        invariant = "the group stays at rest" if world.scenario.is_streams_group else "probing ends"
        watch.violated(invariant, f"{more} rebalances of a group at rest")
    for text in standbys_missing(world):
        watch.violated("standbys as many as asked once stable", text)
    for text in unprocessed(world):
        watch.violated("all input is processed", text)


def _rebalance_at_rest(world: World, watch: Watch) -> None:
    """Have a member ask for a rebalance: nothing may move."""
    before = _roles(world)
    classic(world.processes[0]).rejoin("a member asks at rest")
    if _come_to_rest(world, watch) and (after := _roles(world)) != before:
        roles = zip(before, after, strict=True)
        changed = "; ".join(f"{name} had {had}, has {has}" for (name, had), (_, has) in roles if had != has)
        watch.violated("a rebalance at rest moves nothing", changed)


def _roles(world: World) -> list[tuple[str, Mapping[str, str]]]:
    """Return what each process has, in order."""
    return [
        (process.run.name, {str(task): role for task, role in sorted(adopted.roles().items())})
        for process in world.processes
        if (adopted := classic(process).adopted) is not None
    ]


def restless(world: World) -> Iterator[str]:
    """Yield why the group is not at rest: a rebalance, unprocessed input, an empty place, a replica that is behind."""
    yield from unsettled_streams(world) if world.scenario.is_streams_group else unsettled(world)
    yield from unprocessed(world)
    yield from (f"no process in place {slot}" for slot, process in world.places.items() if process is None)
    behind = "replicas are not at the ends of their changelogs"
    yield from (f"{process.run.name}: {behind}" for process in world.processes if process.loop.restoring.behind)


def unprocessed(world: World) -> Iterator[str]:
    """Yield partitions whose input is not committed to its end."""
    for partition, offset in sorted(world.logs.committed.items()):
        if (end := world.logs.input_end(partition, world.timeline.now_ms)) != offset:
            yield f"{partition} is committed at {offset} and ends at {end}"


def unsettled(world: World) -> Iterator[str]:
    """Yield why the running processes still expect a rebalance or the end of a restore."""
    if world.processes and world.coordinator.phase is not GroupPhase.STABLE:
        yield f"the group is {world.coordinator.phase.value}"
    for process in world.processes:
        yield from (f"{process.run.name}: {why}" for why in _unsettled(world, process))


def _unsettled(world: World, process: Process) -> Iterator[str]:
    member = classic(process)
    if member.machine.state is not machine.State.STABLE or member.adopted is None:
        yield f"is {member.machine.state.value}"
        return
    if member.machine.generation != world.coordinator.generation:
        yield f"is in generation {member.machine.generation}, not {world.coordinator.generation}"
    if member.machine.due_ms != NO_PROBE_MS or member.adopted.next_probe_ms is not None:
        yield "a probe is due"
    if member.early.may_ask:
        yield "a probe may be asked for"
    if member.report_again:
        yield "has to report again"
    if member.machine.draining:
        yield "drains"
    if world.scenario.loads and not member.adopted.active.keys() <= member.adopted.loads.keys():
        yield "has tasks whose load the group does not know"
    for task in sorted(member.adopted.active):
        if (state := process.loop.tasks.state(task)) is not TaskState.RUNNING:
            yield f"{task} is {state.value}"


def standbys_missing(world: World) -> Iterator[str]:
    """Yield tasks with a wrong number of standbys, with one that is behind, or without exactly one owner."""
    expected = min(world.scenario.standbys, len(world.places) - 1)
    for task in world.scenario.stateful_tasks:
        copies = [process for process in world.processes if process.loop.tasks.state(task) is TaskState.TAILING]
        if len(copies) != expected:
            yield f"{task} has {len(copies)} standbys, not {expected}"
        yield from (
            f"{task} on {copy.run.name} is not at the end of its changelog"
            for copy in copies
            if sum(copy.disk.folders[task].values()) != world.logs.ends[task]
        )
    for task in world.shape.tasks(world.partition_counts):
        owners = [process for process in world.processes if process.loop.tasks.state(task) is TaskState.RUNNING]
        if len(owners) != 1:
            yield f"{task} runs on {len(owners)} processes"
