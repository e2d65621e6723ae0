"""Early probing's shell in simulated time (``worker.early``): members report their replicas, the leader reads.

The channel is one value of the world; reports reach it after the network's delay. ``group.probing`` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.group.probing import Gain, GainReported, GenerationStarted, Prober, Rejoin, Sums, compute_gain
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM

if TYPE_CHECKING:
    from uuid import UUID

    from kstreams_assign.sim.process import Process

TURN_MS = 2_000


class Early:
    """Publishes while a probe is due; listens where this member leads."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._prober = Prober(self._world.scenario.early_probing_floor_ms)
        self._generation = -1
        self._heard: dict[UUID, Sums] = {}
        self._gain: Gain | None = None

    def adopted(self, generation: int, adopted: Adopted, standing: LeaderState | None) -> None:
        """An assignment is here; ``standing`` if this member decided it."""
        due = adopted.next_probe_ms is not None and not adopted.follow_up
        self._generation = generation if due and self._world.scenario.early_probing else -1
        if self._generation < 0:
            return
        self._heard, self._gain = {}, None
        self._prober.handle(GenerationStarted(), self._world.timeline.now_ms)
        self._process.run.later(TURN_MS, self._turn, generation, standing)

    def _turn(self, generation: int, standing: LeaderState | None) -> None:
        if generation != self._generation:
            return
        self._publish(generation)
        if standing is not None:
            self._listen(generation, standing)
        self._process.run.later(TURN_MS, self._turn, generation, standing)

    def _publish(self, generation: int) -> None:
        report = self._process.membership.sums.report(owned_only=True)
        copies = {task: at for task, at in report.items() if at != RUNNING_OFFSET_SUM}
        if copies:
            told = self._world.channel.setdefault(generation, {})
            who = self._process.process_id
            self._world.network.tell(self._process.run, lambda: told.update({who: copies}))

    def _listen(self, generation: int, standing: LeaderState) -> None:
        heard = dict(self._world.channel.get(generation, {}))
        if not heard:
            return
        now_ms = self._world.timeline.now_ms
        if self._gain is None or heard != self._heard:
            ends = {task: self._world.logs.ends[task] for task in standing.cluster.stateful}
            self._heard, self._gain = heard, compute_gain(standing, heard, ends)
        answer = self._prober.handle(GainReported(self._gain), now_ms)
        if isinstance(answer, Rejoin):
            self._process.membership.rejoin(answer.reason)
