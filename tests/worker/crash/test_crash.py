"""A worker is killed once at every place where it does I/O; each time nothing is lost and its state is right afterwards."""

from __future__ import annotations

import pytest

from tests.worker.crash.stage import cluster_at
from tests.worker.crash.sweep import SCENARIOS, Sweep, chosen

GUARANTEE = "at_least_once"
PARTS = 3  # of a scenario's points, as a test may take so long only


@pytest.fixture(scope="module")
def sweep(broker, tmp_path_factory):
    with cluster_at(broker) as cluster:
        yield Sweep(cluster, tmp_path_factory.mktemp("crash"), GUARANTEE)


@pytest.fixture(scope="module")
def plan(sweep):
    return chosen([(one, sweep.record(one)) for one in SCENARIOS], everything=False)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=["-".join(one.phases) for one in SCENARIOS])
def test_a_worker_killed_at_any_call_leaves_nothing_lost_and_no_store_wrong(sweep, plan, number, part):
    scenario, points = plan[number]
    mine = points[part::PARTS]
    outcomes = list(sweep.play(scenario, mine))
    assert [(str(one.point), one.wrong) for one in outcomes if one.wrong] == []
    assert [str(one.point) for one in outcomes if not one.reached] == []
    assert len(outcomes) == len(mine)
