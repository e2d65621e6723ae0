"""The membership's shell: carries out what ``engine.membership`` decides, and asks it what to report.

One thread joins and keeps alive; the client's I/O thread asks for user-data and delivers assignments; the processing
thread reports its commits. All of them meet in ``handle``, which only decides and leaves orders, so none waits here.
What must not live here: a rule of what is reported, owned or asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, assert_never
from uuid import UUID

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.kafka_python import GroupClient, remove_members
from kstreams_assign.assign import Loads
from kstreams_assign.config import Config
from kstreams_assign.engine import membership as engine
from kstreams_assign.errors import BrokerUnavailable, CommitRefused, InstanceFenced
from kstreams_assign.events import (
    AssignedEvent,
    BrokerUnavailableEvent,
    DrainRefusedEvent,
    JoiningEvent,
    RestartAnnouncedEvent,
    ShutdownRefusedEvent,
    ShutdownRequestedEvent,
)
from kstreams_assign.group import member as machine
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.group.values import Adopted, Hosts, JoinedMember, LeaderState, MemberAssignment, MemberId
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape, task_names
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.status.views import MemberView
from kstreams_assign.wire import MemberTrailer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading, assign_config
from kstreams_assign.worker.meters import Durations
from kstreams_assign.worker.predecessors import PredecessorCleanup
from kstreams_assign.worker.pulse import Pulse
from kstreams_assign.worker.watching import Watch

TURN_S = 0.5
"""A turn comes at least so often. What cannot wait wakes the thread: an order, a heartbeat's answer, a date."""
JOIN_TURN_S = 0.5
MAKE_WAY_S = 0.1
SHUTDOWN_ASKED_WITHIN_S = 10.0
"""How long a member that asks all to end puts off its own end until an assignment answers."""
SHUTDOWN_TURN_S = 0.05


class Work(Protocol):
    """Who has the tasks. Every method only leaves an order."""

    def commit_now(self) -> None:
        """Commit, then report ``WorkCommitted``."""
        ...

    def adopt(self, generation: int, adopted: Adopted) -> None:
        """Take over an assignment, then report ``TasksReleased``."""
        ...

    def drop_all(self, reason: str, then: Callable[[], None] | None = None) -> None:
        """Forget all tasks; then make a call, in the thread that has them."""
        ...

    @property
    def turned_ms(self) -> int | None:
        """When it came round last (monotonic); None: it is not to be watched."""
        ...


class Membership:
    """One member of the group, from the first join to the last."""

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        process: UUID,
        processor: Work,
        leading: Leading,
        sums: OffsetSums,
        mutex: ReportMutex,
        log: EventLog,
        connect: Callable[[Membership], GroupClient],
        early: Callable[[int, Adopted, LeaderState | None], None],
        drained: Callable[[], None],
        predecessors: PredecessorCleanup,
        loads: Callable[[], Loads] = dict,
    ) -> None:
        self._config = config
        self._process = process
        self._processor = processor
        self._leading = leading
        self._sums = sums
        self._loads = loads
        self._mutex = mutex
        self._log = log
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._dialect = DIALECTS[config.user_data]
        self._engine = engine.Membership(
            engine.Profile(
                process,
                shape,
                config.assignor,
                MemberTrailer(
                    assignors=known_assignors(),
                    settings_digest=settings_digest(config.assignor, assign_config(config)),
                    exactly_once=config.exactly_once,
                    balance_by=config.balance_by,
                ),
                self._dialect,
                config.application_server,
                config.endpoint,
                config.client_tags,
                config.probing_rebalance_interval_ms,
            )
        )
        self._ends: Mapping[TaskId, int] | None = None
        self._outage = False
        self.losses = 0
        """How often the membership was lost. It is counted before the client can be in another generation."""
        self._early = early
        self._drained = drained
        self._predecessors = predecessors
        self._watch = Watch(config, shape, leading)
        self._watched_s = 0.0
        self._pulse = Pulse(config.max_poll_interval_ms, log)
        self.rebalances = Durations()
        """From the wish to join, once what runs is committed, to the assignment."""
        self._client = connect(self)

    # --- what the processing loop needs ----------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None:
        if only_as is not None and self._client.transaction_member() != only_as:
            raise CommitRefused("commit offsets: the generation is over")
        self._client.commit(offsets, timeout_s, metadata)

    def member(self) -> MemberId:
        return self._client.member()

    def transaction_member(self) -> MemberId:
        return self._client.transaction_member()

    def lease_left_s(self) -> float:
        return self._client.lease_left_s()

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        with self._lock:
            return set(partitions).issubset(self._engine.inputs)

    def joined(self) -> bool:
        return self._client.joined()

    def handle(self, event: engine.Event) -> None:
        """Let the engine decide and carry out what it says. From any thread; never waits."""
        with self._lock:
            effects = self._decide(event)
        self._go_on(effects)

    def _decide(self, event: engine.Event) -> Sequence[engine.Effect]:
        effects = self._engine.handle(event, wall_ms())
        for effect in effects:
            if isinstance(effect, engine.Order):
                self._carry_out(effect)
        return effects

    def _go_on(self, effects: Sequence[engine.Effect]) -> None:
        if effects:  # not after every turn, or the thread would never rest
            self._wake.set()
        for effect in effects:  # without the lock: a listener may call us, or wait for a thread that does
            if not isinstance(effect, engine.Order):
                self._announce(effect)

    def _carry_out(self, order: engine.Order) -> None:
        match order:
            case machine.Commit():
                self._processor.commit_now()
            case machine.Join():
                self._ends = None
                self.rebalances.start()
                self._client.request_rejoin()
            case machine.Adopt(generation, adopted):
                self._processor.adopt(generation, adopted)
            case machine.DropAll(reason):
                self._processor.drop_all(reason)
            case machine.ReleaseMutex():
                self._engine.handle(engine.MutexReleased(self._mutex.release_report(self)), wall_ms())
            case _:
                assert_never(order)

    def _announce(self, announcement: engine.Announcement) -> None:
        match announcement:
            case engine.AnnounceJoining(reason):
                self._log.emit(JoiningEvent(reason=reason))
            case engine.AnnounceDrainRefused(warning):
                self._log.emit(DrainRefusedEvent(warnings=(warning,)))
            case engine.Drained():
                self._drained()
            case engine.RestartAnnounced(awaited):
                self._log.emit(RestartAnnouncedEvent(awaited=awaited))
                self._drained()
            case engine.AnnounceShutdownRefused(warning):
                self._log.emit(ShutdownRefusedEvent(warnings=(warning,)))
            case engine.EndMembership(cause):
                raise cause
            case _:
                assert_never(announcement)

    # --- the thread -------------------------------------------------------------

    def run(self) -> None:
        """Join and stay joined until ``close``. Raise what makes membership impossible (a refusal, settings)."""
        try:
            self.handle(machine.Started())
            while self._engine.state is not machine.State.CLOSED:
                self._turn_or_outage()
        finally:
            self.close()  # whatever ended it, no thread releases the mutex after this

    def _turn_or_outage(self) -> None:
        try:
            self._turn()
            self._outage = False
        except BrokerUnavailable as cause:
            if not self._outage:
                self._log.emit(BrokerUnavailableEvent(reason=str(cause)))
            self._outage = True
        except InstanceFenced as cause:
            mine = self._config.group_instance_id
            self.handle(machine.MembershipLost("another process has joined with the same group_instance_id"))
            why = f"group_instance_id = {mine!r}: another process has joined with it; each process needs its own"
            raise InstanceFenced(why) from cause

    def _turn(self) -> None:
        if self._engine.state is machine.State.JOINING:
            if self._dialect.tells_lags and self._ends is None:
                self._ends = self._leading.end_offset_sums(self._sums.report(owned_only=False))
            if not self._client.join(MAKE_WAY_S if self._predecessors.any else JOIN_TURN_S):
                self._predecessors.remove()
            return
        self._wake.wait(self._rest_s)
        self._wake.clear()
        self._client.beat(alive=self._pulse.alive(self._processor.turned_ms))
        if self._engine.state is machine.State.STABLE:
            self.handle(engine.Turned(self._client.needs_join(), self._mutex.state.cleaning))
            self._look_around()

    @property
    def _rest_s(self) -> float:
        if self._engine.state is not machine.State.STABLE:
            return TURN_S
        return max(0.0, min(TURN_S, (self._engine.due_ms - wall_ms()) / 1000))

    def _look_around(self) -> None:
        """Ask for a rebalance if topics, state or loads have changed. It may wait for a look-up."""
        if self._engine.state is machine.State.STABLE and time.monotonic() - self._watched_s >= TURN_S:
            self._watched_s = time.monotonic()
            if (reason := self._watch.reason(self._client.partition_counts())) is not None:
                self.rejoin(reason)
            self.handle(engine.LoadsMeasured(self._loads()))

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance; kept if it cannot be asked for right now."""
        self.handle(machine.RejoinWanted(reason))

    def drain(self) -> None:
        """Ask the group to warm up these tasks elsewhere; call ``drained`` once there are none, or none can move."""
        self.handle(engine.DrainAsked())

    def announce_restart(self) -> None:
        """Announce to the group that this process leaves and is back soon; call ``drained`` once it may leave."""
        self.handle(engine.RestartAsked())

    @property
    def can_ask_shutdown(self) -> bool:
        """Whether the user-data that this member joins with can carry ``shut_application_down``."""
        return self._engine.can_ask_shutdown

    def shut_application_down(self) -> None:
        """Ask all members to end (Kafka: ``SHUTDOWN_APPLICATION``). An event says if the group cannot be asked."""
        self.handle(engine.ShutdownAsked())

    def await_shutdown(self, thread: threading.Thread, works: Callable[[], bool]) -> None:
        """Before ``close``: if this member asks all to end, wait until the group has learned of it, by a join.

        ``thread`` is in ``run``. ``works``: whether this process still answers orders for its tasks.
        """
        until_s = time.monotonic() + SHUTDOWN_ASKED_WITHIN_S
        while self._engine.asks_shutdown and thread.is_alive() and time.monotonic() < until_s:
            if not works():
                self._answer_orders()
            thread.join(SHUTDOWN_TURN_S)

    def _answer_orders(self) -> None:
        """Answer in place of work that has ended, so that it holds up no join."""
        effects: Sequence[engine.Effect] = ()
        with self._lock:
            if self._engine.state is machine.State.PREPARING:
                effects = self._decide(machine.WorkCommitted())
            elif self._engine.state is machine.State.RELEASING:
                effects = self._decide(machine.TasksReleased())
        self._go_on(effects)

    def close(self) -> None:
        """End ``run``. The group is left by ``leave``, once the tasks are closed."""
        self.handle(machine.CloseAsked())

    def keep_place(self, _leaves: threading.Event) -> None:
        """Do nothing: the client's own thread sends heartbeats until ``leave``."""

    def leave(self, timeout_s: float, operation: str | None = None) -> None:
        """Disconnect, and leave the group or stay in it, as ``operation`` or else the settings say; who drained leaves.

        Raises ``BrokerError`` where the group could not be reached: it waits until the session ends.
        """
        config = self._config
        drained = self._engine.draining and (operation or config.group_membership_operation) == "default"
        left = self._client.close(timeout_s, leave=drained or config.leaves(operation))
        if left is not None:
            group = config.application_id
            remove_members(config.bootstrap_servers, config.client, group, [left], "it was closed", timeout_s)

    # --- what the client asks, on its I/O thread ----------------------------------

    def subscription(self) -> tuple[Sequence[TopicPartition], bytes]:
        """User-data for JoinGroup."""
        self._predecessors.joining(self._client.member_id())
        with self._lock:  # or the member could be closed meanwhile, and never release the mutex
            held = self._engine.may_promise and self._mutex.try_report(self)
            sums, kept = self._sums.report(owned_only=False), self._sums.report_kept(self._engine.assigned)
            ends, loads = self._ends or {}, self._loads()
            facts = engine.ReportFacts(held, sums, kept, wall_ms(), ends, self._watch.seen, loads)
            owned, report = self._engine.join(facts)
        return owned, self._dialect.write_report(report)

    def lead(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> Mapping[str, MemberAssignment]:
        self.handle(engine.Elected())
        promised, joined_ago_ms = self._engine.promised, self._engine.joined_ago_ms(wall_ms())
        return self._leading.lead(members, counts, promised, joined_ago_ms, self._engine.loads)

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:
        self._predecessors.joined(self._client.member_id())
        self.rebalances.stop()
        if self._engine.leads and self._leading.refused is not None:
            raise self._leading.refused
        received = self._engine.read(generation, partitions, user_data, self._client.partition_counts())
        self._report_assignment(received)
        self._watch.assigned(received.adopted, self._engine.reported, leads=received.leads)
        self._watched_s = 0.0
        self._early(generation, received.adopted, self._leading.standing if received.leads else None)
        self.handle(received)

    def _report_assignment(self, received: engine.Received) -> None:
        adopted = received.adopted
        if received.end is not None:
            self._log.emit(ShutdownRequestedEvent(reason=str(received.end)))
        self._log.emit(
            AssignedEvent(
                generation=received.generation,
                assignor=adopted.assignor,
                active=task_names(adopted.active),
                standby=task_names(adopted.standby),
                warmup=task_names(adopted.warmup),
                next_probe_ms=adopted.next_probe_ms,
                follow_up=adopted.follow_up,
                version=adopted.version,
                warnings=tuple(received.warnings),
            )
        )

    def turn_soon(self) -> None:
        self._wake.set()

    def lost(self) -> None:
        self.losses += 1
        self.handle(machine.MembershipLost(engine.LOST))

    # --- for status -------------------------------------------------------------------

    @property
    def generation(self) -> int | None:
        return self._engine.generation

    @property
    def group_generation(self) -> int | None:
        """The same as ``generation``: here it is the group's."""
        return self.generation

    @property
    def process_id(self) -> UUID:
        return self._process

    @property
    def hosts(self) -> tuple[Hosts, Hosts]:
        """Endpoint -> input partitions of its active tasks, and of its standbys, as of the last assignment."""
        adopted = self._engine.adopted
        return (adopted.hosts, adopted.standby_hosts) if adopted else ({}, {})

    @property
    def next_probe_ms(self) -> int | None:
        """Wall-clock time of the group's next probing rebalance, as the leader announced; None where none is due."""
        adopted = self._engine.adopted
        return adopted.next_probe_ms if adopted else None

    def view(self) -> MemberView:
        """Everything at once. The state is read first: where it says stable, the rest is at least as new."""
        state, leads = self._engine.state, self._engine.leads
        return MemberView(
            state=state,
            generation=self._engine.generation,
            adopted=self._engine.adopted,
            leads=leads,
            standing=self._leading.standing if leads else None,
            draining=self._engine.draining,
            outage=self._outage,
            lease_left_s=self._client.lease_left_s(),
            restarting=self._engine.restarting,
            awaited=self._engine.awaited(wall_ms()) or {},
        )

    def roles(self) -> dict[TaskId, str]:
        """Each assigned task's role."""
        adopted = self._engine.adopted
        return {} if adopted is None else adopted.roles()
