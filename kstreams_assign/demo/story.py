"""The script: two workers, a third that is warmed up, a kill, the end. One table of scenes.

Pure: ``Story.step`` looks at the fleet_state and returns what to do next; ``stage`` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from kstreams_assign.demo.fleet_state import FleetState
from kstreams_assign.errors import KStreamsAssignError

FIRST, SECOND, THIRD = "w1", "w2", "w3"


class DemoFailed(KStreamsAssignError):
    """The group did not do what the script waits for."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker process."""

    name: str


@dataclass(frozen=True, slots=True)
class KillWorker:
    """End a worker with SIGKILL."""

    name: str


@dataclass(frozen=True, slots=True)
class StartOrders:
    """Start to produce orders."""


@dataclass(frozen=True, slots=True)
class StopOrders:
    """Produce no more."""


@dataclass(frozen=True, slots=True)
class StopWorkers:
    """Ask all workers to close."""


Command = StartWorker | KillWorker | StartOrders | StopOrders | StopWorkers


class World(NamedTuple):
    """What the workers' events do not say. ``shortest_changelog``: records in the shortest of all tasks' changelogs."""

    tasks: int
    shortest_changelog: int
    all_processed: bool


Condition = Callable[[FleetState, World], bool]
Consequence = Callable[[FleetState, Random], Sequence[Command]]


class Scene(NamedTuple):
    """A condition, how long to wait for it at most, and what follows. ``patient``: at the limit, go on all the same.

    ``steady_s``: how long the condition must hold, so that a viewer sees it and the moved tasks run.
    """

    says: str
    limit_s: float
    over: Condition
    then: Consequence
    patient: bool = False
    steady_s: float = 0.0


def script(recovery_lag: int) -> tuple[Scene, ...]:
    """All scenes in order. Changelogs five times as long as ``recovery_lag`` make a new worker's state clearly cold."""
    return (
        Scene("the first worker forms a group", 30, _all_run_on(1), _start(SECOND)),
        Scene("the second worker joins", 30, _all_run_on(2), lambda _fleet_state, _draw: [StartOrders()]),
        Scene("orders come in, changelogs grow", 120, _changelogs_reach(5 * recovery_lag), _start(THIRD)),
        Scene(
            "the third worker joins: warm-ups first, tasks move once they caught up",
            210,
            _all_run_on(3, warm_within=recovery_lag),
            _kill_an_owner,
            steady_s=5,
        ),
        Scene("a worker was killed: standbys take over", 60, _all_run_on(2, converged=False), _stop_orders),
        Scene(
            "no more orders: the workers process the rest", 30, lambda _, world: world.all_processed, _end, patient=True
        ),
    )


def _all_run_on(members: int, *, converged: bool = True, warm_within: int | None = None) -> Condition:
    """Return whether so many workers run all tasks. ``warm_within``: and each has a standby that lacks no more."""

    def check(fleet_state: FleetState, world: World) -> bool:
        quiet = fleet_state.converged if converged else fleet_state.settled
        warm = warm_within is None or len(fleet_state.warm(warm_within)) == world.tasks
        return quiet and warm and len(fleet_state.alive) == members and len(fleet_state.owners) == world.tasks

    return check


def _changelogs_reach(length: int) -> Condition:
    return lambda _fleet_state, world: world.shortest_changelog > length


def _start(name: str) -> Consequence:
    return lambda _fleet_state, _draw: [StartWorker(name)]


def _kill_an_owner(fleet_state: FleetState, draw: Random) -> Sequence[Command]:
    return [KillWorker(draw.choice(sorted(set(fleet_state.owners.values()))))]


def _stop_orders(_fleet_state: FleetState, _draw: Random) -> Sequence[Command]:
    return [StopOrders()]


def _end(_fleet_state: FleetState, _draw: Random) -> Sequence[Command]:
    return [StopWorkers()]


class Story:
    """The present place in the script. ``seed`` chooses the worker that is killed."""

    def __init__(self, scenes: Sequence[Scene], seed: int) -> None:
        self._scenes = scenes
        self._draw = Random(seed)  # noqa: S311  # repeatable, not secret
        self._number = -1
        self._since_ms = 0
        self._steady_since_ms: int | None = None

    @property
    def over(self) -> bool:
        return self._number >= len(self._scenes)

    @property
    def progress(self) -> str:
        """``2/6``: the number of the scene."""
        return f"{min(self._number + 1, len(self._scenes))}/{len(self._scenes)}"

    @property
    def says(self) -> str:
        """What happens now, in a line."""
        return self._scenes[self._number].says if 0 <= self._number < len(self._scenes) else "the end"

    def step(self, fleet_state: FleetState, world: World, now_ms: int) -> Sequence[Command]:
        """Return what to do now; nothing while the scene lasts. Raises ``DemoFailed`` when it lasts too long."""
        if self.over:
            return []
        if self._number < 0:
            return self._next([StartWorker(FIRST)], now_ms)
        scene = self._scenes[self._number]
        late = now_ms - self._since_ms > scene.limit_s * 1000
        if self._is_over(scene, fleet_state, world, now_ms) or (late and scene.patient):
            return self._next(scene.then(fleet_state, self._draw), now_ms)
        if late:
            raise DemoFailed(
                f"scene {scene.says!r} did not end within {scene.limit_s:.0f} s; run it again with --keep for its logs"
            )
        return []

    def _is_over(self, scene: Scene, fleet_state: FleetState, world: World, now_ms: int) -> bool:
        if not scene.over(fleet_state, world):
            self._steady_since_ms = None
            return False
        if self._steady_since_ms is None:
            self._steady_since_ms = now_ms
        return now_ms - self._steady_since_ms >= scene.steady_s * 1000

    def _next(self, commands: Sequence[Command], now_ms: int) -> Sequence[Command]:
        self._number += 1
        self._since_ms = now_ms
        self._steady_since_ms = None
        return commands
