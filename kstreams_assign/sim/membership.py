"""The membership's shell in simulated time, as ``worker.membership``, ``worker.leading`` and ``worker.early`` are it.

Nothing is decided here: ``engine.membership`` moves the member and says what is reported, ``group.leader`` assigns,
``engine.early`` asks for early rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never, cast

from kstreams_assign.engine import membership as engine
from kstreams_assign.group import member as machine
from kstreams_assign.group.leader import DecisionInput, decide
from kstreams_assign.group.values import Adopted, JoinedMember, LeaderState, MemberAssignment
from kstreams_assign.group.view import GroupView
from kstreams_assign.model import NO_PROBE_MS, TaskId, TopicPartition
from kstreams_assign.sim.client import Client
from kstreams_assign.sim.early import Early
from kstreams_assign.sim.reading import read_group
from kstreams_assign.sim.scenario import APPLICATION
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

TURN_MS = 20


def classic(process: Process) -> Membership:
    """Return the membership of a process in a classic group."""
    return cast(Membership, process.membership)


class Membership:
    """One member of the group. ``standing``: what it decided, if it leads."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._scenario = process.world.scenario
        self._shape = process.world.shape
        self._kind = process.kind
        self._assignor = self._kind.assignor or self._scenario.assignor
        self.machine = engine.Membership(
            engine.Profile(
                process.process_id,
                self._shape,
                self._assignor,
                self._world.trailer,
                self._kind.dialect,
                None if process.endpoint is None else "{}:{}".format(*process.endpoint),
                process.endpoint,
                loads_interval_ms=self._scenario.probing_rebalance_interval_ms,
            )
        )
        self.sums = OffsetSums()
        self.mutex = ReportMutex(clock_ms=self._now_ms, hold_ms=hold_limit_ms(self._scenario.rebalance_timeout_ms))
        self.client = Client(
            process.run,
            self._world.timeline,
            self._world.network,
            self._world.coordinator,
            self._shape.source_topics,
            process.instance_id,
            self._scenario,
            self,
            leased=self._kind.leased or not self._scenario.exactly_once,
        )
        self.early = Early(process)
        self.standing: LeaderState | None = None
        self._turning = False

    def _now_ms(self) -> int:
        return self._world.timeline.now_ms

    @property
    def adopted(self) -> Adopted | None:
        return self.machine.adopted

    @property
    def report_again(self) -> bool:
        return self.machine.report_again

    # --- the machine, as in worker.membership ---------------------------------------------

    def handle(self, event: engine.Event) -> None:
        """Let the machine decide and carry out what it says."""
        effects = self.machine.handle(event, self._world.timeline.now_ms)
        if not effects and isinstance(event, engine.Turned | engine.LoadsMeasured):
            return  # nothing to do in the next turn either
        for effect in effects:
            self._carry_out(effect)
        self.turn_soon()
        if self.machine.state is machine.State.STABLE and self.machine.due_ms != NO_PROBE_MS:
            self._process.run.later(max(0, self.machine.due_ms - self._now_ms()), self.turn_soon)
        if self._scenario.loads and isinstance(event, engine.Received):
            self._process.run.later(self._scenario.probing_rebalance_interval_ms + TURN_MS, self.turn_soon)

    def _carry_out(self, effect: engine.Effect) -> None:  # noqa: C901  # a case for each effect
        loop = self._process.loop
        match effect:
            case machine.Commit():
                loop.commit_now()
            case machine.Join():
                self.client.request_rejoin()
            case machine.Adopt(generation, adopted):
                self.adopt(generation, adopted)
            case machine.DropAll(reason):
                self._world.log("lost", self._process, reason)
                self._world.watch.lost(self._process)
                loop.drop_all(reason)
            case machine.ReleaseMutex():
                self.machine.handle(engine.MutexReleased(self.mutex.release_report(self)), self._now_ms())
                self._world.watch.released(self._process)
            case engine.AnnounceJoining(reason):
                self._world.log("joins", self._process, reason)
            case engine.AnnounceDrainRefused(warning):
                self._world.log("refused", self._process, warning)
                self._world.watch.refused(self._process)
            case engine.Drained():
                self._world.log("drained", self._process, "")
                self._world.watch.drained(self._process)
                self._process.leave()
            case engine.RestartAnnounced(awaited):
                self._world.log("restarts", self._process, "awaited" if awaited else "not awaited")
                self._process.leave()
            case engine.EndMembership() | engine.AnnounceShutdownRefused():
                raise AssertionError(effect)  # no process here asks all to end
            case _:
                assert_never(effect)

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self._process.loop.adopt(generation, adopted)

    def turn_soon(self) -> None:
        """The thread's next turn, when there is something to do in it."""
        if not self._turning:
            self._turning = True
            self._process.run.later(TURN_MS, self._turn)

    def _turn(self) -> None:
        self._turning = False
        state = self.machine.state
        if state is machine.State.JOINING:
            self.client.join()
        elif state is machine.State.STABLE:
            self.handle(engine.Turned(self.client.needs_join(), self.mutex.state.cleaning))
            self.handle(engine.LoadsMeasured(self._loads()))

    def _loads(self) -> Mapping[TaskId, int]:
        return self._world.measure_loads(sorted(self.adopted.active)) if self.adopted else {}

    def start(self) -> None:
        self.handle(machine.Started())

    def rejoin(self, reason: str) -> None:
        self.handle(machine.RejoinWanted(reason))

    def leave(self) -> None:
        self.client.leave(static=self.machine.draining)

    # --- what the client asks ----------------------------------------------------------------

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        """For JoinGroup."""
        held = self.machine.may_promise and self.mutex.try_report(self)
        sums = self.sums.report(owned_only=False) if held else {}
        kept = {} if held else self.sums.report_kept(self.machine.assigned)
        facts = engine.ReportFacts(held, sums, kept, self._now_ms(), loads=self._loads())
        owned, report = self.machine.join(facts)
        self._world.watch.reported(self._process, report)
        return owned, partial(self._kind.dialect.write_report, report)

    def lead(self, members: Sequence[JoinedMember]) -> Mapping[str, MemberAssignment]:
        """Decide. The broker's answer about end offsets may be missing."""
        self.machine.handle(engine.Elected(), self._now_ms())
        question = self.question(known_ends=not self._world.lookup_fails())
        decision = decide(self.read_group(members), question)
        self.standing = decision.standing
        self._world.decided(self._process, members, question, decision)
        return decision.assignments

    def read_group(self, members: Sequence[JoinedMember]) -> GroupView:
        """Read what members report, as far as this member can read it."""
        return read_group(members, self._kind.dialect)

    def question(self, *, known_ends: bool) -> DecisionInput:
        """What this member would ask itself if it led."""
        assign = self._world.policy.assign
        return DecisionInput(
            application_id=APPLICATION,
            topology=self._shape,
            assignor=self._assignor,
            config=self._world.config,
            leader=self._process.process_id,
            partition_counts=self._world.partition_counts,
            end_offsets=self._world.logs.end_offsets() if known_ends else None,
            now_ms=self._now_ms(),
            promised=self.machine.promised,
            restored_per_s=self._process.loop.restoring.restorer.rate.offsets_per_s,
            joined_ago_ms=self.machine.joined_ago_ms(self._now_ms()),
            loads=self.machine.loads,
            warmup_queue=self._scenario.warmup_queue and self._kind.queues_warmups,
            own=assign(self._waited) if assign else None,
        )

    @property
    def _waited(self) -> bool:
        """Whether the probe that the last assignment announced is due."""
        due_ms = self.adopted.next_probe_ms if self.adopted else None
        return due_ms is not None and self._now_ms() >= due_ms

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:
        received = self.machine.read(generation, partitions, user_data)
        self._world.log("assigned", self._process, received.adopted)
        self._world.watch.assigned(self._process, generation, received.adopted)
        self.early.adopted(generation, received.adopted, self.standing if received.leads else None)
        self.handle(received)

    def lost(self) -> None:
        self.handle(machine.MembershipLost(engine.LOST))

    def fenced(self) -> None:
        self._world.log("fenced", self._process, "another process has its instance id")
        self._process.end()
