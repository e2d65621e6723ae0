"""A task that many members tell of is one object, and what is kept of tasks is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import TaskId
from kstreams_assign.wire import task_numbers
from kstreams_assign.wire.task_numbers import TASKS_KEPT_MAX, _packed, _Tasks

int32 = st.integers(-(2**31), 2**31 - 1)


@given(int32, int32)
def test_a_task_is_what_its_eight_bytes_say_and_made_once(subtopology, partition):
    task = TaskId(subtopology, partition)
    tasks = _Tasks()
    assert tasks[_packed(task)] == task
    assert tasks[_packed(task)] is tasks[_packed(task)]
    assert isinstance(tasks[_packed(task)], TaskId)


def test_more_tasks_than_a_group_has_are_not_kept(monkeypatch):
    monkeypatch.setattr(task_numbers, "TASKS_KEPT_MAX", 10)
    tasks = _Tasks()
    assert [tasks[number].partition for number in range(25)] == list(range(25))
    assert len(tasks) == 5
    assert TASKS_KEPT_MAX >= 20_000
