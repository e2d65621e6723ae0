"""The membership's shell: drives ``group.member`` with what the client, the loop and the clock report.

One thread joins and keeps alive; the client's I/O thread asks for user-data and delivers assignments; the processing
thread reports its commits. All of them meet in ``handle``, which only decides and leaves orders, so none waits here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.kafka_python import GroupClient, remove_members
from kstreams_assign.assign import compute_lag
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable, InstanceFenced, ShutdownRequested
from kstreams_assign.group import member as machine
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.assignor_choice import explain_other_assignor, known_assignors
from kstreams_assign.group.dialects import DIALECTS, MemberReport
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.group.values import (
    Adopted,
    ErrorCode,
    Hosts,
    JoinedMember,
    LeaderState,
    MemberAssignment,
    MemberId,
)
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.wire import UNIQUE_FIELD_VERSION, MemberTrailer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading, assign_config
from kstreams_assign.worker.meters import Durations
from kstreams_assign.worker.predecessors import PredecessorCleanup
from kstreams_assign.worker.pulse import Pulse
from kstreams_assign.worker.watching import Watch

TURN_S = 0.02
JOIN_TURN_S = 0.5
MAKE_WAY_S = 0.1
WATCH_S = 0.5


class Work(Protocol):
    """Who has the tasks. Every method only leaves an order."""

    def commit_now(self) -> None:
        """Commit, then report ``WorkCommitted``."""
        ...

    def adopt(self, generation: int, adopted: Adopted) -> None:
        """Take over an assignment, then report ``TasksReleased``."""
        ...

    def drop_all(self, reason: str) -> None:
        """Forget all tasks."""
        ...

    @property
    def turned_ms(self) -> int | None:
        """When it came round last (monotonic); None: it is not to be watched."""
        ...


@dataclass(frozen=True, slots=True)
class MemberView:
    """How the member stands, for status. ``standing``: the decision, where this member leads."""

    state: machine.State
    generation: int | None
    adopted: Adopted | None
    leads: bool
    standing: LeaderState | None
    draining: bool
    outage: bool
    lease_left_s: float


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
    ) -> None:
        self._config = config
        self._shape = shape
        self._process = process
        self._processor = processor
        self._leading = leading
        self._sums = sums
        self._mutex = mutex
        self._log = log
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._machine = machine.Member()
        self._owned: tuple[TopicPartition, ...] = ()
        self._adopted: Adopted | None = None
        self._unique = 0
        self._dialect = DIALECTS[config.user_data]
        self._version = self._dialect.latest_version
        self._ends: Mapping[TaskId, int] | None = None
        self._leads = False
        self._outage = False
        self._early = early
        self._drained = drained
        self._predecessors = predecessors
        self._watch = Watch(config, shape, leading)
        self._watched_s = 0.0
        self._pulse = Pulse(config.max_poll_interval_ms, log)
        self._reported: Mapping[TaskId, int] = {}
        self._draining = self._told_draining = False
        self._report_again = False
        self._error_code = ErrorCode.NONE
        self._told_to_end: ShutdownRequested | None = None
        self.rebalances = Durations()
        """From the wish to join, once what runs is committed, to the assignment."""
        self._client = connect(self)

    # --- what the processing loop needs ----------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float, metadata: Mapping[TopicPartition, str]
    ) -> None:
        self._client.commit(offsets, timeout_s, metadata)

    def member(self) -> MemberId:
        return self._client.member()

    def lease_left_s(self) -> float:
        return self._client.lease_left_s()

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        with self._lock:
            return set(partitions).issubset(self._adopted_inputs())

    def joined(self) -> bool:
        return self._client.joined()

    def handle(self, event: machine.Event) -> None:
        """Let the machine decide and carry out what it says. From any thread; never waits."""
        with self._lock:
            if isinstance(event, machine.TasksReleased) and not self._machine.is_stale(event):
                self._owned = self._adopted_inputs()
            actions = self._machine.handle(event, wall_ms())
            for action in actions:
                self._carry_out(action)
        if actions:  # not after every tick, or the thread would never rest
            self._wake.set()
        for action in actions:  # without the lock: a listener may call us, or wait for a thread that does
            if isinstance(action, machine.Join):
                self._log.emit("joining", reason=action.reason)

    def _carry_out(self, action: machine.Action) -> None:
        if isinstance(action, machine.Commit):
            self._processor.commit_now()
        elif isinstance(action, machine.Join):
            self._ends, self._leads = None, False
            self.rebalances.start()
            self._client.request_rejoin()
        elif isinstance(action, machine.Adopt):
            self._adopted = action.adopted
            self._processor.adopt(action.generation, action.adopted)
        elif isinstance(action, machine.DropAll):
            self._owned, self._adopted = (), None
            self._processor.drop_all(action.reason)
        elif isinstance(action, machine.ReleaseMutex):
            self._report_again = not self._mutex.release_report(self)

    def _adopted_inputs(self) -> tuple[TopicPartition, ...]:
        if self._adopted is None:
            return ()
        return tuple(p for partitions in self._adopted.active.values() for p in partitions)

    # --- the thread -------------------------------------------------------------

    def run(self) -> None:
        """Join and stay joined until ``close``. Raise what makes membership impossible (a refusal, settings)."""
        try:
            self.handle(machine.Started())
            while self._machine.state is not machine.State.CLOSED:
                self._turn_or_outage()
        finally:
            self.close()  # whatever ended it, no thread releases the mutex after this

    def _turn_or_outage(self) -> None:
        try:
            self._turn()
            self._outage = False
        except BrokerUnavailable as cause:
            if not self._outage:
                self._log.emit("broker_unavailable", reason=str(cause))
            self._outage = True
        except InstanceFenced as cause:
            mine = self._config.group_instance_id
            self.handle(machine.MembershipLost("another process has joined with the same group_instance_id"))
            why = f"group_instance_id = {mine!r}: another process has joined with it; each process needs its own"
            raise InstanceFenced(why) from cause

    def _turn(self) -> None:
        if self._machine.state is machine.State.JOINING:
            if self._dialect.tells_lags and self._ends is None:
                self._ends = self._leading.end_offset_sums(self._sums.report(owned_only=False))
            if not self._client.join(MAKE_WAY_S if self._predecessors.any else JOIN_TURN_S):
                self._predecessors.remove()
            return
        self._wake.wait(TURN_S)
        self._wake.clear()
        self._client.beat(alive=self._pulse.alive(self._processor.turned_ms))
        if self._machine.state is machine.State.STABLE:
            if self._told_to_end is not None:
                raise self._told_to_end
            if (reason := self._why_rejoin()) is not None:
                self.handle(machine.RejoinWanted(reason))
        self.handle(machine.Tick())

    def _why_rejoin(self) -> str | None:
        """Return why a stable member should ask for a rebalance, or None."""
        if self._client.needs_join():
            return "the group rebalances"
        if self._report_again and not self._mutex.state.cleaning:
            self._report_again = False
            return "the cleaner ran during the last rebalance"
        if time.monotonic() - self._watched_s > WATCH_S:
            self._watched_s = time.monotonic()
            return self._watch.reason(self._client.partition_counts())
        return None

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance; kept if it cannot be asked for right now."""
        self.handle(machine.RejoinWanted(reason))

    def drain(self) -> None:
        """Ask the group to warm up these tasks elsewhere; call ``drained`` once there are none, or none can move."""
        self._draining = True
        self.rejoin("draining: this member wants to leave")

    def shut_application_down(self) -> None:
        """Ask all members to end (Kafka: ``SHUTDOWN_APPLICATION``)."""
        self._error_code = ErrorCode.SHUTDOWN_REQUESTED
        self.rejoin("this member asks the whole application to shut down")

    def close(self) -> None:
        """End ``run``. The group is left by ``leave``, once the tasks are closed."""
        self.handle(machine.CloseAsked())

    def leave(self, timeout_s: float, operation: str | None = None) -> None:
        """Disconnect, and leave the group or stay in it, as ``operation`` or else the settings say; who drained leaves.

        Raises ``BrokerError`` where the group could not be reached: it waits until the session ends.
        """
        config = self._config
        drained = self._draining and (operation or config.group_membership_operation) == "default"
        left = self._client.close(timeout_s, leave=drained or config.leaves(operation))
        if left is not None:
            group = config.application_id
            remove_members(config.bootstrap_servers, config.client, group, [left], "it was closed", timeout_s)

    # --- what the client asks, on its I/O thread ----------------------------------

    def subscription(self) -> tuple[Sequence[TopicPartition], bytes]:
        """User-data for JoinGroup. ``unique_field`` changes on every join, or the leader would ignore a probe."""
        self._leads = False  # a lost SyncGroup may have been ours; in this generation another one may be elected
        self._predecessors.joining(self._client.member_id())
        complete = self._take_mutex()
        self._unique = (self._unique + 1) % 128
        self._told_draining = self._draining
        assigned = self._adopted.tasks if self._adopted else frozenset()
        self._reported = sums = self._sums.report(owned_only=False) if complete else self._sums.report_kept(assigned)
        report = MemberReport(
            version=self._version,
            latest_supported_version=self._dialect.latest_version,
            process_id=self._process,
            user_end_point=self._config.application_server,
            task_offset_sums=sums,
            task_lags=self._lags(sums) if self._dialect.tells_lags else None,
            unique_field=self._unique,
            error_code=self._error_code,
            client_tags=self._config.client_tags,
            trailer=MemberTrailer(
                assignors=known_assignors(),
                settings_digest=settings_digest(self._config.assignor, assign_config(self._config)),
                draining=self._draining,
                join=self._unique if self._version < UNIQUE_FIELD_VERSION else None,
                partitions=self._watch.seen,
                exactly_once=self._config.exactly_once,
            ),
        )
        return self._owned, self._dialect.write_report(report)

    def _take_mutex(self) -> bool:
        """Not once the member is closed: a join that the client still tries would never release the mutex."""
        with self._lock:
            return self._machine.state is not machine.State.CLOSED and self._mutex.try_report(self)

    def _lags(self, sums: Mapping[TaskId, int]) -> dict[TaskId, int]:
        """KIP-441: each task's lag as of just before this join; 0 for what runs. Unknown ends leave a task out."""
        ends = self._ends or {}
        running = {task: 0 for task, offset_sum in sums.items() if offset_sum == RUNNING_OFFSET_SUM}
        others = {task: compute_lag(ends[task], offset_sum) for task, offset_sum in sums.items() if task in ends}
        return dict(sorted({**others, **running}.items()))

    def lead(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> Mapping[str, MemberAssignment]:
        self._leads = True
        promised: Mapping[TaskId, UUID] = self._adopted.promised if self._adopted else {}
        return self._leading.lead(members, counts, promised)

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:
        self._predecessors.joined(self._client.member_id())
        self.rebalances.stop()
        if self._leads and self._leading.refused is not None:
            raise self._leading.refused
        adopted = self._read(partitions, user_data)
        other = None if self._told_to_end else explain_other_assignor(adopted.assignor, self._config.assignor)
        self._log.emit(
            "assigned",
            generation=generation,
            assignor=adopted.assignor,
            active=[*map(str, sorted(adopted.active))],
            standby=[*map(str, sorted(adopted.standby))],
            warmup=[*map(str, sorted(adopted.warmup))],
            next_probe_ms=adopted.next_probe_ms,
            follow_up=adopted.follow_up,
            version=adopted.version,
            warnings=[*adopted.warnings, *([other] if other else [])],
        )
        self._watch.assigned(adopted, self._reported, leads=self._leads)
        self._watched_s = 0.0
        self._early(generation, adopted, self._leading.standing if self._leads else None)
        self.handle(machine.Assigned(generation, adopted))
        if adopted.version != self._version:
            self._version = adopted.version
            self.rejoin(f"version probing: this member speaks version {adopted.version} from now on")
        if self._told_draining:
            self._drain_on(adopted)

    def _read(self, partitions: Sequence[TopicPartition], user_data: bytes) -> Adopted:
        """Return the assignment, or nothing if the application shall end: then tasks are closed and ``run`` ends."""
        try:
            return read_assignment(
                partitions,
                user_data,
                self._shape,
                self._process,
                self._config.endpoint,
                self._dialect,
                leads=self._leads,
                used_version=self._version,
                partition_counts=self._client.partition_counts(),
            )
        except ShutdownRequested as asked:
            self._told_to_end, self._error_code = asked, ErrorCode.SHUTDOWN_REQUESTED
            self._log.emit("shutdown_requested", reason=str(asked))
            return Adopted({}, frozenset(), frozenset(), version=self._version)

    def _drain_on(self, adopted: Adopted) -> None:
        if not adopted.draining:
            why = "no other process can take the tasks over, or the leader is not a kstreams_assign member"
            self._log.emit("drain_refused", warnings=[f"{why}: this member leaves without warming them up elsewhere"])
        if not adopted.draining or not (adopted.active or adopted.follow_up):
            self._drained()

    def lost(self) -> None:
        self.handle(machine.MembershipLost("the group went on without this member"))

    # --- for status -------------------------------------------------------------------

    @property
    def generation(self) -> int | None:
        return self._machine.generation

    @property
    def process_id(self) -> UUID:
        return self._process

    @property
    def hosts(self) -> tuple[Hosts, Hosts]:
        """Endpoint -> input partitions of its active tasks, and of its standbys, as of the last assignment."""
        adopted = self._adopted
        return (adopted.hosts, adopted.standby_hosts) if adopted else ({}, {})

    @property
    def next_probe_ms(self) -> int | None:
        """Wall-clock time of the group's next probing rebalance, as the leader announced; None where none is due."""
        return self._adopted.next_probe_ms if self._adopted else None

    def view(self) -> MemberView:
        """Everything at once. The state is read first: where it says stable, the rest is at least as new."""
        state, leads = self._machine.state, self._leads
        return MemberView(
            state=state,
            generation=self._machine.generation,
            adopted=self._adopted,
            leads=leads,
            standing=self._leading.standing if leads else None,
            draining=self._draining,
            outage=self._outage,
            lease_left_s=self._client.lease_left_s(),
        )

    def roles(self) -> dict[TaskId, str]:
        """Each assigned task's role."""
        adopted = self._adopted
        if adopted is None:
            return {}
        warmup, standby = dict.fromkeys(adopted.warmup, "warmup"), dict.fromkeys(adopted.standby, "standby")
        return {**warmup, **standby, **dict.fromkeys(adopted.active, "active")}
