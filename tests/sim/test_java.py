"""Mixed groups: a simulated Java member behaves as Kafka Streams' own, and ours get along with it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.model import TaskId
from kstreams_assign.sim.checkers.checker import Checker, Watch
from kstreams_assign.sim.checkers.classic import every_checker
from kstreams_assign.sim.faults import NO_FAULTS, Fault
from kstreams_assign.sim.java import WITHOUT_TRAILER
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.timeline import START_MS
from kstreams_assign.sim.world import World
from kstreams_assign.wire import AssignmentInfo, GroupTrailer, MemberTrailer
from tests.sim.scripts import at_usual_times

LEADS_FIRST = (0, 1_000, 1_000)
"""When the processes start, so that the first member leads the group."""
JAVA_LEADS = Scenario(java=(0,), late=LEADS_FIRST, assignor="high_availability")
OURS_LEADS = Scenario(java=(1,), late=LEADS_FIRST)


def played(scenario: Scenario, *plan: Fault) -> Played:
    """Play, with all invariants."""
    outcome = play(Script(1, scenario, NO_FAULTS, plan), logged=True)
    assert outcome.violations == ()
    return outcome


def lines_of(outcome: Played, what: str, process: str | None = None) -> list[str]:
    """The lines of this kind of event, of one process or of all."""
    words = [line.split() for line in outcome.lines]
    return [
        line
        for line, (_, name, kind, *_) in zip(outcome.lines, words, strict=True)
        if kind == what and process in (None, name)
    ]


def at_s(line: str) -> float:
    return float(line.split(maxsplit=1)[0])


# --- user-data and draws ----------------------------------------------------------------


def test_java_writes_no_trailer_and_reads_none():
    report = MemberReport(11, 11, UUID(int=1), trailer=MemberTrailer({"sticky": 1}))
    info = AssignmentInfo(11, 11, (TaskId(0, 0),), trailer=GroupTrailer("least_movement", 1))
    assert APACHE.read_report(WITHOUT_TRAILER.write_report(report)).trailer is None
    assert WITHOUT_TRAILER.read_report(APACHE.write_report(report)).trailer is None
    assert APACHE.read_assignment(*WITHOUT_TRAILER.write_assignments([info])).trailer is None
    assert WITHOUT_TRAILER.read_assignment(*APACHE.write_assignments([info])).trailer is None
    assert APACHE.read_report(APACHE.write_report(report)).trailer == report.trailer
    assert APACHE.read_assignment(*APACHE.write_assignments([info])).trailer == info.trailer


def test_one_seed_in_five_has_java_members_and_is_otherwise_the_same_group():
    drawn = [at_usual_times(Script.draw(seed, faults=False)).scenario for seed in range(500)]
    mixed = [scenario for scenario in drawn if scenario.java]
    assert 70 < len(mixed) < 130
    assert any(len(scenario.java) == scenario.processes for scenario in mixed)
    assert {scenario.assignor for scenario in mixed} == {"high_availability", "least_movement"}
    before = [Scenario.draw(Random(seed)) for seed in range(500)]
    assert [replace(a, java=(), assignor=b.assignor) for a, b in zip(drawn, before, strict=True)] == before


# --- under a Java leader ------------------------------------------------------------------


class Reads(Checker):
    """Counts what is read of trailers, and which processes publish progress."""

    invariant = "none"

    def __init__(self) -> None:
        super().__init__()
        self.trailers = 0

    def assigned(self, process, generation, adopted) -> None:  # noqa: ARG002
        self.trailers += adopted.assignor is not None


def run(scenario: Scenario) -> tuple[World, Reads]:
    """Run without faults until the time of faults is over."""
    reads = Reads()
    watch = Watch(1, [*every_checker(), reads])
    world = World(scenario, NO_FAULTS, 1, watch, [])
    for slot, late_ms in enumerate(scenario.late):
        world.timeline.at(START_MS + late_ms, world.start, slot)
    world.timeline.run(START_MS + scenario.safety_ms)
    assert watch.violations == []
    return world, reads


@pytest.mark.parametrize("queue", [False, True])
def test_a_java_leader_sends_no_trailer_and_nobody_publishes_progress(queue):
    world, reads = run(replace(JAVA_LEADS, late=(0, 1_000, 60_000), warmup_queue=queue))
    assert world.coordinator.rebalances >= 3
    assert (reads.trailers, world.channel) == (0, {})


def test_only_our_members_read_trailers_and_publish_progress_where_ours_leads():
    world, reads = run(replace(OURS_LEADS, java=(2,), late=(0, 1_000, 60_000), standbys=0))
    ours = {process.process_id for process in world.processes if process.slot != 2}
    assert reads.trailers == 2 * world.coordinator.rebalances
    assert world.channel
    assert all(published.keys() <= ours for published in world.channel.values())


def test_withheld_tasks_are_given_out_where_no_trailer_announces_the_follow_up():
    outcome = played(replace(JAVA_LEADS, late=(0, 1_000, 60_000)))
    withheld = [at_s(line) for line in lines_of(outcome, "decides") if "withheld" in line]
    later = [at_s(line) for line in lines_of(outcome, "decides")]
    assert withheld
    assert all(any(0 < after - at < 5 for after in later) for at in withheld)
    assert not [line for line in outcome.lines if "a follow-up comes" in line]


def test_a_drain_is_refused_under_a_java_leader():
    outcome = played(JAVA_LEADS, Fault(30_000, "drain", 1, 30_000))
    (refused,), (drained,) = lines_of(outcome, "refused"), lines_of(outcome, "drained")
    assert refused.split()[1] == drained.split()[1] == "P1"


def test_a_drain_is_carried_out_where_ours_leads_a_mixed_group():
    outcome = played(OURS_LEADS, Fault(30_000, "drain", 2, 60_000))
    assert lines_of(outcome, "refused") == []
    assert len(lines_of(outcome, "drained", "P2")) == 1
    assert "active" not in [line for line in lines_of(outcome, "assigned", "P2") if at_s(line) < 90][-1]


def test_a_mixed_group_rests_while_records_keep_coming():
    """With no lag allowed a standby is behind in each generation, and catches up in each."""
    outcome = played(replace(JAVA_LEADS, acceptable_recovery_lag=0, late=(0, 0, 0)))
    *decisions, asked_at_rest = map(at_s, lines_of(outcome, "decides"))
    assert max(decisions) < 60 < outcome.simulated_ms / 1_000 < asked_at_rest


# --- a Java member ------------------------------------------------------------------------------


@pytest.mark.parametrize(("java", "least_s", "most_s"), [((1,), 8, 15), ((), 0, 5)])
def test_a_java_member_closes_without_leaving_the_group(java, least_s, most_s):
    outcome = played(replace(OURS_LEADS, java=java), Fault(30_000, "leave", 1, 100_000))
    noticed_s = next(at_s(line) for line in lines_of(outcome, "decides") if at_s(line) > 30) - 30
    assert least_s < noticed_s < most_s


def test_a_java_member_cannot_drain():
    outcome = played(OURS_LEADS, Fault(30_000, "drain", 1, 40_000))
    assert lines_of(outcome, "drained") == lines_of(outcome, "refused") == []
    assert len(lines_of(outcome, "starts", "J1")) == 2


@pytest.mark.parametrize(("java", "rebalances"), [((1,), 2), ((0,), 1)])
def test_a_static_java_member_that_comes_back_with_another_endpoint_asks_for_a_rebalance(java, rebalances):
    scenario = replace(OURS_LEADS, java=java, static=True, late=(0, 0, 0), early_probing=False)
    assert played(scenario, Fault(30_000, "kill", 1, 2_000)).rebalances == rebalances


def test_the_replica_of_a_java_member_is_ready_at_the_probing_interval_as_it_publishes_nothing():
    grown = Scenario(processes=2, late=(0, 60_000), standbys=0, assignor="high_availability")
    ready_s = []
    for name, java in (("P1", ()), ("J1", (1,))):
        outcome = played(replace(grown, java=java))
        stateful = [line for line in lines_of(outcome, "assigned", name) if "active 0_" in line]
        ready_s.append(at_s(stateful[0]) - 60)
    of_ours, of_java = ready_s
    assert of_ours < 30
    assert of_java > 60


def test_a_group_of_ours_takes_javas_assignor_over_when_a_java_member_joins():
    outcome = played(replace(OURS_LEADS, java=(2,), late=(0, 1_000, 60_000)))
    by = [(at_s(line) < 60, line.split(" by ")[1].split(":")[0]) for line in lines_of(outcome, "decides")]
    assert set(by) == {(True, "least_movement"), (False, "high_availability")}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_java_member_that_slept_past_its_session_does_no_harm(exactly_once):
    asleep = Fault(30_000, "pause", 1, 30_000)
    outcome = played(replace(OURS_LEADS, exactly_once=exactly_once, commit_interval_ms=1_000), asleep)
    assert lines_of(outcome, "lost", "J1")
