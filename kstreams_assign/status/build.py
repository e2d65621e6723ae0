"""Build one ``Status`` from the views of the worker's parts. Pure; keeps nothing.

What lives here: which process has which tasks (from the host maps, or from its decision where this member leads)
and the progress of replicas (own ones from the restore thread, others from early probing). What must not: verdicts
(``values``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kstreams_assign.assign import is_caught_up
from kstreams_assign.config import Config
from kstreams_assign.group.probing import Rejoin, Wait
from kstreams_assign.group.values import Adopted, Hosts, LeaderState
from kstreams_assign.model import HostInfo, TaskId, TopicPartition, TopologyShape, process_order
from kstreams_assign.observe.reasons import span
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.status.values import (
    ACTIVE,
    LEAVING,
    QUEUED,
    STANDBY,
    STOPPED,
    WARMUP,
    Holder,
    ReplicaProgress,
    Status,
    TaskStatus,
    WarmUp,
    stopped_text,
)
from kstreams_assign.status.views import ALL_CHANGELOGS, EarlyView, Views
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.topology.internal import is_internal

T = TypeVar("T")

STILL_MS = 5_000
"""A replica without a step for so long is not catching up. Members that restore report at least as often."""

ROLE_ORDER = (ACTIVE, WARMUP, STANDBY, LEAVING)


def status_of(config: Config, shape: TopologyShape, process: UUID, views: Views) -> Status:
    """Return the status as of ``views.now_ms``."""
    member, adopted = views.member, views.member.adopted
    builder = _StatusBuilder(config, shape, process, views)
    tasks = tuple(builder.tasks())
    warnings = [f"{event}: {warning}" for event, texts in views.warnings.items() for warning in texts]
    return Status(
        application_id=config.application_id,
        process_id=process,
        now_ms=views.now_ms,
        state=member.state,
        generation=member.generation,
        streams_group=config.in_streams_group,
        assigned=adopted is not None,
        assignor=adopted.assignor if adopted else None,
        leads=member.leads,
        endpoint=config.endpoint,
        tasks=tasks,
        warmups=tuple(builder.warmups(adopted)) if adopted else (),
        holders=tuple(builder.holders(adopted)) if adopted else (),
        next_probe_ms=adopted.next_probe_ms if adopted else None,
        early="" if config.in_streams_group else early_text(views.early, views.monotonic_ms, leads=member.leads),
        follow_up=adopted.follow_up if adopted else False,
        withheld=adopted.promised if adopted else {},
        queue=adopted.queue if adopted else None,
        draining=member.draining,
        drain=member.drain,
        join=member.join,
        restarting=member.restarting,
        awaited=member.awaited,
        closing=views.closing,
        failure=views.failure,
        outage=member.outage,
        lease_left_ms=round(member.lease_left_s * 1000),
        since_turn_ms=max(0, views.monotonic_ms - views.turned_ms),
        max_poll_interval_ms=config.max_poll_interval_ms,
        warnings=(
            *warnings,
            *(stopped_text(task) for task in tasks if task.stopped),
            *(f"global table {table.name}: {table.stopped}" for table in views.global_tables if table.stopped),
        ),
        records_total=views.records_total,
        records_out_total=views.records_out_total,
        commits_total=views.commits_total,
        transactions_aborted_total=views.transactions_aborted_total,
        input_lags=views.input_lags,
        meters=views.meters,
        global_tables=tuple(views.global_tables),
    )


def early_text(early: EarlyView, monotonic_ms: int, *, leads: bool) -> str:
    """What early probing is doing, in words."""
    if early.off is not None:
        return f"off ({early.off}): the probing interval applies"
    if not early.due:
        return "nothing is due"
    if early.alone:
        return (
            "the leader does not read progress records; "
            "this member asks for a rebalance once its own replicas have caught up"
        )
    if not leads:
        return "this member reports its replicas' positions to the leader"
    return _leaders_text(early, monotonic_ms)


def _leaders_text(early: EarlyView, monotonic_ms: int) -> str:
    if early.gain is None:
        return "the leader reads progress records; no member has reported yet"
    others = f", replicas still restoring: {early.gain.under_way}" if early.gain.under_way else ""
    if not early.gain.changes:
        return f"the leader reads progress records; no task can move yet{others}"
    standbys = f", warm-ups that can become standbys: {early.gain.standbys}" if early.gain.standbys else ""
    summary = f"tasks that can move: {early.gain.moves}{standbys}{others}"
    if isinstance(early.answer, Rejoin):
        return f"{summary}; the leader has asked for a rebalance"
    until_ms = early.answer.until_ms if isinstance(early.answer, Wait) else None
    if until_ms is None:
        return summary
    return f"{summary}; the leader asks for a rebalance in {span(until_ms - monotonic_ms)}"


def replica_progress(progress: TaskProgress, monotonic_ms: int) -> ReplicaProgress:
    """Return the progress as of now: without a step its rate falls, and is 0 after ``STILL_MS``."""
    now = progress.extended({}, monotonic_ms)
    standing_still = monotonic_ms - progress.moved_at_ms >= STILL_MS
    partitions = now.partitions.keys() - {ALL_CHANGELOGS}
    return ReplicaProgress(
        lag=now.remaining,
        warm=min(1.0, now.position_sum / now.end_sum) if now.end_sum else 1.0,
        offsets_per_s=now.offsets_per_s if now.offsets_per_s or standing_still else None,
        left_ms=now.left_ms,
        changelogs={name: now.partitions[name].remaining for name in sorted(partitions)},
    )


class _StatusBuilder:
    """Builds one status."""

    def __init__(self, config: Config, shape: TopologyShape, process: UUID, views: Views) -> None:
        self._config = config
        self._shape = shape
        self._process = process
        self._views = views
        self._queued = {task for task in views.queued if views.states.get(task) is TaskState.TAILING}
        self._number_by_source = {
            topic: number for number, sub in enumerate(shape.subtopologies) for topic in sub.sources
        }

    def tasks(self) -> Iterator[TaskStatus]:
        """The tasks in this process: active ones first."""
        roles = {task: self._views.roles.get(task, LEAVING) for task in self._views.states}
        inputs = self._input_lags()
        for task in sorted(roles, key=lambda task: (ROLE_ORDER.index(roles[task]), task)):
            stop = self._views.stopped.get(task)
            state = QUEUED if task in self._queued else self._views.states[task].value
            progress = self._own_progress(task)
            acceptable = 0 if roles[task] == ACTIVE else self._config.acceptable_recovery_lag
            status = TaskStatus(
                task,
                roles[task],
                state,
                progress,
                caught_up=progress is not None and is_caught_up(progress.lag, acceptable),
                has_changelog=self._shape.subtopologies[task.subtopology].logged,
                inputs=inputs.get(task, {}),
                paused_ms=self._views.paused.get(task),
            )
            if stop is None or stop.trying:
                yield replace(status, waits=self._views.waits.get(task))
            else:
                retry_ms = self._until(stop.retry_at_ms)
                yield replace(status, state=STOPPED, stopped=stop.reason, retry_ms=retry_ms)

    def _input_lags(self) -> dict[TaskId, dict[TopicPartition, int]]:
        lags: dict[TaskId, dict[TopicPartition, int]] = {}
        for partition, lag in sorted(self._views.input_lags.items()):
            if (task := self._task_of(partition)) is not None:
                lags.setdefault(task, {})[partition] = lag
        return lags

    def _task_of(self, partition: TopicPartition) -> TaskId | None:
        """Return the task that reads this partition; None if no subtopology here does."""
        topic = partition.topic
        number = self._number_by_source.get(topic)
        if number is None and not is_internal(self._config.application_id, topic):
            matching = (number for number, sub in enumerate(self._shape.subtopologies) if sub.reads(topic))
            number = next(matching, None)
        return None if number is None else TaskId(number, partition.partition)

    def _until(self, monotonic_ms: int | None) -> int | None:
        return None if monotonic_ms is None else max(0, monotonic_ms - self._views.monotonic_ms)

    def _own_progress(self, task: TaskId) -> ReplicaProgress | None:
        progress = self._views.progress.get(task)
        if progress is not None:
            return replica_progress(progress, self._views.monotonic_ms)
        return ReplicaProgress(0, 1.0) if self._views.states.get(task) is TaskState.RUNNING else None

    # --- progress ---------------------------------------------------------------------

    def warmups(self, adopted: Adopted) -> Iterator[WarmUp]:
        """The whole group's warm-ups, from the leader's assignment."""
        for process in sorted(adopted.warmups, key=process_order):
            for task in adopted.warmups[process]:
                progress = (
                    self._own_progress(task) if process == self._process else self._others_progress(process, task)
                )
                warm = progress is not None and is_caught_up(progress.lag, self._config.acceptable_recovery_lag)
                queued = process == self._process and task in self._queued
                yield WarmUp(task, process, self._changelogs(task), progress, warm, queued)

    def _others_progress(self, process: UUID, task: TaskId) -> ReplicaProgress | None:
        """As that process reports to the leader; else as of its join, which the leader knows too."""
        progress = self._views.early.copies.get((process, task))
        if progress is not None:
            return replica_progress(progress, self._views.monotonic_ms)
        standing = self._views.member.standing
        clients = standing.cluster.clients if standing else ()
        lags = next((client.lags for client in clients if client.process_id == process), {})
        lag = lags.get(task, -1)
        return ReplicaProgress(lag, as_joined=True) if lag >= 0 else None

    def _changelogs(self, task: TaskId) -> tuple[TopicPartition, ...]:
        return tuple(self._shape.changelogs(self._config.application_id, task).values())

    # --- the tasks of each process ------------------------------------------------------------------

    def holders(self, adopted: Adopted) -> list[Holder]:
        """This process first, then the others: all of them where this member leads, else as far as it knows them."""
        standing = self._views.member.standing
        others = self._by_hosts(adopted) if standing is None else self._by_plan(standing)
        return [self._own(adopted), *others]

    def _own(self, adopted: Adopted) -> Holder:
        parts = (adopted.active, adopted.standby, adopted.warmup)
        return Holder(self._process, self._config.endpoint, *(tuple(sorted(part)) for part in parts))

    def _by_plan(self, standing: LeaderState) -> Iterator[Holder]:
        """From the leader's own decision."""
        for process in sorted(standing.plan.placements.keys() - {self._process}, key=process_order):
            placed = standing.plan.placements[process]
            parts = (placed.active, placed.standby, placed.warmup)
            yield Holder(process, standing.endpoints.get(process), *(tuple(sorted(part)) for part in parts))

    def _by_hosts(self, adopted: Adopted) -> list[Holder]:
        """From the host maps: endpoints and no ids, warm-ups among the standbys where their process is not known."""
        active, copies = self._tasks_by_host(adopted.hosts), self._tasks_by_host(adopted.standby_hosts)
        hosts = [
            Holder(None, host, active.get(host, ()), copies.get(host, ()), ())
            for host in active | copies
            if host != self._config.endpoint
        ]
        by_id = self._by_warmups(adopted, hosts)
        named = {holder.endpoint for holder in by_id}
        return [*by_id, *(holder for holder in hosts if holder.endpoint not in named)]

    def _tasks_by_host(self, hosts: Hosts) -> dict[HostInfo, tuple[TaskId, ...]]:
        return {
            host: tuple(sorted({task for partition in held if (task := self._task_of(partition)) is not None}))
            for host, held in hosts.items()
        }

    def _by_warmups(self, adopted: Adopted, hosts: Sequence[Holder]) -> list[Holder]:
        """A follower knows the ids of processes with warm-ups; the endpoint is the only one with all those replicas."""
        holders = []
        for process in sorted(adopted.warmups.keys() - {self._process}, key=process_order):
            warmup = adopted.warmups[process]
            fits = _only([holder for holder in hosts if set(warmup) <= set(holder.standby or ())])
            standby = tuple(sorted(set(fits.standby or ()) - set(warmup))) if fits else None
            holders.append(
                Holder(
                    process,
                    fits.endpoint if fits else None,
                    fits.active if fits else None,
                    standby,
                    tuple(sorted(warmup)),
                )
            )
        return holders


def _only(candidates: Sequence[T]) -> T | None:
    return candidates[0] if len(candidates) == 1 else None
