"""Which tasks fit on the disk before a process joins a streams group."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.engine.warm_disk import MEASURABLE_BYTES, Disk, Shortage, find_shortage
from kstreams_assign.model import TaskId

ACCEPTABLE = 100
MIB = 1 << 20


def tasks(*partitions: int, subtopology: int = 0) -> frozenset[TaskId]:
    return frozenset(TaskId(subtopology, partition) for partition in partitions)


def by_task(numbers: Mapping[int, int]) -> dict[TaskId, int]:
    return {TaskId(0, partition): number for partition, number in numbers.items()}


def shortage(
    lags: Mapping[int, int], held: Mapping[int, int], room: int, max_bytes: int | None = None
) -> Shortage | None:
    """Return the shortage of tasks 1 and 2 (active) and 3 (standby), with 1,000 offsets each."""
    offsets = by_task(dict.fromkeys((1, 2, 3), 1_000))
    disk = Disk(room + MIB, MIB, by_task(held))
    return find_shortage(tasks(1, 2), tasks(3), offsets, by_task(lags), disk, max_bytes, ACCEPTABLE)


def test_nothing_is_predicted_from_little_state() -> None:
    assert shortage({1: 999, 2: 999, 3: 999}, {1: MEASURABLE_BYTES - 1}, room=0) is None
    assert shortage({1: 999, 2: 999, 3: 999}, {1: MEASURABLE_BYTES}, room=0) is not None


def test_active_tasks_have_precedence_and_small_ones_come_first() -> None:
    lags, held = {1: 600, 2: 200, 3: 200}, {1: 8 * MIB, 2: 16 * MIB, 3: 16 * MIB}  # 20 MiB for 1,000 offsets
    assert shortage(lags, held, room=20 * MIB) is None
    assert shortage(lags, held, room=19 * MIB) == Shortage(tasks(3), 20 * MIB, 19 * MIB, "state_dir")
    assert shortage(lags, held, room=9 * MIB) == Shortage(tasks(1), 20 * MIB, 9 * MIB, "state_dir")
    assert shortage(lags, held, room=3 * MIB) == Shortage(tasks(1, 2, 3), 20 * MIB, 3 * MIB, "state_dir")


def test_the_limit_that_binds_is_named() -> None:
    lags, held = {1: 600, 2: 200, 3: 200}, {1: 8 * MIB, 2: 16 * MIB, 3: 16 * MIB}
    assert shortage(lags, held, room=99 * MIB, max_bytes=60 * MIB) is None
    limited = shortage(lags, held, room=99 * MIB, max_bytes=59 * MIB)
    assert limited == Shortage(tasks(3), 20 * MIB, 19 * MIB, "warm_join_max_bytes")


def test_a_task_that_is_caught_up_fits_on_a_full_disk() -> None:
    lags, held = {1: 0, 2: ACCEPTABLE, 3: ACCEPTABLE + 1}, {1: 20 * MIB, 2: 18 * MIB, 3: 17 * MIB}
    full = shortage(lags, held, room=-MIB)
    assert full is not None
    assert (full.tasks, full.room_bytes) == (tasks(3), 0)


def test_state_that_is_on_the_disk_and_not_open_yet_counts() -> None:
    """A process that comes back finds most of its state, and opens one task after the other."""
    assert shortage({1: 0}, dict.fromkeys((1, 2, 3), 20 * MIB), room=0) is None


def test_each_subtopology_has_its_own_size_of_an_offset() -> None:
    large, small = TaskId(0, 1), TaskId(1, 1)
    offsets, lags = {large: 1_000, small: 1_000_000}, {large: 500, small: 500_000}
    disk = Disk(100 * MIB, 0, {large: 50 * MIB, small: 50 * MIB})
    assert find_shortage({large, small}, frozenset(), offsets, lags, disk, None, ACCEPTABLE) is None
    less = Disk(99 * MIB, 0, disk.held_bytes)
    found = find_shortage({large, small}, frozenset(), offsets, lags, less, None, ACCEPTABLE)
    assert found is not None
    assert found.needed_bytes == 100 * MIB


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 1_000)),
    st.dictionaries(st.integers(0, 5), st.integers(0, 64 * MIB)),
    st.integers(0, 64 * MIB),
)
def test_what_is_left_fits_and_nothing_is_left_out_in_vain(
    lags: dict[int, int], held: dict[int, int], room: int
) -> None:
    every = tasks(*range(6))
    offsets = dict.fromkeys(every, 1_000)
    disk = Disk(room, 0, by_task(held))
    found = find_shortage(every, frozenset(), offsets, by_task(lags), disk, None, ACCEPTABLE)
    if found is None:
        return
    kept = every - found.tasks
    assert find_shortage(kept, frozenset(), offsets, by_task(lags), disk, None, ACCEPTABLE) is None
    assert found.needed_bytes > found.room_bytes
