"""Tasks and numbers as columns compared with their twin, a dict built row by row."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import TaskId
from kstreams_assign.wire import SubscriptionInfo, decode_subscription, encode_subscription
from kstreams_assign.wire.compile import layout
from kstreams_assign.wire.task_numbers import TaskNumbers, _rows, task_numbers
from tests.wire.strategies import int32, int64, small, unhurried
from tests.wire.twin import rows_of

PROCESS = UUID(int=7)
rows = st.lists(st.tuples(small | int32, small | int32, int64), max_size=30)


def columns_of(rows):
    """Return the rows as the engine reads them from bytes, including duplicate tasks."""
    record = layout("SubscriptionInfo", 11).read(encode_subscription(SubscriptionInfo(11, 11, PROCESS)))[0]
    subtopologies, partitions, sums = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    names = [None] * len(rows)
    filled = {"subtopology": subtopologies, "partition": partitions, "offset_sum": sums, "topology": names}
    data = layout("SubscriptionInfo", 11).write(record | {"task_offset_sums": filled})
    return layout("SubscriptionInfo", 11).read(data)[0]["task_offset_sums"]


def twin(columns) -> dict[TaskId, int]:
    return {TaskId(row["subtopology"], row["partition"]): row["offset_sum"] for row in rows_of(columns)}


@given(rows)
@unhurried
def test_the_mapping_equals_its_twin(rows):
    columns = columns_of(rows)
    read, plain = task_numbers(columns, "offset_sum"), twin(columns)
    assert read == plain
    assert plain == read
    assert list(read) == list(plain)
    assert list(read.items()) == list(plain.items())
    assert list(read.values()) == list(plain.values())
    assert len(read) == len(plain)
    assert {task: read[task] for task in plain} == plain
    assert repr(read) == repr(plain)


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 5000])
def test_any_number_of_tasks_equals_its_twin(count):
    columns = columns_of([(n % 7, n, n - 3) for n in range(count)])
    assert list(task_numbers(columns, "offset_sum").items()) == list(twin(columns).items())


def test_equal_tasks_are_built_once_and_numbers_are_never_shared():
    first = task_numbers(columns_of([(0, 1, 5), (0, 2, 6)]), "offset_sum")
    second = task_numbers(columns_of([(0, 1, 7), (0, 2, -2)]), "offset_sum")
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]
    assert dict(first) == {TaskId(0, 1): 5, TaskId(0, 2): 6}
    assert dict(second) == {TaskId(0, 1): 7, TaskId(0, 2): -2}


def test_the_same_tasks_in_another_order_keep_it():
    tasks = [(0, 1, 5), (0, 2, 6), (1, 0, 7)]
    for rows in (tasks, tasks[::-1], tasks):
        assert [(*task[:2], number) for task, number in task_numbers(columns_of(rows), "offset_sum").items()] == rows


@pytest.mark.parametrize(
    "stranger",
    [
        TaskId(0, 3),
        TaskId(1, 0),
        TaskId(0, 1, "top"),
        TaskId(0, 2**32 + 1),
        TaskId(-1, 2**32),
        TaskId(2**40, 1),
        "0_1",
        None,
    ],
)
def test_an_unreported_task_is_missing(stranger):
    read = task_numbers(columns_of([(0, 1, 5), (0, 0, 5)]), "offset_sum")
    assert stranger not in read
    assert read.get(stranger) is None
    with pytest.raises(KeyError):
        read[stranger]


def test_the_cache_of_rows_is_bounded():
    _rows.cache_clear()
    for n in range(300):
        task_numbers(columns_of([(0, n, 1)]), "offset_sum")
    assert _rows.cache_info().currsize == 256
    task_numbers(columns_of([(1, n, 1) for n in range(1025)]), "offset_sum")
    assert not any(len(task_numbers(columns_of([]), "offset_sum")) for _ in range(2))
    assert _rows.cache_info().misses == 301


def test_named_topologies_and_repeated_tasks_are_plain_dicts():
    """Both are rare; the columns of a block hold neither."""
    named = SubscriptionInfo(11, 11, PROCESS, None, {TaskId(0, 1, "top"): 1, TaskId(0, 1): 2})
    assert type(decode_subscription(encode_subscription(named)).task_offset_sums) is dict
    assert task_numbers(columns_of([(0, 1, 5), (0, 2, 6), (0, 1, 7)]), "offset_sum") == {
        TaskId(0, 1): 7,
        TaskId(0, 2): 6,
    }


def test_a_subscription_that_was_read_can_be_copied_and_sent():
    read = decode_subscription(encode_subscription(SubscriptionInfo(11, 11, PROCESS, None, {TaskId(0, 1): 5})))
    assert isinstance(read.task_offset_sums, TaskNumbers)
    assert isinstance(read.task_offset_sums, Mapping)
    assert pickle.loads(pickle.dumps(read)) == read
