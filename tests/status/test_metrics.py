"""The metrics, read by Prometheus' own parsers."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import metadata

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign.group.member import State
from kstreams_assign.observe.transactions import HeldUp
from kstreams_assign.status.metric_table import METRICS, ROWS, Kind, MetricRow
from kstreams_assign.status.metrics import client_state, exposition
from kstreams_assign.status.values import VERDICTS, ReplicaProgress, TaskStatus
from tests.status.statuses import NOW_MS, PROCESS_ID, settled, task, warming

READERS = {
    "": read_text,
    "application/openmetrics-text;version=1.0.0": read_open_metrics,
    # what Prometheus 3 sends
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=1.0.0;q=0.5": read_open_metrics,
}


def samples(status, accept=""):
    """Return the values by name and labels."""
    body, _ = exposition(status, accept)
    families = READERS[accept](body.decode())
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels, reverse=True))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("accept", ["text/plain;version=x", "application/openmetrics-text;version=1.x"])
def test_a_header_with_a_version_that_is_not_numeric_gets_the_text_format(accept):
    assert exposition(settled(), accept) == exposition(settled(), "")


@pytest.mark.parametrize("accept", READERS)
def test_both_formats_have_the_values_of_the_status(accept):
    values = samples(warming(), accept)
    assert values["kafka_streams_stream_thread_metrics_process_total",] == 123_456
    assert values["kafka_streams_stream_thread_metrics_commit_total",] == 1_234
    assert values["kstreams_assign_transactions_aborted_total",] == 3
    assert values["kafka_streams_stream_metrics_client_state",] == 2
    assert values["kafka_streams_stream_state_updater_metrics_standby_updating_tasks",] == 1
    assert values["kafka_streams_stream_task_metrics_restore_remaining_records", "0_0"] == 0
    assert values["kafka_streams_stream_task_metrics_update_rate", "0_2"] == 40
    assert values["kafka_streams_stream_state_updater_metrics_restore_records_rate",] == 40
    assert (values["kstreams_assign_ready",], values["kstreams_assign_scalable",]) == (1, 0)
    assert values["kstreams_assign_group_warmups",] == 2
    assert values["kstreams_assign_next_probe_timestamp_seconds",] == NOW_MS / 1000 + 552
    assert values["kstreams_assign_task_lag", "0_2", "standby"] == 12
    assert values["kstreams_assign_task_restore_rate", "0_2", "standby"] == 40
    assert values["kstreams_assign_task_restore_remaining_seconds", "0_2", "standby"] == 0.3
    assert values["kstreams_assign_tasks", "running", "active"] == 2
    assert values["kstreams_assign_input_lag", "orders", "1"] == 250


def test_an_unknown_value_has_no_sample():
    values = samples(settled(generation=None, tasks=(TaskStatus(task(0), "active", "restoring", None),)))
    names = {name for name, *_ in values}
    assert not names & {"kstreams_assign_generation", "kstreams_assign_next_probe_timestamp_seconds"}
    assert not names & {"kstreams_assign_task_lag", "kafka_streams_stream_task_metrics_restore_remaining_records"}
    assert values["kafka_streams_stream_state_updater_metrics_active_restoring_tasks",] == 1


def test_numbers_that_members_of_a_streams_group_count_alone_are_not_compared():
    assert samples(settled())["kstreams_assign_generation",] == settled().generation
    assert ("kstreams_assign_generation",) not in samples(settled(streams_group=True))


def test_the_restore_rate_has_kafkas_name():
    restoring = TaskStatus(task(0), "active", "restoring", ReplicaProgress(1_000, 0.5, 250.0, 4_000))
    values = samples(settled(tasks=(restoring, *settled().tasks[1:])))
    assert values["kafka_streams_stream_task_metrics_restore_rate", "0_0"] == 250
    assert values["kafka_streams_stream_state_updater_metrics_restore_records_rate",] == 290
    assert ("kafka_streams_stream_task_metrics_restore_rate", "0_2") not in values


@pytest.mark.parametrize(
    ("status", "ordinal"),
    [
        (settled(), 2),
        (settled(state=State.JOINING), 1),
        (settled(tasks=(TaskStatus(task(0), "active", "restoring", ReplicaProgress(5)),)), 1),
        (settled(closing=True), 3),
        (settled(closing=True, failure="a bug"), 5),
    ],
)
def test_the_client_state_is_kafka_streams_own_ordinal(status, ordinal):
    assert client_state(status) == ordinal


@pytest.mark.parametrize("accept", READERS)
def test_counts_times_and_sizes_are_shown_as_the_meters_have_them(accept):
    values = samples(warming(), accept)
    topics = "kafka_streams_stream_topic_metrics_records"
    assert values[f"{topics}_consumed_total", "orders", "0_0"] == 120_000
    assert values[f"{topics}_produced_total", "totals", "0_0"] == 60_000
    assert values["kafka_consumer_consumer_coordinator_metrics_rebalance_total",] == 3
    assert values["kstreams_assign_rebalance_duration_seconds_count",] == 3
    assert values["kstreams_assign_rebalance_duration_seconds_sum",] == 2.5
    assert values["kstreams_assign_rebalance_duration_seconds_bucket", "0.05"] == 2
    assert values["kstreams_assign_rebalance_duration_seconds_bucket", "+Inf"] == 3
    assert values["kstreams_assign_commit_failures_total",] == 4
    assert values["kafka_streams_stream_task_metrics_restore_total", "0_0"] == 5_000
    assert values["kafka_streams_stream_task_metrics_update_total", "0_2"] == 900
    assert values["kstreams_assign_task_state_bytes", "0_0"] == 4_096
    assert values["kstreams_assign_global_table_ready", "countries"] == 1
    assert values["kstreams_assign_global_table_lag", "countries"] == 3
    assert values["kstreams_assign_info", metadata.version("kstreams-assign"), str(PROCESS_ID), "shop"] == 1


@pytest.mark.parametrize("accept", READERS)
def test_every_family_is_in_the_table_with_its_kind_labels_and_help(accept):
    body, _ = exposition(everything(), accept)
    families = {row.name: family for row in ROWS for family in READERS[accept](body.decode()) if is_of(family, row)}
    assert families.keys() == METRICS.keys()
    assert len(families) == len(list(READERS[accept](body.decode())))
    for name, family in families.items():
        row = METRICS[name]
        assert family.documentation == row.help
        assert family.samples, name
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == {*row.labels}, name


def is_of(family, row: MetricRow) -> bool:
    """Return whether a family belongs to a row; text of the older format calls an info metric a gauge."""
    names = {row.name, row.name.removesuffix("_total"), f"{row.name}_info" if row.kind is Kind.INFO else row.name}
    kinds = {row.kind.value, *({"gauge"} if row.kind is Kind.INFO else ())}
    return family.name in names and family.type in kinds


def everything():
    """Return a status with a sample of every metric."""
    waits = HeldUp("a transaction hangs", hangs=True)
    stopped = TaskStatus(
        task(3), "active", "stopped", ReplicaProgress(1, 0.5, 2.0, 3), stopped="no space left", waits=waits, paused_ms=1
    )
    return replace(warming(), tasks=(*warming().tasks, stopped))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_names_follow_prometheus_conventions(row):
    assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", row.name)
    assert row.name.startswith(("kafka_", "kstreams_assign"))
    assert row.name.endswith("_total") == (row.kind is Kind.COUNTER)
    assert not re.search(r"(_ms|_millis|_milliseconds|_mb|_kb|_minutes|_percent)(_|$)", row.name)
    assert not row.name.endswith(("_count", "_sum", "_bucket", "_info"))
    for unit in ("seconds", "bytes"):
        assert (row.unit == unit) == row.name.removesuffix("_total").endswith(f"_{unit}")
    assert row.help.endswith(".")
    assert not re.search(r"\bms\b|millisecond", row.help)
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) and label != "le" for label in row.labels)


def test_names_are_unique():
    assert len(METRICS) == len(ROWS)


def test_readings_do_not_share_objects():
    assert samples(settled()) != samples(warming())
    assert samples(settled()) == samples(settled())


def test_a_stopped_task_has_its_own_sample_and_the_client_is_not_running():
    stopped = TaskStatus(task(0), "active", "stopped", None, stopped="no space left", retry_ms=4_000)
    values = samples(settled(tasks=(stopped,)))
    assert values["kstreams_assign_task_stopped", "0_0", "active"] == 1
    assert values["kstreams_assign_tasks", "stopped", "active"] == 1
    assert values["kafka_streams_stream_metrics_client_state",] == 1
    assert not any(name == "kstreams_assign_task_stopped" for name, *_ in samples(settled()))


def test_only_what_is_restored_or_updated_at_this_moment_is_counted_as_that():
    kinds = [
        ("active", "restoring"),
        ("active", "running"),
        ("active", "stopped"),
        ("leaving", "restoring"),
        ("leaving", "running"),
        ("leaving", "tailing"),
        ("standby", "tailing"),
        ("standby", "stopped"),
        ("warmup", "tailing"),
        ("warmup", "queued"),
    ]
    values = samples(settled(tasks=tuple(TaskStatus(task(n), *kind, None) for n, kind in enumerate(kinds))))
    assert values["kafka_streams_stream_state_updater_metrics_active_restoring_tasks",] == 1
    assert values["kafka_streams_stream_state_updater_metrics_standby_updating_tasks",] == 2


def test_a_paused_task_has_its_own_sample_and_no_verdict_changes():
    paused = settled(tasks=(replace(settled().tasks[0], paused_ms=1_500), *settled().tasks[1:]))
    values = samples(paused)
    name = "kstreams_assign_task_paused_timestamp_seconds"
    assert {labels: value for labels, value in values.items() if labels[0] == name} == {(name, "0_0"): 1.5}
    assert {verdict: VERDICTS[verdict](paused) for verdict in VERDICTS} == {
        verdict: VERDICTS[verdict](settled()) for verdict in VERDICTS
    }
