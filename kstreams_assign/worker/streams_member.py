"""The shell of a member of a streams group (KIP-1071): carries out what ``engine.streams_membership`` decides.

One thread sends heartbeats, one at a time, and is the only one that waits for the coordinator; commits go over a
connection of their own. Any thread may report an event: what it asks of the tasks is ordered at once, in order, and
what has to be sent waits for the thread. The member id is kept in a directory, if there is one: a process that comes
back within its session is the same member to the coordinator, which leaves it its tasks.

What must not live here: a rule of what is reported, owned or assigned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms, suspended_s
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.config import Config
from kstreams_assign.engine import streams_events as do
from kstreams_assign.engine import streams_membership as engine
from kstreams_assign.engine.membership import ShutdownAsked
from kstreams_assign.engine.streams_offsets import positions_of
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.engine.warm_join import JoinGroup
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    CommitDeferred,
    CommitRefused,
    MalformedUserData,
    PartitionsAbsent,
    ShutdownRequested,
)
from kstreams_assign.events import (
    AwaitedTasksEvent,
    BrokerUnavailableEvent,
    GroupStatusEvent,
    JoiningEvent,
    LookupFailedEvent,
    RestartAnnouncedEvent,
    ShutdownRequestedEvent,
    WarmJoinEvent,
)
from kstreams_assign.group import member as machine
from kstreams_assign.group.streams_outlook import Newcomer
from kstreams_assign.group.streams_settings import OFFSETS_VERSION
from kstreams_assign.group.streams_topology import refuse_other_topology, streams_topology
from kstreams_assign.group.values import Hosts, MemberId
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape, task_names
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.members import Members
from kstreams_assign.status.views import MemberView
from kstreams_assign.wire.streams_describe import DescribedStreamsMember
from kstreams_assign.wire.streams_heartbeat import JOIN_EPOCH
from kstreams_assign.worker.connecting import StreamsConnections
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.join_announcements import JoinAnnouncements
from kstreams_assign.worker.kept_id import member_id_of
from kstreams_assign.worker.membership import Work
from kstreams_assign.worker.progress_topic import ProgressTopic
from kstreams_assign.worker.pulse import Pulse
from kstreams_assign.worker.streams_assignments import Assignments
from kstreams_assign.worker.streams_look import LOOK_UP_S, GroupLook, own_look
from kstreams_assign.worker.streams_status import StatusWarnings, hosts_of
from kstreams_assign.worker.warm_joining import WarmJoining
from kstreams_assign.worker.warm_leaving import WarmLeaving

TURN_S = 0.1
RETRY_S = 0.05
LEAVE_EARLY_S = 5.0
_STATES: Mapping[engine.State, machine.State] = {
    engine.State.UNJOINED: machine.State.UNJOINED,
    engine.State.JOINING: machine.State.JOINING,
    engine.State.MEMBER: machine.State.STABLE,
    engine.State.FENCED: machine.State.JOINING,
    engine.State.STALLED: machine.State.UNJOINED,
    engine.State.CLOSING: machine.State.CLOSED,
    engine.State.CLOSED: machine.State.CLOSED,
}
"""Where a member stands, in the words of a classic group."""


class StreamsMember:
    """One member of the group, from the first heartbeat to the last.

    ``members`` keeps the member id, if it is given. ``leave`` closes the ``connections``.
    """

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        process: UUID,
        processor: Work,
        members: Members | None,
        admin: ClusterAdmin,
        log: EventLog,
        connections: StreamsConnections,
        sums: OffsetSums,
        lags: Callable[[], Mapping[TaskId, int]],
        disk: Callable[[], Disk | None],
        drained: Callable[[], None],
    ) -> None:
        self._config = config
        self._process = process
        self._processor = processor
        self._log = log
        self._connections = connections
        self._heartbeats, self._commits = connections.heartbeats, connections.commits
        self._drained = drained
        self._member_id, self._id_is_kept = member_id_of(members, config.group_instance_id, log)
        self._topology = streams_topology(shape, config.application_id, config.replication_factor)
        self._engine = engine.StreamsMembership(
            engine.Profile(
                config.application_id,
                self._member_id,
                str(process),
                self._topology,
                config.max_poll_interval_ms,
                config.endpoint,
                config.client_tags,
                config.client_rack,
                config.group_instance_id,
                reports_offsets=self._heartbeats.heartbeat_version() >= OFFSETS_VERSION,
                session_timeout_ms=config.session_timeout_ms,
            )
        )
        self._sums, self._lags = sums, lags
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._to_send: list[do.SendHeartbeat | do.SendLeave | do.LookUpAssignment] = []
        self._cause: Exception | None = None
        self._assignments = Assignments(shape, admin, processor, log)
        self._outage = self._returns = self._drains = self._stalled = False
        self._status = StatusWarnings()
        self._warm_joining = WarmJoining(
            config,
            Newcomer(self._member_id, str(process)),
            GroupLook(config.application_id, self._heartbeats, admin),
            self._assignments,
            JoinAnnouncements(ProgressTopic(config, admin), log),
            lags,
            disk,
            log,
        )
        self.leaving = WarmLeaving(
            config,
            shape,
            self._member_id,
            ProgressTopic(config, admin),
            lambda: own_look(config, admin),
            self._assignments,
            lags,
            disk,
            log,
            lambda tasks: self.handle(do.TasksAwaited(tasks)),
            drained,
        )
        self._reason = "first join"
        self._pulse = Pulse(config.max_poll_interval_ms, log)
        self.losses = 0
        """How often the membership was lost. It is counted before the coordinator can know this member again."""
        self.rebalances = self._assignments.durations

    # --- what the processing loop needs ------------------------------------------------

    def handle(self, event: do.Event | machine.Event) -> None:
        """Let the engine decide, and order what it asks of the tasks. From any thread; never waits."""
        if isinstance(event, machine.RejoinWanted | machine.WorkCommitted | machine.Assigned | machine.Tick):
            return  # a classic member's
        with self._lock:
            effects = self._engine.handle(event, _now_ms())
            for effect in effects:
                self._carry_out(effect)
            self._changed.notify_all()
        self._wake.set()
        for effect in effects:  # without the lock: a listener may call us, or wait for a thread that does
            self._announce(effect)

    def _announce(self, effect: do.Effect) -> None:
        if isinstance(effect, do.AwaitingEnded) and effect.awaited:
            self._log.emit(AwaitedTasksEvent(awaited=task_names(effect.awaited), missing=task_names(effect.missing)))
        elif isinstance(effect, do.EndMembership) and isinstance(effect.cause, ShutdownRequested):
            self._log.emit(ShutdownRequestedEvent(reason=str(effect.cause)))

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.SendHeartbeat() | do.SendLeave() | do.LookUpAssignment():
                self._to_send.append(effect)
            case do.AdoptTasks():
                self._assignments.take(effect)
            case machine.DropAll(reason):
                self.losses += 1
                self._assignments.drop_all(reason, lambda: self.handle(do.TasksDropped()))
            case do.AnnounceStatus(status):
                self._status.hear(status, _now_ms())
            case do.AwaitingEnded():
                self._assignments.end_warm_up()
            case do.EndMembership(cause):
                self._cause = cause
            case _:
                assert_never(effect)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None:
        """Commit next offsets at the present epoch; where the coordinator has a newer one, wait for that.

        Under the epoch of a later membership the coordinator would take offsets of tasks that are others' by then.
        Raises ``CommitDeferred``, ``PartitionsAbsent``, ``CommitRefused``, ``BrokerUnavailable``.
        """
        losses, deadline = self.losses, time.monotonic() + timeout_s
        while True:
            member = self.transaction_member()
            if self.losses != losses:
                raise CommitRefused("commit offsets: the membership was lost meanwhile")
            if only_as is not None and member != only_as:
                raise CommitRefused("commit offsets: the epoch is over")
            try:
                return self._commits.commit(self._config.application_id, member, offsets, metadata)
            except PartitionsAbsent:
                raise
            except CommitDeferred:
                if not self._await_other_epoch(member, deadline):
                    raise
            except BrokerUnavailable:
                if time.monotonic() + RETRY_S >= deadline:
                    raise
                threading.Event().wait(RETRY_S)

    def _await_other_epoch(self, member: MemberId, deadline: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: self._engine.epoch != member.generation, max(0.0, deadline - time.monotonic())
            )

    def member(self) -> MemberId:
        """Return the membership of now.

        Raises ``CommitDeferred`` while an answer is awaited that may bring another epoch, ``CommitRefused`` for no
        member.
        """
        with self._lock:
            if not self._engine.is_certain:
                raise CommitDeferred("commit offsets: the answer to a heartbeat may bring another epoch")
            return self.transaction_member()

    def transaction_member(self) -> MemberId:
        """Return the member and its epoch, as far as it is known. Raises ``CommitRefused`` for no member."""
        epoch = self._engine.epoch
        if epoch == JOIN_EPOCH:
            raise CommitRefused("commit offsets: this process is no member of the group")
        return MemberId(epoch, self._member_id, self._config.group_instance_id)

    def lease_left_s(self) -> float:
        """Seconds until the coordinator may give the tasks away; 0 for no member, negative once it may have."""
        ends_ms = self._engine.lease_ends_ms(self._config.session_timeout_ms)
        return 0.0 if ends_ms is None else (ends_ms - _now_ms()) / 1000

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        return self._assignments.owns(partitions)

    def joined(self) -> bool:
        """Whether this is a member, as far as it knows; also after it was closed."""
        return self._engine.epoch != JOIN_EPOCH

    # --- the thread ----------------------------------------------------------------------

    def run(self) -> None:
        """Join and stay a member until ``close``. Raise what makes membership impossible (a refusal, a topology)."""
        try:
            self._start(self._look_before_joining())
            while not self._is_closed():
                self._turn()
            if self._drains and self._stalled and not self.joined():
                self._leave_before_the_call_returns()
        finally:
            self._warm_joining.end(is_member=False)
            self.close()
        if self._cause is not None:
            raise self._cause

    def _is_closed(self) -> bool:
        return self._engine.state in (engine.State.CLOSING, engine.State.CLOSED)

    def keep_place(self, leaves: threading.Event) -> None:
        """Send heartbeats from the end of ``run`` until ``leaves`` is set, as tasks still run.

        It ends early if the group went on without this member, or refuses its heartbeats: ``leave`` reports why.
        """
        with suppress(BrokerError):
            while self._engine.state is engine.State.CLOSING and not leaves.wait(self._patience_s()):
                self._watch_calls()
                self._beat()
                self._send_all()

    def _start(self, known: str | None) -> None:
        """Join once the state of what this process will get is warm; at once if the group keeps tasks for it."""
        join = JoinGroup(known) if known is not None else self._warm_joining.wait(self._is_closed)
        if join is not None:
            self._log.emit(WarmJoinEvent(reason=join.reason))
            self.handle(do.TasksAwaited(join.awaited))
            self.handle(machine.Started())

    def _look_before_joining(self) -> str | None:
        """Refuse another topology than the group's, also an empty group's: the broker's refusal names no difference.

        Return why to join at once: the group keeps the tasks of this static member. Where the group cannot be
        described, the first heartbeat tells why.
        """
        with suppress(BrokerError, MalformedUserData):
            described = self._heartbeats.describe(self._config.application_id, LOOK_UP_S)
            if described is None:
                return None
            refuse_other_topology(self._topology, described, self._is_own)
            mine = self._config.group_instance_id
            if mine is not None and mine in {member.instance_id for member in described.members}:
                return f"the group still has the static member {mine}"
        return None

    def _is_own(self, member: DescribedStreamsMember) -> bool:
        return member.member_id == self._member_id or (
            member.instance_id is not None and member.instance_id == self._config.group_instance_id
        )

    def _turn(self) -> None:
        self._wake.wait(self._patience_s())
        self._wake.clear()
        self._watch_calls()
        self._beat()
        self._send_all()
        self._assignments.turn()
        if (warnings := self._status.news(_now_ms())) is not None:
            self._log.emit(GroupStatusEvent(warnings=warnings))

    def _beat(self) -> None:
        """Send a heartbeat if one is due."""
        due_ms, now_ms = self._engine.due_ms(), _now_ms()
        if due_ms is not None and now_ms >= due_ms:
            wants = self._engine.wants_positions(now_ms)
            positions = positions_of(self._sums.report(owned_only=True), self._lags()) if wants else None
            self.handle(do.HeartbeatDue(positions))

    def _patience_s(self) -> float:
        due_ms = self._engine.due_ms()
        if self._assignments.waits:
            return RETRY_S
        return TURN_S if due_ms is None else min(TURN_S, max(0.0, (due_ms - _now_ms()) / 1000))

    def _watch_calls(self) -> None:
        self._pulse.alive(self._processor.turned_ms)
        before, self._stalled = self._stalled, self._pulse.stalled
        if before != self._stalled:
            self.handle(do.CallStalled() if self._stalled else do.CallReturned())
            if self._stalled and self._drains:
                self._drained()  # no task is left that others could warm up

    # --- what is sent ------------------------------------------------------------------------

    def _send_all(self) -> None:
        while self._to_send:
            self._send(self._to_send.pop(0))

    def _send(self, effect: do.SendHeartbeat | do.SendLeave | do.LookUpAssignment) -> None:
        match effect:
            case do.SendHeartbeat(request):
                if request.member_epoch == JOIN_EPOCH:
                    self.rebalances.start()
                    self._log.emit(JoiningEvent(reason=self._reason))
                try:
                    self.handle(do.Answered(self._heartbeats.heartbeat(request)))
                    self._outage = False
                    if request.member_epoch == JOIN_EPOCH and self.joined():
                        self._warm_joining.end(is_member=True)
                        self._reason = "it lost its place in the group"
                except (BrokerUnavailable, MalformedUserData) as cause:
                    self._report_outage(cause)
                    self.handle(do.Unanswered())
            case do.SendLeave(request):
                try:
                    answer = self._heartbeats.heartbeat(request)
                except (BrokerError, MalformedUserData):
                    return
                self.handle(do.LeaveAnswered(answer.error_code))
            case do.LookUpAssignment():
                self._look_up()
            case _:
                assert_never(effect)

    def _report_outage(self, cause: Exception) -> None:
        if not self._outage:
            self._log.emit(BrokerUnavailableEvent(reason=str(cause)))
        self._outage = True

    def _look_up(self) -> None:
        try:
            self.handle(self._found())
        except (BrokerError, MalformedUserData) as cause:
            self._log.emit(LookupFailedEvent(what="this member's tasks", reason=str(cause)))
            self.handle(do.LookupFailed())

    def _found(self) -> do.AssignmentFound:
        described = self._heartbeats.describe(self._config.application_id, LOOK_UP_S)
        for member in () if described is None else described.members:
            if member.member_id == self._member_id:
                held = member.assignment
                tasks = do.tasks_by_role(held.active_tasks, held.standby_tasks, held.warmup_tasks)
                return do.AssignmentFound(member.member_epoch, tasks)
        return do.AssignmentFound(JOIN_EPOCH, None)

    # --- what the process asks for -------------------------------------------------------------

    def rejoin(self, reason: str) -> None:
        """Nothing to ask for: the brokers decide when tasks move."""

    def drain(self) -> None:
        """Have the tasks warmed up at the members of this package that will get them, then call ``drained``."""
        self._drains = True
        if self._engine.state is engine.State.MEMBER:
            self.leaving.drain()
        else:
            self._drained()

    def announce_restart(self) -> None:
        """Leave without a word, and keep the member id: the tasks wait for this process until its session ends.

        Without a kept id the group would not know this process again, so it leaves as ever. A static member says so.
        """
        is_known_again = self._id_is_kept or self._config.group_instance_id is not None
        self._returns = is_known_again and self._config.scheduled_rebalance_max_delay_ms > 0
        self._log.emit(RestartAnnouncedEvent(awaited=self._returns))
        self._drained()

    def shut_application_down(self) -> None:
        """Ask all members to end (Kafka: ``SHUTDOWN_APPLICATION``)."""
        self.handle(ShutdownAsked())
        self._warm_joining.join_at_once("the application is to end")  # a heartbeat says so

    def await_shutdown(self, _thread: threading.Thread, _works: Callable[[], bool]) -> None:
        """Nothing to wait for: the last heartbeat carries the request."""

    def close(self) -> None:
        """End ``run``. The group is left by ``leave``, once the tasks are closed; ``keep_place`` lasts until then."""
        self.handle(machine.CloseAsked())

    def leave(self, timeout_s: float, operation: str | None = None) -> None:
        """Leave the group, or stay in it as ``operation`` or else the settings say.

        By default a member that restarts stays, and one that drained leaves. Raises ``BrokerError`` where the group
        could not be reached: it waits until the session ends.
        """
        try:
            self._leave(timeout_s, operation)
        finally:
            self._connections.close()

    def _leave_before_the_call_returns(self) -> None:
        """Leave at once, since the tasks are dropped: ``leave`` follows the stalled call, which may never return."""
        with suppress(BrokerError, MalformedUserData):  # ``leave`` tries again
            self._leave(LEAVE_EARLY_S, None)

    def _leave(self, timeout_s: float, operation: str | None) -> None:
        wanted, leaves = operation or self._config.group_membership_operation, self._config.leaves(operation)
        if wanted == "default" and (self._returns or self._drains):
            leaves = not self._returns
        request = self._engine.leaving_request(comes_back=not leaves)
        if request is not None and (leaves or request.instance_id or request.shutdown_application):
            self._connections.leave(request, timeout_s)

    # --- for status ----------------------------------------------------------------------------

    @property
    def generation(self) -> int | None:
        """The number of the last assignment; None while this is no member."""
        return self._assignments.number

    @property
    def group_generation(self) -> int | None:
        """The member epoch, which follows the group's; None while this is no member."""
        epoch = self._engine.epoch
        return None if epoch == JOIN_EPOCH else epoch

    @property
    def process_id(self) -> UUID:
        return self._process

    @property
    def hosts(self) -> tuple[Hosts, Hosts]:
        """Endpoint -> input partitions of its active tasks, and of its standbys, as of the coordinator's last word."""
        return hosts_of(self._engine.hosts)

    @property
    def next_probe_ms(self) -> int | None:
        """None: a streams group has no probing rebalances."""
        return None

    def view(self) -> MemberView:
        """Everything at once. The state is read first: where it says stable, the rest is at least as new."""
        state, drain, (hosts, standby_hosts) = self._engine.state, self.leaving.view(), self.hosts
        adopted = self._assignments.adopted
        return MemberView(
            state=_STATES[state],
            generation=self.generation,
            adopted=None if adopted is None else replace(adopted, hosts=hosts, standby_hosts=standby_hosts),
            leads=False,
            standing=None,
            draining=drain is not None,
            outage=self._outage,
            lease_left_s=self.lease_left_s(),
            restarting=self._returns,
            drain=drain,
            join=self._warm_joining.view,
        )

    def roles(self) -> dict[TaskId, str]:
        """Each assigned task's role."""
        adopted = self._assignments.adopted
        return {} if adopted is None else adopted.roles()


def _now_ms() -> int:
    """Time that also passes while the machine is suspended: the coordinator's session goes on then."""
    return monotonic_ms() + round(suspended_s() * 1000)
