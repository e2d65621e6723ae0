"""The membership's shell in simulated time, as ``worker.membership``, ``worker.leading`` and ``worker.early`` are it.

Nothing is decided here: ``group.member`` moves the member, ``group.leader`` assigns, ``group.adoption`` reads,
``group.probing`` asks for early rebalances, ``state`` decides what is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kstreams_assign.group import member as machine
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.group.leader import DecisionInput, decide
from kstreams_assign.group.values import Adopted, JoinedMember, LeaderState, MemberAssignment
from kstreams_assign.group.view import read_group
from kstreams_assign.model import NO_PROBE_MS, TaskId, TopicPartition
from kstreams_assign.sim.client import Client
from kstreams_assign.sim.early import Early
from kstreams_assign.sim.scenario import APPLICATION
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

TURN_MS = 20


class Membership:
    """One member of the group. ``adopted`` and ``leads`` are of its last assignment.

    ``report_again``: the cleaner broke into its last report.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._scenario = process.world.scenario
        self._shape = process.world.shape
        self.machine = machine.Member()
        self.sums = OffsetSums()
        self.mutex = ReportMutex(
            clock_ms=self._now_ms, hold_ms=hold_limit_ms(process.world.scenario.rebalance_timeout_ms)
        )
        self.client = Client(
            process.run,
            self._world.timeline,
            self._world.network,
            self._world.coordinator,
            self._shape.source_topics,
            process.instance_id,
            self._scenario.heartbeat_interval_ms,
            self,
        )
        self._early = Early(process)
        self._owned: tuple[TopicPartition, ...] = ()
        self.adopted: Adopted | None = None
        self.standing: LeaderState | None = None
        self.leads = False
        self._unique = 0
        self.report_again = False
        self._turning = False

    def _now_ms(self) -> int:
        return self._world.timeline.now_ms

    # --- the machine, as in worker.membership ---------------------------------------------

    def handle(self, event: machine.Event) -> None:
        """Let the machine decide and carry out what it says."""
        if isinstance(event, machine.TasksReleased) and not self.machine.is_stale(event):
            self._owned = self._adopted_inputs()
        for action in self.machine.handle(event, self._now_ms()):
            self._carry_out(action)
        self.turn_soon()
        if self.machine.state is machine.State.STABLE and self.machine.rejoin_at_ms != NO_PROBE_MS:
            self._process.run.later(max(0, self.machine.rejoin_at_ms - self._now_ms()), self.turn_soon)

    def _carry_out(self, action: machine.Action) -> None:
        loop = self._process.loop
        if isinstance(action, machine.Commit):
            loop.commit_now()
        elif isinstance(action, machine.Join):
            self._world.log("joins", self._process, action.reason)
            self.leads = False
            self.client.request_rejoin()
        elif isinstance(action, machine.Adopt):
            self.adopt(action.generation, action.adopted)
        elif isinstance(action, machine.DropAll):
            self._owned, self.adopted = (), None
            self._world.log("lost", self._process, action.reason)
            self._world.watch.lost(self._process)
            loop.drop_all(action.reason)
        elif isinstance(action, machine.ReleaseMutex):
            self.report_again = not self.mutex.release_report(self)

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self.adopted = adopted
        self._process.loop.adopt(generation, adopted)

    def _adopted_inputs(self) -> tuple[TopicPartition, ...]:
        return tuple(p for partitions in self.adopted.active.values() for p in partitions) if self.adopted else ()

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
            if self.client.needs_join():
                self.handle(machine.RejoinWanted("the group rebalances"))
            elif self.report_again and not self.mutex.state.cleaning:
                self.report_again = False
                self.handle(machine.RejoinWanted("the cleaner ran during the last rebalance"))
            elif self._now_ms() >= self.machine.rejoin_at_ms:
                self.handle(machine.Tick())

    def start(self) -> None:
        self.handle(machine.Started())

    def rejoin(self, reason: str) -> None:
        self.handle(machine.RejoinWanted(reason))

    # --- what the client asks ----------------------------------------------------------------

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        """For JoinGroup."""
        complete = self.machine.state is not machine.State.CLOSED and self.mutex.try_report(self)
        self._unique = (self._unique + 1) % 128
        report = MemberReport(
            version=APACHE.latest_version,
            latest_supported_version=APACHE.latest_version,
            process_id=self._process.process_id,
            task_offset_sums=self.sums.report(owned_only=False) if complete else self._kept(),
            unique_field=self._unique,
            trailer=self._world.trailer,
        )
        self._world.watch.reported(self._process, report)
        return self._owned, partial(APACHE.write_report, report)

    def _kept(self) -> Mapping[TaskId, int]:
        return self.sums.report_kept(self.adopted.tasks if self.adopted else frozenset())

    def lead(self, members: Sequence[JoinedMember]) -> Mapping[str, MemberAssignment]:
        """Decide. The broker's answer about end offsets may be missing."""
        self.leads = True
        question = self.question(known_ends=not self._world.lookup_fails())
        decision = decide(read_group(members), question)
        self.standing = decision.standing
        self._world.decided(self._process, members, question, decision)
        return decision.assignments

    def question(self, *, known_ends: bool) -> DecisionInput:
        """What this member would ask itself if it led."""
        assign = self._world.policy.assign
        return DecisionInput(
            application_id=APPLICATION,
            topology=self._shape,
            assignor=self._scenario.assignor,
            config=self._world.config,
            leader=self._process.process_id,
            partition_counts=self._world.partition_counts,
            end_offsets=self._world.logs.end_offsets() if known_ends else None,
            now_ms=self._now_ms(),
            promised=self.adopted.promised if self.adopted else {},
            warmup_queue=self._scenario.warmup_queue,
            own=assign(self._waited) if assign else None,
        )

    @property
    def _waited(self) -> bool:
        """Whether the probe that the last assignment announced is due."""
        due_ms = self.adopted.next_probe_ms if self.adopted else None
        return due_ms is not None and self._now_ms() >= due_ms

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:
        adopted = read_assignment(partitions, user_data, self._shape, self._process.process_id, leads=self.leads)
        self._world.log("assigned", self._process, adopted)
        self._world.watch.assigned(self._process, generation, adopted)
        self._early.adopted(generation, adopted, self.standing if self.leads else None)
        self.handle(machine.Assigned(generation, adopted))

    def lost(self) -> None:
        self.handle(machine.MembershipLost("the group went on without this member"))

    def fenced(self) -> None:
        self._world.log("fenced", self._process, "another process has its instance id")
        self._process.end()
