"""Events of the membership, and of the leader."""

from __future__ import annotations

from typing import Literal, TypedDict

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


class JoiningEvent(BaseEvent):
    """The member sends a JoinGroup request."""

    event: Literal["joining"]
    reason: str
    """Why it joins."""


class AssignedEvent(WarningEvent):
    """The member received an assignment."""

    event: Literal["assigned"]
    generation: int
    assignor: str | None
    """Assignor that decided; null under a leader of another kind, such as Java's."""
    active: list[str]
    standby: list[str]
    warmup: list[str]
    next_probe_ms: int | None
    """Wall-clock time of the next probing rebalance; null if none is due or the leader does not report it."""
    follow_up: bool
    """Whether a rebalance follows at once that completes this one (KIP-429)."""
    version: int
    """Version of user-data (KIP-268) that this member uses from now on."""


class AdoptedEvent(BaseEvent):
    """The processing loop took over an assignment: it has stopped the tasks that leave and begun those that came."""

    event: Literal["adopted"]
    generation: int
    left: list[str]
    """Tasks that leave; each is closed once its work is committed."""
    came: list[str]
    """Tasks that are new here, or have a new role."""


class LostEvent(ReasonEvent):
    """The group went on without this member. It drops all tasks, writes nothing more of them, and joins again."""

    event: Literal["lost"]


class Placement(TypedDict):
    """Tasks of one process, by role."""

    active: list[str]
    standby: list[str]
    warmup: list[str]


class DecisionEvent(WarningEvent):
    """This member leads the group and decided an assignment."""

    event: Literal["decision"]
    kind: str
    """``round``, or ``follow_up`` for a rebalance that only completes the round before (KIP-429)."""
    assignor: str
    assignor_version: int | None
    """Null for an assignor of Java's."""
    members: int
    placements: dict[str, Placement]
    """Process id -> its tasks."""
    changed: dict[str, list[str]]
    """Task -> its old and its new process, of the active tasks that change their process."""
    adopted: list[str]
    """Active tasks whose process was lost, and which got another."""
    owner_changes_lower_bound: int
    """How many active tasks have to change their process for a balanced group."""
    withheld: list[str]
    """Active tasks that their old process has to release first; the follow-up rebalance assigns them."""
    next_probe_ms: int | None
    """Wall-clock time of the next probing rebalance; null if none is due."""
    error: int
    """Error code in the assignment (Kafka: ``AssignorError``); 0 is none."""
    record_bytes: int
    """Size of the group's record in ``__consumer_offsets`` with this assignment."""
    seconds: float
    """How long the decision took."""


class EarlyProbeEvent(ReasonEvent):
    """The member asks for a probing rebalance before the interval is over, as it can hand tasks over."""

    event: Literal["early_probe"]
    moves: int
    """Active tasks that would change their process."""
    standbys: int
    """Warm-ups that would become standbys."""


class EarlyProbingOffEvent(WarningEvent):
    """The brokers refuse what early probing needs: from now on probing rebalances wait for the interval."""

    event: Literal["early_probing_off"]


class ProgressUnreadableEvent(WarningEvent):
    """The leader skipped a record of the early-probing topic that it cannot read."""

    event: Literal["progress_unreadable"]


class StalledEvent(WarningEvent):
    """A call has taken longer than ``max_poll_interval_ms``: the member leaves the group until the call returns."""

    event: Literal["stalled"]


class PredecessorRemovedEvent(BaseEvent):
    """The member removed its predecessors from the group: members of killed processes with the same state directory."""

    event: Literal["predecessor_removed"]
    members: list[str]
    """Their member ids, or ``group_instance_id``."""


class PredecessorStaysEvent(ReasonEvent):
    """The brokers refuse to remove a predecessor, so the rebalance waits until its session ends."""

    event: Literal["predecessor_stays"]


class MemberNotKeptEvent(WarningEvent):
    """The member id could not be written to the state directory, so a successor could not remove this member."""

    event: Literal["member_not_kept"]


class DrainRefusedEvent(WarningEvent):
    """No other process can take the tasks over warm: the member leaves as ``close`` does."""

    event: Literal["drain_refused"]


class ShutdownRequestedEvent(ReasonEvent):
    """A member asked the whole application to shut down (Kafka: ``SHUTDOWN_APPLICATION``)."""

    event: Literal["shutdown_requested"]


class LeaveFailedEvent(ReasonEvent):
    """LeaveGroup failed at close, so the brokers keep this member until its session ends."""

    event: Literal["leave_failed"]
