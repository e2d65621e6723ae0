"""A worker is killed once at each place where it does I/O; nothing is lost and its state is right afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.allowed_values import GUARANTEES
from tests.worker.crash.calls import ADMIN, CALLBACKS, CONSUMER, GROUP, GROUP_ADMIN
from tests.worker.crash.points import Point
from tests.worker.crash.stage import cluster_at
from tests.worker.crash.sweep import PHASES, SAME, SCENARIOS, Sweep, chosen

AT_LEAST_ONCE, EXACTLY_ONCE = GUARANTEES
PARTS = 3  # of a scenario's points, as one test may take only so long

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(broker):
    with cluster_at(broker) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def sweep(cluster, tmp_path_factory):
    return Sweep(cluster, tmp_path_factory.mktemp("crash"), AT_LEAST_ONCE, run="crash")


@pytest.fixture(scope="module")
def plan(sweep):
    return chosen([(scenario, sweep.record(scenario)) for scenario in SCENARIOS], everything=False)


@pytest.fixture(scope="module")
def exact_sweep(cluster, tmp_path_factory):
    return Sweep(cluster, tmp_path_factory.mktemp("exact"), EXACTLY_ONCE, run="exact")


def test_the_plan_has_each_call_to_the_brokers(plan):
    named = {"Consumer": CONSUMER, "AdminClient": ADMIN, "GroupClient": GROUP, "Admin": GROUP_ADMIN}
    named["Membership"] = CALLBACKS
    seen = {point.site.rpartition(": ")[2] for _, points in plan for point in points}
    assert {f"{owner}.{name}" for owner, names in named.items() for name in names} <= seen


ABORT = "Committer._take: Producer.abort_transaction"
MAY_BE_MISSED = {
    *((phase, "Committer._carry_out: Producer.purge") for phase in PHASES),
    *((phase, "Committer._carry_out: Producer.flush") for phase in PHASES),
    ("hand-over", ABORT),
}
"""Phases, and calls that are made in them only if something is on its way when a commit is given up."""

EXACT_PHASES = {"restore": {"commit"}, "hand-over": {"hand-over"}, "expelled": set()}
"""The scenarios that are played under exactly once, by a phase of theirs, and in which phases all is looked at."""


@pytest.fixture(scope="module")
def exact_plan(exact_sweep):
    """The calls of a transaction; the successor has the same process id, so it takes over at once."""
    plan = {}
    for phase, whole in EXACT_PHASES.items():
        scenario = replace(next(known for known in SCENARIOS if phase in known.phases), successors=(SAME,))
        ((_, points),) = chosen([(scenario, exact_sweep.record(scenario))], everything=False)
        plan[phase] = (scenario, [point for point in points if point.phase in whole or "ransact" in point.site])
    return plan


def killed(sweep, scenario, points):
    """Kill a worker at each point; check that it died there and that nothing is wrong afterwards."""
    outcomes = list(sweep.play_until_reached(scenario, points))
    assert [(str(outcome.point), outcome.successor, outcome.wrong) for outcome in outcomes if outcome.wrong] == []
    missed = [outcome.point for outcome in outcomes if not outcome.reached]
    assert [str(point) for point in missed if (point.phase, point.site) not in MAY_BE_MISSED] == []
    assert len(outcomes) == len(points)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=["-".join(scenario.phases) for scenario in SCENARIOS])
def test_a_worker_killed_at_any_call_leaves_nothing_lost_and_no_store_wrong(sweep, plan, number, part):
    scenario, points = plan[number]
    killed(sweep, scenario, points[part::PARTS])


def test_the_plan_has_each_call_of_a_transaction(exact_plan):
    assert {"init_transactions", "begin_transaction", "send_offsets_to_transaction", "commit_transaction"} <= {
        point.site.rpartition(".")[2] for _, points in exact_plan.values() for point in points
    }
    assert ABORT in {point.site for point in exact_plan["expelled"][1]}


@pytest.mark.parametrize("phase", EXACT_PHASES)
def test_killed_at_any_call_of_a_transaction_each_input_is_applied_once(exact_sweep, exact_plan, phase):
    killed(exact_sweep, *exact_plan[phase])


@pytest.mark.parametrize(
    ("guarantee", "planted", "site", "side", "message"),
    [
        (AT_LEAST_ONCE, "offsets before records", "Membership.commit: GroupClient.commit", "after", "lost"),
        (AT_LEAST_ONCE, "store before changelog", "Share.write: Rdict.write", "after", "holds"),
        (EXACTLY_ONCE, "store before transaction", "Share.write: Rdict.write", "after", "holds"),
        (EXACTLY_ONCE, "transaction without offsets", "Share.write: Rdict.write", "before", "twice"),
    ],
)
def test_a_commit_in_a_wrong_order_is_reported(cluster, tmp_path, guarantee, planted, site, side, message):
    mistaken = Sweep(cluster, tmp_path, guarantee, run=planted.replace(" ", "-"), planted=planted)
    scenario = replace(SCENARIOS[0], successors=(SAME,))
    (outcome,) = mistaken.play(scenario, [Point("commit", site, 2, side)])
    assert outcome.reached
    assert any(message in finding for finding in outcome.wrong), outcome.wrong
