"""Streams groups keep all invariants under faults, and their checkers find planted bugs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.sim.faults import NO_FAULTS, Fault
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.scenario import CLASSIC_ONLY, Scenario
from tests.samples import sample
from tests.sim.bugs import BUGS
from tests.sim.scripts import at_usual_times
from tests.sim.streams_bugs import STREAMS_BUGS

SEEDS = sample(range(600), 10)
LOOKED_AT = 30
SHARED = (
    "the lease is ignored",
    "offsets before the changelog",
    "a commit does not wait for what was sent ahead",
    "a task begins before it is restored",
    "unstable positions are taken",
    "a store does not wait for its transaction",
    "offsets are committed outside",
    "a task whose store was damaged twice is never tried again",
)
"""The bugs of classic groups that a streams group shows just the same."""


def draw(seed, *, exactly_once=False):
    return Script.draw(seed, faults=True, exactly_once=exactly_once, streams=True)


def of_bug(bug, seed):
    """The script of one of a bug's seeds, from ``first`` on."""
    script = draw(seed, exactly_once=bug.exactly_once)
    return script if bug.timed else at_usual_times(script)


def quiet(**settings):
    return Script(1, Scenario(protocol="streams", **settings), NO_FAULTS, ())


def violated(played):
    return [violation for outcome in played for violation in outcome.violations]


def first_violations(played):
    """Yield what each seed violated first; play only as many seeds as are asked for."""
    return (outcome.violations[0] for outcome in played if outcome.violations)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_all_invariants_hold_under_faults_and_the_group_comes_to_rest(exactly_once):
    played = [play(draw(seed, exactly_once=exactly_once)) for seed in SEEDS]
    assert violated(played) == []
    assert sum(outcome.rebalances for outcome in played) > 3 * len(SEEDS)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_seed_gives_the_same_events_each_time(exactly_once):
    script = draw(16, exactly_once=exactly_once)
    assert play(script, logged=True) == play(script, logged=True)


def test_a_seed_has_the_faults_and_the_group_of_the_classic_seed():
    for seed in range(20):
        classic, script = Script.draw(seed, faults=True), draw(seed)
        usual = {name: getattr(Scenario(), name) for name in CLASSIC_ONLY}
        assert script.scenario == replace(classic.scenario, protocol="streams", **usual)
        assert (script.faults, script.plan) == (classic.faults, classic.plan)


def test_without_faults_a_group_assigns_once_and_rests():
    played = play(quiet(), logged=True)
    assert (played.violations, played.rebalances) == ((), 1)
    assert sum("assigned" in line for line in played.lines) == 3


def test_a_task_moves_cold_to_a_process_that_comes_later():
    """The coordinator knows no warm-ups: the task stands still while its new owner restores it."""
    played = play(quiet(standbys=0, late=(0, 0, 60_000)), logged=True)
    assert played.violations == ()
    arrived = [line for line in played.lines if "P2  assigned" in line]
    assert len(arrived) == 1
    assert "active" in arrived[0]


def test_a_process_that_restarts_within_its_session_stays_a_member():
    """It does not leave, and joins again under its member id, so no other member gets its tasks."""
    killed = play(replace(quiet(), plan=(Fault(30_000, "kill", 1, 2_000),)))
    restarted = play(replace(quiet(), plan=(Fault(30_000, "restart", 1, 2_000),)))
    left = play(replace(quiet(), plan=(Fault(30_000, "leave", 1, 2_000),)))
    assert [outcome.violations for outcome in (killed, restarted, left)] == [(), (), ()]
    assert (killed.rebalances, restarted.rebalances) == (1, 1)
    assert left.rebalances > 1


def test_a_process_that_is_silent_for_longer_than_its_session_is_fenced_and_joins_again():
    played = play(replace(quiet(), plan=(Fault(30_000, "pause", 1, 25_000),)), logged=True)
    assert played.violations == ()
    met = [line.split()[2] for line in played.lines if line.split()[1] == "P1"]
    assert met.index("lost") < met.index("joins", 3)
    assert met[-1] == "assigned"


def test_a_drain_only_closes():
    played = play(replace(quiet(), plan=(Fault(30_000, "drain", 1, 20_000),)), logged=True)
    assert played.violations == ()
    assert any("refused   its tasks are not warmed up elsewhere" in line for line in played.lines)


@pytest.mark.parametrize("bug", STREAMS_BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug, monkeypatch):
    bug.plant(monkeypatch)
    played = (play(of_bug(bug, seed)) for seed in range(bug.first, bug.first + LOOKED_AT))
    assert next(first_violations(played)).invariant == bug.invariant


@pytest.mark.parametrize("name", sample(SHARED, 3))
def test_a_bug_that_both_kinds_of_groups_show_is_found(name, monkeypatch):
    (bug,) = [each for each in BUGS if each.name == name]
    bug.plant(monkeypatch)
    played = (play(of_bug(bug, seed)) for seed in range(bug.first, bug.first + LOOKED_AT))
    assert any(violation.invariant == bug.invariant for violation in first_violations(played))
