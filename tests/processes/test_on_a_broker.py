"""``kstreams-assign run`` with two processes on a real broker: restarts, ends, and the endpoint for both."""

from __future__ import annotations

import json
import signal

import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign.errors import ShutdownRequested
from tests.processes.supervised import WITHIN_S, Supervised
from tests.worker.app import PARTITIONS

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own


def test_two_processes_share_the_tasks_and_one_that_is_killed_comes_back(app, track):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2", worker="worker", application_server="here:7000"))
    spread = supervised.until_spread(PARTITIONS)
    assert sorted(path.name for path in (app.folder / "state").iterdir()) == ["0", "1"]
    assert [process["status"]["endpoint"] for process in spread["processes"]] == ["here:7000", "here:7001"]
    app.until_counted()
    app.until_committed()  # what a kill finds between changelog and offsets is counted twice
    psutil.Process(spread["processes"][1]["pid"]).kill()
    supervised.until_line(r"Process 1 was ended by SIGKILL; it is started again in 1 s")
    again = supervised.until_status(lambda status: status["processes"][1]["restarts"] == 1 and settled(status))
    assert again["processes"][1]["pid"] != spread["processes"][1]["pid"]
    ids = [{p["process"]: p["status"]["process_id"] for p in status["processes"]} for status in (spread, again)]
    assert ids[0] == ids[1], "it has its state directory again"
    app.send(WORDS)
    app.until_counted()
    children = supervised.children()
    assert supervised.end() == 0, supervised.lines
    assert len(children) == 2
    assert [child for child in children if child.is_running()] == []
    assert {"[0]", "[1]"} <= {line.split(" ")[0] for line in supervised.lines}
    closed = [line for line in supervised.lines if line.endswith("This worker is closed.")]
    assert sorted(line[:3] for line in closed) == ["[0]", "[1]"]


def settled(status) -> bool:
    statuses = [process["status"] for process in status["processes"]]
    return all(own and own["tasks"] and own["verdicts"]["ready"]["ready"] for own in statuses)


def test_the_endpoint_answers_for_both(app, track):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2"))
    supervised.until_spread(PARTITIONS)
    supervised.until_status(lambda status: status["verdicts"]["scalable"]["scalable"])
    assert supervised.ask("/ready") == (200, '{"ready": true, "reasons": []}\n')
    tasks = json.loads(supervised.ask("/tasks")[1])
    assert {task["process"] for task in tasks} == {0, 1}
    assert len(tasks) == PARTITIONS
    for accept, read in (("", read_text), ("application/openmetrics-text", read_open_metrics)):
        _, text = supervised.ask("/metrics", accept)
        families = {family.name: family for family in read(text)}
        live = {sample.labels["process"]: sample.value for sample in families["kstreams_assign_live"].samples}
        assert live == {"0": 1, "1": 1}
        assert [line for line in text.splitlines() if line.startswith("# TYPE kstreams_assign_live ")] == [
            "# TYPE kstreams_assign_live gauge"
        ]
        states = {s.labels["state"]: s.value for s in families["kstreams_assign_processes"].samples}
        assert states == {"running": 2}
    code, page = supervised.ask("/")
    assert code == 200
    assert 'href="processes/1/"' in page
    assert supervised.ask("/processes/1/")[0] == 200
    assert json.loads(supervised.ask("/processes/1/status.json")[1])["state"] == "stable"
    assert supervised.ask("/processes/2/")[0] == 404
    assert supervised.end(signal.SIGINT) == 0


def test_children_of_a_killed_supervisor_close_in_order_and_end(app, track):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2"))
    supervised.until_spread(PARTITIONS)
    children = supervised.children()
    assert len(children) == 2
    supervised.popen.kill()
    _ended, left = psutil.wait_procs(children, WITHIN_S)
    assert left == []
    assert supervised.wait() == -signal.SIGKILL
    next_one = track(Supervised.counting(app, "--processes", "2"))
    next_one.until_spread(PARTITIONS)
    assert next_one.end() == 0
    assert not any("predecessor" in line for line in next_one.lines), "its members had left the group"


def test_a_process_that_is_closed_alone_stays_closed_and_the_other_takes_over(app, track):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2"))
    spread = supervised.until_spread(PARTITIONS)
    psutil.Process(spread["processes"][0]["pid"]).send_signal(signal.SIGUSR1)
    supervised.until_line(r"Process 0 has ended, as it was closed or drained on its own; it is not started again\.")
    status = supervised.until_status(lambda status: len(status["processes"][1]["status"]["tasks"]) == PARTITIONS)
    assert [process["state"] for process in status["processes"]] == ["ended", "running"]
    supervised.until_status(lambda status: status["verdicts"]["ready"]["ready"])
    assert supervised.end() == 0


@pytest.mark.parametrize("way", ["--drain", "SIGUSR1"])
def test_a_drain_moves_the_tasks_to_another_machine_first(app, track, way):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2", *(["--drain"] if way == "--drain" else [])))
    supervised.until_spread(PARTITIONS)
    other = app.start(9)
    other.until_running(1)
    assert supervised.end(signal.SIGTERM if way == "--drain" else signal.SIGUSR1) == 0
    assert not any("leaves without warming" in line for line in supervised.lines)
    other.until_running(PARTITIONS)


def test_a_shutdown_of_the_whole_application_ends_all_with_exit_status_1_and_no_restart(app, track):
    app.send(WORDS)
    supervised = track(Supervised.counting(app, "--processes", "2", "--json-log", "--log-level", "info"))
    supervised.until_spread(PARTITIONS)
    other = app.start(9)
    other.until_running(1)
    other.worker.shut_application_down()
    assert supervised.wait() == 1
    assert isinstance(other.until_error(), ShutdownRequested)
    assert sum(line.startswith("kstreams-assign: ") for line in supervised.lines) == 1
    events = [json.loads(line) for line in supervised.lines if line.startswith("{")]
    assert [event["event"] for event in events].count("process_started") == 2
    assert {event["process"] for event in events if event["event"] == "closed"} == {0, 1}


def test_processes_that_end_for_a_restart_are_back_with_all_they_had(app, track):
    app.send(WORDS)
    first = track(Supervised.counting(app, "--processes", "2", "--restart"))
    first.until_spread(PARTITIONS)
    app.until_counted()
    assert first.end() == 0, first.lines
    assert sum("This process leaves the group for a restart" in line for line in first.lines) == 2
    again = track(Supervised.counting(app, "--processes", "2", "--restart"))
    again.until_spread(PARTITIONS)
    app.send(WORDS)
    app.until_counted()
