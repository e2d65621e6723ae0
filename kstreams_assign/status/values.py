"""``Status``: what a worker knows of itself and its group at one moment, and the verdicts for an orchestrator.

Pure values and pure verdicts: ``live``, ``ready`` and ``scalable``, each with its reasons as text. What must not live
here: how a status is built (``build``) and how it is written (``as_json``, ``metrics``, the page).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.group.member import State
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.observe.reasons import first, process_names, span
from kstreams_assign.observe.transactions import HeldUp
from kstreams_assign.status.views import DrainView, GlobalTableView, JoinView, Meters
from kstreams_assign.wire import AwaitedProcess

ACTIVE, STANDBY, WARMUP, LEAVING = "active", "standby", "warmup", "leaving"
"""Roles. A leaving task is not assigned here any more, and is not closed yet."""

RESTORING, TAILING, QUEUED, STOPPED = "restoring", "tailing", "queued", "stopped"
"""States of a task: of those of its life (``TaskState``), and beside them."""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far a replica has read its changelogs. ``warm``: the share that is read, 0 to 1.

    ``changelogs``: the lag of each, where known. ``offsets_per_s`` and ``left_ms`` are None while too little is
    known, or it is not catching up. ``as_joined``: as of its process' join; its present lag is not known here.
    """

    lag: int
    warm: float | None = None
    offsets_per_s: float | None = None
    left_ms: int | None = None
    changelogs: Mapping[TopicPartition, int] = field(default_factory=dict)
    as_joined: bool = False


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task in this process. ``progress`` is None while it is not known yet.

    ``caught_up``: within ``acceptable_recovery_lag``, or for an active task at its end. ``stopped``: why it cannot
    run, else empty; ``retry_ms``: time until the next attempt, None if not known. ``waits``: the open transaction
    that stops it. ``inputs``: the lag of each input partition that is processed here. ``paused_ms``: since when it is
    paused, None: it is not.
    """

    task: TaskId
    role: str
    state: str
    progress: ReplicaProgress | None
    caught_up: bool = False
    stopped: str = ""
    retry_ms: int | None = None
    waits: HeldUp | None = None
    has_changelog: bool = True
    inputs: Mapping[TopicPartition, int] = field(default_factory=dict)
    paused_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A warm-up anywhere in the group. ``progress`` is None where it is not reported to this process."""

    task: TaskId
    process: UUID
    changelogs: tuple[TopicPartition, ...]
    progress: ReplicaProgress | None
    caught_up: bool = False
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """A process of the group. ``active`` and ``standby`` are None where this member does not know them."""

    process: UUID | None
    endpoint: HostInfo | None
    active: tuple[TaskId, ...] | None
    standby: tuple[TaskId, ...] | None
    warmup: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One moment of a worker; times are wall-clock milliseconds.

    ``assignor`` is None where the leader does not report it. ``leader`` is only known where this member leads.
    ``since_turn_ms``: time since the processing loop last ran. ``failure``: the error that ends this worker. In a
    ``streams_group`` the ``generation`` is the number of this member's last assignment.
    """

    application_id: str
    process_id: UUID
    now_ms: int
    state: State
    generation: int | None = None
    streams_group: bool = False
    assigned: bool = False
    assignor: str | None = None
    leads: bool = False
    endpoint: HostInfo | None = None
    tasks: tuple[TaskStatus, ...] = ()
    warmups: tuple[WarmUp, ...] = ()
    holders: tuple[Holder, ...] = ()
    next_probe_ms: int | None = None
    early: str = ""
    follow_up: bool = False
    withheld: Mapping[TaskId, UUID] = field(default_factory=dict)
    queue: WarmupQueue | None = None
    draining: bool = False
    drain: DrainView | None = None
    join: JoinView | None = None
    restarting: bool = False
    awaited: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    closing: bool = False
    failure: str | None = None
    outage: bool = False
    lease_left_ms: int = 0
    since_turn_ms: int = 0
    max_poll_interval_ms: int = 300_000
    warnings: tuple[str, ...] = ()
    records_total: int = 0
    records_out_total: int = 0
    commits_total: int = 0
    transactions_aborted_total: int = 0
    input_lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets of each input partition that are still to be processed here, a second old at most."""
    meters: Meters = field(default_factory=Meters)
    global_tables: tuple[GlobalTableView, ...] = ()

    @property
    def leader(self) -> UUID | None:
        return self.process_id if self.leads else None

    def names(self) -> dict[UUID, str]:
        """The name of each process for people: its endpoint, else as much of its id as is unique."""
        endpoints = {
            holder.process: str(holder.endpoint) for holder in self.holders if holder.process and holder.endpoint
        }
        named = {holder.process for holder in self.holders if holder.process}
        ids = {
            self.process_id,
            *named,
            *self.withheld.values(),
            *self.awaited,
            *(warmup.process for warmup in self.warmups),
        }
        return {**process_names(ids), **endpoints, self.process_id: "this process"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes if there is no reason against it."""

    reasons: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.reasons


def live(status: Status) -> Verdict:
    """Whether this process works at all. If not, only a restart helps."""
    return Verdict(tuple(_dead(status)))


def ready(status: Status) -> Verdict:
    """Whether this member is in the group and its state is restored."""
    return Verdict((*_dead(status), *_unsettled(status), *_incomplete(status), *_restoring(status)))


def scalable(status: Status) -> Verdict:
    """Whether a process may be added or removed without disturbing a rebalance or warm-up under way."""
    return Verdict(
        (*_dead(status), *_unsettled(status), *_incomplete(status), *_restoring(status), *_under_way(status))
    )


VERDICTS = {"live": live, "ready": ready, "scalable": scalable}

_NOT_STABLE: Mapping[State, str] = {
    State.UNJOINED: "it has not joined the group yet",
    State.PREPARING: "a rebalance begins: running tasks are being committed",
    State.JOINING: "a rebalance is under way: the assignment has not arrived yet",
    State.RELEASING: "a rebalance is under way: revoked tasks are being flushed and closed",
    State.CLOSED: "it is closing",
}


def _dead(status: Status) -> Iterable[str]:
    if status.failure is not None:
        yield f"it ends with an error: {status.failure}"
    if status.since_turn_ms > status.max_poll_interval_ms and not status.closing:
        yield (
            f"the processing loop has not run for {span(status.since_turn_ms)}, longer than "
            f"max_poll_interval_ms = {status.max_poll_interval_ms}"
        )


def _unsettled(status: Status) -> Iterable[str]:
    if status.closing or status.state is not State.STABLE:
        yield _NOT_STABLE[State.CLOSED if status.closing else status.state]
    elif status.lease_left_ms <= 0:
        yield (
            "no heartbeat was answered for a session timeout, or the group has waited for it through a rebalance: its "
            "tasks may belong to other members by now"
        )


def _incomplete(status: Status) -> Iterable[str]:
    for table in status.global_tables:
        if not table.ready:
            left = "" if table.lag is None else f", {table.lag:,} offsets left"
            why = f": {table.stopped}" if table.stopped else ""
            yield f"global table {table.name} cannot be read yet{left}{why}"


def _restoring(status: Status) -> Iterable[str]:
    active = [task for task in status.tasks if task.role == ACTIVE]
    yield from first([stopped_text(task) for task in active if task.stopped], "tasks are stopped")
    behind = [task for task in active if task.state == RESTORING]
    restored = [
        f"{task.task} is being restored{progress_text(task.progress)}{waits_text(task.waits)}" for task in behind
    ]
    yield from first(restored, "tasks are being restored")


def waits_text(waits: HeldUp | None) -> str:
    """``; it waits: ...``, or nothing."""
    return f"; it waits: {waits.text}" if waits else ""


def stopped_text(task: TaskStatus) -> str:
    """Which task is stopped, why, and when it is tried again."""
    retry = "" if task.retry_ms is None else f"; tried again in {span(task.retry_ms)}"
    return f"{task.task} is stopped: {task.stopped}{retry}"


def _under_way(status: Status) -> Iterable[str]:
    if status.assigned and status.assignor is None:
        yield (
            "the leader is not a kstreams-assign member: "
            "it does not report whether warm-ups or a probing rebalance are outstanding"
        )
    if status.draining:
        warm = f": {len(status.drain.warm)} of {len(status.drain.owners)} are warm" if status.drain else ""
        away = f"; it waits for {', '.join(status.drain.away)}, away" if status.drain and status.drain.away else ""
        yield f"this member is draining: its tasks are being warmed up elsewhere{warm}{away}"
    if status.join is not None:
        count = status.join.joiners
        who = "1 other process joins" if count == 1 else f"{count} other processes join"
        warm = f"{len(status.join.warm)} of {len(status.join.tasks)} are warm"
        others = f"; {who} with it" if count else ""
        yield f"this process restores its tasks before it joins the group: {warm}{others}"
    if status.restarting:
        yield "this member is about to restart: its tasks wait for it or move to their replicas"
    names = status.names()
    yield from (
        awaited_text(names[process], len(each.active), each.left_ms) for process, each in status.awaited.items()
    )
    yield from first([warm_up_text(warmup, names[warmup.process]) for warmup in status.warmups], "warm-ups")
    if status.follow_up and status.streams_group:
        yield "this process keeps tasks warm that are between two owners"
    elif status.follow_up:
        yield f"a follow-up rebalance comes at once{': tasks are between two owners' if status.withheld else ''}"
    if status.next_probe_ms is not None:
        left_ms = status.next_probe_ms - status.now_ms
        yield f"a probing rebalance is due{f' in {span(left_ms)}' if left_ms > 0 else ''}"


def awaited_text(process: str, tasks: int, left_ms: int) -> str:
    """Which process restarts, and how long its tasks without a caught-up replica wait for it."""
    return f"{process} restarts: those of its {tasks} tasks without a caught-up replica wait, {span(left_ms)} at most"


def warm_up_text(warmup: WarmUp, where: str) -> str:
    """Which task warms up where, and why it is not ready yet."""
    on = f"{warmup.task} warms up on {where}"
    if warmup.queued:
        return f"{on}: it waits in the warm-up queue"
    if warmup.progress is None:
        return f"{on}; its progress is shown by that process and by the leader"
    if warmup.caught_up:
        return f"{on}: it has caught up (lag {warmup.progress.lag:,}) and waits for the next rebalance"
    return f"{on}{progress_text(warmup.progress, warmup.changelogs)}"


def progress_text(progress: ReplicaProgress | None, changelogs: Sequence[TopicPartition] = ()) -> str:
    """``: lag 1,234 in app-totals-changelog-2, 500 records a second, 2 s left``."""
    if progress is None:
        return "; the end offsets of its changelogs are not known yet"
    behind = max(progress.changelogs, key=lambda name: progress.changelogs[name], default=None)
    names = [behind] if behind else changelogs
    where = f" in {', '.join(map(str, names))}" if names else ""
    if progress.as_joined:
        return f": its lag was {progress.lag:,}{where} when its process joined"
    pace = f", {progress.offsets_per_s:,.0f} records a second" if progress.offsets_per_s is not None else ""
    left = (
        f", {span(progress.left_ms)} left"
        if progress.left_ms is not None
        else ", it is not catching up"
        if pace
        else ""
    )
    return f": lag {progress.lag:,}{where}{pace}{left}"
