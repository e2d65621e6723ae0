"""A status as Prometheus metrics, by the table in ``metric_table``.

No counters are kept here: a collector reads a status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from itertools import chain

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from kstreams_assign.group.member import State
from kstreams_assign.model import TaskId
from kstreams_assign.status.exposing import expose
from kstreams_assign.status.metric_table import (
    COORDINATOR,
    METRICS,
    OURS,
    STREAM,
    TASK,
    THREAD,
    TOPIC,
    UPDATER,
    Kind,
)
from kstreams_assign.status.values import (
    ACTIVE,
    RESTORING,
    STANDBY,
    STOPPED,
    TAILING,
    VERDICTS,
    WARMUP,
    ReplicaProgress,
    Status,
)
from kstreams_assign.status.views import DurationView, TaskTopic

REBALANCING, RUNNING, PENDING_SHUTDOWN, PENDING_ERROR = 1, 2, 3, 5
"""Ordinals of ``KafkaStreams.State``."""

_VERSION = metadata.version("kstreams-assign")

Samples = Iterable[tuple[Iterable[object], float]]
"""Label values in the table's order, and a value."""


def exposition(status: Status, accept: str) -> tuple[bytes, str]:
    """The metrics in the format that the ``Accept`` header asks for, and its content type."""
    parts = (_thread, _restores, _member, _commits, _tasks, _global_tables)
    return expose(chain.from_iterable(part(status) for part in parts), accept)


# --- families by the table ---------------------------------------------------------------


def _family(name: str, samples: Samples) -> Metric:
    row = METRICS[name]
    make = CounterMetricFamily if row.kind is Kind.COUNTER else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = make(name, row.help, labels=row.labels)
    for labels, value in samples:
        family.add_metric([*map(str, labels)], value)
    return family


def _value(name: str, value: float) -> Metric:
    return _family(name, [((), value)])


def _histogram(name: str, durations: DurationView) -> Metric:
    return HistogramMetricFamily(name, METRICS[name].help, buckets=durations.cumulative(), sum_value=durations.sum_s)


def _info(name: str, **labels: str) -> Metric:
    row = METRICS[name]
    return InfoMetricFamily(name, row.help, value={label: labels[label] for label in row.labels})


# --- what Kafka Streams counts, too -------------------------------------------------------


def client_state(status: Status) -> int:
    """As Kafka Streams would say it."""
    if status.failure is not None:
        return PENDING_ERROR
    if status.closing:
        return PENDING_SHUTDOWN
    restoring = any(task.state == RESTORING or (task.state == STOPPED and task.role == ACTIVE) for task in status.tasks)
    return RUNNING if status.state is State.STABLE and not restoring else REBALANCING


def _thread(status: Status) -> Iterator[Metric]:
    meters = status.meters
    yield _value(f"{STREAM}_client_state", client_state(status))
    yield _value(f"{THREAD}_process_total", status.records_total)
    yield _value(f"{THREAD}_commit_total", status.commits_total)
    yield _value(f"{THREAD}_punctuate_total", meters.punctuated_total)
    yield _family(f"{TOPIC}_records_consumed_total", _by_topic(meters.records_consumed))
    yield _family(f"{TOPIC}_records_produced_total", _by_topic(meters.records_produced))
    yield _family(f"{TASK}_dropped_records_total", _by_task_id(meters.records_dropped))
    yield _value(f"{COORDINATOR}_rebalance_total", meters.rebalances.count)


def _by_topic(counts: Mapping[TaskTopic, int]) -> Samples:
    return sorted(counts.items())


def _restores(status: Status) -> Iterator[Metric]:
    """Kafka counts records, this project offsets; they differ where compaction or transactions have left gaps."""
    counts = _counts(status)
    yield _value(f"{UPDATER}_active_restoring_tasks", counts[ACTIVE, RESTORING])
    yield _value(f"{UPDATER}_standby_updating_tasks", counts[STANDBY, TAILING] + counts[WARMUP, TAILING])
    restore: list[tuple[tuple[TaskId], float]] = []
    update: list[tuple[tuple[TaskId], float]] = []
    for task in status.tasks:
        if task.progress and task.progress.offsets_per_s is not None:
            (restore if task.role == ACTIVE else update).append(((task.task,), task.progress.offsets_per_s))
    yield _value(f"{UPDATER}_restore_records_rate", sum(rate for _, rate in (*restore, *update)))
    remaining = [
        ((task.task,), task.progress.lag) for task in status.tasks if task.role == ACTIVE and task.progress is not None
    ]
    yield _family(f"{TASK}_restore_remaining_records", remaining)
    yield _family(f"{TASK}_restore_rate", restore)
    yield _family(f"{TASK}_restore_total", _by_task_id(status.meters.restored))
    yield _family(f"{TASK}_update_rate", update)
    yield _family(f"{TASK}_update_total", _by_task_id(status.meters.updated))


def _counts(status: Status) -> Counter[tuple[str, str]]:
    """Role and state -> number of tasks."""
    return Counter((task.role, task.state) for task in status.tasks)


def _by_task_id(values: Mapping[TaskId, int]) -> Samples:
    return (((task,), value) for task, value in sorted(values.items()))


# --- what only this project has -------------------------------------------------------------


def _member(status: Status) -> Iterator[Metric]:
    ids = {"application_id": status.application_id, "process_id": str(status.process_id)}
    yield _info(OURS, version=_VERSION, **ids)
    for name, verdict in VERDICTS.items():
        yield _value(f"{OURS}_{name}", verdict(status).ok)
    yield _value(f"{OURS}_broker_unavailable", status.outage)
    yield _value(f"{OURS}_leader", status.leads)
    yield _value(f"{OURS}_draining", status.draining)
    if status.generation is not None and not status.streams_group:
        yield _value(f"{OURS}_generation", status.generation)
    if status.next_probe_ms is not None:
        yield _value(f"{OURS}_next_probe_timestamp_seconds", status.next_probe_ms / 1000)
    yield _value(f"{OURS}_group_warmups", len(status.warmups))
    yield _histogram(f"{OURS}_rebalance_duration_seconds", status.meters.rebalances)


def _commits(status: Status) -> Iterator[Metric]:
    yield _histogram(f"{OURS}_commit_duration_seconds", status.meters.commits)
    yield _value(f"{OURS}_commit_failures_total", status.meters.commit_failures_total)
    yield _value(f"{OURS}_transactions_aborted_total", status.transactions_aborted_total)
    yield _family(f"{OURS}_dead_letters_total", _by_task_id(status.meters.dead_letters))
    yield _family(f"{OURS}_timers_fired_total", _by_task_id(status.meters.timers_fired))
    yield _family(f"{OURS}_entries_expired_total", _by_task_id(status.meters.entries_expired))


def _tasks(status: Status) -> Iterator[Metric]:
    yield _family(f"{OURS}_tasks", sorted(_counts(status).items()))
    stopped = [((task.task, task.role), 1) for task in status.tasks if task.stopped]
    yield _family(f"{OURS}_task_stopped", stopped)
    paused = [((task.task,), task.paused_ms / 1000) for task in status.tasks if task.paused_ms is not None]
    yield _family(f"{OURS}_task_paused_timestamp_seconds", paused)
    waiting = [
        ((task.task, task.role, str(task.waits.hangs).lower()), 1) for task in status.tasks if task.waits is not None
    ]
    yield _family(f"{OURS}_task_waits_for_transaction", waiting)
    yield _by_task(status, "task_lag", lambda progress: progress.lag)
    yield _by_task(status, "task_restore_rate", lambda progress: progress.offsets_per_s)
    yield _by_task(status, "task_restore_remaining_seconds", _remaining_s)
    yield _family(f"{OURS}_task_state_bytes", _by_task_id(status.meters.state_bytes))
    lags = sorted(status.input_lags.items())
    yield _family(f"{OURS}_input_lag", (((at.topic, at.partition), lag) for at, lag in lags))


def _global_tables(status: Status) -> Iterator[Metric]:
    tables = status.global_tables
    yield _family(f"{OURS}_global_table_ready", (((table.name,), table.ready) for table in tables))
    lags = (((table.name,), table.lag) for table in tables if table.lag is not None)
    yield _family(f"{OURS}_global_table_lag", lags)


def _remaining_s(progress: ReplicaProgress) -> float | None:
    return None if progress.left_ms is None else progress.left_ms / 1000


def _by_task(status: Status, name: str, value: Callable[[ReplicaProgress], float | None]) -> Metric:
    values = (((task.task, task.role), value(task.progress)) for task in status.tasks if task.progress)
    return _family(f"{OURS}_{name}", ((labels, number) for labels, number in values if number is not None))
