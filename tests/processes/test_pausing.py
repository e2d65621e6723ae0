"""``kstreams-assign pause`` reaches each of a supervisor's processes, and the endpoint shows what waits."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.processes.supervised import WITHIN_S, Supervised
from tests.worker.app import PARTITIONS, App

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
ALL = {f"0_{number}" for number in range(PARTITIONS)}
pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own


def command(app: App, *words: str) -> tuple[int, str, str]:
    place = ["--application-id", app.name, "--state-dir", str(app.folder / "state")]
    asked = subprocess.run(
        [sys.executable, "-m", "kstreams_assign", *words, *place],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return asked.returncode, asked.stdout, asked.stderr


def test_a_subtopology_pauses_in_all_processes_and_a_task_in_its_own(app, track):
    supervised = track(Supervised.counting(app, "--processes", "2"))
    supervised.until_spread(PARTITIONS)
    status, output, errors = command(app, "pause", "0", "--json")
    assert (status, {*json.loads(output)["paused"]}, errors) == (0, ALL, "")
    for task in sorted(ALL)[:2]:
        assert command(app, "resume", task) == (0, f"{task} resumed\n", "")
    app.send(WORDS)

    def piles_up(status) -> bool:
        tasks = [task for process in status["processes"] for task in process["status"]["tasks"]]
        waiting = {task["task"] for task in tasks if task["input_lag"]}
        paused = {task["task"] for task in tasks if task["paused_since_ms"] is not None}
        return waiting == paused == {*sorted(ALL)[2:]} and status["verdicts"]["ready"]["ready"]

    supervised.until_status(piles_up)
    assert "kstreams_assign_task_paused_timestamp_seconds{" in supervised.ask("/metrics")[1]
    status, _, errors = command(app, "resume", "0_9")
    assert status == 1
    assert errors.count("task 0_9 does not run in this process") == 1
    assert command(app, "resume")[0] == 0
    app.until_counted()
    assert supervised.end() == 0
