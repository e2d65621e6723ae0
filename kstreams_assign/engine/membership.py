"""One member around its table: what it reports when it joins, what it owns, and what an assignment asks of it.

``Membership.handle(event, now_ms)`` passes the events of ``group.member`` on to the table and returns effects, which a
shell carries out in order. Orders come first; announcements may wait until the shell has let go of its lock. A client
asks for two answers at once: ``join`` is JoinGroup's, ``read`` makes an event of SyncGroup's.

The report mutex, the table of offset sums and the look-up of end offsets are the shell's. The machine only says when
they are to be used, and draws the conclusions. What must not live here: why topics and state need a rebalance
(``worker.watching``), the leader's decision (``group.leader``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import ClassVar
from uuid import UUID

from kstreams_assign.assign import Loads, compute_lag
from kstreams_assign.engine.own_loads import OwnLoads
from kstreams_assign.errors import ShutdownRequested
from kstreams_assign.frozen import dataclass
from kstreams_assign.group import member
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.assignor_choice import explain_other_assignor
from kstreams_assign.group.awaiting import count_down, wait_ends_in_ms
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.group.loads import explain_balance_ignored
from kstreams_assign.group.values import Adopted, ErrorCode
from kstreams_assign.model import NO_PROBE_MS, RUNNING_OFFSET_SUM, HostInfo, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import ERROR_CODE_VERSION, UNIQUE_FIELD_VERSION, AwaitedProcess, MemberTrailer

UNIQUE_FIELD_VALUES = 128
"""``unique_field`` is one byte, of which Java uses the values from 0."""

REBALANCING = "the group rebalances"
REPORT_AGAIN = "the cleaner ran during the last rebalance"
DRAINING = "draining: this member wants to leave"
RESTARTING = "this member is about to restart"
RESTART_ANNOUNCED_WITHIN_MS = 10_000
"""A process that restarts leaves after this time, also if the group has not taken note of it."""
OTHERS_LEARN_WITHIN_MS = 1_000
"""A leader that restarts stays so long, or until another member joins again: then that one knows of the wait."""
OLD_DRAIN = "the assignment is that of a drained predecessor with the same group_instance_id"
SHUTTING_DOWN = "this member asks the whole application to shut down"
SHUTDOWN_REFUSED = (
    "shut_application_down: a member of Kafka Streams before 2.8 is in the group, whose user-data cannot carry the "
    "request; end the members one by one"
)
LOST = "the group went on without this member"
DRAIN_REFUSED = (
    "no other process can take the tasks over, or the leader is not a kstreams_assign member: "
    "this member leaves without warming them up elsewhere"
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What does not change while a member lives. ``assignor`` is its setting, ``trailer`` what it always reports.

    ``application_server`` and ``endpoint`` are the same address, as it is reported and as assignments name it.
    ``loads_interval_ms``: the least time after an assignment before changed loads are a reason for a rebalance.
    """

    process_id: UUID
    topology: TopologyShape
    assignor: str
    trailer: MemberTrailer
    dialect: Dialect = APACHE
    application_server: str | None = None
    endpoint: HostInfo | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    loads_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """What the shell knows when JoinGroup is sent.

    ``held``: the report mutex is held, so the offset ``sums`` of all state may be reported; otherwise only ``kept``,
    those of assigned tasks. ``ends``: end offset sums, for a dialect that reports lags. ``partitions``: of the source
    topics, if more than the leader decided for. ``now_ms``: wall-clock time. ``loads``: of running tasks, as measured.
    """

    held: bool
    sums: Mapping[TaskId, int]
    kept: Mapping[TaskId, int]
    now_ms: int
    ends: Mapping[TaskId, int] = field(default_factory=dict)
    partitions: int = 0
    loads: Loads = field(default_factory=dict)


# --- events -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turned:
    """The membership's thread has come round. ``cleaning``: the cleaner has the report mutex."""

    rebalancing: bool
    cleaning: bool


@dataclass(frozen=True, slots=True)
class Elected:
    """JoinGroup's answer makes this member the leader of the generation."""


@dataclass(frozen=True, slots=True)
class Received:
    """An assignment came, as ``Membership.read`` read it. ``leads``: this member decided it.

    ``end``: the application shall end; the member then has no tasks. ``warnings`` are for people.
    """

    generation: int
    adopted: Adopted
    leads: bool
    end: ShutdownRequested | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MutexReleased:
    """``ReleaseMutex`` is carried out. ``held``: the member still had the mutex; otherwise the cleaner has run."""

    held: bool


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """The process wants its tasks warmed up elsewhere, and then to leave."""


@dataclass(frozen=True, slots=True)
class RestartAsked:
    """The process wants to leave and to be back soon, and its tasks to wait for it."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The process asks all members to end."""


@dataclass(frozen=True, slots=True)
class LoadsMeasured:
    """The loads of running tasks, as far as they are measured by now."""

    loads: Loads


Event = (
    member.Event
    | Turned
    | Elected
    | Received
    | MutexReleased
    | DrainAsked
    | RestartAsked
    | ShutdownAsked
    | LoadsMeasured
)

# --- effects ------------------------------------------------------------------------

Order = member.Action
"""``ReleaseMutex`` is answered by ``MutexReleased`` at once."""


@dataclass(frozen=True, slots=True)
class AnnounceJoining:
    """JoinGroup leaves now."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceDrainRefused:
    """The tasks will not be warmed up elsewhere; ``Drained`` follows."""

    warning: str


@dataclass(frozen=True, slots=True)
class Drained:
    """The process may leave: it has no tasks any more, or none of them can be warmed up elsewhere."""


@dataclass(frozen=True, slots=True)
class RestartAnnounced:
    """The process may leave for its restart. ``awaited``: its tasks without a caught-up replica wait for it."""

    awaited: bool


@dataclass(frozen=True, slots=True)
class AnnounceShutdownRefused:
    """The other members do not learn that the application is to end, and the request is dropped."""

    warning: str


@dataclass(frozen=True, slots=True)
class EndMembership:
    """A member asked the whole application to end, and this one has released its tasks: its thread ends with this."""

    cause: ShutdownRequested


Announcement = (
    AnnounceJoining | AnnounceDrainRefused | Drained | RestartAnnounced | AnnounceShutdownRefused | EndMembership
)
Effect = Order | Announcement


class Membership:
    """The machine. Times are wall-clock milliseconds from the caller: the group's dates are wall-clock times.

    A clock that is set back moves the dates that are kept here, by what the turn before has seen. Otherwise this member
    would ask for a rebalance late by the whole step, and tasks that wait for a process would have no owner for as long.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._member = member.Member()
        self._unique = 0
        self._draining = self._drain_reported = self._has_received = False
        self._restarting = self._restart_reported = self._leaves = False
        self._leaves_at_ms: int | None = None
        self._awaited_since_ms = 0
        self._joined_ms = self._elected_ms = self._seen_ms = 0
        self._loads = OwnLoads(profile.process_id, profile.trailer.balance_by, profile.loads_interval_ms)
        self._error_code = ErrorCode.NONE
        self._end: ShutdownRequested | None = None
        self.owned: tuple[TopicPartition, ...] = ()
        """The inputs of the last assignment whose predecessor is released: what the next JoinGroup claims."""
        self.adopted: Adopted | None = None
        """The last assignment; None while this member is out of the group."""
        self.leads = False
        self.version = profile.dialect.latest_version
        """The version of user-data that this member joins with."""
        self.report_again = False
        """The cleaner has broken into the last report, so reported state may be deleted; the next report ends this."""
        self.reported: Mapping[TaskId, int] = {}
        """The offset sums of the last report."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        self._see(now_ms)
        return self._REACTIONS[type(event)](self, event, now_ms)

    def _see(self, now_ms: int) -> None:
        if now_ms < self._seen_ms:
            self._set_back(self._seen_ms - now_ms)
        self._seen_ms = now_ms

    def _set_back(self, step_ms: int) -> None:
        self._member.set_back(step_ms)
        self._joined_ms -= step_ms
        self._elected_ms -= step_ms
        self._awaited_since_ms -= step_ms
        if self._leaves_at_ms is not None:
            self._leaves_at_ms -= step_ms

    # --- looking ---------------------------------------------------------------------

    @property
    def state(self) -> member.State:
        """Where the member stands between two assignments."""
        return self._member.state

    @property
    def generation(self) -> int | None:
        """The generation of the last assignment; None while this member is out of the group."""
        return self._member.generation

    @property
    def due_ms(self) -> int:
        """When this member asks for a rebalance, as its assignment says, or leaves; ``NO_PROBE_MS``: never."""
        if self._leaves:
            return NO_PROBE_MS
        return self._member.rejoin_at_ms if self._leaves_at_ms is None else self._leaves_at_ms

    @property
    def draining(self) -> bool:
        """Whether this member wants to leave once its tasks are warm elsewhere."""
        return self._draining

    @property
    def restarting(self) -> bool:
        """Whether this member is about to leave for a restart."""
        return self._restarting

    @property
    def can_ask_shutdown(self) -> bool:
        """Whether the next report can carry that all members are to end."""
        return self.version >= ERROR_CODE_VERSION

    @property
    def asks_shutdown(self) -> bool:
        """Whether this member asks all members to end, and no assignment has answered that."""
        return self._error_code == ErrorCode.SHUTDOWN_REQUESTED and self._end is None

    @property
    def may_promise(self) -> bool:
        """Whether a report may take the mutex: a closed member's client may still try, and would never release it."""
        return self.state is not member.State.CLOSED

    @property
    def assigned(self) -> frozenset[TaskId]:
        """The tasks of the last assignment, whose folders are locked."""
        return frozenset() if (adopted := self.adopted) is None else adopted.tasks

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        """The input partitions of the last assignment."""
        active = {} if (adopted := self.adopted) is None else adopted.active
        return tuple(partition for partitions in active.values() for partition in partitions)

    @property
    def promised(self) -> Mapping[TaskId, UUID]:
        """The tasks that the last round withheld, each with the process that waits for it."""
        return {} if (adopted := self.adopted) is None else adopted.promised

    @property
    def loads(self) -> Loads:
        """The loads that the last assignment has: for a decision, those of tasks whose process has left."""
        return {} if (adopted := self.adopted) is None else adopted.loads

    # --- answers to the client ---------------------------------------------------------

    def join(self, facts: ReportFacts) -> tuple[tuple[TopicPartition, ...], MemberReport]:
        """Return what this JoinGroup claims and reports. Call it for each one: the unique field changes.

        Otherwise the brokers would ignore a member that joins for a probing rebalance. A SyncGroup of this member as
        the leader may be lost: it leads only if it is elected again.
        """
        self._see(facts.now_ms)
        self.leads = False
        self._unique = (self._unique + 1) % UNIQUE_FIELD_VALUES
        self._drain_reported, self._restart_reported = self._draining, self._restarting
        self._member.wish = None  # this report grants it
        self._leaves_at_ms = None
        self._joined_ms = facts.now_ms
        self.reported = sums = facts.sums if facts.held else facts.kept
        profile = self._profile
        report = MemberReport(
            version=self.version,
            latest_supported_version=profile.dialect.latest_version,
            process_id=profile.process_id,
            user_end_point=profile.application_server,
            task_offset_sums=sums,
            task_lags=_lags(sums, facts.ends) if profile.dialect.tells_lags else None,
            unique_field=self._unique,
            error_code=self._error_code,
            client_tags=profile.client_tags,
            trailer=self._trailer(facts),
        )
        return self.owned, report

    def _trailer(self, facts: ReportFacts) -> MemberTrailer:
        """Return the profile's trailer, with what this report adds."""
        return replace(
            self._profile.trailer,
            draining=self._draining,
            join=self._unique if self.version < UNIQUE_FIELD_VERSION else None,
            partitions=facts.partitions,
            restarting=self._restarting,
            awaited=self.awaited(facts.now_ms),
            generation=self.generation,
            loads=self._loads.report(self.adopted, facts.loads),
        )

    def joined_ago_ms(self, now_ms: int) -> int:
        """Return the age of the last report in milliseconds: for a decision."""
        return now_ms - self._joined_ms

    def awaited(self, now_ms: int) -> Mapping[UUID, AwaitedProcess] | None:
        """Return the processes that the last assignment awaits, with the time that is left; None without one."""
        if self.adopted is None:
            return None
        return count_down(self.adopted.awaited, now_ms - self._awaited_since_ms)

    def read(
        self,
        generation: int,
        partitions: Sequence[TopicPartition],
        user_data: bytes,
        partition_counts: Mapping[str, int] | None = None,
    ) -> Received:
        """Read an assignment; nothing changes until it is handled. Raises as ``read_assignment`` does.

        ``ShutdownRequested`` is not raised: tasks are released first.
        """
        profile = self._profile
        try:
            adopted = read_assignment(
                partitions,
                user_data,
                profile.topology,
                profile.process_id,
                profile.endpoint,
                profile.dialect,
                leads=self.leads,
                used_version=self.version,
                partition_counts=partition_counts,
            )
        except ShutdownRequested as asked:
            nothing = Adopted({}, frozenset(), frozenset(), version=self.version)
            return Received(generation, nothing, self.leads, asked)
        warnings = [*adopted.warnings]
        if self._end is None:
            other = explain_other_assignor(adopted.assignor, profile.assignor)
            ignored = explain_balance_ignored(adopted.assignor, profile.trailer.balance_by)
            warnings += [warning for warning in (other, ignored) if warning is not None]
        return Received(generation, adopted, self.leads, warnings=tuple(warnings))

    # --- the table's events ---------------------------------------------------------------

    def _pass_on(self, event: member.Event, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for action in self._member.handle(event, now_ms):
            effects.append(action)
            match action:
                case member.Join(reason):
                    self.leads = False
                    effects.append(AnnounceJoining(reason))
                case member.Adopt(_, adopted):
                    self.adopted = adopted
                case member.DropAll():
                    self.owned, self.adopted = (), None
        return effects

    def _released(self, event: member.TasksReleased, now_ms: int) -> list[Effect]:
        if not self._member.is_stale(event):
            self.owned = self.inputs
        return self._pass_on(event, now_ms)

    # --- assignments ------------------------------------------------------------------------

    def _elected(self, _event: Elected, now_ms: int) -> list[Effect]:
        self.leads, self._elected_ms = True, now_ms
        return []

    def _received(self, event: Received, now_ms: int) -> list[Effect]:
        """Adopt it; join again at once in another version of user-data, and leave if the drain is over.

        A static member that comes back within its session gets the assignment of its predecessor without a rebalance.
        If that had drained, the assignment is empty, and stays so until this member asks for a rebalance. If the state
        directory was lost in between, the predecessor had another process id.
        """
        adopted, is_first = event.adopted, not self._has_received
        self._has_received = True
        if event.end is not None:
            self._end, self._error_code = event.end, ErrorCode.SHUTDOWN_REQUESTED
        self._awaited_since_ms = self._elected_ms if event.leads else now_ms
        if self._restart_reported and not self._drain_reported:  # it leaves: the follow-up is for the others
            adopted = replace(adopted, follow_up=False)
        if event.leads and not self._profile.dialect.tells_probe:
            adopted = _with_the_end_of_waits(adopted, self._awaited_since_ms)
        effects = self._pass_on(member.Assigned(event.generation, adopted), now_ms)
        if adopted.version != self.version:
            self.version = adopted.version
            refusal = self._withdraw_shutdown()
            reason = f"version probing: this member speaks version {adopted.version} from now on"
            effects += self._pass_on(member.RejoinWanted(reason), now_ms) + refusal
        if self._drain_reported:
            return effects + self._drain_on(adopted)
        if self._restart_reported:
            return effects + self._restart_on(adopted, now_ms, leads=event.leads)
        if adopted.draining or (is_first and adopted.others_drain and not adopted.tasks):
            effects += self._pass_on(member.RejoinWanted(OLD_DRAIN), now_ms)
        return effects

    def _drain_on(self, adopted: Adopted) -> list[Effect]:
        if not adopted.draining:
            return [AnnounceDrainRefused(DRAIN_REFUSED), Drained()]
        return [] if adopted.active or adopted.follow_up else [Drained()]

    def _restart_on(self, adopted: Adopted, now_ms: int, *, leads: bool) -> list[Effect]:
        """Leave now, unless only this member knows for certain who is awaited."""
        awaited = self._profile.process_id in adopted.awaited
        if not (leads and awaited):
            return self._leave_for_restart(awaited=awaited)
        self._leaves_at_ms = now_ms + OTHERS_LEARN_WITHIN_MS
        return []

    def _leave_for_restart(self, *, awaited: bool) -> list[Effect]:
        """Announce it once. While its tasks are closed this member takes part in no further rebalance."""
        if self._leaves:
            return []
        self._leaves = True
        self._member.rest()
        return [RestartAnnounced(awaited)]

    def _rejoin_wanted(self, event: member.RejoinWanted, now_ms: int) -> list[Effect]:
        return [] if self._leaves else self._pass_on(event, now_ms)

    def _mutex_released(self, event: MutexReleased, _now_ms: int) -> list[Effect]:
        self.report_again = not event.held
        return []

    # --- rebalances that this member asks for ------------------------------------------------

    def _turned(self, event: Turned, now_ms: int) -> list[Effect]:
        if self._leaves or self.state is not member.State.STABLE:
            return []
        if self._end is not None:
            return [EndMembership(self._end)]
        if self._leaves_at_ms is not None:
            return self._wait_for_others(self._leaves_at_ms, now_ms, rebalancing=event.rebalancing)
        if event.rebalancing:
            return self._pass_on(member.RejoinWanted(REBALANCING), now_ms)
        if self.report_again and not event.cleaning:
            return self._pass_on(member.RejoinWanted(REPORT_AGAIN), now_ms)
        return self._pass_on(member.Tick(), now_ms) if self._member.is_due(now_ms) else []

    def _wait_for_others(self, leaves_at_ms: int, now_ms: int, *, rebalancing: bool) -> list[Effect]:
        if not rebalancing and now_ms < leaves_at_ms:
            return []
        return self._leave_for_restart(awaited=True)

    def _loads_measured(self, event: LoadsMeasured, now_ms: int) -> list[Effect]:
        """Ask for a rebalance if the group should know of these loads."""
        adopted = self.adopted
        if adopted is None or self.state is not member.State.STABLE or self._draining or self._restarting:
            return []
        reason = self._loads.reason(adopted, event.loads, now_ms - self._awaited_since_ms)
        return [] if reason is None else self._pass_on(member.RejoinWanted(reason), now_ms)

    def _drain_asked(self, _event: DrainAsked, now_ms: int) -> list[Effect]:
        self._draining = True
        return self._pass_on(member.RejoinWanted(DRAINING), now_ms)

    def _restart_asked(self, _event: RestartAsked, now_ms: int) -> list[Effect]:
        """Announce it, unless there is nothing that could wait. A drain ends: what it has not moved waits."""
        self._draining = False
        if self.state is member.State.UNJOINED or (self.adopted is not None and not self.adopted.tasks):
            return self._leave_for_restart(awaited=False)
        self._restarting = True
        return self._pass_on(member.RejoinWanted(RESTARTING), now_ms)

    def _shutdown_asked(self, _event: ShutdownAsked, now_ms: int) -> list[Effect]:
        if not self.can_ask_shutdown:
            return [AnnounceShutdownRefused(SHUTDOWN_REFUSED)]
        self._error_code = ErrorCode.SHUTDOWN_REQUESTED
        return self._pass_on(member.RejoinWanted(SHUTTING_DOWN), now_ms)

    def _withdraw_shutdown(self) -> list[Effect]:
        """Drop a request that no report can carry any more, or a later version would end the application with it."""
        if self.can_ask_shutdown or self._error_code == ErrorCode.NONE or self._end is not None:
            return []
        self._error_code = ErrorCode.NONE
        if self._member.wish == SHUTTING_DOWN:
            self._member.wish = None
        return [AnnounceShutdownRefused(SHUTDOWN_REFUSED)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        member.Started: _pass_on,
        member.RejoinWanted: _rejoin_wanted,
        member.WorkCommitted: _pass_on,
        member.Assigned: _pass_on,
        member.TasksReleased: _released,
        member.MembershipLost: _pass_on,
        member.Tick: _pass_on,
        member.CloseAsked: _pass_on,
        Turned: _turned,
        Elected: _elected,
        Received: _received,
        MutexReleased: _mutex_released,
        DrainAsked: _drain_asked,
        RestartAsked: _restart_asked,
        ShutdownAsked: _shutdown_asked,
        LoadsMeasured: _loads_measured,
    }


def _with_the_end_of_waits(adopted: Adopted, decided_ms: int) -> Adopted:
    """Return the leader's assignment, by which it asks for a rebalance when a wait ends."""
    left_ms = wait_ends_in_ms(adopted.awaited)
    if left_ms is None or adopted.next_rebalance_ms == 0:
        return adopted
    return replace(adopted, next_rebalance_ms=min(adopted.next_rebalance_ms, decided_ms + left_ms))


def _lags(sums: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> dict[TaskId, int]:
    """KIP-441: each task's lag as of just before this join; 0 for what runs. Unknown ends leave a task out."""
    running = {task: 0 for task, offset_sum in sums.items() if offset_sum == RUNNING_OFFSET_SUM}
    others = {task: compute_lag(ends[task], offset_sum) for task, offset_sum in sums.items() if task in ends}
    return dict(sorted({**others, **running}.items()))
