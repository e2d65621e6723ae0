"""``Status``: what a worker knows of itself and its group at one moment; and what follows from it for an orchestrator.

Pure values and pure verdicts: ``live``, ``ready`` and ``scalable``, each with its reasons as text. What must not live here: how a
status comes about (``view``), and how it is written (``as_json``, ``metrics``, the page).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.group.member import State
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.observe.reasons import first, process_names, span
from kstreams_assign.tasks.transactions import HeldUp

ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"
RESTORING, QUEUED, STOPPED = "restoring", "queued", "stopped"


@dataclass(frozen=True, slots=True)
class Way:
    """How far a copy is. ``changelogs`` are its parts where they are told apart; ``warm`` is between 0 and 1.

    ``offsets_per_s`` and ``left_ms`` are None while there is too little to tell, or it comes no nearer. ``as_joined``: this was
    so when its process joined; how far it is now is not known here.
    """

    lag: int
    warm: float | None = None
    offsets_per_s: float | None = None
    left_ms: int | None = None
    changelogs: Mapping[TopicPartition, int] = field(default_factory=dict)
    as_joined: bool = False


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task in this process. ``way`` is None while that is not known yet; what runs has nothing left.

    ``caught_up``: within ``acceptable_recovery_lag``, or for an active task at its end. ``stopped`` is why it cannot work
    here, and empty where it can; ``retry_ms`` is how long until it is tried again, None where that is not known. ``waits``: for
    which transaction, where it stands still before one.
    """

    task: TaskId
    role: str
    state: str
    way: Way | None
    caught_up: bool = False
    stopped: str = ""
    retry_ms: int | None = None
    waits: HeldUp | None = None


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A warm-up anywhere in the group. ``way`` is None where nobody tells it here."""

    task: TaskId
    process: UUID
    changelogs: tuple[TopicPartition, ...]
    way: Way | None
    caught_up: bool = False
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """A process of the group. ``active`` and ``standby`` are None where they are not told here."""

    process: UUID | None
    endpoint: HostInfo | None
    active: tuple[TaskId, ...] | None
    standby: tuple[TaskId, ...] | None
    warmup: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One moment of a worker; times are wall-clock milliseconds.

    ``assignor`` is who decided, None where the leader does not tell. ``leader`` is only known where this member leads.
    ``since_turn_ms`` is how long ago the processing loop came round, ``failure`` what ends this worker.
    """

    application_id: str
    process_id: UUID
    now_ms: int
    state: State
    generation: int | None = None
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
    closing: bool = False
    failure: str | None = None
    outage: bool = False
    lease_left_ms: int = 0
    since_turn_ms: int = 0
    max_poll_interval_ms: int = 300_000
    warnings: tuple[str, ...] = ()
    records_total: int = 0
    commits_total: int = 0
    transactions_aborted_total: int = 0
    input_lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets of each input partition that are still to be worked on here, a second old at most."""

    @property
    def leader(self) -> UUID | None:
        return self.process_id if self.leads else None

    def names(self) -> dict[UUID, str]:
        """What people call each process: the endpoint it is reached at, else as much of its id as is needed."""
        endpoints = {one.process: host_text(one.endpoint) for one in self.holders if one.process and one.endpoint}
        told = {holder.process for holder in self.holders if holder.process}
        ids = {self.process_id, *told, *self.withheld.values(), *(warmup.process for warmup in self.warmups)}
        return {**process_names(ids), **endpoints, self.process_id: "this process"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes if nothing speaks against it."""

    reasons: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.reasons


def live(status: Status) -> Verdict:
    """Whether this process does its work at all. If not, only a restart helps."""
    return Verdict(tuple(_dead(status)))


def ready(status: Status) -> Verdict:
    """Whether this member stands in the group and its state is restored."""
    return Verdict((*_dead(status), *_unsettled(status), *_restoring(status)))


def scalable(status: Status) -> Verdict:
    """Whether a process may be added or taken away without disturbing what the group has under way."""
    return Verdict((*_dead(status), *_unsettled(status), *_restoring(status), *_under_way(status)))


VERDICTS = {"live": live, "ready": ready, "scalable": scalable}

_NOT_STABLE: Mapping[State, str] = {
    State.UNJOINED: "it has not joined the group yet",
    State.PREPARING: "a rebalance begins: what runs is being committed",
    State.JOINING: "a rebalance is under way: the assignment is not here yet",
    State.RELEASING: "a rebalance is under way: tasks that were taken away are being written and closed",
    State.CLOSED: "it is closing",
}


def _dead(status: Status) -> Iterable[str]:
    if status.failure is not None:
        yield f"it ends with an error: {status.failure}"
    if status.since_turn_ms > status.max_poll_interval_ms and not status.closing:
        yield (
            f"the processing loop has not come round for {span(status.since_turn_ms)}, longer than "
            f"max_poll_interval_ms = {status.max_poll_interval_ms}"
        )


def _unsettled(status: Status) -> Iterable[str]:
    if status.closing or status.state is not State.STABLE:
        yield _NOT_STABLE[State.CLOSED if status.closing else status.state]
    elif status.lease_left_ms <= 0:
        yield "no heartbeat was answered for a session timeout: the group may have given its tasks away"


def _restoring(status: Status) -> Iterable[str]:
    active = [task for task in status.tasks if task.role == ACTIVE]
    yield from first([stopped_text(task) for task in active if task.stopped], "tasks are stopped")
    behind = [task for task in active if task.state == RESTORING]
    restored = [f"{task.task} is being restored{way_text(task.way)}{waits_text(task.waits)}" for task in behind]
    yield from first(restored, "tasks are being restored")


def waits_text(waits: HeldUp | None) -> str:
    """``; it waits: ...``, where it does."""
    return f"; it waits: {waits.text}" if waits else ""


def stopped_text(told: TaskStatus) -> str:
    """Which task, why, and when it is tried again."""
    again = "" if told.retry_ms is None else f"; tried again in {span(told.retry_ms)}"
    return f"{told.task} is stopped: {told.stopped}{again}"


def _under_way(status: Status) -> Iterable[str]:
    if status.assigned and status.assignor is None:
        yield "the leader is no member of ours: it does not tell whether warm-ups or a probing rebalance are outstanding"
    if status.draining:
        yield "this member is draining: its tasks are being warmed up elsewhere"
    names = status.names()
    yield from first([warm_up_text(warmup, names[warmup.process]) for warmup in status.warmups], "warm-ups")
    if status.follow_up:
        yield "a follow-up rebalance comes at once: tasks are between two owners"
    if status.next_probe_ms is not None:
        left_ms = status.next_probe_ms - status.now_ms
        yield f"a probing rebalance is due{f' in {span(left_ms)}' if left_ms > 0 else ''}"


def warm_up_text(warmup: WarmUp, where: str) -> str:
    """Which task, where, and why not yet."""
    on = f"{warmup.task} warms up on {where}"
    if warmup.queued:
        return f"{on}: its turn in the warm-up queue has not come"
    if warmup.way is None:
        return f"{on}; how far it is, that process and the leader tell"
    if warmup.caught_up:
        return f"{on}: it has caught up (lag {warmup.way.lag:,}) and waits for the next rebalance"
    return f"{on}{way_text(warmup.way, warmup.changelogs)}"


def way_text(way: Way | None, changelogs: Sequence[TopicPartition] = ()) -> str:
    """``: lag 1,234 in app-totals-changelog-2, 500 records a second, 2 s left``."""
    if way is None:
        return "; where its changelogs end is not known yet"
    behind = max(way.changelogs, key=lambda one: way.changelogs[one], default=None)
    names = [behind] if behind else changelogs
    where = f" in {', '.join(map(str, names))}" if names else ""
    if way.as_joined:
        return f": its lag was {way.lag:,}{where} when its process joined"
    pace = f", {way.offsets_per_s:,.0f} records a second" if way.offsets_per_s is not None else ""
    left = f", {span(way.left_ms)} left" if way.left_ms is not None else ", it comes no nearer" if pace else ""
    return f": lag {way.lag:,}{where}{pace}{left}"


def host_text(host: HostInfo) -> str:
    """``HOST:PORT``."""
    return f"{host.host}:{host.port}"
