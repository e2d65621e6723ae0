"""A worker that is killed at any time, again and again, costs no order."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.demo.stage import Stage
from kstreams_assign.demo.summary import summarize
from tests.demo.drive import QUICK, all_run, finish, quick, start, turn_for, turn_until

KILLS = 10
SEED = 20


@pytest.mark.timeout(480)
def test_ten_kills_at_any_time_lose_nothing(broker, tmp_path):
    """Any of two workers, at a random moment, started again at once on the state it left; also amid a rebalance."""
    print(f"seed {SEED}")
    draw = Random(SEED)
    with Stage(broker, tmp_path, quick("kill", seed=SEED)) as stage:
        start(stage, "w1", "w2")
        turn_for(stage, 1)
        for _ in range(KILLS):
            victim = draw.choice(["w1", "w2"])
            stage.kill_worker(victim)
            stage.start_worker(victim)
            turn_for(stage, draw.uniform(0, 6))
        turn_until(stage, lambda: all_run(stage) and len(stage.fleet_state.alive) == 2)
        findings = finish(stage)
        assert len(stage.fleet_state.deaths) == KILLS + 2  # and the two that closed in the end
        assert stage.orders_in > 5_000
    assert findings.good, (findings.lost, findings.never_in_output, findings.unknown)
    assert findings.counted == stage.orders_in


def test_a_kill_shows_in_the_summary_with_its_gap_and_its_cause(broker, tmp_path):
    """Standbys take over after the session timeout; until then the group does not notice."""
    session_timeout_ms = 10_000  # so that a busy machine ends none before
    began_ms = monotonic_ms()
    settings = quick("kill-once", worker={**QUICK, "session_timeout_ms": session_timeout_ms})
    with Stage(broker, tmp_path, settings) as stage:
        start(stage, "w1", "w2")
        turn_for(stage, 2)
        lost_tasks = sorted(task for task, owner in stage.fleet_state.owners.items() if owner == "w1")
        stage.kill_worker("w1")
        turn_until(stage, lambda: len(stage.fleet_state.alive) == 1 and all_run(stage))
        findings = finish(stage)
        facts = summarize(
            stage.fleet_state,
            stage.rows(),
            findings,
            broker_version="any",
            seed=settings.seed,
            tasks=settings.partitions,
            orders_in=stage.orders_in,
            acceptable_lag=settings.worker["acceptable_recovery_lag"],
            seconds=0,
        )
    whole_ms = monotonic_ms() - began_ms
    moves = [move for move in facts["moves"] if move["cause"] == "crash"]
    assert sorted(move["task"] for move in moves) == lost_tasks
    assert {(move["from"], move["to"], move["warm"]) for move in moves} == {("w1", "w2", True)}
    assert all(session_timeout_ms * 0.5 < move["gap_ms"] < whole_ms for move in moves), moves
    assert (facts["lost"], facts["adopted"]) == (0, 6 + len(lost_tasks))
