"""The summary: the promised keys, how rebalances and moves are counted, and the text for people."""

from __future__ import annotations

import json

from kstreams_assign.demo.check import Findings
from kstreams_assign.demo.fleet_state import Takeover
from kstreams_assign.demo.summary import describe, lower_bound, summarize
from kstreams_assign.group.member import PROBE
from tests.demo.events import adopted, assigned, decision, fleet_state_of, joining, started
from tests.demo.test_check import row

PROMISED = [
    "broker_version",
    "assignor",
    "members",
    "tasks",
    "rounds",
    "rebalances",
    "probing_rebalances",
    "owner_changes",
    "owner_changes_lower_bound",
    "adopted",
    "moves",
    "records_in",
    "records_counted",
    "lost",
    "duplicated",
    "seconds",
]

TWO, THREE = {"a": {}, "b": {}}, {"a": {}, "b": {}, "c": {}}


def scaled_out():
    """Two workers; a third joins and warms up; a probing rebalance moves one task in two generations."""
    change = {"0_0": ["a", "c"]}
    return fleet_state_of(
        started("w1"),
        decision("w1", members=2, placements=TWO, adopted=["0_0", "0_1"]),
        assigned("w1", 1),
        decision("w1", members=3, placements=THREE, owner_changes_lower_bound=1, next_probe_ms=9),
        assigned("w1", 2),
        joining("w1", reason=PROBE),
        decision("w1", members=3, placements=THREE, owner_changes_lower_bound=1, changed=change, withheld=["0_0"]),
        assigned("w1", 3),
        joining("w1"),
        decision("w1", members=3, placements=THREE, kind="follow_up"),
        assigned("w1", 4),
        adopted("w1", 4),
    )


def summary_of(rows=(), findings=None, takeovers=(), deaths=(), fleet_state=None):
    fleet_state = fleet_state or scaled_out()
    fleet_state.takeovers, fleet_state.deaths = list(takeovers), list(deaths)
    return summarize(
        fleet_state,
        rows,
        findings or Findings(5, (), (), (), ()),
        broker_version="4.3.1",
        seed=7,
        tasks=6,
        orders_in=5,
        acceptable_lag=10,
        seconds=1.26,
    )


def test_all_promised_keys_are_there_and_it_is_json():
    facts = json.loads(json.dumps(summary_of()))
    assert facts.keys() >= set(PROMISED)


def test_rounds_rebalances_probes_and_owner_changes_are_counted_as_the_contract_says():
    facts = summary_of()
    assert (facts["rounds"], facts["rebalances"], facts["probing_rebalances"]) == (3, 4, 1)
    assert (facts["owner_changes"], facts["owner_changes_lower_bound"], facts["adopted"]) == (1, 1, 2)
    assert facts["members"] == 3


def test_a_decision_that_never_took_effect_does_not_count():
    """The group rebalanced again before the leader heard its own decision back, so it decided once more."""
    fleet_state = fleet_state_of(
        started("w1"),
        decision("w1", adopted=["0_0", "0_1"]),
        started("w2"),
        decision("w1", adopted=["0_0", "0_1"], members=2),
        assigned("w1", 2),
    )
    facts = summary_of(fleet_state=fleet_state)
    assert (facts["rounds"], facts["adopted"]) == (1, 2)


def test_the_lower_bound_counts_once_for_each_change_of_who_is_in_the_group():
    fleet_state = fleet_state_of(
        decision("w1", placements=TWO, owner_changes_lower_bound=3),
        decision("w1", placements=THREE, owner_changes_lower_bound=2),
        decision("w1", placements=THREE, owner_changes_lower_bound=2),
        decision("w1", placements=TWO, owner_changes_lower_bound=1),
    )
    assert lower_bound(fleet_state.decisions) == 6


def test_moves_are_listed_with_their_gap_and_warm_ones_summed_up_apart_from_crashes():
    rows = [
        *[row(0, 100, "w1"), row(1, 300, "w3")],
        *[row(0, 100, "w1", partition=1), row(1, 500, "w3", partition=1)],
        *[row(0, 100, "w2", partition=2), row(1, 9_100, "w3", partition=2)],
    ]
    takeovers = [Takeover(90, "w3", f"0_{partition}", 0) for partition in range(3)]
    facts = summary_of(rows, takeovers=takeovers, deaths=[("w2", 150)])
    assert facts["moves"][0] == {
        "task": "0_0",
        "from": "w1",
        "to": "w3",
        "warm": True,
        "gap_ms": 200,
        "cause": "rebalance",
    }
    assert facts["gap_ms"] == {"warm_median": 300, "warm_max": 400, "crash_max": 9_000}


def test_a_run_without_moves_has_no_gaps():
    assert summary_of()["gap_ms"] == {"warm_median": None, "warm_max": None, "crash_max": None}


def test_findings_are_numbers_in_the_summary():
    facts = summary_of(findings=Findings(2, (1, 2, 3), (4,), (5, 6), ()))
    assert (facts["records_in"], facts["records_counted"], facts["lost"], facts["duplicated"]) == (5, 2, 3, 1)
    assert facts["never_in_output"] == 2


def test_the_summary_says_all_only_where_the_numbers_are_equal():
    lines = describe(summary_of(findings=Findings(5, (), (), (), ())))
    assert "orders counted               5  all of them, in the stores" in lines


def test_the_summary_is_aligned_and_fits_eighty_columns():
    lines = describe(summary_of(findings=Findings(2, (1, 2, 3), (4,), (5, 6), ())))
    assert "orders lost                  3  in the final state; 2 never in the output" in lines
    assert "time                     1.3 s  seed 7" in lines
    assert "orders counted               2  3 are missing in the stores" in lines
    assert "gap, after kill           none  at most, with the session timeout" in lines
    assert max(map(len, lines)) <= 80
