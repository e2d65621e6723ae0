"""A task's life: the table, and what an assignment asks of the tasks at hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import TaskId
from kstreams_assign.tasks.commit import AT_LEAST_ONCE, EXACTLY_ONCE, CommitEnd, CommitStep, Outcome, next_step
from kstreams_assign.tasks.lifecycle import TRANSITIONS, Step, TaskEvent, TaskState, changes, move

TASKS = [TaskId(0, p) for p in range(4)]
states = st.dictionaries(st.sampled_from(TASKS), st.sampled_from([s for s in TaskState if s is not TaskState.CLOSED]))


def test_a_task_that_ran_is_stopped_before_anything_else_happens_to_it() -> None:
    for (state, _), (_, steps) in TRANSITIONS.items():
        if state is TaskState.RUNNING:
            assert steps[0] is Step.STOP


def test_a_copy_that_becomes_active_keeps_its_store_open() -> None:
    assert move(TaskState.TAILING, TaskEvent.MADE_ACTIVE) == (TaskState.RESTORING, (Step.RESTORE,))


@given(current=states, active=st.sets(st.sampled_from(TASKS)), copies=st.sets(st.sampled_from(TASKS)))
def test_after_the_changes_exactly_the_assigned_tasks_are_here_in_their_roles(
    current: dict[TaskId, TaskState], active: set[TaskId], copies: set[TaskId]
) -> None:
    copies = copies - active
    todo = changes(current, active, copies)
    after = dict(current)
    for task, event in (*todo.leaving.items(), *todo.arriving.items()):
        after[task], _ = move(after.get(task, TaskState.CLOSED), event)
    held = {task: state for task, state in after.items() if state is not TaskState.CLOSED}
    assert {t for t, s in held.items() if s is TaskState.TAILING} == copies
    assert {t for t, s in held.items() if s in (TaskState.RESTORING, TaskState.RUNNING)} == active


@given(current=states)
def test_an_assignment_that_changes_nothing_disturbs_nobody(current: dict[TaskId, TaskState]) -> None:
    copies = {t for t, s in current.items() if s is TaskState.TAILING}
    todo = changes(current, current.keys() - copies, copies)
    assert not todo.leaving
    assert not todo.arriving


def test_a_commit_sends_nothing_without_a_lease_and_writes_no_store_before_the_flush() -> None:
    assert next_step(CommitStep.LEASE, Outcome.EXPIRED) is CommitEnd.FENCED
    reached = {to for _, to in AT_LEAST_ONCE.items()}
    assert CommitStep.STORE in reached
    assert [step for (step, _), to in AT_LEAST_ONCE.items() if to is CommitStep.STORE] == [CommitStep.FLUSH]
    assert [step for (step, _), to in AT_LEAST_ONCE.items() if to is CommitStep.OFFSETS] == [CommitStep.STORE]


def test_exactly_once_the_store_follows_the_transaction_and_what_was_begun_is_taken_back() -> None:
    assert [step for (step, _), to in EXACTLY_ONCE.items() if to is CommitStep.STORE] == [CommitStep.TRANSACTION]
    begun = (CommitStep.BEGIN, CommitStep.PRODUCE, CommitStep.FLUSH, CommitStep.OFFSETS, CommitStep.TRANSACTION)
    for (step, outcome), to in EXACTLY_ONCE.items():
        if step in begun and outcome is not Outcome.OK:
            assert to in (CommitStep.ABORT, CommitStep.WITHDRAW, CommitStep.RESTART)


def test_a_task_whose_commit_failed_restores_where_it_is() -> None:
    assert move(TaskState.RUNNING, TaskEvent.FAILED) == (TaskState.RESTORING, (Step.STOP, Step.RESTORE))
