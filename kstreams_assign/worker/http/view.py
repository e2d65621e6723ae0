"""From what the worker's parts know to one ``Status``. Pure: the parts' own views go in, nothing is kept.

What lives here: putting together who has what (host maps for everybody, all placements where this member leads) and how warm (own
copies from the restore thread, others' from early probing). What must not: a judgement (``status``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from kstreams_assign.assign import is_caught_up
from kstreams_assign.config import Config
from kstreams_assign.group.probing import Rejoin, Wait
from kstreams_assign.group.values import Adopted, Hosts, WarmupQueue
from kstreams_assign.model import HostInfo, TaskId, TopicPartition, TopologyShape, process_order
from kstreams_assign.observe.reasons import span
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.transactions import HeldUp
from kstreams_assign.worker.early import ALL_CHANGELOGS, EarlyView
from kstreams_assign.worker.http.status import (
    ACTIVE,
    QUEUED,
    STANDBY,
    STOPPED,
    WARMUP,
    Holder,
    Status,
    TaskStatus,
    WarmUp,
    Way,
    stopped_text,
)
from kstreams_assign.worker.membership import MemberView
from kstreams_assign.worker.stops import Stop

T = TypeVar("T")

STILL_MS = 5_000
"""Without a step for so long, a copy comes no nearer; members that go on telling tell at least as often."""

ROLE_ORDER = (ACTIVE, WARMUP, STANDBY, "leaving")


@dataclass(frozen=True, slots=True)
class Views:
    """What the parts say, read one after the other. ``monotonic_ms`` is the clock of ``progress`` and ``early``."""

    member: MemberView
    early: EarlyView
    roles: Mapping[TaskId, str]
    states: Mapping[TaskId, TaskState]
    progress: Mapping[TaskId, TaskProgress]
    warnings: Mapping[str, Sequence[str]]
    records_total: int
    commits_total: int
    turned_ms: int
    closing: bool
    failure: str | None
    now_ms: int
    monotonic_ms: int
    stopped: Mapping[TaskId, Stop] = field(default_factory=dict)
    waits: Mapping[TaskId, HeldUp] = field(default_factory=dict)
    transactions_aborted_total: int = 0
    input_lags: Mapping[TopicPartition, int] = field(default_factory=dict)


def status_of(config: Config, shape: TopologyShape, process: UUID, views: Views) -> Status:
    """All of it, as of ``views.now_ms``."""
    member, adopted = views.member, views.member.adopted
    seen = _Seen(config, shape, process, views)
    tasks = tuple(seen.tasks())
    warnings = [f"{event}: {warning}" for event, told in views.warnings.items() for warning in told]
    return Status(
        application_id=config.application_id,
        process_id=process,
        now_ms=views.now_ms,
        state=member.state,
        generation=member.generation,
        assigned=adopted is not None,
        assignor=adopted.assignor if adopted else None,
        leads=member.leads,
        endpoint=config.endpoint,
        tasks=tasks,
        warmups=tuple(seen.warmups(adopted)) if adopted else (),
        holders=tuple(seen.holders(adopted)) if adopted else (),
        next_probe_ms=adopted.next_probe_ms if adopted else None,
        early=early_text(views.early, views.monotonic_ms, leads=member.leads),
        follow_up=adopted.follow_up if adopted else False,
        withheld=adopted.promised if adopted else {},
        queue=adopted.queue if adopted else None,
        draining=member.draining,
        closing=views.closing,
        failure=views.failure,
        outage=member.outage,
        lease_left_ms=round(member.lease_left_s * 1000),
        since_turn_ms=max(0, views.monotonic_ms - views.turned_ms),
        max_poll_interval_ms=config.max_poll_interval_ms,
        warnings=(*warnings, *(stopped_text(task) for task in tasks if task.stopped)),
        records_total=views.records_total,
        commits_total=views.commits_total,
        transactions_aborted_total=views.transactions_aborted_total,
        input_lags=views.input_lags,
    )


def early_text(early: EarlyView, monotonic_ms: int, *, leads: bool) -> str:
    """What early probing is about, in words."""
    if early.off is not None:
        return f"off ({early.off}): the probing interval holds"
    if not early.due:
        return "nothing is due"
    if early.alone:
        return "the leader hears nothing; this member asks for a rebalance once its own copies are there"
    if not leads:
        return "this member tells the leader how far its copies are"
    return _leaders_text(early, monotonic_ms)


def _leaders_text(early: EarlyView, monotonic_ms: int) -> str:
    if early.gain is None:
        return "the leader listens; nobody has told yet how far their copies are"
    others = f", copies still on their way: {early.gain.under_way}" if early.gain.under_way else ""
    if not early.gain.changes:
        return f"the leader listens; no task could change hands yet{others}"
    standbys = f", warm-ups that could become standbys: {early.gain.standbys}" if early.gain.standbys else ""
    summary = f"tasks that could change hands: {early.gain.moves}{standbys}{others}"
    if isinstance(early.answer, Rejoin):
        return f"{summary}; the leader has asked for a rebalance"
    until_ms = early.answer.until_ms if isinstance(early.answer, Wait) else None
    if until_ms is None:
        return summary
    return f"{summary}; the leader asks for a rebalance in {span(until_ms - monotonic_ms)}"


def way_of(progress: TaskProgress, monotonic_ms: int) -> Way:
    """A progress as of now: what has not moved since it was told has grown slower, but stands still only after a while."""
    now = progress.extended({}, monotonic_ms)
    standing_still = monotonic_ms - progress.moved_at_ms >= STILL_MS
    partitions = now.partitions.keys() - {ALL_CHANGELOGS}
    return Way(
        lag=now.remaining,
        warm=min(1.0, now.position_sum / now.end_sum) if now.end_sum else 1.0,
        offsets_per_s=now.offsets_per_s if now.offsets_per_s or standing_still else None,
        left_ms=now.left_ms,
        changelogs={name: now.partitions[name].remaining for name in sorted(partitions)},
    )


class _Seen:
    """One status in the making."""

    def __init__(self, config: Config, shape: TopologyShape, process: UUID, views: Views) -> None:
        self._config = config
        self._shape = shape
        self._process = process
        self._views = views
        adopted = views.member.adopted
        self._queued = (
            _queued(adopted.queue, views.progress, config.acceptable_recovery_lag) if adopted else frozenset()
        )

    def tasks(self) -> Iterator[TaskStatus]:
        """What is in this process: actives first."""
        roles = {task: self._views.roles.get(task, "leaving") for task in self._views.states}
        for task in sorted(roles, key=lambda task: (ROLE_ORDER.index(roles[task]), task)):
            stop = self._views.stopped.get(task)
            state = QUEUED if task in self._queued else self._views.states[task].value
            way = self._own_way(task)
            acceptable = 0 if roles[task] == ACTIVE else self._config.acceptable_recovery_lag
            warm = way is not None and is_caught_up(way.lag, acceptable)
            if stop is None or stop.trying:
                yield TaskStatus(task, roles[task], state, way, warm, waits=self._views.waits.get(task))
            else:
                yield TaskStatus(task, roles[task], STOPPED, way, warm, stop.reason, self._until(stop.retry_at_ms))

    def _until(self, monotonic_ms: int | None) -> int | None:
        return None if monotonic_ms is None else max(0, monotonic_ms - self._views.monotonic_ms)

    def _own_way(self, task: TaskId) -> Way | None:
        progress = self._views.progress.get(task)
        if progress is not None:
            return way_of(progress, self._views.monotonic_ms)
        return Way(0, 1.0) if self._views.states.get(task) is TaskState.RUNNING else None

    # --- how warm ---------------------------------------------------------------------

    def warmups(self, adopted: Adopted) -> Iterator[WarmUp]:
        """The whole group's, as the leader told them."""
        for process in sorted(adopted.warmups, key=process_order):
            for task in adopted.warmups[process]:
                way = self._own_way(task) if process == self._process else self._others_way(process, task)
                warm = way is not None and is_caught_up(way.lag, self._config.acceptable_recovery_lag)
                queued = process == self._process and task in self._queued
                yield WarmUp(task, process, self._changelogs(task), way, warm, queued)

    def _others_way(self, process: UUID, task: TaskId) -> Way | None:
        """As that process tells the leader; else as it was when it joined, which the leader knows too."""
        progress = self._views.early.copies.get((process, task))
        if progress is not None:
            return way_of(progress, self._views.monotonic_ms)
        standing = self._views.member.standing
        clients = standing.cluster.clients if standing else ()
        lags = next((client.lags for client in clients if client.process_id == process), {})
        lag = lags.get(task, -1)
        return Way(lag, as_joined=True) if lag >= 0 else None

    def _changelogs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        return tuple(self._shape.changelogs(self._config.application_id, task).values())

    # --- who has what ------------------------------------------------------------------

    def holders(self, adopted: Adopted) -> list[Holder]:
        """This process first, then the others as far as they are told here."""
        found = self._by_host(adopted)
        by_id = self._by_plan(found) if self._views.member.standing else self._by_warmups(adopted, found)
        named = {holder.endpoint for holder in by_id}
        rest = [holder for endpoint, holder in found.items() if endpoint not in {*named, self._config.endpoint}]
        others = [holder for holder in by_id if holder.process != self._process]
        return [self._own(adopted), *others, *rest]

    def _own(self, adopted: Adopted) -> Holder:
        parts = (adopted.active, adopted.standby, adopted.warmup)
        return Holder(self._process, self._config.endpoint, *(tuple(sorted(part)) for part in parts))

    def _by_host(self, adopted: Adopted) -> dict[HostInfo, Holder]:
        """By the host maps: endpoints and not ids, warm-ups among the standbys."""
        active, copies = self._tasks_by_host(adopted.hosts), self._tasks_by_host(adopted.standby_hosts)
        return {host: Holder(None, host, active.get(host, ()), copies.get(host, ()), ()) for host in active | copies}

    def _tasks_by_host(self, hosts: Hosts) -> dict[HostInfo, tuple[TaskId, ...]]:
        reads = [frozenset(sub.sources) for sub in self._shape.subtopologies]
        return {
            host: tuple(
                sorted({TaskId(n, p) for topic, p in held for n, topics in enumerate(reads) if topic in topics})
            )
            for host, held in hosts.items()
        }

    def _by_plan(self, hosts: Mapping[HostInfo, Holder]) -> list[Holder]:
        """By the leader's own decision. An endpoint belongs to the process that alone has its tasks."""
        standing = self._views.member.standing
        assert standing is not None
        whose: dict[tuple[object, object], list[HostInfo]] = {}
        for host, holder in hosts.items():
            whose.setdefault((holder.active, holder.standby), []).append(host)
        found = []
        for process in sorted(standing.plan.placements, key=process_order):
            placed = standing.plan.placements[process]
            active, copies = tuple(sorted(placed.active)), tuple(sorted(placed.standby | placed.warmup))
            endpoint = _only(whose.get((active, copies), ()))
            found.append(Holder(process, endpoint, active, tuple(sorted(placed.standby)), tuple(sorted(placed.warmup))))
        return found

    def _by_warmups(self, adopted: Adopted, hosts: Mapping[HostInfo, Holder]) -> list[Holder]:
        """A follower knows the ids of those that warm up; an endpoint is theirs if it alone has all of those copies."""
        found = []
        for process in sorted(adopted.warmups.keys() - {self._process}, key=process_order):
            warmup = adopted.warmups[process]
            others = [one for one in hosts.values() if one.endpoint != self._config.endpoint]
            fits = _only([one for one in others if set(warmup) <= set(one.standby or ())])
            standby = tuple(sorted(set(fits.standby or ()) - set(warmup))) if fits else None
            found.append(
                Holder(
                    process,
                    fits.endpoint if fits else None,
                    fits.active if fits else None,
                    standby,
                    tuple(sorted(warmup)),
                )
            )
        return found


def _queued(queue: WarmupQueue | None, progress: Mapping[TaskId, TaskProgress], acceptable: int) -> frozenset[TaskId]:
    """Those whose turn has not come (the rule of ``restore.loop``)."""
    if queue is None:
        return frozenset()
    under_way = [task for task in queue.order if task not in progress or progress[task].remaining > acceptable]
    return frozenset(under_way[queue.at_once :])


def _only(found: Sequence[T]) -> T | None:
    return found[0] if len(found) == 1 else None
