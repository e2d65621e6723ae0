"""A worker that is killed at any time, again and again, costs no order."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.demo.stage import Stage
from tests.demo.drive import all_run, finish, quick, start, turn_for, turn_until

KILLS = 10
SEED = 20


@pytest.mark.timeout(240)
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
        turn_until(stage, lambda: all_run(stage) and len(stage.board.alive) == 2)
        found = finish(stage)
        assert len(stage.board.deaths) == KILLS + 2  # and the two that closed in the end
        assert stage.orders_in > 5_000
    assert found.good, (found.lost, found.never_in_output, found.unknown)
    assert found.counted == stage.orders_in
