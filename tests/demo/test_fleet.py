"""Worker processes: read, commanded, stopped, killed, and never left behind."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from kstreams_assign.demo.fleet import Fleet

COMMAND = (sys.executable, str(Path(__file__).with_name("scripted_worker.py")))
WITHIN_S = 60


@pytest.fixture
def fleet(tmp_path):
    with Fleet(COMMAND, tmp_path) as running:
        yield running


def hear(fleet: Fleet, kind: str, count: int = 1):
    """All events until ``count`` of a kind have come."""
    events = []
    deadline = time.monotonic() + WITHIN_S
    while sum(event["event"] == kind for event in events) < count:
        assert time.monotonic() < deadline, events
        events += fleet.heard(0.1)
    return events


def test_events_come_with_the_workers_name_between_started_and_exited(fleet):
    fleet.start("w1", ["--fail"])
    events = hear(fleet, "exited")
    assert [event["event"] for event in events] == ["started", "said", "said", "exited"]
    assert {event["worker"] for event in events} == {"w1"}
    assert events[1]["arguments"] == ["--name", "w1", "--fail"]
    assert events[-1]["status"] == 3


def test_a_kill_ends_a_worker_at_once_and_a_line_cut_short_is_not_an_event(fleet):
    fleet.start("w1", ["--cut", "--stubborn"])
    events = hear(fleet, "said", 2)
    fleet.kill("w1")
    events += hear(fleet, "exited")
    assert [event["event"] for event in events] == ["started", "said", "said", "exited"]
    assert events[-1]["status"] == -signal.SIGKILL


def test_workers_are_stopped_together_and_a_stubborn_one_is_killed(fleet):
    fleet.start("w1", [])
    fleet.start("w2", ["--stubborn"])
    hear(fleet, "said", 4)
    fleet.stop(["w1", "w2"], 5)
    exits = {event["worker"]: event["status"] for event in hear(fleet, "exited", 2) if event["event"] == "exited"}
    assert exits == {"w1": 0, "w2": -signal.SIGKILL}


def test_a_line_reaches_the_worker_it_is_for(fleet):
    fleet.start("w1", ["--echo"])
    fleet.start("w2", ["--echo"])
    hear(fleet, "said", 4)
    fleet.tell("w2", "rejoin")
    (event,) = hear(fleet, "said")
    assert (event["worker"], event["line"]) == ("w2", "rejoin")


def test_a_worker_can_be_started_again_and_its_standard_error_is_kept(fleet, tmp_path):
    for _ in range(2):
        fleet.start("w1", ["--fail"])
        hear(fleet, "exited")
    assert fleet.log("w1") == tmp_path / "w1.log"
    assert fleet.log("w1").read_text().splitlines() == ["trouble", "trouble"]


def test_the_end_of_the_block_leaves_no_process(tmp_path):
    with Fleet(COMMAND, tmp_path) as fleet:
        fleet.start("w1", ["--stubborn"])
        pid = hear(fleet, "said", 2)[0]["pid"]
    assert not psutil.pid_exists(pid)


def test_a_command_that_does_not_exist_is_an_exit(tmp_path):
    with Fleet(["/nowhere/python"], tmp_path) as fleet:
        fleet.start("w1", [])
        assert hear(fleet, "exited")[-1]["status"] != 0
