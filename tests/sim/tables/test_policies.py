"""The numbers show the purpose of each policy, and each word that differs from the expected one has a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest
from typer.testing import CliRunner

from kstreams_assign import cli
from kstreams_assign.sim.policies import FIRST
from kstreams_assign.sim.tables.compare import WIDTH, column, compare, facts, table
from kstreams_assign.sim.tables.ledger import RUNS
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.reasons import REASONS, reasons
from kstreams_assign.sim.tables.situations import COLD_S, GROUP, SITUATIONS
from kstreams_assign.sim.tables.words import COLD_HAND_OVER_S, UNEVEN, WORDS, word
from tests.samples import sample

TITLES = {policy.name: policy.title for policy in FIRST}


BY_NAME = {situation.name: situation for situation in SITUATIONS}
EVERY = [(name, standbys) for name in BY_NAME for standbys in (0, 1)]


@cache
def column_of(situation, standbys):
    return column(FIRST, BY_NAME[situation], standbys)


def of(situation, policy, standbys=0):
    return next(costs for costs in column_of(situation, standbys).measured if costs.policy == policy)


@pytest.mark.parametrize(("situation", "standbys"), sample(EVERY, 3))
def test_invariants_hold_and_each_unexpected_word_has_a_reason(situation, standbys):
    """No other word has a reason, and the table fits a terminal."""
    played = column_of(situation, standbys)
    assert [costs.violations for costs in played.measured if costs.violations] == []
    assert {policy for policy, _ in reasons(situation, standbys)} == set(played.differing)
    lines = table(played, TITLES)
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.startswith(tuple(TITLES.values())) for line in lines) == len(FIRST)


NOT_BEST = {("shutdown", 0), ("bounce", 0), ("bounce", 1)}
"""What is best there depends on what will be; see ``docs/explanation/policies.md``."""


@pytest.mark.parametrize(("situation", "standbys"), sample([each for each in EVERY if each not in NOT_BEST], 3))
def test_least_movement_is_best_where_it_can_know_what_is_going_on(situation, standbys):
    assert column_of(situation, standbys).words[-1] == "BEST"


def test_a_new_process_restores_in_full_unless_it_bootstraps():
    cold, warm = of("scale_out", "simple"), of("scale_out", "bootstrap")
    assert cold.downtime_s == pytest.approx(COLD_S, rel=0.1)
    assert warm.downtime_s < 2
    assert (cold.moves, warm.moves) == (3, 3)
    assert (cold.rebalances, warm.rebalances) == (2, 3)  # "three rebalances", as the proposal has it


def test_a_rebalance_of_2017_stops_all_tasks_and_an_incremental_one_none():
    def paused(policy):
        """Tasks that stop for a while and go on where they were."""
        costs = of("scale_out", policy)
        runs = [(bar.task, bar.slot) for bar in costs.bars if bar.role == RUNS]
        return {task for task, slot in runs if runs.count((task, slot)) > 1}

    assert len(paused("current")) == 9
    assert paused("simple") == set()


def test_the_delay_leaves_a_bounced_process_its_tasks():
    assert (of("bounce", "delayed").moves, of("bounce", "delayed").restored) == (0, 0)
    assert of("bounce", "simple").restored > 300_000


def test_both_policies_need_two_rebalances_where_a_process_is_replaced():
    """And one at which its death is noticed."""
    assert of("failover", "delayed_bootstrap").rebalances == 3
    assert of("failover", "delayed_bootstrap").restored < of("failover", "bootstrap").restored


def test_early_probing_comes_to_rest_before_the_interval_does():
    assert of("scale_out", "least_movement").settled_s < of("scale_out", "kip_441").settled_s / 3


def test_reasons_are_few():
    assert sum(len(costs) for costs in REASONS.values()) < 30


def test_facts_have_every_policy_in_every_column():
    rows = json.loads(json.dumps(facts([column_of("bounce", standbys) for standbys in (0, 1)])))
    assert len(rows) == 2 * len(FIRST)
    assert rows[0].keys() >= {
        "policy",
        "situation",
        "rebalances",
        "downtime_s",
        "restored",
        "moves",
        "word",
        "expected",
    }


@pytest.mark.parametrize(("share", "expected"), [(0, 0), (0.04, 1), (0.07, 2), (0.2, 3), (0.3, 4), (0.6, 5), (3, 5)])
def test_a_word_halves_with_what_is_avoided(share, expected):
    best = of("scale_out", "bootstrap")
    worse = replace(best, downtime_s=best.downtime_s + share * COLD_HAND_OVER_S)
    assert word(worse, [best, worse]) == WORDS[expected]


@pytest.mark.parametrize("uneven", [{"uneven": 2}, {"uneven_replicas": 2}])
def test_a_policy_that_moves_nothing_gets_no_word_and_counts_in_no_comparison(uneven):
    best = of("scale_out", "bootstrap")
    idle = replace(best, downtime_s=0.0, restored=0, **uneven)
    assert [word(costs, [idle, best]) for costs in (idle, best)] == [UNEVEN, WORDS[0]]


def test_a_policy_gives_the_same_numbers_each_time():
    policy, situation = FIRST[-1], SITUATIONS[2]
    assert measure(policy, situation, GROUP) == measure(policy, situation, GROUP)


def test_the_command_explains_the_words(monkeypatch):
    from kstreams_assign.sim.tables import show

    monkeypatch.setattr(show, "compare", lambda policies: list(compare(policies[-1:], SITUATIONS[3:4])))
    done = CliRunner().invoke(cli.app, ["simulate", "policies"])
    assert done.exit_code == 0
    assert "cold hand-overs" in done.stdout
    assert "Scale in, one standby" in done.stdout
    done = CliRunner().invoke(cli.app, ["simulate", "policies", "--json"])
    assert [fact["policy"] for fact in json.loads(done.stdout)] == ["least_movement"] * 2
