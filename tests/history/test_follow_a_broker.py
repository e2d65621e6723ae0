"""Following a real broker: what the tables say of a group is what its members themselves have logged."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from subprocess import PIPE
from urllib.request import urlopen

import psutil
import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.events import AssignedEvent, DecisionEvent
from kstreams_assign.history.follow import Settings, following
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.live import Asked, source_of
from kstreams_assign.history.sampling import Sampler
from kstreams_assign.history.source import TOPIC, Broker
from kstreams_assign.local import LocalBroker
from tests.history.play import table_rows
from tests.java.streams_app import streams_app
from tests.worker.app import PARTITIONS, App

SEVERAL_WAITS = pytest.mark.timeout(500)  # each with a limit of its own, and Spark may have to start
SESSION_MS = 30_000
"""Members that stop leave the group; a long timeout keeps a busy machine from adding a rebalance."""


@pytest.fixture
def app(broker, tmp_path):
    groups = App(broker, "history-agrees", tmp_path)
    groups.send([b"word-%d" % (n % 97) for n in range(1_000)])
    yield groups
    groups.stop()


def scale_out_and_in(app):
    """One worker, a second one, and the first alone again; answers with what all of them logged."""
    settings = {"num_standby_replicas": 1, "acceptable_recovery_lag": 10_000, "session_timeout_ms": SESSION_MS}
    first = app.start(1, **settings)
    first.until_running(PARTITIONS)
    second = app.start(2, **settings)
    second.until_running(PARTITIONS // 2)
    first.until_running(PARTITIONS // 2)
    second.stop()
    first.until_running(PARTITIONS)
    first.stop()
    return [*first.events, *second.events]


def group_rows(layout, table, group):
    return [row for row in table_rows(layout.root / table) if row["group"] == group]


@SEVERAL_WAITS
def test_the_tables_agree_with_what_the_members_logged(broker, spark, app, tmp_path):
    layout = Layout(tmp_path / "out")
    admin = ClusterAdmin(broker)
    source = Broker(broker, partitions=admin.topics(60).get(TOPIC, 5))
    with following(
        spark, source, layout, Settings(every_s=0.5, tasks=2), sampler=Sampler(admin, timeout_s=60)
    ) as query:
        events = scale_out_and_in(app)
        query.processAllAvailable()

    rebalances = group_rows(layout, "rebalances", app.name)
    stable = {row["generation"]: row for row in rebalances if row["state"] == "stable"}
    logged = [event for event in events if isinstance(event, AssignedEvent)]
    decided = [event for event in events if isinstance(event, DecisionEvent)]
    # The tables also hold generations that ended before any member got its assignment.
    assert stable.keys() >= {event.generation for event in logged}
    assert len(stable) == len(decided)

    placed = defaultdict(set)
    for row in group_rows(layout, "task_placements", app.name):
        placed[row["generation"], row["process_id"], row["role"]].add(row["task"])
    for event in logged:
        for role in ("active", "standby", "warmup"):
            assert placed[event.generation, event.process_id, role] == set(getattr(event, role)), event

    stated = [stable[generation] for generation in sorted(stable)]
    decided.sort(key=lambda event: event.time_ms)
    assert [row["leader_process"] for row in stated] == [event.process_id for event in decided]
    heard = {(event.process_id, event.generation) for event in logged}
    for before, row, decision in zip(stated, stated[1:], decided[1:], strict=False):
        if (row["leader_process"], before["generation"]) in heard:  # else it decided the one before once more
            assert (row["cause"] == "follow_up") == (decision.kind == "follow_up"), (row, decision)
    causes = [row["cause"] for row in stated]
    assert causes[0] == "first"
    assert {"join", "leave"} <= {*causes}
    assert sum(row["owner_changes"] or 0 for row in stated) == sum(len(event.changed) for event in decided)
    assert sum(row["adopted"] or 0 for row in stated[1:]) == PARTITIONS // 2
    sampled = group_rows(layout, "end_offsets", app.name)
    assert {(row["topic"], row["partition"]) for row in sampled} == {
        (f"{app.name}-totals-changelog", partition) for partition in range(PARTITIONS)
    }


@contextmanager
def followed(broker, out):
    """``history follow`` as a process of its own, past its first batch."""
    command = [sys.executable, "-m", "kstreams_assign", "history", "follow", "-b", broker, "--out", str(out)]
    quick = [
        "--every",
        "0.5",
        "--master",
        "local[1]",
        "--conf",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
    ]
    with subprocess.Popen([*command, *quick], stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr.readline().startswith("starting Spark")
            assert running.stderr.readline().startswith("reading ")
            lines = iter(running.stderr.readline, "")
            assert next(line for line in lines if "still working on batch 0" not in line).startswith("batch 0: ")
            yield running
        finally:
            running.kill()


def interrupt(running):
    """Ctrl-C: it ends in order, and so does what it has started."""
    children = psutil.Process(running.pid).children(recursive=True)
    os.kill(running.pid, signal.SIGINT)
    rest = running.stderr.read()
    assert running.wait(90) == 130, rest
    assert rest.splitlines()[-1].startswith("interrupted; nothing is left running")
    assert "Traceback" not in rest
    assert len(children) > 0
    assert psutil.wait_procs(children, timeout=90)[1] == []


A_SPARK_OF_ITS_OWN = pytest.mark.timeout(500)  # half a minute, and on a busy machine two


@A_SPARK_OF_ITS_OWN
def test_ctrl_c_ends_it_with_everything_that_it_started(broker, app, tmp_path):
    app.start(1).until_running(PARTITIONS)
    with followed(broker, tmp_path / "o") as running:
        interrupt(running)


@A_SPARK_OF_ITS_OWN
def test_ctrl_c_ends_it_also_where_no_broker_answers_any_more(tmp_path):
    with ExitStack() as ends, LocalBroker() as lost:
        app = App(lost.bootstrap_servers, "history-alone", tmp_path)
        app.start(1).until_running(PARTITIONS)
        app.stop()
        running = ends.enter_context(followed(lost.bootstrap_servers, tmp_path / "o"))
        lost.kill()
        interrupt(running)


@A_SPARK_OF_ITS_OWN
def test_batches_are_bounded_and_the_lag_shrinks_to_nothing_in_lines_and_metrics(tmp_path):
    with LocalBroker() as broker, ExitStack() as ends:
        app = App(broker.bootstrap_servers, "history-lag", tmp_path)
        app.start(1).until_running(PARTITIONS)
        app.stop()
        options = ["--records-a-batch", "1", "--every", "0.1", "--http", "127.0.0.1:0", "--json-log"]
        command = [sys.executable, "-m", "kstreams_assign", "history", "follow", "-b", broker.bootstrap_servers]
        command += ["--out", str(tmp_path / "o"), "--master", "local[1]", *options]
        running = ends.enter_context(subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True))
        ends.callback(running.kill)
        batches, lags = [], []
        while not lags or lags[-1]["offsets"]:
            line = json.loads(running.stdout.readline())
            (batches if line["event"] == "history_batch" else lags).append(line)
        url = next(line for line in running.stderr if line.startswith("metrics at ")).split()[-1]
        with urlopen(url) as reply:
            text = reply.read().decode()
        interrupt(running)
    assert len(batches) > 1
    assert {line["records"] for line in batches} <= {0, 1}, "an offset may be of a marker"
    assert lags[0]["offsets"] > 0
    assert [line["offsets"] for line in lags] == sorted((line["offsets"] for line in lags), reverse=True)
    assert f"kstreams_assign_history_records_total {float(sum(line['records'] for line in batches))}\n" in text
    assert "kstreams_assign_history_lag 0.0\n" in text
    assert "kstreams_assign_history_lag_seconds 0.0\n" in text


def test_brokers_that_do_not_answer_are_reported_before_spark_starts(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        unread = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BrokerUnavailable):
            source_of(Asked(tmp_path, bootstrap_servers=unread, timeout_s=0.5))


def test_a_cluster_without_groups_is_reported(tmp_path):
    with (
        LocalBroker() as fresh,
        pytest.raises(BrokerError, match=f"shows no topic {TOPIC}: no group has ever committed"),
    ):
        source_of(Asked(tmp_path, bootstrap_servers=fresh.bootstrap_servers, settings=Settings(once=True)))


def last_placements(layout, group):
    """Role -> the sets of tasks that processes have in the group's last generation, as text."""
    rows = group_rows(layout, "task_placements", group)
    last = max(row["generation"] for row in rows)
    held = defaultdict(set)
    for row in rows:
        if row["generation"] == last:
            held[row["role"], row["process_id"]].add(row["task"])
    return {role: sorted(sorted(tasks) for (own, _), tasks in held.items() if own == role) for role, _ in held}


@SEVERAL_WAITS
@pytest.mark.usefixtures("java_peer")
def test_the_tables_agree_with_what_instances_of_java_run(broker, spark, tmp_path):
    layout, admin, group = Layout(tmp_path / "out"), ClusterAdmin(broker), "history-java"
    admin.create_topics({"history-java-in": 4}, 60)
    settings = {"internal.leave.group.on.close": "true", "session.timeout.ms": SESSION_MS}
    source = Broker(broker, partitions=admin.topics(60).get(TOPIC, 5))
    with (
        following(spark, source, layout, Settings(every_s=0.5, tasks=2), sampler=Sampler(admin, timeout_s=60)) as query,
        streams_app(broker, group, tmp_path / "1", ["history-java-in"], 1, settings) as first,
    ):
        first.until_tasks(active=4)
        with streams_app(broker, group, tmp_path / "2", ["history-java-in"], 1, settings) as second:
            for instance in (first, second):
                instance.until_tasks(active=2, standby=2)
            query.processAllAvailable()
            assert last_placements(layout, group) == {
                "active": sorted([sorted(first.active), sorted(second.active)]),
                "standby": sorted([sorted(first.standby), sorted(second.standby)]),
            }
        first.until_tasks(active=4)
        query.processAllAvailable()
        assert last_placements(layout, group) == {"active": [sorted(first.active)]}
    stated = sorted(group_rows(layout, "rebalances", group), key=lambda row: row["generation"])
    causes = [row["cause"] for row in stated]
    assert causes[0] == "first"
    assert {"join", "leave"} <= {*causes}
    assert {row["assignor"] for row in stated} == {None}, "a Java leader does not say"
    assert {row["warmup_known"] for row in group_rows(layout, "task_placements", group)} == {False}
