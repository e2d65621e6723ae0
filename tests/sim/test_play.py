"""Seeds keep all invariants, give the same events each time, and find planted bugs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from kstreams_assign.sim import committing, outputs
from kstreams_assign.sim.broker import Logs
from kstreams_assign.sim.disk import SLOWER, Disk, Reader
from kstreams_assign.sim.faults import NO_FAULTS, PROCESS_FAULTS, Fault
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.timeline import START_MS
from kstreams_assign.sim.transcript import script_of
from tests.samples import sample
from tests.sim.bugs import BUGS
from tests.sim.doubles import lease_ignored
from tests.sim.mixed_bugs import MIXED_BUGS
from tests.sim.scripts import before_restarts

SEEDS = sample(range(60), 10)
LOOKED_AT = 30


def quiet(**settings) -> Script:
    return Script(1, Scenario(**settings), NO_FAULTS, ())


def of_old_kinds(seed: int) -> Script:
    """The script of a seed as it was when the seed failed, without what came later: kinds of faults, Java members."""
    script = Script.draw(seed, faults=True)
    kept = tuple(fault for fault in script.plan if fault.kind in PROCESS_FAULTS[:6])
    return replace(script, scenario=Scenario.draw(Random(seed)), plan=kept)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_all_invariants_hold_under_faults_and_the_group_comes_to_rest(exactly_once):
    played = [play(Script.draw(seed, faults=True, exactly_once=exactly_once)) for seed in SEEDS]
    assert [violation for outcome in played for violation in outcome.violations] == []
    assert sum(outcome.rebalances for outcome in played) > 3 * len(SEEDS)


A_GENERATION_LOST = """\
simulate 81026212
scenario processes=2 stateless_partitions=0 max_warmup_replicas=3 acceptable_recovery_lag=0 \
assignor='high_availability' first_records=100000 records_per_s=200 restored_per_s=20000 late=(49255,82906) \
state_cleanup_delay_ms=0 exactly_once=True
faults lost_message=0.03 slow_commit=0.30000000000000004
wreck 0 at 84710 for 1273
pause 1 at 111094 for 39371
move_coordinator 0 at 117475 for 179
slow_disk 0 at 129100 for 18207
pause 0 at 159142 for 14278
move_coordinator 0 at 169720 for 78
"""
"""The coordinator moves before a decision of P1 is stored, so P0 leads the generation before, and asks early."""


def test_the_leader_of_a_generation_that_comes_back_may_ask_early_again():
    assert play(script_of(A_GENERATION_LOST)).violations == ()


def test_replicas_are_judged_only_after_all_input_is_processed():
    """Four replicas of 15,000 new records each, at 2,000 per second: longer than the quiet time."""
    assert play(of_old_kinds(1_017_961)).violations == ()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_seed_gives_the_same_events_each_time(exactly_once):
    script = Script.draw(16, faults=True, exactly_once=exactly_once)
    assert play(script, logged=True) == play(script, logged=True)


def test_another_seed_gives_other_events():
    assert play(Script.draw(16, faults=True)).rebalances != play(Script.draw(1, faults=True)).rebalances


def test_without_faults_a_group_assigns_once_and_rests():
    assert play(quiet()).rebalances == 1


@pytest.mark.parametrize("assignor", ["least_movement", "high_availability"])
def test_a_process_that_comes_later_gets_its_tasks_warm(assignor):
    played = play(quiet(assignor=assignor, late=(0, 0, 60_000)), logged=True)
    assert played.violations == ()
    arrived = [line for line in played.lines if "P2  assigned" in line]
    assert "warm-up" in arrived[0]
    assert "active" in arrived[-1]


def test_a_group_rests_soon_after_a_scale_out_that_moves_stateless_tasks_alone():
    """The new process gets stateless tasks, and a warm-up that becomes a standby: no owner changes with that."""
    grown = quiet(
        partitions=2,
        stateless_partitions=6,
        records_per_s=0,
        late=(0, 0, 60_000),
        probing_rebalance_interval_ms=600_000,
    )
    played = play(grown, logged=True)
    assert played.violations == ()
    *joined, at_rest = [line for line in played.lines if "P2  assigned" in line]
    assert at_rest.split()[1:] == joined[-1].split()[1:]
    assert "warm-up" in joined[0]
    assert "standby" in joined[-1]
    assert "warm-up" not in joined[-1]
    began_s, ended_s = (float(line.split()[0]) for line in (joined[0], joined[-1]))
    assert ended_s - began_s < 20, "not the probing interval of ten minutes"


def test_a_static_member_that_comes_back_within_its_session_causes_no_rebalance():
    killed = Fault(30_000, "kill", 1, 2_000)
    static = replace(quiet(static=True), plan=(killed,))
    assert play(static).rebalances == 1
    assert play(replace(quiet(), plan=(killed,))).rebalances > 1


def test_input_is_processed_to_its_end_after_its_owner_dies():
    played = play(replace(quiet(), plan=(Fault(30_000, "wreck", 0, 1_000),)), logged=True)
    assert played.violations == ()
    assert any("P0  fault" in line for line in played.lines)


@pytest.mark.parametrize("static", [False, True])
def test_a_process_that_drains_leaves_once_its_tasks_are_warm_elsewhere(static):
    played = play(replace(quiet(static=static), plan=(Fault(30_000, "drain", 1, 60_000),)), logged=True)
    assert played.violations == ()
    of_it = [line for line in played.lines if line.split()[1] == "P1" or "decides" in line]
    drained = next(n for n, line in enumerate(of_it) if "P1  drained" in line)
    assert "active" not in of_it[drained - 1]
    assert "starts" in next(line for line in of_it[drained + 1 :] if "P1" in line)


def test_a_group_in_which_every_process_drains_ends_all_the_same():
    plan = tuple(Fault(30_000 + slot, "drain", slot, 5_000) for slot in range(3))
    played = play(replace(quiet(), plan=plan), logged=True)
    assert played.violations == ()
    assert sum("drained" in line for line in played.lines) == 3
    assert any("refused" in line for line in played.lines)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_process_that_ends_by_an_error_leaves_its_work_to_others(exactly_once):
    failing = quiet(exactly_once=exactly_once, commit_interval_ms=1_000)
    plan = tuple(Fault(30_000 + 7_001 * n, "fail", n % 3, 3_000) for n in range(12))
    played = play(replace(failing, plan=plan), logged=True)
    assert played.violations == ()
    assert played.rebalances > 12


@pytest.mark.parametrize(("lasts_ms", "words"), [(50, ["discarded"]), (9_000, ["discarded", "stopped", "resumed"])])
def test_a_store_found_damaged_is_restored_at_once_and_stops_its_task_where_that_fails_too(lasts_ms, words):
    """The process dies and comes back at once: to damaged folders, or also to a disk that goes on damaging them."""
    plan = (Fault(30_000, "damage", 0, lasts_ms), Fault(30_100, "kill", 0, 100))
    played = play(replace(quiet(static=True), plan=plan), logged=True)
    assert played.violations == ()
    met = [line.split()[2] for line in played.lines if line.split()[2] in ("discarded", "stopped", "resumed")]
    assert sorted(set(met), key=met.index) == words
    assert met.count("stopped") == met.count("resumed")


def met_by(played, process):
    return [line.split()[2] for line in played.lines if line.split()[1] == process]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_running_task_whose_store_is_found_damaged_is_restored_where_it_runs(exactly_once):
    plan = (Fault(30_000, "unreadable", 0, 1_000),)
    played = play(replace(quiet(exactly_once=exactly_once), plan=plan), logged=True)
    assert played.violations == ()
    assert "discarded" in met_by(played, "P0")
    assert "stopped" not in met_by(played, "P0")
    assert not set(met_by(played, "P0")) & {"lost", "drained"}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_tasks_on_a_full_disk_stop_until_there_is_space_again(exactly_once):
    plan = (Fault(30_000, "full_disk", 0, 40_000),)
    played = play(replace(quiet(exactly_once=exactly_once), plan=plan), logged=True)
    assert played.violations == ()
    met = met_by(played, "P0")
    assert met.count("stopped") == met.count("resumed") > 0
    assert "discarded" not in met


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_slow_disk_loses_nothing(exactly_once):
    slow = quiet(commit_interval_ms=1_000, exactly_once=exactly_once)
    plan = (Fault(30_000, "slow_disk", 0, 40_000), Fault(35_000, "wreck", 0, 100), Fault(40_000, "leave", 1, 9_000))
    assert play(replace(slow, plan=plan)).violations == ()


def test_a_slow_disk_restores_slowly():
    logs, disk = Logs(Scenario(first_records=20_000, restored_per_s=5_000)), Disk(UUID(int=1))
    reader = Reader(logs, 5_000, disk)
    reader.add(dict.fromkeys(list(logs.changelog_ends)[:1], 0))
    usual_ms = reader.left_ms()
    disk.slow = True
    assert reader.left_ms() - 1 == SLOWER * (usual_ms - 1)


def test_the_bandwidth_that_a_partition_near_its_end_does_not_need_goes_to_the_others():
    logs = Logs(Scenario(first_records=20_000, restored_per_s=5_000))
    near, *far = list(logs.changelog_ends)[:3]
    reader = Reader(logs, 5_000, Disk(UUID(int=1)))
    reader.add({near: logs.changelog_ends[near] - 100, far[0]: 0, far[1]: 10_000})
    reader.passed_ms = 1_000
    assert {batch.partition: batch.next_offset for batch in reader.poll(0.0)} == {
        near: logs.changelog_ends[near],
        far[0]: 2_450,
        far[1]: 12_450,
    }


@pytest.mark.parametrize(("seed", "exactly_once"), [(330_007_239, True), (330_023_012, False)])
def test_a_group_that_moves_knows_who_was_out_and_takes_back_members_put_out_in_a_generation_not_stored(
    seed, exactly_once
):
    """A static member missed a generation that was stored; another member one that was not."""
    assert list(play(Script.draw(seed, faults=True, exactly_once=exactly_once)).violations) == []


@pytest.mark.parametrize("seed", [21_528, 24_704])
def test_a_lost_members_tasks_are_not_reported_while_the_cleaner_may_remove_them(seed):
    """Tasks that were still in its table were reported as running, closed, and removed with a delay of 0."""
    assert play(of_old_kinds(seed)).violations == ()


@pytest.mark.parametrize("bug", sample([*BUGS, *MIXED_BUGS], 6), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug, monkeypatch):
    bug.plant_in(monkeypatch)
    seeds = range(bug.first, bug.first + LOOKED_AT)
    played = (play(before_restarts(seed, exactly_once=bug.exactly_once, timed=bug.timed)) for seed in seeds)
    invariant = next(violation.invariant for outcome in played for violation in outcome.violations)
    assert invariant == bug.invariant


@pytest.mark.parametrize("bug", sample(MIXED_BUGS, 3), ids=lambda bug: bug.name)
def test_only_a_mixed_group_shows_a_bug_of_mixed_groups(bug, monkeypatch):
    bug.plant(monkeypatch)
    for seed in range(bug.first, bug.first + LOOKED_AT):
        script = before_restarts(seed, exactly_once=bug.exactly_once)
        if script.scenario.java:
            assert play(replace(script, scenario=replace(script.scenario, java=()))).violations == ()


def test_exactly_once_the_generation_fences_without_the_lease(monkeypatch):
    """At least once the lease alone keeps a member silent that is out of the group; a transaction names its member."""
    lease_ignored(monkeypatch)
    played = [play(Script.draw(seed, faults=True, exactly_once=True)) for seed in sample(range(30, 30 + LOOKED_AT), 4)]
    assert [violation for outcome in played for violation in outcome.violations] == []


def test_a_generation_that_was_refused_may_come_again():
    """The coordinator moves before it has stored the generation that a member knows, and gives its number again."""
    assert play(before_restarts(5_006_742, exactly_once=True)).violations == ()


def test_a_commit_looks_at_its_lease_before_an_output_is_sent_again():
    """The network holds an output back until the lease has ended, in a commit whose changelog records leave later."""
    assert play(before_restarts(5_013_708, exactly_once=False)).violations == ()


def test_a_member_that_joins_again_owns_nothing_although_a_restore_ends_before_it_drops_all():
    assert play(before_restarts(5_081_813, exactly_once=False)).violations == ()


def test_a_drain_that_is_asked_for_during_a_join_goes_on_although_the_old_membership_is_lost_meanwhile():
    assert play(Script.draw(120_082_775, faults=True, exactly_once=True)).violations == ()


def test_a_static_member_that_lost_its_disk_does_not_keep_the_assignment_of_its_drained_predecessor():
    assert play(before_restarts(7_032_772, exactly_once=False)).violations == ()


def test_leaders_may_differ_while_the_wait_for_a_process_that_is_back_has_ended_for_one_of_them():
    """P3 decides as its own wait is over; P0, which had the assignment later, would wait 0.3 s longer."""
    assert play(Script.draw(280_011_165, faults=True, exactly_once=True)).violations == ()


def test_a_process_that_slept_does_not_commit_behind_the_work_that_a_fenced_commit_has_lost():
    """It is asked to drain while it sleeps, and a heartbeat prolongs its lease before it drops its tasks."""
    assert play(Script.draw(270_049_375, faults=True)).violations == ()


def test_a_member_that_slept_learns_late_who_was_there_before_a_restart_was_announced():
    assert play(Script.draw(280_060_236, faults=True, exactly_once=True)).violations == ()


def test_outputs_sent_ahead_do_not_arrive_after_their_store_failed_in_a_commit_and_their_task_left():
    assert play(before_restarts(7_057_320, exactly_once=False)).violations == ()


@pytest.mark.parametrize("broken", [False, True])
def test_outputs_sent_ahead_do_not_arrive_after_their_store_failed_between_commits_and_their_task_left(
    broken, monkeypatch
):
    """The brokers answer the old owner only after the next one has begun. ``broken``: nothing is dropped."""
    if broken:
        monkeypatch.setattr(committing.Commits, "discard_work", lambda _: None)
    played, moved = play_with_outputs_held_back(monkeypatch)
    assert moved
    assert {violation.invariant for violation in played.violations} == (
        {"no processing and no commit by a fenced member"} if broken else set()
    )


def play_with_outputs_held_back(monkeypatch):
    """Break the stores of P0 just after it has sent outputs ahead, while P2 joins; return also whether a task moved."""
    real, held, moved = outputs.send_under_lease, set(), set()

    def send(process, append, arrived, lost):
        world, loop = process.world, process.loop
        old_owner = process.slot == 0 and world.timeline.now_ms >= START_MS + 40_000
        if old_owner and not held and not loop.tasks.committing:
            held.update(loop.running)
            world.timeline.after(100, loop.break_stores)
        if old_owner and held:
            moved.update(*(held & other.loop.running.keys() for other in world.processes if other is not process))
        if old_owner and held and not moved:
            process.run.later(50, lost)
        else:
            real(process, append, arrived, lost)

    monkeypatch.setattr(outputs, "send_under_lease", send)
    slow = quiet(
        partitions=2,
        stateless_partitions=0,
        first_records=30_000,
        restored_per_s=2_000,
        commit_interval_ms=30_000,
        heartbeat_interval_ms=1_000,
        late=(0, 0, 63_196),
    )
    return play(slow), moved


def test_a_transaction_that_its_process_left_open_holds_up_its_successor():
    """Killed between the records and the end of a commit; the next owner waits until the broker ends it."""
    script = Script.draw(133, faults=True, exactly_once=True)
    played = play(script, logged=True)
    assert played.violations == ()
    assert any(" aborted " in line for line in played.lines)
