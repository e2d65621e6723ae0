"""The check that nothing is lost can fail: with a flush that is skipped on purpose it does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kstreams_assign.demo.fleet import WORKER_COMMAND
from kstreams_assign.demo.stage import Stage
from tests.demo.drive import all_run, finish, quick, start, turn_for, turn_until

LEAKY_COMMAND = (sys.executable, str(Path(__file__).with_name("leaky_worker.py")))


def findings_after_a_kill(broker, folder, name, command):
    with Stage(broker, folder, quick(name), command) as stage:
        start(stage, "w1", "w2")
        turn_for(stage, 3)
        stage.kill_worker("w1")
        turn_until(stage, lambda: len(stage.board.alive) == 1 and all_run(stage))
        return finish(stage), stage.orders_in


@pytest.mark.parametrize(
    ("name", "command", "loses"),
    [("flushing", WORKER_COMMAND, False), ("leaking", LEAKY_COMMAND, True)],
    ids=["a worker that flushes", "a worker that skips the flush"],
)
def test_a_kill_loses_orders_exactly_where_the_flush_is_skipped(broker, tmp_path, name, command, loses):
    found, orders_in = findings_after_a_kill(broker, tmp_path, name, command)
    assert bool(found.lost) is loses
    assert found.good is not loses
    assert found.counted == orders_in - len(found.lost)
