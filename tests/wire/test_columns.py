"""Columns of tasks compared with their twin, which handles tasks singly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.wire.columns import task_columns, task_ids
from tests.wire.strategies import int32, small, unhurried

plain = st.builds(TaskId, small | int32, small | int32)
named = st.builds(TaskId, small | int32, small | int32, st.sampled_from([None, "", "a", "b"]))


@given(st.lists(plain, max_size=20) | st.lists(named, max_size=20), st.sampled_from([9, 10]))
@unhurried
def test_columns_equal_their_twin_task_by_task(tasks, version):
    if version < 10 and any(task.topology for task in tasks):
        first = next(task for task in tasks if task.topology)
        refused = f"task {first}: version {version} carries no named topologies; 10 does"
        with pytest.raises(ConfigError, match=re.escape(refused)):
            task_columns(tasks, version)
        return
    columns = task_columns(tasks, version)
    assert columns["subtopology"] == [task.subtopology for task in tasks]
    assert columns["partition"] == [task.partition for task in tasks]
    assert columns.get("topology") == ([task.topology or None for task in tasks] if version >= 10 else None)
    assert task_ids(columns) == tuple(task._replace(topology=task.topology or None) for task in tasks)


def test_the_tasks_of_a_mapping_are_its_keys():
    assert task_columns({TaskId(1, 2): 5, TaskId(3, 4): 6}, 9) == {"subtopology": [1, 3], "partition": [2, 4]}
