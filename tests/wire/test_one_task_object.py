"""A task that many members report is a single object, and the cache of tasks is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import TaskId
from kstreams_assign.wire import task_numbers
from kstreams_assign.wire.task_numbers import TASKS_KEPT_MAX, _packed, _Tasks

int32 = st.integers(-(2**31), 2**31 - 1)


@given(int32, int32)
def test_a_task_equals_its_eight_bytes_and_is_built_once(subtopology, partition):
    task = TaskId(subtopology, partition)
    tasks = _Tasks()
    assert tasks[_packed(task)] == task
    assert tasks[_packed(task)] is tasks[_packed(task)]
    assert isinstance(tasks[_packed(task)], TaskId)


def test_the_cache_of_tasks_is_bounded(monkeypatch):
    monkeypatch.setattr(task_numbers, "TASKS_KEPT_MAX", 10)
    tasks = _Tasks()
    assert [tasks[number].partition for number in range(25)] == list(range(25))
    assert len(tasks) == 5
    assert TASKS_KEPT_MAX >= 20_000
