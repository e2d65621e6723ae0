"""A status as Prometheus metrics. No counters are kept here: a collector reads a status and writes it down.

Kafka's own, under the names that the JMX exporter gives them by default (no ``thread_id``: a process of ours is one member):

- ``kafka_streams_stream_metrics_client_state``: ordinal of ``KafkaStreams.State`` (1 REBALANCING, 2 RUNNING, 3 PENDING_SHUTDOWN, 5 PENDING_ERROR)
- ``kafka_streams_stream_thread_metrics_process_total``, ``..._commit_total``
- ``kafka_streams_stream_state_updater_metrics_active_restoring_tasks``, ``..._standby_updating_tasks``, ``..._restore_records_rate``
- ``kafka_streams_stream_task_metrics_restore_rate{task_id}`` of active tasks, ``..._update_rate{task_id}`` of copies
- ``kafka_streams_stream_task_metrics_restore_remaining_records{task_id}``: of active tasks, as in Kafka (its suffix
  ``-total`` is left out, as that means a counter in Prometheus)

Ours, as Kafka has none:

- ``kstreams_assign_live``, ``..._ready``, ``..._scalable``: 1 where that path answers 200
- ``kstreams_assign_leader``, ``..._generation``, ``..._draining``
- ``kstreams_assign_tasks{role,state}``: how many tasks are in this process
- ``kstreams_assign_task_lag{task_id,role}`` (offsets), ``..._task_restore_rate{task_id,role}`` (offsets a second),
  ``..._task_restore_seconds_left{task_id,role}``
- ``kstreams_assign_input_lag{topic,partition}``: offsets of an input partition that are still to be worked on by a task here
- ``kstreams_assign_task_stopped{task_id,role}``: 1 for each task whose state cannot be worked with here
- ``kstreams_assign_task_waits_for_transaction{task_id,role,hanging}``: 1 for each task that stands still before an open transaction;
  ``hanging="true"``: one that does not end by itself
- ``kstreams_assign_transactions_aborted_total``: under exactly once; what was in them is worked on again
- ``kstreams_assign_group_warmups``: warm-ups in the whole group, as the leader told
- ``kstreams_assign_next_probe_timestamp_seconds``: absent where none is due
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kstreams_assign.group.member import State
from kstreams_assign.worker.http.status import ACTIVE, RESTORING, STOPPED, VERDICTS, ReplicaProgress, Status

STREAM, THREAD = "kafka_streams_stream_metrics", "kafka_streams_stream_thread_metrics"
TASK, UPDATER = "kafka_streams_stream_task_metrics", "kafka_streams_stream_state_updater_metrics"
OURS = "kstreams_assign"

REBALANCING, RUNNING, PENDING_SHUTDOWN, PENDING_ERROR = 1, 2, 3, 5
"""Ordinals of ``KafkaStreams.State``."""


def exposition(status: Status, accept: str) -> tuple[bytes, str]:
    """The metrics in the format that the ``Accept`` header asks for, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reading(status))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Reading(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        yield from _kafkas(self._status)
        yield from _ours(self._status)

    def describe(self) -> Iterable[Metric]:
        """Nothing to compare names with: each registry holds one reading."""
        return ()


def _kafkas(status: Status) -> Iterator[Metric]:
    yield _gauge(
        f"{STREAM}_client_state", "The state of the client: ordinal of KafkaStreams.State", client_state(status)
    )
    yield CounterMetricFamily(f"{THREAD}_process", "Records processed", status.records_total)
    yield CounterMetricFamily(f"{THREAD}_commit", "Commits", status.commits_total)
    restoring = [told for told in status.tasks if told.state == RESTORING]
    yield _gauge(f"{UPDATER}_active_restoring_tasks", "Active tasks being restored", len(restoring))
    copies = [told for told in status.tasks if told.role != ACTIVE]
    yield _gauge(f"{UPDATER}_standby_updating_tasks", "Standbys and warm-ups being updated", len(copies))
    remaining = GaugeMetricFamily(
        f"{TASK}_restore_remaining_records", "Offsets still to restore of an active task", labels=["task_id"]
    )
    for told in status.tasks:
        if told.role == ACTIVE and told.progress is not None:
            remaining.add_metric([str(told.task)], told.progress.lag)
    yield remaining
    yield from _rates(status)


def _rates(status: Status) -> Iterator[Metric]:
    """Kafka counts records, we count offsets; they differ where compaction or transactions have left gaps."""
    restore = GaugeMetricFamily(f"{TASK}_restore_rate", "Restored a second, of an active task", labels=["task_id"])
    update = GaugeMetricFamily(f"{TASK}_update_rate", "Updated a second, of a copy", labels=["task_id"])
    together = 0.0
    for told in status.tasks:
        rate = told.progress.offsets_per_s if told.progress else None
        if rate is not None:
            (restore if told.role == ACTIVE else update).add_metric([str(told.task)], rate)
            together += rate
    yield restore
    yield update
    yield _gauge(f"{UPDATER}_restore_records_rate", "Restored and updated a second, of all tasks", together)


def client_state(status: Status) -> int:
    """As Kafka Streams would say it."""
    if status.failure is not None:
        return PENDING_ERROR
    if status.closing:
        return PENDING_SHUTDOWN
    restoring = any(told.state == RESTORING or (told.state == STOPPED and told.role == ACTIVE) for told in status.tasks)
    return RUNNING if status.state is State.STABLE and not restoring else REBALANCING


def _ours(status: Status) -> Iterator[Metric]:
    for name, verdict in VERDICTS.items():
        yield _gauge(f"{OURS}_{name}", f"Whether /{name} answers 200", verdict(status).ok)
    yield _gauge(f"{OURS}_leader", "Whether this member leads the group", status.leads)
    yield _gauge(f"{OURS}_draining", "Whether this member is draining", status.draining)
    if status.generation is not None:
        yield _gauge(f"{OURS}_generation", "The group's generation as this member knows it", status.generation)
    if status.next_probe_ms is not None:
        due = status.next_probe_ms / 1000
        yield _gauge(f"{OURS}_next_probe_timestamp_seconds", "When the next probing rebalance is due", due)
    yield CounterMetricFamily(f"{OURS}_transactions_aborted", "Transactions aborted", status.transactions_aborted_total)
    yield _gauge(f"{OURS}_group_warmups", "Warm-ups in the whole group", len(status.warmups))
    counted = GaugeMetricFamily(f"{OURS}_tasks", "Tasks in this process", labels=["role", "state"])
    for labels, count in sorted(Counter((told.role, told.state) for told in status.tasks).items()):
        counted.add_metric(labels, count)
    yield counted
    stopped = GaugeMetricFamily(
        f"{OURS}_task_stopped", "Tasks whose state cannot be worked with here", labels=["task_id", "role"]
    )
    for told in status.tasks:
        if told.stopped:
            stopped.add_metric([str(told.task), told.role], 1)
    yield stopped
    waiting = GaugeMetricFamily(
        f"{OURS}_task_waits_for_transaction",
        "Tasks that stand still before an open transaction",
        labels=["task_id", "role", "hanging"],
    )
    for told in status.tasks:
        if told.waits:
            waiting.add_metric([str(told.task), told.role, str(told.waits.hangs).lower()], 1)
    yield waiting
    yield _by_task(status, "task_lag", "Offsets still to read of a task", lambda progress: progress.lag)
    inputs = GaugeMetricFamily(
        f"{OURS}_input_lag", "Offsets of an input still to be worked on", labels=["topic", "partition"]
    )
    for partition, lag in sorted(status.input_lags.items()):
        inputs.add_metric([partition.topic, str(partition.partition)], lag)
    yield inputs
    rate = "Offsets read a second"
    yield _by_task(status, "task_restore_rate", rate, lambda progress: progress.offsets_per_s)
    left = "Seconds until a task has caught up"
    yield _by_task(status, "task_restore_seconds_left", left, _seconds_left)


def _seconds_left(progress: ReplicaProgress) -> float | None:
    return None if progress.left_ms is None else progress.left_ms / 1000


def _by_task(status: Status, name: str, text: str, value: Callable[[ReplicaProgress], float | None]) -> Metric:
    family = GaugeMetricFamily(f"{OURS}_{name}", text, labels=["task_id", "role"])
    for told in status.tasks:
        found = value(told.progress) if told.progress else None
        if found is not None:
            family.add_metric([str(told.task), told.role], found)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)
