"""The check that nothing is lost can fail: with a flush that is skipped on purpose it does."""

from __future__ import annotations

import sys
from pathlib import Path

from kstreams_assign.demo.fleet import WORKER_COMMAND
from kstreams_assign.demo.stage import Stage
from tests.demo.drive import all_run, finish, quick, start, turn_for, turn_until

LEAKY_COMMAND = (sys.executable, str(Path(__file__).with_name("leaky_worker.py")))


UNSENT = 500


def unsent(stage, worker):
    """Records that a worker has processed, and most of them committed, but not let out."""
    seen = sum(row.process == worker for row in stage.rows())
    return stage.fleet_state.workers[worker].records_total - seen


def findings_after_a_kill(broker, folder, name, command, moment):
    with Stage(broker, folder, quick(name), command) as stage:
        start(stage, "w1", "w2")
        turn_for(stage, 3)
        turn_until(stage, lambda: moment(stage))
        stage.kill_worker("w1")
        turn_until(stage, lambda: len(stage.fleet_state.alive) == 1 and all_run(stage))
        return finish(stage), stage.orders_in


def test_a_kill_of_a_worker_that_flushes_loses_nothing(broker, tmp_path):
    findings, orders_in = findings_after_a_kill(broker, tmp_path, "flushing", WORKER_COMMAND, lambda _stage: True)
    assert findings.good
    assert (findings.counted, findings.lost) == (orders_in, ())


def test_a_kill_of_a_worker_that_skips_the_flush_loses_orders_and_the_check_says_so(broker, tmp_path):
    findings, orders_in = findings_after_a_kill(
        broker, tmp_path, "leaking", LEAKY_COMMAND, lambda stage: unsent(stage, "w1") > UNSENT
    )
    assert findings.lost
    assert not findings.good
    assert findings.counted == orders_in - len(findings.lost)
