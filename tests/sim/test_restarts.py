"""A process that restarts with a word is awaited, for as long as it may be, and comes back to all it had."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from kstreams_assign.engine import membership as engine
from kstreams_assign.group import awaiting, leader
from kstreams_assign.sim.faults import NO_FAULTS, Fault, Faults
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.policies import FIRST
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.situations import GROUP, SITUATIONS, Event
from tests.samples import sample

SEEDS = sample(range(60), 5)
GROUP_OF_THREE = Scenario(
    standbys=0, partitions=6, first_records=40_000, restored_per_s=3_000, safety_ms=180_000, early_probing=False
)
"""A process restores its two tasks in half a minute, so their restart is worth waiting for."""
ROLLING = next(situation for situation in SITUATIONS if situation.name == "rolling_restart")
OURS = next(policy for policy in FIRST if policy.name == "least_movement")


def play_with(*faults: Fault, scenario: Scenario = GROUP_OF_THREE) -> Played:
    return play(Script(1, scenario, NO_FAULTS, faults), logged=True)


def lines_of(played: Played, process: str, what: str) -> list[tuple[float, str]]:
    """Return the log lines of a process, each with its second."""
    found = [line for line in played.lines if line.split()[1:3] == [process, what]]
    return [(float(line.split()[0]), line.split(what, 1)[1].strip()) for line in found]


def waits(played: Played) -> list[tuple[float, str]]:
    """Return the seconds of decisions after which tasks wait, and these tasks."""
    decided = [line for line in played.lines if " decides " in line and ", waiting " in line]
    return [(float(line.split()[0]), re.findall("waiting ([0-9_ ]+)", line)[0].strip()) for line in decided]


def active(text: str) -> str:
    return re.findall("active ([0-9_ ]+)", text)[0].strip()


def test_its_tasks_wait_and_nothing_moves_or_is_restored():
    played = play_with(Fault(60_000, "restart", 1, 20_000))
    assert played.violations == ()
    assert lines_of(played, "P1", "restarts")[0][1] == "awaited"
    given = lines_of(played, "P1", "assigned")
    assert active(given[-1][1]) == active(given[0][1])
    others = [active(text) for name in ("P0", "P2") for _, text in lines_of(played, name, "assigned")]
    assert not set(" ".join(others).split()) & {task for task in active(given[0][1]).split() if task.startswith("0_")}
    assert waits(played)


def test_the_others_take_over_what_does_not_wait_without_a_heartbeat_first():
    played = play_with(Fault(60_000, "restart", 1, 20_000))
    left_s = lines_of(played, "P1", "restarts")[0][0]
    runs_s = min(at for name in ("P0", "P2") for at, text in lines_of(played, name, "assigned") if "1_1" in text)
    assert left_s < runs_s < left_s + 0.3, "the stateless task of P1"


def test_a_process_that_never_comes_back_is_awaited_for_a_minute():
    played = play_with(Fault(60_000, "restart", 1, 10_000_000))
    assert played.violations == ()
    (began_s, tasks), (ended_s, _) = waits(played)[0], waits(played)[-1]
    adopted = [
        at
        for at, text in lines_of(played, "P0", "assigned") + lines_of(played, "P2", "assigned")
        if set(tasks.split()) & set(active(text).split())
    ]
    assert 55 < min(adopted) - 60 < 70
    assert ended_s < min(adopted)
    assert began_s < 75


def test_the_leader_restarts_meanwhile_and_the_new_one_knows_who_is_awaited():
    played = play_with(Fault(60_000, "restart", 1, 45_000), Fault(75_000, "kill", 0, 3_000))
    assert played.violations == ()
    (tasks,) = {tasks for at, tasks in waits(played) if at > 75 and "P" not in tasks} or {""}
    assert tasks, "the new leader knows"


def test_a_process_that_dies_again_after_its_return_is_not_awaited_a_second_time():
    played = play_with(Fault(60_000, "restart", 1, 10_000), Fault(90_000, "kill", 1, 60_000))
    assert played.violations == ()
    assert max(at for at, _ in waits(played)) < 90


def test_a_process_that_closes_without_a_word_is_not_awaited():
    for kind in ("leave", "kill", "drain"):
        played = play_with(Fault(60_000, kind, 1, 20_000))
        assert (played.violations, waits(played)) == ((), [])


def test_nobody_is_awaited_in_a_group_with_java_members():
    played = play_with(Fault(60_000, "restart", 1, 20_000), scenario=replace(GROUP_OF_THREE, java=(2,)))
    assert (played.violations, waits(played)) == ((), [])
    assert lines_of(played, "P1", "restarts")[0][1] == "not awaited"


@pytest.mark.parametrize("seed", [201_142, 12_019_152, 92_050_608, 120_093_080])
def test_a_join_that_waits_for_a_dead_member_does_not_prolong_a_wait(seed):
    """Also where the leader loses its assignment between its join and its decision, has just joined, or learns late
    what it decided.
    """
    assert play(Script.draw(seed, faults=True, exactly_once=True)).violations == ()


def test_a_second_restart_has_the_rest_of_the_first_time_if_those_who_knew_of_the_return_are_gone():
    assert play(Script.draw(230_025_228, faults=True, exactly_once=True)).violations == ()


SOME_MISSED_IT = [5_000_024, 5_000_032, 5_000_035, 5_000_202]
"""Some member did not get the assignment from which the others know who is awaited."""


@pytest.mark.parametrize("seed", SOME_MISSED_IT)
def test_a_member_that_missed_a_generation_ends_no_wait(seed):
    assert play(Script.draw(seed, faults=True)).violations == ()


def test_a_member_that_missed_a_generation_does_not_know_of_a_later_announcement():
    """Cut off, it comes back when the time of the announcement that it knows is over, and it leads."""
    assert play(Script.draw(330_096_924, faults=True)).violations == ()


@pytest.mark.parametrize("seed", SOME_MISSED_IT)
def test_a_wait_that_such_a_member_ends_is_noticed(seed, monkeypatch):
    monkeypatch.setattr(engine.Membership, "generation", None)
    assert {violation.invariant for violation in play(Script.draw(seed, faults=True)).violations} == {
        "tasks wait as announced"
    }


@pytest.mark.parametrize("exactly_once", [False, True])
def test_all_invariants_hold_where_restarts_meet_other_faults(exactly_once):
    waited = 0
    for seed in SEEDS:
        script = Script.draw(seed, faults=True, exactly_once=exactly_once)
        restarts = Faults(restart=0.8).plan(Random(f"{seed}-restarts"), script.scenario.processes, 180_000)
        played = play(replace(script, plan=tuple(sorted((*script.plan, *restarts)))), logged=True)
        assert played.violations == ()
        waited += len(waits(played))
    assert waited, "in no seed a task waits"


def test_a_rolling_restart_restores_nothing_and_moves_nothing():
    without, with_one = (measure(OURS, ROLLING, replace(GROUP, standbys=standbys)) for standbys in (0, 1))
    assert (without.violations, without.restored, without.moves) == ((), 0, 0)
    assert with_one.violations == ()
    assert with_one.restored < 12 * 1_000, "no more than what was processed meanwhile"
    assert with_one.moves == 2 * 12, "each task to its standby, and back"
    assert with_one.downtime_s < without.downtime_s / 4


@pytest.mark.parametrize("worth_s", [awaiting.WORTH_WAITING_S, 0])
def test_small_state_is_restored_elsewhere_and_does_not_wait(worth_s, monkeypatch):
    """The leader knows from its own start how fast a process restores: 20,000 records of each task in a second."""
    monkeypatch.setattr(awaiting, "WORTH_WAITING_S", worth_s)
    small = replace(GROUP, standbys=0, first_records=20_000, restored_per_s=20_000)
    situation = ROLLING._replace(events=(Event(0, "restart", 1), Event(40, "start", 1)))
    costs = measure(OURS, situation, small)
    assert (costs.violations, costs.uneven) == ((), 0)
    tasks = 3
    if worth_s:
        assert costs.downtime_s < tasks * 5
        assert costs.restored < tasks * 20_000 * 1.1, "each once; what is back is on its disk"
    else:
        assert costs.downtime_s > tasks * 35


def test_a_wait_that_is_never_counted_down_is_noticed(monkeypatch):
    monkeypatch.setattr(engine, "count_down", lambda awaited, _: dict(awaited))
    played = play_with(Fault(20_000, "restart", 1, 10_000_000))
    assert {violation.invariant for violation in played.violations} == {"tasks wait as announced"}


def test_a_wait_for_a_process_that_announced_nothing_is_noticed(monkeypatch):
    def all_restart(view, max_delay_ms, *of_the_leader):
        found = awaiting.read_restarts(view, max_delay_ms, *of_the_leader)
        return replace(found, leaving=dict.fromkeys(view.processes, max_delay_ms))

    monkeypatch.setattr(leader, "read_restarts", all_restart)
    played = play_with(Fault(60_000, "kill", 1, 100_000))
    assert played.violations[0].invariant == "tasks wait as announced"


def test_a_wait_that_nobody_ends_is_noticed(monkeypatch):
    real = leader.encode_group

    def without_date(*facts):
        *rest, _, loads, trim = facts
        return real(*rest, None, loads, trim)

    monkeypatch.setattr(leader, "encode_group", without_date)
    played = play_with(Fault(60_000, "restart", 1, 10_000_000), scenario=replace(GROUP_OF_THREE, safety_ms=400_000))
    assert played.violations[0].invariant == "tasks wait as announced"
