"""Other timeouts are drawn for some seeds: there coordinators remove members that are alive and too late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from kstreams_assign.sim.coordinator import Coordinator
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.scenario import TIMES, Scenario
from kstreams_assign.sim.streams_coordinator import StreamsCoordinator
from tests.sim.bugs import BUGS
from tests.sim.scripts import at_usual_times
from tests.sim.streams_bugs import STREAMS_BUGS

USUAL = Scenario().session_timeout_ms, Scenario().rebalance_timeout_ms


def times(script):
    return script.scenario.session_timeout_ms, script.scenario.rebalance_timeout_ms


def test_a_third_of_the_seeds_have_other_timeouts_and_keep_everything_else():
    drawn = [Script.draw(seed, faults=True) for seed in range(600)]
    assert {times(script) for script in drawn} == {USUAL, *TIMES}
    assert 150 < sum(times(script) != USUAL for script in drawn) < 250
    for seed, script in enumerate(drawn):
        before = Scenario.draw(Random(seed)).mixed(Random(f"{seed}-java"))
        assert at_usual_times(script).scenario == before


def count_removals(monkeypatch, kind, timer, removed):
    """Count the members that a coordinator's timer removes; one that lets a first join begin is another."""
    real = getattr(kind, timer)

    def wrong(self, *facts):
        before, is_delay = set(self.seats), kind is Coordinator and self._delayed
        real(self, *facts)
        removed[timer] += 0 if is_delay else len(before - self.seats.keys())

    monkeypatch.setattr(kind, timer, wrong)


def test_a_classic_coordinator_removes_members_that_join_or_sync_too_late(monkeypatch):
    removed = Counter()
    for timer in ("_join_over", "_sync_over"):
        count_removals(monkeypatch, Coordinator, timer, removed)
    played = [play(script) for seed in range(60) if times(script := Script.draw(seed, faults=True)) != USUAL]
    assert [violation for outcome in played for violation in outcome.violations] == []
    assert min(removed["_join_over"], removed["_sync_over"]) > 0


def test_a_streams_coordinator_removes_members_that_release_too_late(monkeypatch):
    removed = Counter()
    count_removals(monkeypatch, StreamsCoordinator, "_release_over", removed)
    drawn = (Script.draw(seed, faults=True, streams=True) for seed in range(245, 320))
    played = [play(script) for script in drawn if times(script) != USUAL]
    assert [violation for outcome in played for violation in outcome.violations] == []
    assert removed["_release_over"] > 0


@pytest.mark.parametrize("streams", [False, True])
def test_at_the_usual_times_nothing_shows_that_the_lease_ignores_the_rebalance_timeout(streams, monkeypatch):
    name = "the lease ignores the time to release tasks" if streams else "the lease ignores the rebalance timeout"
    (bug,) = [bug for bug in (STREAMS_BUGS if streams else BUGS) if bug.name == name]
    bug.plant(monkeypatch)
    script = Script.draw(bug.first, faults=True, streams=streams)
    assert {violation.invariant for violation in play(script).violations} == {bug.invariant}
    assert play(at_usual_times(script)).violations == ()


def test_outputs_that_waited_behind_others_are_not_sent_after_the_lease():
    script = Script.draw(920_001_108, faults=True)
    short = replace(script.scenario, session_timeout_ms=45_000, rebalance_timeout_ms=5_000)
    assert play(replace(script, scenario=short)).violations == ()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_static_member_that_missed_a_rebalance_may_begin_a_task_as_long_as_it_writes_nothing(exactly_once):
    assert play(Script.draw(920_002_207, faults=True, exactly_once=exactly_once)).violations == ()


def test_a_static_member_that_missed_a_generation_joins_without_the_tasks_that_it_had():
    """Others may have them since, and what it owned as it joined last is not what it owns."""
    assert play(Script.draw(310_017_869, faults=True, exactly_once=True)).violations == ()


def test_state_that_was_reported_is_promised_for_twice_the_rebalance_timeout():
    """A rebalance of J0 takes longer, so its cleaner runs."""
    assert play(Script.draw(130, faults=True)).violations == ()
