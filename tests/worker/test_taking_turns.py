"""What the loop does beside records may take long: it keeps no records, commits or other tasks waiting for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from kstreams_assign import Task
from kstreams_assign.worker.lookup import Reading
from tests.worker.loop_in_memory import COMMIT_INTERVAL_MS, Room, task_of

Call = Callable[[Task, int], None]


@pytest.fixture(params=[False, True], ids=["at_least_once", "exactly_once_v2"])
def room(request: pytest.FixtureRequest) -> Room:
    return Room(exactly_once=request.param, partitions=3, max_poll_records=1)


def begin(room: Room, interval_ms: int, call: Call) -> None:
    """Let each task run, process a record, and have a punctuator."""
    room.adopt(1, range(3))
    for partition in range(3):
        room.put(partition, 1)
    room.turn(9)
    for task in room.tasks.values():
        task.every(interval_ms, call, clock="wall")
    assert room.tasks.keys() == {0, 1, 2}


def test_each_call_alone_counts_against_the_poll_interval(room: Room) -> None:
    since_turn_ms: list[int] = []

    def slow(_task: Task, _time_ms: int) -> None:
        room.clock.advance(20)
        since_turn_ms.append(room.clock.passed_ms - room.loop.turned_ms)

    begin(room, 1_000, slow)
    for task in room.tasks.values():
        task.every(1_000, slow, clock="wall")
    room.turn(4, after_ms=500)
    assert len(since_turn_ms) >= 6
    assert {*since_turn_ms} == {20}


def test_long_calls_of_several_tasks_take_turns_and_let_commits_pass(room: Room) -> None:
    story: list[tuple[int, int]] = []

    def slow(task: Task, _time_ms: int) -> None:
        story.append((task.id.partition, room.loop.commits.done_total))
        task.store("totals").put(b"call", b"")
        room.clock.advance(2 * COMMIT_INTERVAL_MS)

    begin(room, COMMIT_INTERVAL_MS, slow)
    before = room.loop.commits.done_total
    room.turn(7, after_ms=COMMIT_INTERVAL_MS)
    assert [partition for partition, _ in story] == [0, 1, 2, 0, 1, 2, 0]
    assert room.loop.commits.done_total - before >= 3


def test_a_call_that_takes_longer_than_its_interval_lets_records_pass(room: Room) -> None:
    calls = 0

    def slow(_task: Task, _time_ms: int) -> None:
        nonlocal calls
        calls += 1
        assert calls < 1_000
        room.clock.advance(25)

    begin(room, 10, slow)
    for partition in range(3):
        room.put(partition, 5)
    room.turn(30, after_ms=COMMIT_INTERVAL_MS)
    assert [room.committed(partition) for partition in range(3)] == [6, 6, 6]
    assert calls >= 30


def test_orders_that_take_long_let_records_pass(room: Room) -> None:
    begin(room, 1_000, lambda _task, _time_ms: None)
    orders = 0

    def order() -> None:
        nonlocal orders
        orders += 1
        assert orders < 1_000
        room.clock.advance(60)
        other = threading.Thread(target=room.loop.order, args=(order,))
        other.start()
        other.join()

    room.loop.order(order)
    for partition in range(3):
        room.put(partition, 5)
    room.turn(30, after_ms=COMMIT_INTERVAL_MS)
    assert [room.committed(partition) for partition in range(3)] == [6, 6, 6]


def test_a_function_reads_a_store_of_a_task_of_its_process(room: Room) -> None:
    read: list[bytes | None] = []

    def look(_partition: int, _offsets: Sequence[int]) -> None:
        answer: Future[Reading | None] = Future()
        room.loop.peek(task_of(0), "totals", b"n", answer)
        reading = answer.result(0)
        assert reading is not None
        read.append(reading.value)

    begin(room, 1_000, lambda _task, _time_ms: None)
    room.turn(9, after_ms=COMMIT_INTERVAL_MS)
    room.work = look
    room.put(1, 1)
    room.turn(3)
    assert read == [b"1"]
