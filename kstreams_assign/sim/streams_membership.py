"""The shell of a member of a streams group (KIP-1071) in simulated time, as ``worker.streams_member`` is it.

Nothing is decided here: ``engine.streams_membership`` says what is sent, owned and adopted. Not simulated: warm joins,
warm-ups before a drain, calls of a function that stall, shutdown of the application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, assert_never

from kstreams_assign.engine import streams_events as do
from kstreams_assign.engine import streams_membership as engine
from kstreams_assign.engine.commits import CALL_MS
from kstreams_assign.engine.membership import DrainAsked, RestartAsked
from kstreams_assign.group import member as machine
from kstreams_assign.group.streams_topology import streams_topology
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.broker import ignored, nothing
from kstreams_assign.sim.coordinator import Error
from kstreams_assign.sim.member import NO_GENERATION, Phase
from kstreams_assign.sim.scenario import APPLICATION
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.tasks.commit import Outcome
from kstreams_assign.wire.streams_heartbeat import JOIN_EPOCH

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

RETRY_MS = 50
REPLICATION_FACTOR = 1

ToSend = do.SendHeartbeat | do.SendLeave | do.LookUpAssignment


class _Commit(NamedTuple):
    """A commit that is tried until ``until_ms``, in the membership after so many ``losses``."""

    offsets: Mapping[TopicPartition, int]
    ended: Callable[[Outcome], None]
    losses: int
    until_ms: int


class StreamsClient:
    """Commits under the member's epoch, and what the epoch is."""

    def __init__(self, process: Process, member: engine.StreamsMembership, member_id: str) -> None:
        self._process = process
        self._world = process.world
        self._member = member
        self.member_id = member_id
        self.losses = 0
        """How often the membership was lost. It is counted before the coordinator can know this member again."""

    @property
    def generation(self) -> int:
        return self._member.epoch if self.joined else NO_GENERATION

    @property
    def joined(self) -> bool:
        return self._member.epoch != JOIN_EPOCH

    @property
    def phase(self) -> Phase:
        if not self.joined:
            return Phase.UNJOINED
        return Phase.STABLE if self._member.is_certain else Phase.JOINING

    @property
    def lease_left_ms(self) -> int:
        ends_ms = self._member.lease_ends_ms(self._world.scenario.session_timeout_ms)
        return 0 if ends_ms is None else ends_ms - self._world.timeline.now_ms

    def commit(self, offsets: Mapping[TopicPartition, int], ended: Callable[[Outcome], None]) -> None:
        """Commit at the present epoch; where the coordinator has a newer one, wait for that."""
        self._try(_Commit(offsets, ended, self.losses, self._now_ms() + CALL_MS))

    def commit_once(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.joined:
            ask = partial(self._world.streams.commit, self.member_id, self._member.epoch, offsets)
            self._world.network.ask(self._process.run, ask, ignored, nothing)

    def _now_ms(self) -> int:
        return self._world.timeline.now_ms

    def _try(self, commit: _Commit) -> None:
        epoch = self._member.epoch
        if epoch == JOIN_EPOCH or commit.losses != self.losses:
            commit.ended(Outcome.REFUSED)
            return

        def answered(error: Error) -> None:
            if error is Error.STALE_EPOCH:
                self._await_other_epoch(commit, epoch)
            elif error is Error.NOT_COORDINATOR:
                self._try_later(commit)
            else:
                commit.ended(Outcome.OK if error is Error.NONE else Outcome.REFUSED)

        ask = partial(self._world.streams.commit, self.member_id, epoch, commit.offsets)
        self._world.network.ask(self._process.run, ask, answered, partial(self._try_later, commit))

    def _try_later(self, commit: _Commit) -> None:
        if self._now_ms() + RETRY_MS >= commit.until_ms:
            commit.ended(Outcome.DEFERRED)
        else:
            self._process.run.later(RETRY_MS, self._try, commit)

    def _await_other_epoch(self, commit: _Commit, epoch: int) -> None:
        if self._member.epoch != epoch:
            self._try(commit)
        elif self._now_ms() >= commit.until_ms:
            commit.ended(Outcome.DEFERRED)
        else:
            self._process.run.later(RETRY_MS, self._await_other_epoch, commit, epoch)


class StreamsMembership:
    """One member of the group. Its id is kept on its disk: a process that comes back is the same member."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        scenario, member_id = process.world.scenario, f"member-{process.process_id.int}"
        self.machine = engine.StreamsMembership(
            engine.Profile(
                APPLICATION,
                member_id,
                str(process.process_id),
                streams_topology(self._world.shape, APPLICATION, REPLICATION_FACTOR),
                scenario.rebalance_timeout_ms,
                session_timeout_ms=scenario.session_timeout_ms,
            )
        )
        self.client = StreamsClient(process, self.machine, member_id)
        self.sums = OffsetSums()
        self.mutex = ReportMutex(clock_ms=self._now_ms, hold_ms=hold_limit_ms(scenario.rebalance_timeout_ms))
        self._to_send: deque[ToSend] = deque()
        self._asks = False
        """A heartbeat or a look-up is under way; the next waits for its answer."""
        self._turn_ms: int | None = None
        self._waiting: do.AdoptTasks | None = None
        self._returns = False

    def _now_ms(self) -> int:
        return self._world.timeline.now_ms

    # --- the machine ------------------------------------------------------------------------

    def start(self) -> None:
        self.handle(machine.Started())

    def handle(self, event: do.Event | machine.Event | DrainAsked | RestartAsked) -> None:
        """Let the machine decide and carry out what it says."""
        match event:
            case DrainAsked():
                self._world.log("refused", self._process, "its tasks are not warmed up elsewhere")
                self._process.leave()
            case RestartAsked():
                self._returns = True
                self._world.log("restarts", self._process, "awaited")
                self._process.leave()
            case machine.RejoinWanted() | machine.WorkCommitted() | machine.Assigned() | machine.Tick():
                pass  # a classic member's
            case _:
                for effect in self.machine.handle(event, self._now_ms()):
                    self._carry_out(effect)
                self.turn_soon()

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.SendHeartbeat() | do.SendLeave() | do.LookUpAssignment():
                self._to_send.append(effect)
            case do.AdoptTasks():
                self._waiting = effect
                self._give(effect)
            case machine.DropAll(reason):
                self.client.losses += 1
                self._waiting = None
                self._world.log("lost", self._process, reason)
                self._world.watch.lost(self._process)
                self._process.loop.drop_all(reason, lambda: self.handle(do.TasksDropped()))
            case do.AnnounceStatus() | do.AwaitingEnded():
                pass
            case do.EndMembership(cause):
                raise cause
            case _:
                assert_never(effect)

    def _give(self, order: do.AdoptTasks) -> None:
        """Give the loop an assignment, once the brokers have reported the input partitions of its tasks."""
        if self._waiting is not order:
            return  # the membership was lost meanwhile
        if self._world.lookup_fails():
            self._process.run.later(RETRY_MS, self._give, order)
            return
        self._waiting = None
        adopted = Adopted(self._inputs(order.tasks.active), order.tasks.standby, order.tasks.warmup)
        self._world.log("assigned", self._process, adopted)
        self._world.watch.assigned(self._process, order.number, adopted)
        self._process.loop.adopt(order.number, adopted)

    def _inputs(self, tasks: frozenset[TaskId]) -> dict[TaskId, tuple[TopicPartition, ...]]:
        return {task: tuple(self._world.inputs[task]) for task in sorted(tasks)}

    # --- the thread -------------------------------------------------------------------------

    def turn_soon(self) -> None:
        """Send what is to be sent, or wake when the next heartbeat is due."""
        if self._asks:
            return
        if self._to_send:
            self._send(self._to_send.popleft())
        elif (due_ms := self.machine.due_ms()) is not None and (self._turn_ms is None or due_ms < self._turn_ms):
            self._turn_ms = due_ms
            self._process.run.later(max(0, due_ms - self._now_ms()), self._turn, due_ms)

    def _turn(self, due_ms: int) -> None:
        if due_ms == self._turn_ms:
            self._turn_ms = None
            if not self._asks:
                self.handle(do.HeartbeatDue())

    def _send(self, effect: ToSend) -> None:
        network, streams, run = self._world.network, self._world.streams, self._process.run
        match effect:
            case do.SendHeartbeat(request):
                self._asks = True
                if request.member_epoch == JOIN_EPOCH:
                    self._world.log("joins", self._process, "")
                network.ask(
                    run,
                    lambda: streams.heartbeat(request),
                    lambda response: self._answered(do.Answered(response)),
                    lambda: self._answered(do.Unanswered()),
                )
            case do.LookUpAssignment():
                self._asks = True
                network.ask(run, self._describe, self._answered, lambda: self._answered(do.LookupFailed()))
            case do.SendLeave(request):
                network.ask(
                    run,
                    lambda: streams.heartbeat(request),
                    lambda response: self.handle(do.LeaveAnswered(response.error_code)),
                    nothing,
                )
                self.turn_soon()
            case _:
                assert_never(effect)

    def _describe(self) -> do.AssignmentFound | do.LookupFailed:
        found = self._world.streams.describe(self.client.member_id)
        return do.LookupFailed() if found is None or self._world.lookup_fails() else found

    def _answered(self, event: do.Event) -> None:
        self._asks = False
        self.handle(event)

    # --- what the process asks for -------------------------------------------------------------

    def rejoin(self, reason: str) -> None:
        """Nothing to ask for: the coordinator decides when tasks move."""

    def leave(self) -> None:
        """Leave the group; a process that restarts stays in it."""
        request = self.machine.leaving_request()
        if request is not None and not self._returns:
            ask = partial(self._world.streams.heartbeat, request)
            self._world.network.ask(self._process.run, ask, ignored, nothing)
