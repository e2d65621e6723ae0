"""Early probing without a channel: who publishes and listens, of what news the gain is computed, what is over."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import ASSIGNORS, AssignConfig, Client, Cluster, TaskLags
from kstreams_assign.engine.early import (
    LOOK_AGAIN_MS,
    OWN_LOOK_MS,
    REPUBLISH_MS,
    AskForRebalance,
    Assigned,
    Early,
    Effect,
    EndsKnown,
    Event,
    Heard,
    Listen,
    LookUpEnds,
    Publish,
    Published,
    Turned,
)
from kstreams_assign.group.probing import Gain, Wait
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition

FLOOR_MS, ACCEPTABLE, END = 10_000, 100, 50_000
TASKS = [TaskId(0, partition) for partition in range(6)]
ENDS = dict.fromkeys(TASKS, END)
OLD, NEW = UUID(int=1), UUID(int=2)
CONFIG = AssignConfig(acceptable_recovery_lag=ACCEPTABLE, max_warmup_replicas=2)
RUNNING = {TASKS[0]: RUNNING_OFFSET_SUM}
REPLICAS = {TASKS[1]: 40, TASKS[2]: 50}
SUMS = {**RUNNING, **REPLICAS}


def decided() -> LeaderState:
    """The leader runs all tasks; two of them warm up on a newcomer."""
    runs = Client(OLD, 1, frozenset(TASKS), lags=TaskLags(ENDS, dict.fromkeys(TASKS, RUNNING_OFFSET_SUM)))
    cluster = Cluster((runs, Client(NEW, 1, lags=TaskLags(ENDS, {}))), frozenset(TASKS))
    assign = ASSIGNORS["least_movement"]
    return LeaderState(cluster, assign(cluster, CONFIG), CONFIG, assign)


STANDING = decided()
FIRST, SECOND = sorted(STANDING.plan.placements[NEW].warmup)
BEHIND, ONE_READY, READY = {FIRST: 1, SECOND: 1}, {FIRST: END, SECOND: 1}, {FIRST: END, SECOND: END}


def assignment(
    probe_ms: int | None = 600_000, *, python_leads: bool = True, follow_up: bool = False, replicas: int = 2
) -> Adopted:
    return Adopted(
        {TASKS[0]: (TopicPartition("in", 0),)},
        frozenset(TASKS[1 : 1 + replicas][:1]),
        frozenset(TASKS[1 : 1 + replicas][1:]),
        next_probe_ms=probe_ms,
        follow_up=follow_up,
        assignor="least_movement" if python_leads else None,
    )


class Machine:
    """The engine, with a clock that the test sets, and a channel that takes everything."""

    def __init__(self) -> None:
        self.early = Early(FLOOR_MS, ACCEPTABLE)
        self.now_ms = 10_000

    def handle(self, event: Event) -> list[Effect]:
        return self.early.handle(event, self.now_ms)

    def turn(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.handle(Turned(SUMS))


def leader() -> Machine:
    machine = Machine()
    machine.handle(Assigned(1, assignment(), STANDING, SUMS))
    return machine


def follower() -> Machine:
    machine = Machine()
    machine.handle(Assigned(1, assignment(), None, SUMS))
    return machine


def under_java(ends: dict[TaskId, int]) -> Machine:
    """A member under a Java leader that has looked the ends of its replicas' changelogs up."""
    machine = Machine()
    machine.handle(Assigned(1, assignment(None, python_leads=False), None, SUMS))
    assert machine.turn() == [LookUpEnds(1, REPLICAS)]
    machine.handle(EndsKnown(1, ends, SUMS))
    return machine


# --- in which generations anything is done -----------------------------------------


@pytest.mark.parametrize(
    ("adopted", "standing", "effects"),
    [
        (assignment(), None, [Publish(1, REPLICAS)]),
        (assignment(), STANDING, [Publish(1, REPLICAS), Listen(1)]),
        (assignment(None), None, []),
        (assignment(None), STANDING, []),
        (assignment(follow_up=True), None, []),
        (assignment(follow_up=True), STANDING, []),
        (assignment(None, python_leads=False), None, [LookUpEnds(1, REPLICAS)]),
        (assignment(python_leads=False), None, [LookUpEnds(1, REPLICAS)]),
        (assignment(python_leads=False), STANDING, [Publish(1, REPLICAS), Listen(1)]),
        (assignment(None, python_leads=False, replicas=0), None, []),
        (assignment(python_leads=False, replicas=0), None, []),
        (assignment(python_leads=False, follow_up=True), None, []),
    ],
    ids=[
        "a follower publishes",
        "the leader listens too",
        "no probe is due",
        "no probe is due, to the leader",
        "a follow-up comes",
        "a follow-up comes, to the leader",
        "under Java's leader: its own replicas",
        "also if Java announces a probe",
        "our leader whose trailer did not fit",
        "under Java's leader without replicas",
        "the same with a probe",
        "a follow-up under Java's leader",
    ],
)
def test_what_a_turn_does(adopted: Adopted, standing: LeaderState | None, effects: list[Effect]) -> None:
    machine = Machine()
    assert machine.handle(Assigned(1, adopted, standing, SUMS)) == []
    assert machine.turn() == effects
    assert (machine.early.generation is not None) is bool(effects)


def test_before_the_first_assignment_nothing_is_done() -> None:
    machine = Machine()
    assert machine.turn() == machine.handle(Heard(1, {NEW: READY})) == machine.handle(EndsKnown(1, ENDS, SUMS)) == []


def test_a_generation_in_which_nothing_is_due_ends_the_one_before() -> None:
    machine = leader()
    machine.handle(Assigned(2, assignment(None), STANDING, SUMS))
    assert machine.turn() == []
    assert machine.handle(Heard(1, {NEW: READY})) == []


# --- publishing -----------------------------------------------------------------------


def test_what_runs_is_not_published_and_a_member_without_replicas_publishes_nothing() -> None:
    machine = follower()
    assert machine.handle(Turned(SUMS)) == [Publish(1, REPLICAS)]
    assert machine.handle(Turned(RUNNING)) == machine.handle(Turned({})) == []


def test_unchanged_progress_is_published_again_after_a_while_and_changed_progress_at_once() -> None:
    machine = follower()
    machine.handle(Published(1, REPLICAS))
    assert machine.turn(REPUBLISH_MS - 1) == []
    assert machine.turn(1) == [Publish(1, REPLICAS)]
    machine.handle(Published(1, REPLICAS))
    moved = {**REPLICAS, TASKS[1]: 41}
    assert machine.handle(Turned({**RUNNING, **moved})) == [Publish(1, moved)]


def test_what_did_not_arrive_is_published_in_the_next_turn() -> None:
    machine = follower()
    assert machine.turn() == machine.turn(500) == [Publish(1, REPLICAS)]


def test_in_a_new_generation_everything_is_published_again() -> None:
    machine = follower()
    machine.handle(Published(1, REPLICAS))
    machine.handle(Assigned(2, assignment(), None, SUMS))
    assert machine.turn() == [Publish(2, REPLICAS)]


def test_a_late_acknowledgement_does_not_count_for_the_next_generation() -> None:
    machine = follower()
    machine.handle(Assigned(2, assignment(), None, SUMS))
    machine.handle(Published(1, REPLICAS))
    assert machine.turn() == [Publish(2, REPLICAS)]


# --- listening --------------------------------------------------------------------------


def test_nothing_is_looked_up_before_a_member_has_published() -> None:
    machine = leader()
    assert machine.handle(Heard(1, {})) == []
    assert machine.handle(Heard(1, {NEW: BEHIND})) == [LookUpEnds(1, STANDING.cluster.stateful)]


def test_the_gain_is_computed_again_after_news_and_now_and_then() -> None:
    machine = leader()
    ends = [LookUpEnds(1, STANDING.cluster.stateful)]
    machine.handle(Heard(1, {NEW: BEHIND}))
    machine.handle(EndsKnown(1, ENDS, SUMS))
    machine.now_ms += LOOK_AGAIN_MS - 1
    assert machine.handle(Heard(1, {})) == []
    assert machine.handle(Heard(1, {NEW: BEHIND})) == [], "that is no news"
    assert machine.handle(Heard(1, {NEW: ONE_READY})) == ends
    machine.handle(EndsKnown(1, ENDS, SUMS))
    machine.now_ms += LOOK_AGAIN_MS
    assert machine.handle(Heard(1, {})) == ends


def test_until_the_gain_is_known_it_is_asked_for_in_each_turn() -> None:
    machine = leader()
    ends = [LookUpEnds(1, STANDING.cluster.stateful)]
    assert machine.handle(Heard(1, {NEW: READY})) == machine.handle(Heard(1, {})) == ends


def test_a_follower_that_hears_something_does_nothing() -> None:
    machine = follower()
    assert machine.handle(Heard(1, {NEW: READY})) == machine.handle(EndsKnown(1, ENDS, SUMS)) == []


def test_the_leader_asks_once_the_floor_is_over_and_only_once() -> None:
    machine = leader()
    machine.handle(Heard(1, {NEW: READY}))
    machine.now_ms += FLOOR_MS - 1
    assert machine.handle(EndsKnown(1, ENDS, SUMS)) == []
    generation = machine.early.generation
    assert generation is not None
    assert (generation.gain, generation.answer) == (Gain(2, 0), Wait(machine.now_ms + 1))
    machine.now_ms += 1
    asks = AskForRebalance("probing rebalance, early: 2 tasks can change hands", Gain(2, 0))
    assert machine.handle(Heard(1, {})) == [asks], "without news, as time alone makes it due"
    assert machine.handle(Heard(1, {})) == []


def test_the_floor_counts_from_each_assignment() -> None:
    machine = leader()
    machine.now_ms += FLOOR_MS
    machine.handle(Assigned(2, assignment(), STANDING, SUMS))
    machine.handle(Heard(2, {NEW: READY}))
    assert machine.handle(EndsKnown(2, ENDS, SUMS)) == []
    machine.now_ms += FLOOR_MS
    assert len(machine.handle(Heard(2, {}))) == 1


def test_without_end_offsets_no_gain_is_assumed() -> None:
    machine = leader()
    machine.now_ms += FLOOR_MS
    machine.handle(Heard(1, {NEW: READY}))
    assert machine.handle(EndsKnown(1, {}, SUMS)) == []
    generation = machine.early.generation
    assert generation is not None
    assert (generation.gain, generation.answer) == (Gain(0, 0), Wait())


# --- which generation is over ------------------------------------------------------------


def test_reports_and_ends_of_an_older_generation_ask_for_nothing() -> None:
    """The look-up waited for the brokers while the group went on."""
    machine = leader()
    machine.now_ms += FLOOR_MS
    machine.handle(Heard(1, {NEW: READY}))
    machine.handle(Assigned(2, assignment(), STANDING, SUMS))
    machine.now_ms += FLOOR_MS
    assert machine.handle(EndsKnown(1, ENDS, SUMS)) == machine.handle(Heard(1, {NEW: READY})) == []
    assert machine.handle(Heard(2, {})) == [], "what was heard in generation 1 is forgotten"


def test_a_generation_that_was_not_over_in_time_asks_in_the_next_again() -> None:
    machine = leader()
    machine.now_ms += FLOOR_MS
    machine.handle(Heard(1, {NEW: READY}))
    assert len(machine.handle(EndsKnown(1, ENDS, SUMS))) == 1
    machine.handle(Assigned(2, assignment(), STANDING, SUMS))
    machine.handle(Heard(2, {NEW: READY}))
    machine.now_ms += FLOOR_MS
    assert len(machine.handle(EndsKnown(2, ENDS, SUMS))) == 1


# --- under a leader that does not read progress ----------------------------------------------


def test_own_replicas_are_looked_after_every_second() -> None:
    machine = under_java({TASKS[1]: END, TASKS[2]: END})
    assert machine.turn(OWN_LOOK_MS - 1) == []
    assert machine.turn(1) == [LookUpEnds(1, frozenset(REPLICAS))]


def test_a_rebalance_is_asked_for_once_replicas_that_were_behind_have_caught_up() -> None:
    machine = under_java({TASKS[1]: END, TASKS[2]: END})
    machine.now_ms += FLOOR_MS
    caught_up = {**SUMS, TASKS[1]: END - ACCEPTABLE, TASKS[2]: END - ACCEPTABLE}
    (asked,) = machine.handle(EndsKnown(1, ENDS, caught_up))
    assert isinstance(asked, AskForRebalance)
    assert asked.gain == Gain(2, 0)


def test_replicas_that_were_not_behind_are_not_awaited() -> None:
    machine = under_java({TASKS[1]: END, TASKS[2]: 50})
    assert machine.turn(OWN_LOOK_MS) == [LookUpEnds(1, frozenset({TASKS[1]}))]
    machine.now_ms += FLOOR_MS
    (asked,) = machine.handle(EndsKnown(1, ENDS, {**SUMS, TASKS[1]: END}))
    assert isinstance(asked, AskForRebalance)
    assert asked.gain == Gain(1, 0)


def test_where_no_replica_was_behind_nothing_is_done_any_more() -> None:
    machine = under_java({TASKS[1]: 40, TASKS[2]: 50})
    assert machine.early.generation is None
    assert machine.turn(OWN_LOOK_MS) == []


def test_what_was_behind_is_decided_by_the_first_ends_that_are_known() -> None:
    machine = under_java({})
    assert machine.turn(OWN_LOOK_MS) == [LookUpEnds(1, REPLICAS)], "all replicas again"
    machine.handle(EndsKnown(1, ENDS, {**SUMS, TASKS[1]: END}))
    generation = machine.early.generation
    assert generation is not None
    assert (generation.alone, generation.late) == (True, frozenset(REPLICAS)), "as of the assignment, not as of now"
    assert generation.gain == Gain(1, 1)


def test_a_replica_that_has_caught_up_once_is_awaited_no_more() -> None:
    """With records that keep coming, a standby is behind when each generation begins, and catches up in each."""
    machine = under_java({TASKS[1]: END, TASKS[2]: END})
    machine.handle(EndsKnown(1, ENDS, {**SUMS, TASKS[1]: END}))
    machine.handle(Assigned(2, assignment(None, python_leads=False), None, SUMS))
    assert machine.turn() == [LookUpEnds(2, {TASKS[2]: 50})], "the other is still awaited"
    machine.handle(EndsKnown(2, ENDS, {**SUMS, TASKS[2]: END}))
    for generation in (3, 4):
        machine.handle(Assigned(generation, assignment(None, python_leads=False), None, SUMS))
        assert machine.turn() == []


def test_a_replica_that_went_and_came_back_is_awaited_again() -> None:
    machine = under_java({TASKS[1]: END, TASKS[2]: END})
    machine.handle(EndsKnown(1, ENDS, {**SUMS, TASKS[1]: END, TASKS[2]: END}))
    machine.handle(Assigned(2, assignment(None, python_leads=False, replicas=1), None, SUMS))
    machine.handle(Assigned(3, assignment(None, python_leads=False), None, SUMS))
    assert machine.turn() == [LookUpEnds(3, {TASKS[2]: 50})]


def test_a_replica_whose_end_is_unknown_is_still_awaited() -> None:
    machine = under_java({TASKS[1]: END})
    machine.handle(Assigned(2, assignment(None, python_leads=False), None, {**SUMS, TASKS[1]: END}))
    assert machine.turn() == [LookUpEnds(2, {TASKS[1]: END, TASKS[2]: 50})]


def test_a_replica_without_a_sum_lacks_everything() -> None:
    machine = Machine()
    machine.handle(Assigned(1, assignment(None, python_leads=False), None, RUNNING))
    assert machine.turn() == [LookUpEnds(1, {TASKS[1]: 0, TASKS[2]: 0})]
