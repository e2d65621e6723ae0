"""The steps of commits, without brokers or threads: what is taken, what ends, and what follows a failure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest

from kstreams_assign.engine.commits import (
    HUNG_MS,
    RESTARTS_MAX,
    AbortTransaction,
    AnnounceAbort,
    AnnounceRestart,
    CallUnderWay,
    CommitAbandoned,
    CommitBegun,
    Commits,
    DropRecords,
    Effect,
    EndCommit,
    Event,
    LeaveClient,
    PreparationEnded,
    PrepareProducer,
    ProducerUnsettled,
    StepEnded,
    TakeStep,
    WorkDiscarded,
    refused_offsets,
)
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.commit import AT_LEAST_ONCE, EXACTLY_ONCE, CommitEnd, CommitStep, Next, Outcome

A, B = TaskId(0, 0), TaskId(0, 1)
BOTH = (A, B)
NO_ANSWER = "no answer"


class Machine:
    """The machine with what it said last: the step to take, and everything since the test began."""

    def __init__(self, *, exactly_once: bool = False) -> None:
        self.engine = Commits(exactly_once=exactly_once)
        self.order: TakeStep | None = None
        self.said: list[Effect] = []

    def handle(self, event: Event) -> list[Effect]:
        effects = self.engine.handle(event)
        self.said += effects
        for effect in effects:
            if isinstance(effect, TakeStep | EndCommit):
                self.order = effect if isinstance(effect, TakeStep) else None
        return effects

    def begin(self, *tasks: TaskId) -> list[Effect]:
        return self.handle(CommitBegun(tasks))

    def end_step(self, outcome: Outcome = Outcome.OK, reason: str = "", *unwritten: TaskId) -> list[Effect]:
        assert self.order is not None
        return self.handle(StepEnded(self.order.number, outcome, reason, frozenset(unwritten)))

    def go_to(self, step: CommitStep) -> None:
        while self.order is None or self.order.step is not step:
            self.end_step()

    @property
    def steps(self) -> list[CommitStep]:
        return [effect.step for effect in self.said if isinstance(effect, TakeStep)]


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.begin(*BOTH)
    return machine


@pytest.fixture
def exact() -> Machine:
    exact = Machine(exactly_once=True)
    exact.begin(*BOTH)
    return exact


def test_a_commit_takes_the_steps_of_the_table(machine: Machine) -> None:
    while machine.order is not None:
        machine.end_step()
    assert machine.steps == [
        CommitStep.LEASE,
        CommitStep.PRODUCE,
        CommitStep.FLUSH,
        CommitStep.STORE,
        CommitStep.OFFSETS,
    ]
    assert machine.said[-1] == EndCommit(CommitEnded(CommitEnd.DONE, BOTH))
    assert not machine.engine.busy


def test_a_commit_of_nothing_is_done_at_once() -> None:
    assert Machine().begin() == [EndCommit(CommitEnded(CommitEnd.DONE))]


def test_a_commit_of_nothing_does_not_repeat_the_failure_before(machine: Machine) -> None:
    machine.go_to(CommitStep.FLUSH)
    machine.end_step(Outcome.UNDELIVERED, NO_ANSWER)
    assert machine.begin() == [EndCommit(CommitEnded(CommitEnd.DONE))]


def test_a_store_that_cannot_be_written_fails_its_own_task_alone(machine: Machine) -> None:
    machine.go_to(CommitStep.STORE)
    machine.end_step(Outcome.OK, "disk full", B)
    assert machine.engine.unwritten == {B}, "its offsets must not be committed"
    assert machine.end_step() == [EndCommit(CommitEnded(CommitEnd.DONE, BOTH, (B,), "disk full"))]


def test_a_deferred_commit_keeps_the_reason_of_an_unwritten_store(machine: Machine) -> None:
    machine.go_to(CommitStep.STORE)
    machine.end_step(Outcome.OK, "disk full", B)
    effects = machine.end_step(Outcome.DEFERRED)
    assert effects == [EndCommit(CommitEnded(CommitEnd.DEFERRED, BOTH, (B,), "disk full"))]


def test_records_that_are_not_acknowledged_are_dropped_and_fail_all_tasks(machine: Machine) -> None:
    machine.go_to(CommitStep.FLUSH)
    effects = machine.end_step(Outcome.UNDELIVERED, NO_ANSWER)
    assert effects == [DropRecords(), EndCommit(CommitEnded(CommitEnd.FAILED, BOTH, BOTH, NO_ANSWER))]


@pytest.mark.parametrize("step", [CommitStep.PRODUCE, CommitStep.FLUSH])
def test_records_are_dropped_when_the_lease_ends(machine: Machine, step: CommitStep) -> None:
    machine.go_to(step)
    effects = machine.end_step(Outcome.EXPIRED, "the session may be over")
    assert effects == [
        DropRecords(),
        EndCommit(CommitEnded(CommitEnd.FENCED, BOTH, (), "the session may be over")),
    ]


@pytest.mark.parametrize(
    ("outcome", "step", "end", "failed"),
    [
        (Outcome.UNDELIVERED, CommitStep.ABORT, CommitEnd.FAILED, BOTH),
        (Outcome.REFUSED, CommitStep.WITHDRAW, CommitEnd.FENCED, ()),
    ],
)
@pytest.mark.parametrize("abort", [Outcome.OK, Outcome.UNDELIVERED, Outcome.REFUSED])
def test_a_transaction_is_aborted_once_and_ends_however_the_abort_ends(
    exact: Machine, outcome: Outcome, step: CommitStep, end: CommitEnd, failed: tuple[TaskId, ...], abort: Outcome
) -> None:
    exact.go_to(CommitStep.OFFSETS)
    announced, order = exact.end_step(outcome, NO_ANSWER)
    assert announced == AnnounceAbort(BOTH, NO_ANSWER)
    assert isinstance(order, TakeStep)
    assert order.step is step
    assert exact.end_step(abort, "the abort failed, too") == [EndCommit(CommitEnded(end, BOTH, failed, NO_ANSWER))]


@pytest.mark.parametrize("abort", [Outcome.OK, Outcome.UNDELIVERED])
def test_a_transaction_of_a_generation_that_is_over_is_begun_again(exact: Machine, abort: Outcome) -> None:
    exact.go_to(CommitStep.OFFSETS)
    announced, order = exact.end_step(Outcome.STALE, "illegal generation")
    assert announced == AnnounceRestart(BOTH, "illegal generation")
    assert isinstance(order, TakeStep)
    assert order.step is CommitStep.RESTART
    exact.end_step(abort)
    while exact.order is not None:
        exact.end_step()
    assert exact.steps.count(CommitStep.PRODUCE) == 2
    assert exact.said[-1] == EndCommit(CommitEnded(CommitEnd.DONE, BOTH))


def test_a_transaction_is_begun_again_only_so_often(exact: Machine) -> None:
    for _ in range(RESTARTS_MAX):
        exact.go_to(CommitStep.OFFSETS)
        exact.end_step(Outcome.STALE)
    exact.go_to(CommitStep.OFFSETS)
    assert exact.end_step(Outcome.STALE)[0] == AnnounceAbort(BOTH, "")
    exact.end_step()
    assert exact.said[-1] == EndCommit(CommitEnded(CommitEnd.FAILED, BOTH, BOTH))
    exact.begin(*BOTH)
    exact.go_to(CommitStep.OFFSETS)
    assert exact.end_step(Outcome.STALE)[0] == AnnounceRestart(BOTH, ""), "each commit counts from the beginning"


@pytest.mark.parametrize(
    ("lost", "joins", "outcome"),
    [
        (False, True, Outcome.STALE),
        (False, False, Outcome.REFUSED),
        (True, True, Outcome.REFUSED),
        (True, False, Outcome.REFUSED),
    ],
)
def test_only_a_join_of_the_same_member_leaves_it_its_tasks(lost: bool, joins: bool, outcome: Outcome) -> None:
    assert refused_offsets(lost=lost, joins=joins) is outcome


def test_an_answer_to_an_earlier_step_changes_nothing(machine: Machine) -> None:
    late = StepEnded(machine.engine._number, Outcome.OK)
    machine.end_step()
    assert machine.handle(late) == []


# --- a commit that is given up ----------------------------------------------------------


def test_an_abandoned_commit_does_not_end(machine: Machine) -> None:
    machine.go_to(CommitStep.FLUSH)
    assert machine.handle(CommitAbandoned()) == [DropRecords()]
    assert machine.end_step() == []
    assert not machine.engine.busy


def test_the_transaction_of_an_abandoned_commit_is_aborted(exact: Machine) -> None:
    exact.go_to(CommitStep.TRANSACTION)
    assert exact.handle(CommitAbandoned()) == [DropRecords(), AbortTransaction()]
    assert exact.end_step() == []


def test_an_answer_to_an_abandoned_commit_is_not_taken_for_the_next_ones(machine: Machine) -> None:
    late = StepEnded(machine.engine._number, Outcome.OK)
    machine.handle(CommitAbandoned())
    machine.begin(A)
    assert machine.handle(late) == []
    assert machine.end_step() != []


# --- work that is discarded -------------------------------------------------------------


def test_what_discarded_work_sent_ahead_is_dropped_at_once_between_two_commits() -> None:
    assert Machine().handle(WorkDiscarded()) == [DropRecords()]


def test_what_discarded_work_sent_ahead_is_dropped_once_the_commit_under_way_has_ended(machine: Machine) -> None:
    machine.go_to(CommitStep.FLUSH)
    assert machine.handle(WorkDiscarded()) == [], "the records of the commit would be dropped, too"
    machine.go_to(CommitStep.OFFSETS)
    assert machine.end_step() == [DropRecords(), EndCommit(CommitEnded(CommitEnd.DONE, BOTH))]
    machine.begin(*BOTH)
    machine.go_to(CommitStep.OFFSETS)
    assert machine.end_step() == [EndCommit(CommitEnded(CommitEnd.DONE, BOTH))], "only once"


def test_an_abandoned_commit_has_dropped_what_discarded_work_sent_ahead(machine: Machine) -> None:
    machine.handle(WorkDiscarded())
    assert machine.handle(CommitAbandoned()) == [DropRecords()]
    machine.begin(*BOTH)
    machine.go_to(CommitStep.OFFSETS)
    assert machine.end_step() == [EndCommit(CommitEnded(CommitEnd.DONE, BOTH))]


def test_exactly_once_discarded_work_has_sent_nothing_ahead(exact: Machine) -> None:
    assert Machine(exactly_once=True).handle(WorkDiscarded()) == []
    assert exact.handle(WorkDiscarded()) == []
    exact.go_to(CommitStep.STORE)
    assert exact.end_step() == [EndCommit(CommitEnded(CommitEnd.DONE, BOTH))]


# --- between two commits ------------------------------------------------------------------


def test_the_producer_is_prepared_until_it_is_settled() -> None:
    machine = Machine(exactly_once=True)
    assert machine.handle(ProducerUnsettled()) == [PrepareProducer()]
    assert machine.handle(ProducerUnsettled()) == [], "it is under way"
    machine.handle(PreparationEnded())
    assert machine.handle(ProducerUnsettled()) == [PrepareProducer()]


def test_the_producer_is_not_prepared_under_a_commit(exact: Machine) -> None:
    assert exact.handle(ProducerUnsettled()) == []


def test_a_call_that_hangs_is_left_and_fails_the_commit(exact: Machine) -> None:
    exact.go_to(CommitStep.OFFSETS)
    assert exact.handle(CallUnderWay(HUNG_MS - 1)) == []
    left, announced, order = exact.handle(CallUnderWay(HUNG_MS))
    assert isinstance(left, LeaveClient)
    assert announced == AnnounceAbort(BOTH, left.reason)
    assert isinstance(order, TakeStep)
    assert order.step is CommitStep.ABORT


def test_a_preparation_that_hangs_is_left_and_begun_again() -> None:
    machine = Machine(exactly_once=True)
    machine.handle(ProducerUnsettled())
    (left,) = machine.handle(CallUnderWay(HUNG_MS))
    assert isinstance(left, LeaveClient)
    assert machine.handle(ProducerUnsettled()) == [PrepareProducer()]


# --- every walk ------------------------------------------------------------------------------


def walk(table: Mapping[tuple[CommitStep, Outcome], Next], outcomes: tuple[Outcome, ...]) -> list[Next]:
    """The slow twin: follow the table with these outcomes, an abort's being without effect, to an end or the last."""
    step: Next = CommitStep.LEASE
    taken: list[Next] = [step]
    for outcome in outcomes:
        if isinstance(step, CommitEnd) or (step, outcome) not in table:
            break
        step = table[step, outcome]
        taken.append(step)
    return taken


@pytest.mark.parametrize("exactly_once", [False, True])
def test_each_walk_is_the_tables(exactly_once: bool) -> None:
    """Failures are tried at each of the steps, alone and in pairs."""
    table = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
    walks = 0
    for first, failure, second in product(range(9), Outcome, Outcome):
        outcomes = (Outcome.OK,) * first + (failure, second) + (Outcome.OK,) * 9
        expected = walk(table, outcomes)
        if len(expected) == first + 1 and not isinstance(expected[-1], CommitEnd):
            continue  # the step cannot have this outcome
        machine = Machine(exactly_once=exactly_once)
        machine.begin(*BOTH)
        for outcome in outcomes[: len(expected) - 1]:
            machine.end_step(outcome)
        taken: list[Next] = [*machine.steps]
        taken += [effect.ended.end for effect in machine.said if isinstance(effect, EndCommit)]
        assert taken == expected
        walks += 1
    assert walks > 30


@pytest.mark.parametrize("seed", range(100))
def test_at_random_each_commit_ends_once_or_is_abandoned(seed: int) -> None:
    """A store is written only after what its guarantee asks for; no step is taken after the end; numbers are new."""
    rng = Random(seed)
    exactly_once = rng.random() < 0.5
    table = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
    before_store = CommitStep.TRANSACTION if exactly_once else CommitStep.FLUSH
    machine = Machine(exactly_once=exactly_once)
    begun = ended = abandoned = 0
    passed: set[CommitStep] = set()
    for _ in range(200):
        if not machine.engine.busy:
            machine.order = None
            if exactly_once and rng.random() < 0.3:
                machine.handle(ProducerUnsettled())
                machine.handle(PreparationEnded())
            machine.begin(*BOTH)
            begun, passed = begun + 1, set()
        order = machine.order
        assert order is not None
        if rng.random() < 0.05:
            machine.handle(CommitAbandoned())
            abandoned += 1
            continue
        if rng.random() < 0.1:
            assert machine.handle(StepEnded(order.number - rng.randint(1, 3), Outcome.REFUSED)) == []
        outcome = rng.choice([*[Outcome.OK] * 8, *(o for step, o in table if step is order.step)])
        if order.step is CommitStep.STORE:
            assert before_store in passed
        if outcome is Outcome.OK:
            passed.add(order.step)
        effects = machine.end_step(outcome, outcome.value)
        ended += sum(isinstance(effect, EndCommit) for effect in effects)
        assert all(not isinstance(effect, PrepareProducer) for effect in effects)
    assert begun == ended + abandoned + machine.engine.busy
    numbers = [effect.number for effect in machine.said if isinstance(effect, TakeStep)]
    assert len(set(numbers)) == len(numbers)
