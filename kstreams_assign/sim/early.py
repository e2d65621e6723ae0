"""Early probing's shell in simulated time (``worker.early``): members report their replicas, the leader reads.

The channel is one value of the world; reports reach it after the network's delay. ``engine.early`` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kstreams_assign.engine import early as engine
from kstreams_assign.group.probing import Sums
from kstreams_assign.group.values import Adopted, LeaderState

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

TURN_MS = 2_000


class Early:
    """Publishes in every turn, as reports are lost here and no process learns of it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        scenario = self._world.scenario
        self._engine = engine.Early(scenario.early_probing_floor_ms, scenario.acceptable_recovery_lag, republish_ms=0)

    def adopted(self, generation: int, adopted: Adopted, standing: LeaderState | None) -> None:
        """An assignment is here; ``standing`` if this member decided it."""
        if self._world.scenario.early_probing and self._process.kind.probes_early:
            self._handle(engine.Assigned(generation, adopted, standing, self._sums()))
            self._turn_later()

    def _sums(self) -> Sums:
        return self._process.membership.sums.report(owned_only=True)

    def _turn_later(self) -> None:
        if (generation := self._engine.generation) is not None:
            self._process.run.later(TURN_MS, self._turn, generation.number)

    def _turn(self, number: int) -> None:
        generation = self._engine.generation
        if generation is not None and generation.number == number:
            self._handle(engine.Turned(self._sums()))
            self._turn_later()

    def _handle(self, event: engine.Event) -> None:
        for effect in self._engine.handle(event, self._world.timeline.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: engine.Effect) -> None:
        match effect:
            case engine.Publish(generation, sums):
                reports = self._world.channel.setdefault(generation, {})
                who = self._process.process_id
                self._world.network.tell(self._process.run, lambda: reports.update({who: sums}))
            case engine.Listen(generation):
                self._handle(engine.Heard(generation, dict(self._world.channel.get(generation, {}))))
            case engine.LookUpEnds(generation, tasks):
                ends = {task: self._world.logs.ends[task] for task in tasks}
                self._handle(engine.EndsKnown(generation, ends, self._sums()))
            case engine.AskForRebalance(reason):
                self._process.membership.rejoin(reason)
            case _:
                assert_never(effect)
