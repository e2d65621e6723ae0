"""Rebalances without a fault cost nothing at all: no refused commit, no lost order, none that is processed twice."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest

from kstreams_assign.demo.stage import Stage
from kstreams_assign.demo.worker import REJOIN
from tests.demo.drive import QUICK, all_run, finish, quick, start, turn_until

REBALANCES = 100
SEED = 5
PATIENT = quick("rebalances", seed=SEED, worker={**QUICK, "session_timeout_ms": 30_000})
"""No worker is killed, and a busy machine is no reason to lose a membership."""


@pytest.mark.timeout(480)
def test_a_hundred_rebalances_are_free_of_charge(broker, tmp_path):
    """Members ask to rejoin, and every tenth time a third worker comes or leaves in order, so that tasks move."""
    print(f"seed {SEED}")
    draw = Random(SEED)
    with Stage(broker, tmp_path, PATIENT) as stage:
        start(stage, "w1", "w2")
        while len(stage.fleet_state.rebalances) < REBALANCES:
            before = len(stage.fleet_state.decisions)
            if draw.random() < 0.1:
                come_or_go(stage, "w3")
            else:
                stage.tell_worker(draw.choice(["w1", "w2"]), REJOIN)
            turn_until(stage, partial(decided_again, stage, before))
        findings = finish(stage)
    counts = Counter(row.order_id for row in stage.rows())
    assert findings == (stage.orders_in, (), (), (), ())
    assert [order for order, times in counts.items() if times > 1] == []
    assert {kind: stage.fleet_state.counts[kind] for kind in ("commit_refused", "lost", "delivery_failed")} == {
        "commit_refused": 0,
        "lost": 0,
        "delivery_failed": 0,
    }


def decided_again(stage: Stage, decisions_before: int) -> bool:
    return len(stage.fleet_state.decisions) > decisions_before and all_run(stage)


def come_or_go(stage: Stage, name: str) -> None:
    if name in {worker.name for worker in stage.fleet_state.alive}:
        stage.stop_worker(name)
    else:
        stage.start_worker(name)
