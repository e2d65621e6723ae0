"""KIP-441's two conditions, what counts as an owner change, and the lower bound against brute force."""

from __future__ import annotations

from itertools import product
from uuid import UUID

import pytest

from kstreams_assign.assign import (
    is_instance_balanced,
    is_subtopology_balanced,
    owner_changes,
    owner_changes_lower_bound,
    subtopology_spread,
)
from kstreams_assign.model import TaskId
from tests.samples import sample

A, B, C, GONE = (UUID(int=number) for number in (1, 2, 3, 9))
T = [TaskId(0, partition) for partition in range(8)]


@pytest.mark.parametrize(
    ("counts", "threads", "even"),
    [
        ((2, 2, 2), (1, 1, 1), True),
        ((3, 2, 2), (1, 1, 1), True),
        ((3, 3, 1), (1, 1, 1), False),
        ((1, 0, 0), (1, 1, 1), True),
        ((2, 0, 0), (1, 1, 1), False),
        ((4, 2, 0), (2, 1, 1), False),
        ((4, 2, 2), (2, 1, 1), True),
        ((2, 3, 2), (2, 1, 1), False),
        ((4, 2, 1), (2, 1, 1), True),
    ],
)
def test_instances_are_balanced_when_each_runs_its_share(counts, threads, even):
    tasks = iter(T)
    owners = {next(tasks): process for process, count in zip((A, B, C), counts, strict=True) for _ in range(count)}
    assert is_instance_balanced(owners, dict(zip((A, B, C), threads, strict=True))) is even


def test_a_task_on_an_absent_process_is_not_balanced():
    assert not is_instance_balanced({T[0]: GONE}, {A: 1, B: 1})


def test_subtopologies_are_balanced_when_their_numbers_of_processes_differ_by_at_most_1():
    wide = {TaskId(0, 0): A, TaskId(0, 1): B, TaskId(0, 2): C}
    assert subtopology_spread(wide | {TaskId(1, 0): A}) == {(None, 0): 3, (None, 1): 1}
    assert not is_subtopology_balanced(wide | {TaskId(1, 0): A, TaskId(1, 1): A})
    assert is_subtopology_balanced(wide | {TaskId(1, 0): A, TaskId(1, 1): B})
    assert is_subtopology_balanced({})


def test_a_task_changes_its_owner_only_if_the_old_owner_is_still_present():
    before = {T[0]: A, T[1]: A, T[2]: GONE, T[5]: A}
    after = {T[0]: A, T[1]: B, T[2]: B, T[3]: C}
    assert owner_changes(before, after, {A, B, C}) == ([T[1]], [T[2], T[3]])


THREADS = [(1,), (2,), (1, 1), (1, 2), (3, 1), (1, 1, 1), (2, 1, 1), (1, 2, 3)]


@pytest.mark.parametrize("threads", sample(THREADS, 4))
def test_the_lower_bound_equals_brute_force(threads):
    """All small clusters: every way to have owned up to five tasks, orphans and new tasks among them."""
    processes = (A, B, C)[: len(threads)]
    capacities = dict(zip(processes, threads, strict=True))
    for size in range(6):
        tasks = T[:size]
        balanced = [
            owners
            for owners in product(processes, repeat=size)
            if is_instance_balanced(dict(zip(tasks, owners, strict=True)), capacities)
        ]
        for before in product((None, GONE, *processes), repeat=size):
            fewest = min(
                sum(old in capacities and old != new for old, new in zip(before, after, strict=True))
                for after in balanced
            )
            had = {task: owner for task, owner in zip(tasks, before, strict=True) if owner is not None}
            assert owner_changes_lower_bound(had, capacities, tasks) == fewest, (had, capacities)


def test_growing_from_10_to_11_processes_with_200_tasks_needs_18_changes():
    processes = [UUID(int=number) for number in range(11)]
    tasks = [TaskId(0, partition) for partition in range(200)]
    before = {task: processes[task.partition % 10] for task in tasks}
    assert owner_changes_lower_bound(before, dict.fromkeys(processes, 1), tasks) == 18
