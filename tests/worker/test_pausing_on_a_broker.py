"""Tasks are paused on a real broker: records pile up, the pause survives a kill and a move, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import ConfigError, TaskId, TaskNotLocal
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import RunningEvent, TaskPausedEvent
from kstreams_assign.worker.locating import partition_of
from tests.worker.app import PARTITIONS, PATIENCE_S, App, until
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.process import Process

WORDS = [b"word-%d" % number for number in range(40)]


def command(app: App, number: int, *words: str) -> tuple[int, str, str]:
    """Run ``kstreams-assign``; return exit status, output and errors."""
    place = ["--application-id", app.name, "--state-dir", str(app.folder / f"state-{number}")]
    asked = subprocess.run(
        [sys.executable, "-m", "kstreams_assign", *words, *place],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return asked.returncode, asked.stdout, asked.stderr


def paused_in_inspect(app: App) -> list[str]:
    """Return the paused tasks as ``inspect`` finds them at the brokers."""
    words = [sys.executable, "-m", "kstreams_assign", "inspect", app.name, "-b", app.broker, "--json"]
    return list(json.loads(subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=True).stdout)["paused"])


def of_partition(words: Sequence[bytes], number: int) -> Counter[bytes]:
    return Counter(word for word in words if partition_of(word, PARTITIONS) == number)


def counted(app: App) -> Counter[bytes]:
    """Return how many outputs each word has."""
    return Counter(key or b"" for key, _ in committed_outputs(app))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_pause_survives_a_kill_and_a_move_and_each_output_comes_once(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    app = App(broker, f"pause-{guarantee.replace('_', '-')}", tmp_path)
    settings: dict[str, Any] = {"processing_guarantee": guarantee, "session_timeout_ms": 6_000}
    process = Process(app, 1, **settings)
    try:
        process.until_running(PARTITIONS)
        app.send(WORDS)
        until(lambda: counted(app) == Counter(WORDS))
        assert paused_in_inspect(app) == []
        assert command(app, 1, "pause", "0_0") == (0, "0_0 paused\n", "")
        assert paused_in_inspect(app) == ["0_0"]
        app.send(WORDS)
        rest = Counter(WORDS) + Counter(WORDS) - of_partition(WORDS, 0)
        until(lambda: counted(app) == rest)
        status, output, errors = command(app, 1, "pause", "--json")  # so that a kill cannot repeat anything
        assert (status, json.loads(output), errors) == (0, {"paused": [f"0_{n}" for n in range(PARTITIONS)]}, "")
        process.kill()

        process = Process(app, 2, **settings)
        process.until(lambda _: len(process.named("task_paused")) == PARTITIONS)
        assert command(app, 2, "resume", *(f"0_{n}" for n in range(1, PARTITIONS)))[0] == 0
        assert paused_in_inspect(app) == ["0_0"]
        app.send(WORDS)
        rest = Counter([*WORDS, *WORDS, *WORDS]) - of_partition([*WORDS, *WORDS], 0)
        until(lambda: counted(app) == rest)
        assert command(app, 2, "resume", "0") == (0, "".join(f"0_{n} resumed\n" for n in range(PARTITIONS)), "")
        app.until_counted(read_committed=guarantee == "exactly_once_v2")
    finally:
        assert process.close() == 0
        app.stop()
    assert committed_outputs(app) == each_once(app)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_task_stays_paused_when_it_moves_to_a_new_member_and_back(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    app = App(broker, f"pause-moves-{guarantee.replace('_', '-')}", tmp_path)
    try:
        first = app.start(1, processing_guarantee=guarantee)
        first.until_running(PARTITIONS)
        everything = tuple(TaskId(0, number) for number in range(PARTITIONS))
        assert first.worker.pause() == everything  # no offset was committed before
        second = app.start(2, processing_guarantee=guarantee, application_server="second:1")
        second.until(lambda _: bool(second.reported(RunningEvent)))
        second.until(lambda _: len(second.reported(TaskPausedEvent)) == len(second.reported(RunningEvent)))
        app.send(WORDS)
        until(lambda: {*first.worker.paused(), *second.worker.paused()} == {*everything})
        [moved, *_] = second.worker.paused()
        with pytest.raises(TaskNotLocal, match=f"task {moved} does not run in this process; active: second:1"):
            first.worker.resume(moved)
        with pytest.raises(ConfigError, match="subtopology = 1: must be from 0 to 0"):
            first.worker.resume("1")
        assert second.worker.resume(str(moved)) == (moved,)
        until(lambda: counted(app) == of_partition(WORDS, moved.partition))
        second.stop()
        first.until_running(PARTITIONS)
        until(lambda: first.worker.paused().keys() == {*everything} - {moved})
        assert counted(app) == of_partition(WORDS, moved.partition)
        first.worker.resume()
        app.until_counted(read_committed=guarantee == "exactly_once_v2")
    finally:
        app.stop()
    assert committed_outputs(app) == each_once(app)


def test_a_command_for_nobody_is_refused(tmp_path: Path, broker: str) -> None:
    app = App(broker, "pause-nobody", tmp_path)
    worker = app.start(1)
    worker.until_running(PARTITIONS)
    status, output, errors = command(app, 1, "pause", "0_9")
    assert (status, output) == (1, "")
    assert "task 0_9 does not run in this process; active: unknown" in errors
    assert command(app, 1, "pause", "7")[0] == 2
    assert command(app, 1, "pause", "x")[0] == 2
    app.stop()
    status, _, errors = command(app, 1, "resume")
    assert status == 1
    assert "no worker of 'pause-nobody' runs on state_dir" in errors
