"""Events of the membership, and of the leader."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningEvent(BaseEvent):
    """The member sends a JoinGroup request."""

    name: ClassVar[str] = "joining"
    reason: str
    """Why it joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedEvent(BaseEvent):
    """The member received an assignment."""

    name: ClassVar[str] = "assigned"
    generation: int
    """Generation of the group; in a streams group, which has none, a count of this member's assignments."""
    assignor: str | None
    """Assignor that decided; null under a leader of another kind, such as Java's; ``brokers`` in a streams group."""
    active: tuple[str, ...]
    standby: tuple[str, ...]
    warmup: tuple[str, ...]
    next_probe_ms: int | None
    """Wall-clock time of the next probing rebalance; null if none is due or the leader does not report it."""
    follow_up: bool
    """Whether a rebalance follows at once that completes this one (KIP-429); in a streams group whether tasks that were
    prepared for have not come yet."""
    version: int
    """Version of user-data (KIP-268) that this member uses from now on; 0 in a streams group, which has none."""
    warnings: tuple[str, ...]
    """What is wrong, and what to do; these also go to ``logging``."""
    epoch: int | None = None
    """This member's epoch, in a streams group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedEvent(BaseEvent):
    """The processing loop took over an assignment: it has stopped the tasks that leave and begun those that came."""

    name: ClassVar[str] = "adopted"
    generation: int
    left: tuple[str, ...]
    """Tasks that leave; each is closed once its work is committed."""
    came: tuple[str, ...]
    """Tasks that are new here, or have a new role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEvent(ReasonEvent):
    """The group went on without this member. It drops all tasks, writes nothing more of them, and joins again."""

    name: ClassVar[str] = "lost"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Tasks of one process, by role."""

    active: tuple[str, ...]
    standby: tuple[str, ...]
    warmup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEvent(BaseEvent):
    """This member leads the group and decided an assignment."""

    name: ClassVar[str] = "decision"
    kind: str
    """``round``, or ``follow_up`` for a rebalance that only completes the round before (KIP-429)."""
    assignor: str
    assignor_version: int | None
    """Null for an assignor of Java's."""
    members: int
    placements: Mapping[str, Placement]
    """Process id -> its tasks."""
    changed: Mapping[str, tuple[str, str]]
    """Task -> its old and its new process, of the active tasks that change their process."""
    adopted: tuple[str, ...]
    """Active tasks whose process was lost, and which got another."""
    owner_changes_lower_bound: int
    """How many active tasks have to change their process for a balanced group."""
    withheld: tuple[str, ...]
    """Active tasks that their old process has to release first; the follow-up rebalance assigns them."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Task -> the process that restarts and that it waits for."""
    wait_ends_ms: int | None = None
    """Wall-clock time at which the first wait ends; null if the group awaits no process."""
    restored_sooner: Mapping[str, str] = field(default_factory=dict)
    """Task -> the process with more of its state. None had caught up with the task, and the one that gets it has it
    sooner.
    """
    next_probe_ms: int | None
    """Wall-clock time of the next probing rebalance; null if none is due."""
    error: int
    """Error code in the assignment (Kafka: ``AssignorError``); 0 is none."""
    record_bytes: int
    """Size of the group's record in ``__consumer_offsets`` with this assignment."""
    warnings: tuple[str, ...]
    """What is wrong, and what to do; these also go to ``logging``."""
    seconds: float
    """How long the decision took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyProbeEvent(ReasonEvent):
    """The member asks for a probing rebalance before the interval is over, as it can hand tasks over."""

    name: ClassVar[str] = "early_probe"
    moves: int
    """Active tasks that would change their process."""
    standbys: int
    """Warm-ups that would become standbys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyProbingOffEvent(WarningEvent):
    """The brokers refuse what early probing needs: from now on probing rebalances wait for the interval."""

    name: ClassVar[str] = "early_probing_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressUnreadableEvent(WarningEvent):
    """A member skipped a record of the topic ``<application id>-warm-up-progress`` that it cannot read."""

    name: ClassVar[str] = "progress_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledEvent(WarningEvent):
    """A call has taken longer than ``max_poll_interval_ms``: the member leaves the group until the call returns."""

    name: ClassVar[str] = "stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredecessorRemovedEvent(BaseEvent):
    """The member removed its predecessors from the group: members of killed processes with the same state directory."""

    name: ClassVar[str] = "predecessor_removed"
    members: tuple[str, ...]
    """Their member ids, or ``group_instance_id``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredecessorStaysEvent(ReasonEvent):
    """The brokers refuse to remove a predecessor, so the rebalance waits until its session ends."""

    name: ClassVar[str] = "predecessor_stays"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberNotKeptEvent(WarningEvent):
    """The member id could not be written to the state directory, so a successor could not remove this member."""

    name: ClassVar[str] = "member_not_kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingUpEvent(BaseEvent):
    """This process restores the state of tasks that it will probably get in a streams group.

    That is before it joins, or before other members leave that drain.
    """

    name: ClassVar[str] = "warming_up"
    tasks: tuple[str, ...]
    """The tasks with state, active ones and standbys."""
    leavers: tuple[str, ...] = ()
    """The member ids of those that drain; empty before a join."""
    joiners: tuple[str, ...] = ()
    """The member ids of others that are about to join; the prediction is for all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoomEvent(WarningEvent):
    """The state of tasks is not restored before they come in a streams group: the disk has no room for it."""

    name: ClassVar[str] = "no_room"
    tasks: tuple[str, ...]
    """Those tasks; they are silent while their state is restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmJoinEvent(ReasonEvent):
    """This process joins a streams group now: its state is warm, or waiting has no use."""

    name: ClassVar[str] = "warm_join"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmJoinAloneEvent(WarningEvent):
    """The brokers refuse what processes announce before they join a streams group: this one predicts as if alone."""

    name: ClassVar[str] = "warm_join_alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingElsewhereEvent(BaseEvent):
    """This member of a streams group drains: others restore the tasks with state that they will probably get."""

    name: ClassVar[str] = "warming_elsewhere"
    tasks: Mapping[str, str]
    """Task -> the member id of its next owner."""
    away: tuple[str, ...] = ()
    """The instance ids of next owners that are away: this member waits until they are back, or their sessions end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmLeaveEvent(ReasonEvent):
    """This member drains and leaves a streams group now: its tasks are warm elsewhere, or waiting has no use."""

    name: ClassVar[str] = "warm_leave"
    warm: tuple[str, ...]
    """The tasks with state that are warm at their next owners."""
    cold: tuple[str, ...]
    """Those that are not: they are silent while they are restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmLeaveOffEvent(WarningEvent):
    """The brokers refuse what members of a streams group tell each other: nothing is warmed up for one that drains."""

    name: ClassVar[str] = "warm_leave_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedTasksEvent(BaseEvent):
    """The tasks have come that this process restored in a streams group, or it awaits them no longer."""

    name: ClassVar[str] = "awaited_tasks"
    awaited: tuple[str, ...]
    """The active tasks that should come."""
    missing: tuple[str, ...]
    """Those of them that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatusEvent(WarningEvent):
    """The coordinator says what keeps a streams group from working; without warnings, nothing does any more."""

    name: ClassVar[str] = "group_status"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRefusedEvent(WarningEvent):
    """No other process can take the tasks over warm: the member leaves as ``close`` does."""

    name: ClassVar[str] = "drain_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAnnouncedEvent(BaseEvent):
    """The group knows that this process restarts (``close(restart=True)``): the process closes and leaves now."""

    name: ClassVar[str] = "restart_announced"
    awaited: bool
    """Whether tasks without a caught-up replica wait for it. They do not in a group without another process, with Java
    members or with a leader of an earlier release, or where ``scheduled_rebalance_max_delay_ms`` is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRefusedEvent(WarningEvent):
    """The group cannot be asked to end (``shut_application_down``), as its user-data has no field for that."""

    name: ClassVar[str] = "shutdown_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequestedEvent(ReasonEvent):
    """A member asked the whole application to shut down (Kafka: ``SHUTDOWN_APPLICATION``)."""

    name: ClassVar[str] = "shutdown_requested"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveFailedEvent(ReasonEvent):
    """LeaveGroup failed at close, so the brokers keep this member until its session ends."""

    name: ClassVar[str] = "leave_failed"
    level: ClassVar[int] = logging.WARNING
