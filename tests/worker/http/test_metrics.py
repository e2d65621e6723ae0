"""The metrics, read by Prometheus' own parsers."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign.group.member import State
from kstreams_assign.worker.http import metrics
from kstreams_assign.worker.http.metrics import client_state, exposition
from kstreams_assign.worker.http.status import ReplicaProgress, TaskStatus
from tests.worker.http.statuses import NOW_MS, settled, task, warming

READERS = {
    "": read_text,
    "application/openmetrics-text;version=1.0.0": read_open_metrics,
    # as Prometheus 3 asks
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;q=0.5": read_open_metrics,
}


def samples(status, accept=""):
    """Name and labels -> value."""
    body, _ = exposition(status, accept)
    families = READERS[accept](body.decode())
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels, reverse=True))): one.value
        for family in families
        for one in family.samples
    }


@pytest.mark.parametrize("accept", READERS)
def test_both_formats_say_what_the_status_says(accept):
    found = samples(warming(), accept)
    assert found["kafka_streams_stream_thread_metrics_process_total",] == 123_456
    assert found["kafka_streams_stream_thread_metrics_commit_total",] == 1_234
    assert found["kstreams_assign_transactions_aborted_total",] == 3
    assert found["kafka_streams_stream_metrics_client_state",] == 2
    assert found["kafka_streams_stream_state_updater_metrics_standby_updating_tasks",] == 1
    assert found["kafka_streams_stream_task_metrics_restore_remaining_records", "0_0"] == 0
    assert found["kafka_streams_stream_task_metrics_update_rate", "0_2"] == 40
    assert found["kafka_streams_stream_state_updater_metrics_restore_records_rate",] == 40
    assert (found["kstreams_assign_ready",], found["kstreams_assign_scalable",]) == (1, 0)
    assert found["kstreams_assign_group_warmups",] == 2
    assert found["kstreams_assign_next_probe_timestamp_seconds",] == NOW_MS / 1000 + 552
    assert found["kstreams_assign_task_lag", "0_2", "standby"] == 12
    assert found["kstreams_assign_task_restore_rate", "0_2", "standby"] == 40
    assert found["kstreams_assign_task_restore_seconds_left", "0_2", "standby"] == 0.3
    assert found["kstreams_assign_tasks", "running", "active"] == 2
    assert found["kstreams_assign_input_lag", "orders", "1"] == 250


def test_what_is_not_known_is_left_out_and_not_made_up():
    found = samples(settled(generation=None, tasks=(TaskStatus(task(0), "active", "restoring", None),)))
    names = {name for name, *_ in found}
    assert not names & {"kstreams_assign_generation", "kstreams_assign_next_probe_timestamp_seconds"}
    assert not names & {"kstreams_assign_task_lag", "kafka_streams_stream_task_metrics_restore_remaining_records"}
    assert found["kafka_streams_stream_state_updater_metrics_active_restoring_tasks",] == 1


def test_what_is_restored_has_its_rate_under_kafkas_name():
    restoring = TaskStatus(task(0), "active", "restoring", ReplicaProgress(1_000, 0.5, 250.0, 4_000))
    found = samples(settled(tasks=(restoring, *settled().tasks[1:])))
    assert found["kafka_streams_stream_task_metrics_restore_rate", "0_0"] == 250
    assert found["kafka_streams_stream_state_updater_metrics_restore_records_rate",] == 290
    assert ("kafka_streams_stream_task_metrics_restore_rate", "0_2") not in found


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


def test_every_name_stands_in_the_list_that_the_module_opens_with():
    body, _ = exposition(warming(), "")
    prefixes = ("kafka_streams_stream_thread_metrics", "kafka_streams_stream_state_updater_metrics", "kstreams_assign")
    listed = metrics.__doc__.replace("``...", "``")
    for family in read_text(body.decode()):
        short = next((family.name.removeprefix(prefix) for prefix in prefixes if family.name.startswith(prefix)), "")
        assert family.name in listed or f"``{short}" in listed, family.name


def test_readings_share_nothing():
    assert samples(settled()) != samples(warming())
    assert samples(settled()) == samples(settled())


def test_a_stopped_task_is_a_sample_of_its_own_and_keeps_the_client_from_running():
    stopped = TaskStatus(task(0), "active", "stopped", None, stopped="no space left", retry_ms=4_000)
    found = samples(settled(tasks=(stopped,)))
    assert found["kstreams_assign_task_stopped", "0_0", "active"] == 1
    assert found["kstreams_assign_tasks", "stopped", "active"] == 1
    assert found["kafka_streams_stream_metrics_client_state",] == 1
    assert not any(name == "kstreams_assign_task_stopped" for name, *_ in samples(settled()))
