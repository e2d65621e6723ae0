"""Every metric of ``/metrics``: name, kind, unit, labels and help text, in one table.

The documentation's reference page is made from ``METRICS``, and ``metrics`` can only write what stands here. What Kafka
Streams counts too has the name that the JMX exporter gives it by default, without ``thread_id``: a process is one
member. Kafka's suffix ``-total`` is kept for counters and left out of gauges, as it means a counter in Prometheus. What
Kafka reports in milliseconds has a name of ours, in seconds.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

STREAM, THREAD = "kafka_streams_stream_metrics", "kafka_streams_stream_thread_metrics"
TASK, UPDATER = "kafka_streams_stream_task_metrics", "kafka_streams_stream_state_updater_metrics"
TOPIC, COORDINATOR = "kafka_streams_stream_topic_metrics", "kafka_consumer_consumer_coordinator_metrics"
OURS = "kstreams_assign"


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricRow(NamedTuple):
    """One metric. ``unit`` is empty for a number without one, such as 0 or 1."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()


_BY_TASK = ("task_id", "role")

ROWS = (
    # --- Kafka's ---
    MetricRow(
        f"{STREAM}_client_state",
        Kind.GAUGE,
        "",
        "Ordinal of KafkaStreams.State: 1 REBALANCING, 2 RUNNING, 3 PENDING_SHUTDOWN, 5 PENDING_ERROR.",
    ),
    MetricRow(f"{THREAD}_process_total", Kind.COUNTER, "records", "Input records processed."),
    MetricRow(f"{THREAD}_commit_total", Kind.COUNTER, "commits", "Commits that succeeded."),
    MetricRow(f"{THREAD}_punctuate_total", Kind.COUNTER, "calls", "Calls of punctuators (`task.every`)."),
    MetricRow(
        f"{TOPIC}_records_consumed_total",
        Kind.COUNTER,
        "records",
        "Input records processed, by task and topic.",
        ("task_id", "topic_name"),
    ),
    MetricRow(
        f"{TOPIC}_records_produced_total",
        Kind.COUNTER,
        "records",
        "Records emitted to output topics in commits that succeeded, by task and topic.",
        ("task_id", "topic_name"),
    ),
    MetricRow(
        f"{TASK}_dropped_records_total",
        Kind.COUNTER,
        "records",
        "Input records of a task that were set aside because they could not be processed, dead letters included.",
        ("task_id",),
    ),
    MetricRow(f"{COORDINATOR}_rebalance_total", Kind.COUNTER, "rebalances", "Rebalances that gave an assignment."),
    MetricRow(
        f"{UPDATER}_active_restoring_tasks",
        Kind.GAUGE,
        "tasks",
        "Active tasks that are being restored; stopped ones are not counted.",
    ),
    MetricRow(
        f"{UPDATER}_standby_updating_tasks",
        Kind.GAUGE,
        "tasks",
        "Standbys and warm-ups that are updated, or wait for active tasks; queued and stopped ones are not counted.",
    ),
    MetricRow(
        f"{UPDATER}_restore_records_rate",
        Kind.GAUGE,
        "offsets a second",
        "Changelog offsets restored and updated a second, of all tasks.",
    ),
    MetricRow(
        f"{TASK}_restore_remaining_records",
        Kind.GAUGE,
        "offsets",
        "Changelog offsets that an active task has still to restore.",
        ("task_id",),
    ),
    MetricRow(
        f"{TASK}_restore_rate",
        Kind.GAUGE,
        "offsets a second",
        "Changelog offsets restored a second, of an active task.",
        ("task_id",),
    ),
    MetricRow(
        f"{TASK}_restore_total",
        Kind.COUNTER,
        "offsets",
        "Changelog offsets that a task has restored as an active task.",
        ("task_id",),
    ),
    MetricRow(
        f"{TASK}_update_rate",
        Kind.GAUGE,
        "offsets a second",
        "Changelog offsets read a second, of a standby or warm-up.",
        ("task_id",),
    ),
    MetricRow(
        f"{TASK}_update_total",
        Kind.COUNTER,
        "offsets",
        "Changelog offsets that a task has read as a standby or warm-up.",
        ("task_id",),
    ),
    # --- ours, as Kafka has none ---
    MetricRow(
        OURS,
        Kind.INFO,
        "",
        "Always 1; the labels say which worker this is.",
        ("version", "application_id", "process_id"),
    ),
    MetricRow(f"{OURS}_live", Kind.GAUGE, "", "1 if /live answers 200, else 0."),
    MetricRow(f"{OURS}_ready", Kind.GAUGE, "", "1 if /ready answers 200, else 0."),
    MetricRow(f"{OURS}_scalable", Kind.GAUGE, "", "1 if /scalable answers 200, else 0."),
    MetricRow(f"{OURS}_broker_unavailable", Kind.GAUGE, "", "1 while no broker answers the membership client."),
    MetricRow(f"{OURS}_leader", Kind.GAUGE, "", "1 if this member leads the group."),
    MetricRow(f"{OURS}_draining", Kind.GAUGE, "", "1 while this member drains."),
    MetricRow(
        f"{OURS}_generation",
        Kind.GAUGE,
        "",
        "Classic groups: the group's generation; absent while the member has none.",
    ),
    MetricRow(
        f"{OURS}_next_probe_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        "Unix time of the next probing rebalance; absent while none is due.",
    ),
    MetricRow(
        f"{OURS}_rebalance_duration_seconds",
        Kind.HISTOGRAM,
        "seconds",
        "From the request to join until the assignment; tasks process records meanwhile.",
    ),
    MetricRow(
        f"{OURS}_commit_duration_seconds", Kind.HISTOGRAM, "seconds", "From the begin of a commit until its end."
    ),
    MetricRow(
        f"{OURS}_commit_failures_total",
        Kind.COUNTER,
        "commits",
        "Commits that failed or were refused; their tasks go on from the last commit or move to another process.",
    ),
    MetricRow(
        f"{OURS}_transactions_aborted_total",
        Kind.COUNTER,
        "transactions",
        "Transactions aborted (exactly once); their records are processed again.",
    ),
    MetricRow(
        f"{OURS}_dead_letters_total",
        Kind.COUNTER,
        "records",
        "Dead letters of a task, in commits that succeeded.",
        ("task_id",),
    ),
    MetricRow(
        f"{OURS}_timers_fired_total",
        Kind.COUNTER,
        "timers",
        "Keyed timers of a task that have fired, in commits that succeeded.",
        ("task_id",),
    ),
    MetricRow(
        f"{OURS}_entries_expired_total",
        Kind.COUNTER,
        "entries",
        "Entries of a task's stores with a `ttl_ms` that commits have deleted because their time was over.",
        ("task_id",),
    ),
    MetricRow(
        f"{OURS}_group_warmups", Kind.GAUGE, "tasks", "Warm-ups in the whole group, as this project's leader reports."
    ),
    MetricRow(f"{OURS}_tasks", Kind.GAUGE, "tasks", "Tasks in this process.", ("role", "state")),
    MetricRow(
        f"{OURS}_task_stopped", Kind.GAUGE, "", "1 for a task that cannot use its state here; else absent.", _BY_TASK
    ),
    MetricRow(
        f"{OURS}_task_paused_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        "Unix time since which an active task is paused; absent for a task that is not.",
        ("task_id",),
    ),
    MetricRow(
        f"{OURS}_task_waits_for_transaction",
        Kind.GAUGE,
        "",
        '1 for a task that waits for an open transaction, else absent; hanging="true" if it does not end by itself.',
        (*_BY_TASK, "hanging"),
    ),
    MetricRow(f"{OURS}_task_lag", Kind.GAUGE, "offsets", "Changelog offsets that a task has still to read.", _BY_TASK),
    MetricRow(
        f"{OURS}_task_restore_rate",
        Kind.GAUGE,
        "offsets a second",
        "Changelog offsets that a task reads a second.",
        _BY_TASK,
    ),
    MetricRow(
        f"{OURS}_task_restore_remaining_seconds",
        Kind.GAUGE,
        "seconds",
        "Time until a task has caught up; absent while its lag does not shrink.",
        _BY_TASK,
    ),
    MetricRow(
        f"{OURS}_task_state_bytes",
        Kind.GAUGE,
        "bytes",
        "Disk space of a task's state, also of a task that is not assigned here any more; measured every 10 s.",
        ("task_id",),
    ),
    MetricRow(
        f"{OURS}_input_lag",
        Kind.GAUGE,
        "offsets",
        "Offsets of an input partition that its task here has not processed yet.",
        ("topic", "partition"),
    ),
    MetricRow(f"{OURS}_global_table_ready", Kind.GAUGE, "", "1 if a global table can be read, else 0.", ("table",)),
    MetricRow(
        f"{OURS}_global_table_lag",
        Kind.GAUGE,
        "offsets",
        "Offsets of a global table's topic that this process has not read yet.",
        ("table",),
    ),
)

METRICS = {row.name: row for row in ROWS}

PROCESS_LABEL = "process"
"""Label that a supervisor adds to every metric of its processes; the value is the process's number."""

SUPERVISOR_ROWS = (
    MetricRow(
        f"{OURS}_processes",
        Kind.GAUGE,
        "processes",
        "Processes of a supervisor: running, resting or ended.",
        ("state",),
    ),
    MetricRow(
        f"{OURS}_process_restarts_total",
        Kind.COUNTER,
        "restarts",
        "How often the supervisor has started a process again after a failure.",
        (PROCESS_LABEL,),
    ),
)
"""What ``kstreams-assign run``, and ``worker --processes``, add to the metrics of their processes."""

HISTORY = f"{OURS}_history"

HISTORY_ROWS = (
    MetricRow(f"{HISTORY}_batches_total", Kind.COUNTER, "batches", "Batches that this run has put into the tables."),
    MetricRow(f"{HISTORY}_records_total", Kind.COUNTER, "records", "Records in these batches."),
    MetricRow(f"{HISTORY}_rebalances_total", Kind.COUNTER, "rebalances", "Rebalances in these batches."),
    MetricRow(f"{HISTORY}_batch_duration_seconds", Kind.GAUGE, "seconds", "How long the last batch took."),
    MetricRow(
        f"{HISTORY}_batch_timestamp_seconds", Kind.GAUGE, "seconds", "Unix time at which the last batch was complete."
    ),
    MetricRow(
        f"{HISTORY}_lag",
        Kind.GAUGE,
        "offsets",
        "Offsets of the topic that the tables lack. Compaction leaves gaps, so there may be fewer records.",
    ),
    MetricRow(
        f"{HISTORY}_lag_seconds",
        Kind.GAUGE,
        "seconds",
        "Age of the newest record in the tables while the tables lack offsets, else 0.",
    ),
    MetricRow(
        f"{HISTORY}_lag_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        "Unix time at which Spark last reported the lag: an old time means that the lag is not known.",
    ),
)
"""What ``history follow --http`` shows. The lag is missing for ``--records``, and until Spark has reported it."""
