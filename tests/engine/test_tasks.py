"""The tasks of a process, without threads, brokers or stores: events in, effects out."""

from __future__ import annotations

import pytest

from kstreams_assign.client_settings import delivery_limit_ms
from kstreams_assign.engine import effects as do
from kstreams_assign.engine.task_events import (
    Closed,
    CommitEnded,
    Event,
    InputsLost,
    Restored,
    StopAsked,
    StoreFailed,
    Turned,
)
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.engine.tasks_in_hand import FIRST_PAUSE_MS, LONGEST_PAUSE_MS
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.group import member
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.lifecycle import TaskState

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
INPUTS, OTHER_INPUTS = (TopicPartition("in", 0),), (TopicPartition("in", 1),)
INTERVAL_MS = 1_000
SESSION_MS = 10_000
NOTHING = Adopted({}, frozenset(), frozenset())
ACTIVE = Adopted({TASK: INPUTS}, frozenset(), frozenset())
BOTH = Adopted({TASK: INPUTS, OTHER: OTHER_INPUTS}, frozenset(), frozenset())
REPLICA = Adopted({}, frozenset({TASK}), frozenset())
WARMUP = Adopted({}, frozenset(), frozenset({TASK}))
SPOILT = StoreDamaged("spoilt")


class Machine:
    """The engine, with a clock that the test sets."""

    def __init__(self, *, exactly_once: bool = False) -> None:
        self.tasks = Tasks(INTERVAL_MS, SESSION_MS, exactly_once=exactly_once)
        self.now_ms = 10_000

    def handle(self, *events: Event) -> list[do.Effect]:
        """Return the effects of all events."""
        return [effect for event in events for effect in self.tasks.handle(event, self.now_ms)]

    def run(self, adopted: Adopted = ACTIVE) -> None:
        """Bring the active tasks of an assignment to work, and let their first commit pass."""
        self.handle(member.Adopt(1, adopted))
        for task, inputs in adopted.active.items():
            self.handle(Restored(task, inputs))
        self.handle(Turned(joined=True), CommitEnded(CommitEnd.DONE))

    def begin_commit(self) -> None:
        self.now_ms += INTERVAL_MS
        assert self.handle(Turned(joined=True)) == [do.BeginCommit()]


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.run()
    return machine


def of(kind: type, effects: list[do.Effect]) -> list[do.Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def handed_over(effects: list[do.Effect]) -> list[do.Effect]:
    return [e for e in effects if isinstance(e, do.HandOver)]


# --- assignments --------------------------------------------------------------


def test_a_new_task_is_locked_restored_and_run_from_the_positions_that_were_looked_up() -> None:
    machine = Machine()
    effects = machine.handle(member.Adopt(1, ACTIVE))
    assert effects == [
        do.LockFolder(TASK),
        do.QueueWarmups(None),
        do.RestoreTask(TASK, INPUTS),
        do.AnnounceAdoption(1, ACTIVE, [], [TASK]),
        do.TellMember(member.TasksReleased(1)),
    ]
    assert machine.handle(Restored(TASK, INPUTS)) == [do.RunTask(TASK, INPUTS)]
    assert machine.tasks.states() == {TASK: TaskState.RUNNING}


def test_a_running_task_that_is_revoked_is_committed_stopped_closed_and_released_in_this_order(
    machine: Machine,
) -> None:
    assert machine.handle(member.Adopt(7, NOTHING)) == [
        do.QueueWarmups(None),
        do.StopInput(TASK, INPUTS),
        do.AnnounceAdoption(7, NOTHING, [TASK], []),
    ]
    assert machine.handle(Turned(joined=False)) == [do.BeginCommit()], "it does not wait for the interval"
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK])) == [
        do.FinishCommit(CommitEnd.DONE),
        do.StopTask(TASK, INPUTS),
        do.CloseTask(TASK, 1),
    ]
    assert machine.handle(Closed(TASK, 1)) == [do.ReleaseFolder(TASK), do.TellMember(member.TasksReleased(7))]
    assert machine.tasks.states() == {}


def test_a_running_task_that_becomes_a_replica_keeps_its_stores(machine: Machine) -> None:
    machine.handle(member.Adopt(2, REPLICA), Turned(joined=True))
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert effects[1:] == [do.StopTask(TASK, INPUTS), do.TailTask(TASK), do.TellMember(member.TasksReleased(2))]


@pytest.mark.parametrize("commit_began", [False, True])
def test_an_assignment_that_is_given_again_releases_a_task_once_and_with_the_same_commit(
    machine: Machine, commit_began: bool
) -> None:
    """In a streams group, when a topic has grown or other tasks are kept warm."""
    also_warm = Adopted({}, frozenset(), frozenset({OTHER}))
    begin = [Turned(joined=True)]
    machine.handle(member.Adopt(2, NOTHING), *(begin if commit_began else []))
    machine.handle(member.Adopt(2, also_warm), *([] if commit_began else begin))
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert handed_over(effects)[-1] == do.CloseTask(TASK, 1)
    assert of(do.TellMember, effects) == []
    assert machine.handle(Closed(TASK, 1)) == [do.ReleaseFolder(TASK), do.TellMember(member.TasksReleased(2))]
    machine.begin_commit()
    assert machine.handle(CommitEnded(CommitEnd.DONE, [])) == [do.FinishCommit(CommitEnd.DONE)]


def test_an_assignment_that_is_given_again_while_a_task_is_closed_is_released_after_that(machine: Machine) -> None:
    machine.handle(member.Adopt(2, NOTHING), Turned(joined=True), CommitEnded(CommitEnd.DONE, [TASK]))
    assert of(do.TellMember, machine.handle(member.Adopt(2, NOTHING))) == []
    assert machine.handle(Closed(TASK, 1)) == [do.ReleaseFolder(TASK), do.TellMember(member.TasksReleased(2))]


def test_a_task_that_is_to_be_kept_warm_before_it_is_released_keeps_its_stores(machine: Machine) -> None:
    machine.handle(member.Adopt(2, NOTHING), Turned(joined=True), member.Adopt(2, WARMUP))
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert effects[1:] == [do.StopTask(TASK, INPUTS), do.TailTask(TASK), do.TellMember(member.TasksReleased(2))]


def test_a_task_that_comes_back_while_it_is_closed_is_restored_again(machine: Machine) -> None:
    """Its folder stays locked."""
    machine.handle(member.DropAll("the group went on"))
    effects = machine.handle(member.Adopt(2, ACTIVE))
    assert of(do.LockFolder, effects) == []
    assert handed_over(effects) == [do.RestoreTask(TASK, INPUTS)]
    assert of(do.ReleaseFolder, machine.handle(Closed(TASK, 1))) == []
    assert machine.handle(Restored(TASK, INPUTS)) == [do.RunTask(TASK, INPUTS)]


def test_stores_that_come_for_a_task_that_was_taken_away_are_closed() -> None:
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE), member.DropAll("lost"))
    assert machine.handle(Restored(TASK, INPUTS)) == [do.CloseTask(TASK, 2)]
    assert machine.handle(Closed(TASK, 2)) == [do.ReleaseFolder(TASK)]


@pytest.mark.parametrize(
    ("adopted", "order"), [(ACTIVE, do.RestoreTask(TASK, INPUTS)), (REPLICA, do.TailTask(TASK))], ids=["again", "copy"]
)
def test_stores_from_before_a_task_was_taken_away_are_closed_also_if_it_is_back(
    adopted: Adopted, order: do.Effect
) -> None:
    """Another process may have worked on the task since."""
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE), member.DropAll("lost"), member.Adopt(2, adopted))
    assert machine.handle(Restored(TASK, INPUTS)) == [do.CloseTask(TASK, 2), order]


@pytest.mark.parametrize("commit_began", [False, True])
def test_a_task_that_is_restored_while_it_waits_to_leave_does_not_begin(commit_began: bool) -> None:
    """It leaves with a commit that began without it, so its outputs could arrive when another member has the task."""
    machine = Machine()
    machine.handle(member.Adopt(1, BOTH), Restored(TASK, INPUTS), *([Turned(joined=True)] if commit_began else []))
    machine.handle(member.Adopt(2, NOTHING))
    close = do.CloseTask(OTHER, 1)
    assert machine.handle(Restored(OTHER, OTHER_INPUTS)) == ([] if commit_began else [close])
    effects = machine.handle(Turned(joined=True), CommitEnded(CommitEnd.DONE, [TASK]))
    effects += machine.handle(Turned(joined=True), CommitEnded(CommitEnd.DONE, [TASK])) if commit_began else []
    assert of(do.RunTask, effects) == []
    assert handed_over(effects) == [*([close] if commit_began else []), do.CloseTask(TASK, 2)]


@pytest.mark.parametrize(
    ("adopted", "order"), [(NOTHING, do.CloseTask(TASK, 1)), (REPLICA, do.TailTask(TASK))], ids=["taken away", "copy"]
)
def test_a_task_whose_store_is_repaired_while_it_waits_to_leave_goes_at_once(
    machine: Machine, adopted: Adopted, order: do.Effect
) -> None:
    machine.handle(member.Adopt(2, adopted), StoreFailed(TASK, SPOILT))
    assert machine.handle(Restored(TASK, INPUTS)) == [order]
    effects = machine.handle(Turned(joined=True), CommitEnded(CommitEnd.DONE))
    assert effects == [do.BeginCommit(), do.FinishCommit(CommitEnd.DONE), do.TellMember(member.TasksReleased(2))]


def test_stores_that_come_again_for_a_running_task_do_not_let_it_go_before_its_commit(machine: Machine) -> None:
    machine.handle(member.Adopt(2, NOTHING))
    assert machine.handle(Restored(TASK, INPUTS)) == []
    assert machine.tasks.states() == {TASK: TaskState.RUNNING}


@pytest.mark.parametrize("end", [member.DropAll("lost"), StopAsked(joined=True, failed=True)], ids=["lost", "ends"])
def test_stores_that_come_after_the_end_for_a_task_that_waited_to_leave_are_closed(
    machine: Machine, end: Event
) -> None:
    effects = machine.handle(member.Adopt(2, BOTH), member.Adopt(3, NOTHING), end)
    assert handed_over(effects)[-1] == do.CloseTask(OTHER, 2)
    assert machine.handle(Restored(OTHER, OTHER_INPUTS)) == [do.CloseTask(OTHER, 3)]


def test_a_task_that_comes_back_while_it_waits_to_leave_runs_once_it_is_restored(machine: Machine) -> None:
    machine.handle(member.Adopt(2, BOTH), member.Adopt(3, NOTHING), member.Adopt(4, BOTH))
    assert machine.handle(Restored(OTHER, OTHER_INPUTS)) == [do.RunTask(OTHER, OTHER_INPUTS)]


def test_a_folder_stays_locked_until_the_last_order_to_close_is_carried_out() -> None:
    """Between two orders to close it the task was here again, and its stores may be open."""
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE), member.DropAll("lost"), member.Adopt(2, ACTIVE), member.DropAll("again"))
    assert machine.handle(Closed(TASK, 1)) == []
    assert machine.handle(Closed(TASK, 2)) == [do.ReleaseFolder(TASK)]


def test_stores_that_come_for_a_task_that_became_a_replica_are_tailed() -> None:
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE), member.Adopt(2, REPLICA))
    assert machine.handle(Restored(TASK, INPUTS)) == [do.TailTask(TASK)]


def test_other_inputs_of_a_restoring_task_are_looked_up_and_old_positions_are_not_used() -> None:
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE))
    grown = Adopted({TASK: INPUTS + OTHER_INPUTS}, frozenset(), frozenset())
    asked = do.RestoreTask(TASK, INPUTS + OTHER_INPUTS)
    assert asked in machine.handle(member.Adopt(2, grown))
    assert machine.handle(Restored(TASK, INPUTS)) == [asked]
    assert machine.handle(Restored(TASK, INPUTS + OTHER_INPUTS)) == [do.RunTask(TASK, INPUTS + OTHER_INPUTS)]


def found(*inputs: TopicPartition) -> Restored:
    """The positions of a task without stores."""
    return Restored(TASK, inputs, brought=False)


def test_old_positions_of_a_task_without_stores_are_not_asked_for_again() -> None:
    """The newest order is carried out without its stores. Another answer could come when the task has gone on."""
    both = (*INPUTS, *OTHER_INPUTS)
    machine = Machine()
    machine.handle(member.Adopt(1, ACTIVE), member.Adopt(2, Adopted({TASK: both}, frozenset(), frozenset())))
    assert machine.handle(found(*INPUTS)) == []
    assert machine.handle(found(*both)) == [do.RunTask(TASK, both)]


def test_positions_that_come_while_a_task_without_stores_pauses_are_older_than_its_failure(machine: Machine) -> None:
    machine.begin_commit()
    machine.handle(CommitEnded(CommitEnd.FAILED, [TASK], [TASK], "trouble"))
    assert machine.handle(found(*INPUTS)) == []
    machine.now_ms += LONGEST_PAUSE_MS
    assert machine.handle(Turned(joined=True))[0] == do.RestoreTask(TASK, INPUTS)
    assert machine.handle(found(*INPUTS)) == [do.RunTask(TASK, INPUTS)]


@pytest.mark.parametrize("committing", [False, True])
def test_positions_from_before_a_task_without_stores_was_taken_away_are_dropped(
    machine: Machine, committing: bool
) -> None:
    if committing:
        machine.begin_commit()
    machine.handle(member.DropAll("lost"), member.Adopt(2, ACTIVE))
    assert machine.handle(found(*INPUTS)) == []
    assert machine.handle(Closed(TASK, 1)) == []
    assert machine.handle(found(*INPUTS)) == [do.RunTask(TASK, INPUTS)]


def test_a_task_without_stores_that_is_to_leave_does_not_begin(machine: Machine) -> None:
    machine.handle(member.Adopt(2, NOTHING), StoreFailed(TASK, SPOILT))
    assert machine.handle(found(*INPUTS)) == [do.CloseTask(TASK, 1)]


def test_other_inputs_of_a_running_task_wait_for_a_commit(machine: Machine) -> None:
    grown = Adopted({TASK: INPUTS + OTHER_INPUTS}, frozenset(), frozenset())
    assert handed_over(machine.handle(member.Adopt(2, grown), Turned(joined=True))) == []
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert effects[1] == do.StopTask(TASK, INPUTS)
    assert handed_over(effects) == [do.RestoreTask(TASK, INPUTS + OTHER_INPUTS)]


def test_a_running_task_starts_again_once_and_with_the_inputs_of_the_newest_assignment(machine: Machine) -> None:
    grown = Adopted({TASK: INPUTS + OTHER_INPUTS}, frozenset(), frozenset())
    machine.handle(member.Adopt(2, grown), Turned(joined=True), member.Adopt(2, grown), member.Adopt(2, ACTIVE))
    assert handed_over(machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))) == [do.RestoreTask(TASK, INPUTS)]
    assert machine.handle(Turned(joined=True)) == [], "nothing waits for another commit"


def test_lost_input_is_looked_up_again_after_a_commit(machine: Machine) -> None:
    assert machine.handle(InputsLost(INPUTS)) == []
    assert machine.handle(Turned(joined=True)) == [do.BeginCommit()]
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert [*of(do.DiscardWork, effects), *handed_over(effects)] == [
        do.DiscardWork([TASK], "the brokers no longer hold its input"),
        do.RestoreTask(TASK, INPUTS),
    ]


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("how_it_ends", ["assignment", "lease"])
def test_lost_input_in_a_long_rebalance_waits_for_the_lease_or_the_assignment(
    exactly_once: bool, how_it_ends: str
) -> None:
    """A commit that begins after the lease is fenced, and all tasks are lost."""
    machine = Machine(exactly_once=exactly_once)
    machine.run()
    machine.handle(member.Commit(), InputsLost(INPUTS))
    machine.now_ms += 2 * SESSION_MS
    assert machine.handle(Turned(joined=False, full=True, lease_left_ms=-1)) == []
    assert not machine.tasks.commit_is_near, "or the loop would not rest"
    if how_it_ends == "assignment":
        machine.handle(member.Adopt(2, ACTIVE))
        assert machine.tasks.commit_is_near
        turned = Turned(joined=True)
    else:
        turned = Turned(joined=False, lease_left_ms=SESSION_MS / 2)
    assert machine.handle(turned) == [do.BeginCommit()]
    assert handed_over(machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))) == [do.RestoreTask(TASK, INPUTS)]
    assert machine.handle(turned) == [], "nothing waits for another commit"


def test_a_join_that_waits_for_a_commit_is_not_held_up_by_a_task_that_starts_again(machine: Machine) -> None:
    machine.handle(member.Commit(), InputsLost(INPUTS))
    machine.now_ms += INTERVAL_MS
    machine.handle(member.Commit())
    assert machine.handle(Turned(joined=False, lease_left_ms=-1)) == [do.BeginCommit()]


# --- stores and commits ----------------------------------------------------------


@pytest.mark.parametrize(("adopted", "order"), [(NOTHING, do.CloseTask(TASK, 1)), (REPLICA, do.TailTask(TASK))])
def test_a_store_that_fails_while_a_commit_is_under_way_stays_until_that_is_over(
    machine: Machine, adopted: Adopted, order: do.Effect
) -> None:
    machine.begin_commit()
    effects = machine.handle(StoreFailed(TASK, SPOILT), member.Adopt(2, adopted))
    assert handed_over(effects) == []
    assert of(do.ReportNothing, effects) == [do.ReportNothing(TASK)], "the next report may come first"
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert [type(effect) for effect in handed_over(effects)] == [do.RepairTask, type(order)]
    assert handed_over(effects)[1] == order


@pytest.mark.parametrize("adopted", [NOTHING, REPLICA], ids=["taken away", "copy"])
def test_a_task_that_failed_during_a_commit_is_released_once_that_is_over(machine: Machine, adopted: Adopted) -> None:
    """The commit holds records of the task, which may arrive until it ends: another member must not have it before."""
    machine.begin_commit()
    effects = machine.handle(StoreFailed(TASK, SPOILT), member.Adopt(2, adopted))
    assert of(do.TellMember, effects) == []
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert of(do.TellMember, effects) == [do.TellMember(member.TasksReleased(2))]
    machine.handle(member.Adopt(3, ACTIVE), Restored(TASK, INPUTS))
    machine.begin_commit()
    assert of(do.TellMember, machine.handle(member.Adopt(4, ACTIVE))) == [do.TellMember(member.TasksReleased(4))]


def test_an_abandoned_commit_frees_the_stores_at_once(machine: Machine) -> None:
    machine.begin_commit()
    effects = machine.handle(StoreFailed(TASK, SPOILT), member.DropAll("the group went on"))
    assert handed_over(effects) == [do.RepairTask(TASK, INPUTS, SPOILT), do.CloseTask(TASK, 1)]
    assert effects.index(do.AbandonCommit()) < effects.index(do.RepairTask(TASK, INPUTS, SPOILT))


def test_a_store_that_fails_between_two_commits_is_repaired_at_once(machine: Machine) -> None:
    assert machine.handle(StoreFailed(TASK, SPOILT)) == [
        do.StopTask(TASK, INPUTS),
        do.ReportNothing(TASK),
        do.AnnounceFailure(TASK, "spoilt", 0),
        do.DiscardWork([TASK], "spoilt"),
        do.RepairTask(TASK, INPUTS, SPOILT),
    ]
    assert machine.handle(StoreFailed(TASK, StateError("a later read"))) == []


def test_an_order_that_is_held_back_does_not_close_what_came_after_it() -> None:
    """A task is taken away during a commit, while its stores are on their way; they are closed when they come."""
    machine = Machine()
    machine.run(Adopted({OTHER: OTHER_INPUTS}, frozenset(), frozenset()))
    machine.handle(member.Adopt(2, BOTH))
    machine.begin_commit()
    only_other = Adopted({OTHER: OTHER_INPUTS}, frozenset(), frozenset())
    assert handed_over(machine.handle(member.Adopt(3, only_other))) == []
    assert handed_over(machine.handle(Restored(TASK, INPUTS))) == [do.CloseTask(TASK, 2)]
    machine.handle(Closed(TASK, 2), member.Adopt(4, BOTH))
    assert handed_over(machine.handle(CommitEnded(CommitEnd.DONE, [OTHER]))) == [do.RestoreTask(TASK, INPUTS)]


def test_inputs_that_change_while_an_order_is_held_back_go_with_it(machine: Machine) -> None:
    machine.begin_commit()
    machine.handle(StoreFailed(TASK, SPOILT))
    grown = Adopted({TASK: INPUTS + OTHER_INPUTS}, frozenset(), frozenset())
    assert handed_over(machine.handle(member.Adopt(2, grown))) == []
    assert handed_over(machine.handle(CommitEnded(CommitEnd.DONE))) == [
        do.RepairTask(TASK, INPUTS + OTHER_INPUTS, SPOILT)
    ]


def test_a_task_whose_commit_failed_pauses_longer_each_time_until_a_commit_succeeds(machine: Machine) -> None:
    pauses = []
    for _ in range(12):
        machine.begin_commit()
        effects = machine.handle(CommitEnded(CommitEnd.FAILED, [TASK], [TASK], "no answer"))
        assert handed_over(effects) == []
        assert do.DiscardWork([TASK], "no answer") in effects
        assert do.ReportStore(TASK) in effects
        (failure,) = of(do.AnnounceFailure, effects)
        assert isinstance(failure, do.AnnounceFailure)
        pauses.append(failure.pause_ms)
        machine.now_ms += failure.pause_ms - 1
        assert handed_over(machine.handle(Turned(joined=False))) == []
        machine.now_ms += 1
        assert handed_over(machine.handle(Turned(joined=False))) == [do.RestoreTask(TASK, INPUTS)]
        machine.handle(Restored(TASK, INPUTS))
    assert pauses[:3] == [FIRST_PAUSE_MS, FIRST_PAUSE_MS * 2, FIRST_PAUSE_MS * 4]
    assert pauses[-1] == LONGEST_PAUSE_MS
    machine.begin_commit()
    machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    machine.begin_commit()
    effects = machine.handle(CommitEnded(CommitEnd.FAILED, [TASK], [TASK], "no answer"))
    assert do.AnnounceFailure(TASK, "no answer", FIRST_PAUSE_MS) in effects


def test_what_an_assignment_asks_of_a_pausing_task_ends_its_pause(machine: Machine) -> None:
    machine.begin_commit()
    machine.handle(CommitEnded(CommitEnd.FAILED, [TASK], [TASK], "no answer"))
    assert handed_over(machine.handle(member.Adopt(2, NOTHING))) == [do.CloseTask(TASK, 1)]
    machine.now_ms += LONGEST_PAUSE_MS
    assert handed_over(machine.handle(Turned(joined=False))) == []


def test_a_task_that_fails_beside_others_pauses_alone(machine: Machine) -> None:
    machine.handle(member.Adopt(2, BOTH), Restored(OTHER, OTHER_INPUTS))
    machine.begin_commit()
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK, OTHER], [OTHER], "disk full"))
    assert do.DiscardWork([OTHER], "disk full") in effects
    assert machine.tasks.states() == {TASK: TaskState.RUNNING, OTHER: TaskState.RESTORING}


# --- the member's turns ------------------------------------------------------------


def test_a_commit_that_is_due_comes_before_a_join(machine: Machine) -> None:
    machine.now_ms += INTERVAL_MS
    assert machine.handle(member.Commit()) == []
    assert machine.handle(Turned(joined=True)) == [do.BeginCommit()]
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))[-1] == do.TellMember(member.WorkCommitted())


@pytest.mark.parametrize("joined", [True, False])  # JoinGroup has not left yet, or it has
@pytest.mark.parametrize("exactly_once", [True, False])
def test_commits_go_on_while_the_group_rebalances_if_the_session_lasts(joined: bool, exactly_once: bool) -> None:
    machine = Machine(exactly_once=exactly_once)
    machine.run()
    machine.handle(member.Commit())
    machine.now_ms += INTERVAL_MS
    assert machine.handle(Turned(joined, lease_left_ms=SESSION_MS / 2 - 1)) == []
    assert machine.handle(Turned(joined, full=True)) == []
    assert machine.handle(Turned(joined, lease_left_ms=SESSION_MS / 2)) == [do.BeginCommit()]
    machine.handle(CommitEnded(CommitEnd.DEFERRED, [TASK]), member.Adopt(2, ACTIVE))
    machine.now_ms += INTERVAL_MS
    assert machine.handle(Turned(joined=True)) == [do.BeginCommit()]


def test_outputs_leave_before_their_commit_under_a_lease_that_outlasts_their_delivery(machine: Machine) -> None:
    limit_ms = delivery_limit_ms(SESSION_MS)
    assert machine.tasks.may_send_ahead(limit_ms)
    assert not machine.tasks.may_send_ahead(limit_ms - 1)


def test_no_output_leaves_before_its_transaction_or_after_the_membership_is_lost(machine: Machine) -> None:
    assert not Machine(exactly_once=True).tasks.may_send_ahead(SESSION_MS)
    machine.begin_commit()
    machine.handle(CommitEnded(CommitEnd.FENCED, [TASK]))
    assert not machine.tasks.may_send_ahead(SESSION_MS)


def test_what_was_committed_less_than_an_interval_ago_is_not_committed_again_before_a_join(machine: Machine) -> None:
    assert machine.handle(member.Commit()) == [do.TellMember(member.WorkCommitted())]


def test_a_join_waits_for_the_commit_under_way(machine: Machine) -> None:
    machine.begin_commit()
    assert machine.handle(member.Commit()) == []
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))[-1] == do.TellMember(member.WorkCommitted())


def test_a_fenced_commit_loses_the_membership_and_begins_no_other(machine: Machine) -> None:
    machine.begin_commit()
    effects = machine.handle(member.Commit(), CommitEnded(CommitEnd.FENCED, [TASK]))
    assert effects == [
        do.FinishCommit(CommitEnd.FENCED),
        do.TellMember(member.MembershipLost("commit ended as fenced")),
    ]
    machine.now_ms += INTERVAL_MS
    machine.handle(member.Commit(), InputsLost(INPUTS))  # ordered before the loss was known
    assert machine.handle(Turned(joined=True, full=True, lease_left_ms=SESSION_MS)) == []
    assert not machine.tasks.is_due(machine.now_ms, full=True)
    assert not machine.tasks.commit_is_near


def test_an_assignment_that_arrives_after_a_fenced_commit_is_not_taken_over(machine: Machine) -> None:
    """Its tasks would go on behind the work that the commit has lost."""
    machine.begin_commit()
    machine.handle(CommitEnded(CommitEnd.FENCED, [TASK]))
    assert machine.handle(member.Adopt(2, REPLICA)) == []
    machine.handle(member.DropAll("the commit was fenced"))
    machine.handle(member.Adopt(3, ACTIVE))
    assert machine.tasks.state(TASK) is TaskState.RESTORING


def test_no_commit_begins_before_the_member_has_joined_unless_something_waits_for_it(machine: Machine) -> None:
    machine.now_ms += INTERVAL_MS
    assert machine.handle(Turned(joined=False, full=True)) == []
    machine.handle(InputsLost(INPUTS))
    assert machine.handle(Turned(joined=False)) == [do.BeginCommit()]


def test_a_full_buffer_does_not_wait_for_the_interval(machine: Machine) -> None:
    assert machine.handle(Turned(joined=True)) == []
    assert machine.tasks.is_due(machine.now_ms, full=True)
    assert machine.handle(Turned(joined=True, full=True)) == [do.BeginCommit()]


def test_partition_times_are_committed_once_more_for_tasks_that_leave_under_exactly_once() -> None:
    machine = Machine(exactly_once=True)
    machine.run()
    effects = machine.handle(member.Adopt(2, NOTHING), Turned(joined=True), CommitEnded(CommitEnd.DONE, [TASK]))
    assert effects.index(do.CommitTimes([TASK])) < effects.index(do.StopTask(TASK, INPUTS))


# --- the end -------------------------------------------------------------------------

ENDED = [do.StopWork(), do.StopTask(TASK, INPUTS), do.CloseTask(TASK, 1), do.EndLoop()]


def test_a_process_that_ends_commits_once_more_and_closes_everything(machine: Machine) -> None:
    assert machine.handle(StopAsked(joined=True)) == [do.BeginCommit()]
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK])) == [do.FinishCommit(CommitEnd.DONE), *ENDED]
    assert machine.handle(Closed(TASK, 1)) == [do.ReleaseFolder(TASK)]


def test_a_process_that_ends_lets_the_commit_under_way_end_first(machine: Machine) -> None:
    machine.begin_commit()
    assert machine.handle(StopAsked(joined=True)) == []
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))[-1] == do.BeginCommit()
    assert machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))[1:] == ENDED


@pytest.mark.parametrize("end", [CommitEnd.FENCED, CommitEnd.FAILED])
def test_a_process_that_ends_does_not_commit_after_a_commit_that_did_not_succeed(
    machine: Machine, end: CommitEnd
) -> None:
    machine.begin_commit()
    effects = machine.handle(StopAsked(joined=True), CommitEnded(end, [TASK], [TASK], "no answer"))
    assert of(do.BeginCommit, effects) == []
    assert effects[-1] == do.EndLoop()
    assert do.CloseTask(TASK, 1) in effects


def test_a_process_that_ends_while_it_joins_commits_nothing(machine: Machine) -> None:
    assert machine.handle(StopAsked(joined=False)) == ENDED
    machine = Machine()
    machine.run()
    machine.handle(member.Commit())
    assert machine.handle(StopAsked(joined=True)) == ENDED


def test_a_process_that_ends_by_an_error_abandons_the_commit_under_way(machine: Machine) -> None:
    machine.begin_commit()
    assert machine.handle(StopAsked(joined=True, failed=True)) == [do.AbandonCommit(), *ENDED]


def test_a_process_that_loses_its_membership_while_it_ends_closes_everything(machine: Machine) -> None:
    machine.handle(StopAsked(joined=True))
    effects = machine.handle(member.DropAll("the group went on"))
    assert handed_over(effects) == [do.CloseTask(TASK, 1)]
    assert effects[-1] == do.EndLoop()
    assert machine.handle(member.DropAll("once more")) == [], "nothing is left to drop"


# --- time -----------------------------------------------------------------------------


def test_due_is_when_a_turn_has_something_to_do(machine: Machine) -> None:
    assert machine.tasks.due_ms() == machine.now_ms + INTERVAL_MS
    machine.begin_commit()
    assert machine.tasks.due_ms() is None
    machine.handle(CommitEnded(CommitEnd.FAILED, [TASK], [TASK], "no answer"))
    assert machine.tasks.due_ms() == machine.now_ms + FIRST_PAUSE_MS
    assert not machine.tasks.is_due(machine.now_ms, full=False)
    machine.now_ms += FIRST_PAUSE_MS
    assert machine.tasks.is_due(machine.now_ms, full=False)


def test_partition_times_are_committed_with_the_last_commit() -> None:
    machine = Machine(exactly_once=True)
    machine.run()
    machine.handle(StopAsked(joined=True))
    effects = machine.handle(CommitEnded(CommitEnd.DONE, [TASK]))
    assert effects == [do.FinishCommit(CommitEnd.DONE), do.CommitTimes([TASK]), *ENDED]


@pytest.mark.parametrize("joined", [True, False])
def test_partition_times_are_not_committed_where_a_commit_is_given_up(joined: bool) -> None:
    """They go with the offsets that the commit began with, whose results may not be committed."""
    machine = Machine(exactly_once=True)
    machine.run()
    machine.begin_commit()
    assert machine.handle(StopAsked(joined=joined, failed=True)) == [do.AbandonCommit(), *ENDED]
