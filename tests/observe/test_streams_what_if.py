"""Predictions of changes of streams groups: what moves, how long it is silent, and the classic group beside it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.assign.streams_group import StreamsGroupInput
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_what_if import (
    StreamsChange,
    StreamsGroupState,
    classic_outcome,
    cold_in_classic_group,
    predict_streams_change,
)

A, B = str(UUID(int=1)), str(UUID(int=2))
OFFSETS = 300_000


def tasks(*numbers):
    return frozenset(TaskId(0, number) for number in numbers)


def two_processes(standbys=0):
    """Six stateful tasks on two processes of one member each, with or without standbys on the other."""
    first, second = tasks(0, 1, 2), tasks(3, 4, 5)
    members = (
        StreamsMember("a", A, first, second if standbys else frozenset()),
        StreamsMember("b", B, second, first if standbys else frozenset()),
    )
    group = StreamsGroupInput(members, {0: SubtopologyTasks(6, is_stateful=True)}, standbys)
    return StreamsGroupState(group, dict.fromkeys(tasks(*range(6)), OFFSETS))


def test_a_third_process_gets_two_cold_tasks_that_are_silent_while_they_are_restored():
    outcome = predict_streams_change(two_processes(), StreamsChange(add=1), offsets_per_s=300_000)
    assert outcome.owner_changes_range == (2, 2)
    assert [move.source for move in outcome.moves] == [A, B]
    assert len({move.destination for move in outcome.moves}) == 1
    for move in outcome.cold:
        assert move.restore_offsets == OFFSETS
        assert move.silence_ms == (1_000, 7_000)  # own restore; both restores and a whole heartbeat interval
    assert outcome.silence_ms_max == 7_000


def test_a_process_that_is_named_twice_is_refused():
    with pytest.raises(ConfigError, match="a process is named twice to be removed or replaced"):
        predict_streams_change(two_processes(), StreamsChange(add=2, remove=(A, A)))


def test_without_a_restore_rate_the_silence_is_not_known():
    outcome = predict_streams_change(two_processes(), StreamsChange(add=1))
    assert [move.silence_ms for move in outcome.moves] == [None, None]
    assert outcome.silence_ms_max is None


def test_a_standby_takes_over_without_a_restore():
    outcome = predict_streams_change(two_processes(standbys=1), StreamsChange(remove=(B,)), offsets_per_s=1)
    assert [move.task for move in outcome.moves] == sorted(tasks(3, 4, 5))
    assert all(move.is_warm and move.destination == A for move in outcome.moves)
    assert not outcome.cold
    assert outcome.silence_ms_max == 5_000  # the heartbeat interval alone


def test_more_standbys_move_nothing_and_are_built():
    outcome = predict_streams_change(two_processes(), StreamsChange(num_standby_replicas=1))
    assert outcome.moves == ()
    assert outcome.new_standbys == 6
    assert outcome.silence_ms_max == 0


def test_a_process_that_leaves_while_another_joins_is_replaced():
    outcome = predict_streams_change(two_processes(), StreamsChange(add=1, remove=(B,)), offsets_per_s=OFFSETS)
    assert {TaskId(0, 3), TaskId(0, 4), TaskId(0, 5)} <= {move.task for move in outcome.moves}
    assert outcome.owner_changes_range[0] >= 3


def cold_with_warm_join(standbys: int, *remove: str, add: int = 1) -> tuple[int, int]:
    """Return how many moves to the newcomers are cold, and how many of those stay cold with ``warm_join``."""
    outcome = predict_streams_change(two_processes(standbys), StreamsChange(add=add, remove=remove))
    joining = [move for move in outcome.cold if move.destination not in {A, B}]
    return len(joining), len([move for move in outcome.cold_with_warm_join if move in joining])


def test_a_worker_joins_warm_only_where_another_process_runs_its_task_meanwhile():
    assert cold_with_warm_join(0) == (2, 0)
    assert cold_with_warm_join(0, B) == (3, 3), "the process that stays has no state of what the other one ran"
    assert cold_with_warm_join(1, B) == (3, 0), "its standbys take over"
    assert cold_with_warm_join(1, A, B, add=2) == (6, 6)


def test_a_process_of_the_group_that_takes_over_cold_stays_cold():
    outcome = predict_streams_change(two_processes(), StreamsChange(remove=(B,)))
    assert outcome.cold_with_warm_join == outcome.cold
    assert len(outcome.cold) == 3


@pytest.mark.parametrize(("offsets", "standbys", "cold"), [(OFFSETS, 0, 3), (1, 0, 3), (0, 0, 0), (OFFSETS, 1, 0)])
def test_in_a_classic_group_a_task_that_has_no_owner_is_cold_if_anything_is_to_be_read(offsets, standbys, cold):
    """A lag within ``acceptable_recovery_lag`` (10,000) is no hand-over where no process runs the task meanwhile."""
    state = two_processes(standbys)
    state = replace(state, restore_offsets=dict.fromkeys(state.restore_offsets, offsets))
    assert cold_in_classic_group(classic_outcome(state, StreamsChange(add=1, remove=(B,)))) == cold


def test_in_a_classic_group_a_task_that_is_warmed_up_first_is_not_cold():
    assert cold_in_classic_group(classic_outcome(two_processes(), StreamsChange(add=1))) == 0


def test_a_change_of_nothing_moves_nothing():
    outcome = predict_streams_change(two_processes(), StreamsChange())
    assert (outcome.moves, outcome.new_standbys, outcome.owner_changes_range) == ((), 0, (0, 0))


def test_stateless_tasks_wait_for_a_heartbeat_only():
    group = StreamsGroupInput((StreamsMember("a", A, tasks(0, 1)),), {0: SubtopologyTasks(2, is_stateful=False)})
    outcome = predict_streams_change(StreamsGroupState(group, {}, heartbeat_interval_ms=300), StreamsChange(add=1))
    assert [move.silence_ms for move in outcome.moves] == [(0, 300)]


def test_the_classic_group_warms_up_first():
    change = StreamsChange(add=1)
    classic = classic_outcome(two_processes(), change, offsets_per_s=300_000)
    assert classic.owner_changes == 2
    assert classic.cold == 0
    assert classic.extra_replicas > 0
    assert len(predict_streams_change(two_processes(), change, offsets_per_s=300_000).cold) == 2


def test_the_classic_group_takes_the_same_changes():
    assert classic_outcome(two_processes(1), StreamsChange(remove=(B,))).adopted == 3
    assert classic_outcome(two_processes(), StreamsChange(num_standby_replicas=1)).owner_changes == 0


def test_what_cannot_be_played_is_refused():
    with pytest.raises(ConfigError, match=f"process nobody is not in the group: {A}, {B}"):
        predict_streams_change(two_processes(), StreamsChange(remove=("nobody",)))
    with pytest.raises(ConfigError, match="no process would be left"):
        predict_streams_change(two_processes(), StreamsChange(remove=(A, B)))
    with pytest.raises(ConfigError, match="offsets_per_s is 0: must be at least 1"):
        predict_streams_change(two_processes(), StreamsChange(), offsets_per_s=0)
    with pytest.raises(ConfigError, match="num_standby_replicas is -1"):
        StreamsChange(num_standby_replicas=-1)
    with pytest.raises(ConfigError, match="threads is 0"):
        StreamsChange(threads=0)
