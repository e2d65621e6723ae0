"""Real workers on a real broker, asked over HTTP while the group grows; and the sidecar as a program."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign import Config, Subtopology
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.events import AssignedEvent, HttpListeningEvent, RunningEvent
from tests.adapters.confluent_cluster import until as asked_until
from tests.worker.app import PARTITIONS, Running, count
from tests.worker.app import until as until_met

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
WITHIN_S = 90
SETTINGS = {
    "acceptable_recovery_lag": 0,
    "max_warmup_replicas": PARTITIONS,
    "early_probing_floor_ms": 9_000,  # leaves time to look at the worker meanwhile
    "http": "127.0.0.1:0",
}


def ask(port, path):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def port_of(running):
    running.until_event(HttpListeningEvent)
    return int(running.reported(HttpListeningEvent)[0].url.rpartition(":")[2].strip("/"))


def until(running, path, code, pattern=""):
    """Ask after each of its events until the answer matches; return the answer."""
    port, answers = port_of(running), []

    def answered_so(_events):
        answers.append(ask(port, path))
        return answers[-1][0] == code and re.search(pattern, answers[-1][1]) is not None

    running.until(answered_so)
    return json.loads(answers[-1][1])


def started(app, number, **settings):
    running = app.start(number, **SETTINGS, **settings)
    return running, port_of(running)


def test_while_a_newcomer_warms_up_both_workers_report_why_they_may_not_be_scaled(app):
    app.send(WORDS)
    first, old = started(app, 1, application_server="old:80")
    first.until_running(PARTITIONS)
    assert until(first, "/scalable", 200) == {"scalable": True, "reasons": []}
    app.until_counted()
    second, new = started(app, 2, application_server="new:80")
    there = until(first, "/scalable", 503, r"0_\d warms up on new:80.{1,20}lag [\d,]+")
    warming = until(second, "/scalable", 503, r"0_\d warms up on this process.{1,20}lag [\d,]+")
    for answer in (there, warming):
        assert any("a probing rebalance is due in 9 min" in reason for reason in answer["reasons"])
    assert ask(new, "/ready")[0] == ask(old, "/ready")[0] == 200, "warm-ups are no reason to keep anybody away"
    shown = json.loads(ask(old, "/status.json")[1])
    assert [(process["name"], len(process["active"]), len(process["warmup"])) for process in shown["processes"]] == [
        ("this process", PARTITIONS, 0),
        ("new:80", 0, PARTITIONS // 2),
    ]
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    for running in (first, second):
        until(running, "/scalable", 200)
    samples = {family.name: family.samples for family in read_text(ask(old, "/metrics")[1])}
    assert samples["kafka_streams_stream_thread_metrics_process"][0].value == len(WORDS)
    assert samples["kafka_streams_stream_thread_metrics_commit"][0].value >= 1
    assert [sample.labels["task_id"] for sample in samples["kstreams_assign_task_lag"]] == [
        task["task"] for task in json.loads(ask(old, "/tasks")[1])
    ]


def pass_on(task, records):
    for record in records:
        task.emit(f"{record.topic}-out", record.key, record.value)


def test_a_scale_out_that_moves_stateless_tasks_alone_is_soon_over(app):
    """The newcomer warms up replicas that become standbys; no owner changes."""
    stateless = f"{app.name}-clicks"
    ClusterAdmin(app.broker).create_topics({stateless: 6, f"{stateless}-out": 1}, WITHIN_S)
    app.send(WORDS)
    floor_ms = 3_000

    def start(number):
        settings = {**SETTINGS, "early_probing_floor_ms": floor_ms, "num_standby_replicas": 1}
        config = Config(app.name, app.broker, str(app.folder / f"{number}"), session_timeout_ms=30_000, **settings)
        counts = Subtopology(count, [app.name], ["totals"], [f"{app.name}-counts"])
        running = Running(config, [counts, Subtopology(pass_on, [stateless], [], [f"{stateless}-out"])])
        app.workers.append(running)
        return running, port_of(running)

    def scalable(port):
        until_met(lambda: ask(port, "/scalable")[0] == 200)

    _, old = start(1)
    second, new = start(2)
    second.until(lambda events: any(isinstance(e, AssignedEvent) and e.standby for e in events))
    app.until_counted()
    scalable(old)
    scalable(new)
    third, newest = start(3)
    third.until(lambda events: any(isinstance(e, AssignedEvent) and e.warmup for e in events))
    scalable(newest)
    assigned = third.reported(AssignedEvent)
    first_ms, last_ms = (event.time_ms for event in (assigned[0], assigned[-1]))
    assert not assigned[-1].warmup
    assert assigned[-1].standby
    assert {task.partition("_")[0] for task in assigned[-1].active} == {"1"}
    print(f"scalable {last_ms - first_ms} ms after the first assignment")
    assert last_ms - first_ms < floor_ms + 20_000, "the interval is ten minutes"


class AskedAtOnce(Running):
    """A worker that is asked before it joins: it reports its address first."""

    def _hear(self, event):
        if isinstance(event, HttpListeningEvent):
            port = int(event.url.rpartition(":")[2].strip("/"))
            self.at_first = {path: ask(port, path) for path in ("/live", "/ready", "/scalable")}
        super()._hear(event)


def test_a_worker_is_alive_at_once_and_ready_when_its_state_is_restored(app):
    app.send(WORDS)
    config = Config(app.name, app.broker, str(app.folder / "state"), session_timeout_ms=30_000, http="127.0.0.1:0")
    running = AskedAtOnce(config, [Subtopology(count, [app.name], ["totals"], [f"{app.name}-counts"])])
    app.workers.append(running)
    port = port_of(running)
    assert [code for code, _ in running.at_first.values()] == [200, 503, 503]
    assert "has not joined the group yet" in running.at_first["/ready"][1]
    until(running, "/ready", 200)
    assert {(task["role"], task["state"]) for task in json.loads(ask(port, "/tasks")[1])} <= {("active", "running")}
    with socket.create_connection(("127.0.0.1", port)) as hung_up:
        hung_up.sendall(b"GET /status.json HTTP/1.1\r\n\r\n")
    app.until_counted()
    running.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/live")


def test_an_address_that_is_taken_ends_the_worker_with_its_name(app):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = app.start(1, http=f"127.0.0.1:{port}")
        assert f"http = '127.0.0.1:{port}': cannot listen there" in str(running.until_error())


def until_line(process, pattern):
    return next(match for line in process.stderr if (match := re.search(pattern, line)))


def test_the_sidecar_as_a_program_reports_and_serves_its_address_and_leaves_nothing(broker, tmp_path):
    ClusterAdmin(broker).create_topics({"http-orders": 1}, WITHIN_S)
    settings = tmp_path / "worker.toml"
    settings.write_text(
        f'application_id = "http-orders"\nbootstrap_servers = "{broker}"\nstate_dir = "{tmp_path / "state"}"\n'
        f'socket = "{tmp_path / "worker.sock"}"\nhttp = "127.0.0.1:0"\n'
        '[[topology.subtopology]]\nsources = ["http-orders"]\nstores = ["totals"]\n'
    )
    command = [sys.executable, "-m", "kstreams_assign", "worker", "--config", settings]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sidecar:
        try:
            port = int(until_line(sidecar, r"the status page are at .*:(\d+)/")[1])
            until_line(sidecar, "This member runs its 1 active task")
            asked_until(lambda: ask(port, "/ready")[0], lambda code: code == 200)
            assert [(task["task"], task["state"]) for task in json.loads(ask(port, "/tasks")[1])] == [
                ("0_0", "running")
            ]
            sidecar.send_signal(signal.SIGINT)
            assert sidecar.wait(WITHIN_S) == 0
        finally:
            sidecar.kill()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/live")


def test_metrics_move_as_records_flow(app):
    running, port = started(app, 1)
    running.until_running(PARTITIONS)
    app.send(WORDS)
    app.until_counted()
    app.until_committed()
    before = metrics_of(port)
    total = "kafka_streams_stream_topic_metrics_records"
    assert sum_of(before, f"{total}_consumed_total") == len(WORDS)
    assert {labels["topic_name"] for labels, _ in before[f"{total}_consumed_total"]} == {app.name}
    until_met(lambda: sum_of(metrics_of(port), f"{total}_produced_total") == len(WORDS))
    assert sum_of(before, "kstreams_assign_rebalance_duration_seconds_count") == 1
    assert 0 < sum_of(before, "kstreams_assign_rebalance_duration_seconds_sum") < WITHIN_S
    app.send(WORDS[:500])
    app.until_counted()
    app.until_committed()
    after = metrics_of(port)
    assert sum_of(after, f"{total}_consumed_total") == len(WORDS) + 500
    commits = "kstreams_assign_commit_duration_seconds_count"
    until_met(lambda: sum_of(metrics_of(port), commits) > sum_of(before, commits))
    until_met(lambda: sum_of(metrics_of(port), "kstreams_assign_task_state_bytes") > 0)
    assert sum_of(after, "kstreams_assign_commit_failures_total") == 0
    (info, _), *_ = after["kstreams_assign_info"]
    assert info["application_id"] == app.name


def test_restored_records_and_a_standbys_records_are_counted(app):
    app.send(WORDS)
    first, _ = started(app, 1)
    first.until_running(PARTITIONS)
    app.until_counted()
    first.stop()
    second, port = started(app, 2)  # an empty state directory
    second.until_running(PARTITIONS)
    restored = sum(event.restored for event in second.reported(RunningEvent))
    assert restored >= len({*WORDS})
    assert sum_of(metrics_of(port), "kafka_streams_stream_task_metrics_restore_total") == restored
    _, standby = started(app, 3, num_standby_replicas=1)
    until_met(lambda: sum_of(metrics_of(standby), "kafka_streams_stream_task_metrics_update_total") > 0)


def metrics_of(port):
    """Return the samples of each name: labels and value."""
    samples = {}
    for family in read_text(ask(port, "/metrics")[1]):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def sum_of(metrics, name):
    return sum(value for _, value in metrics.get(name, []))
