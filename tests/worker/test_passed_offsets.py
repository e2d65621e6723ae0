"""Commits pass over what is no record, such as the markers of transactions, as soon as all records before are done."""

from __future__ import annotations

import pytest

from tests.worker.loop_in_memory import COMMIT_INTERVAL_MS, Room, source


@pytest.fixture(params=[False, True], ids=["at least once", "exactly once"])
def room(request: pytest.FixtureRequest) -> Room:
    made = Room(exactly_once=request.param)
    made.adopt(1, [0, 1])
    made.turn(2)
    return made


def commit(room: Room) -> list[int]:
    room.turn(4, after_ms=COMMIT_INTERVAL_MS)
    return [room.committed(partition) for partition in (0, 1)]


def test_a_marker_behind_the_last_record_is_committed_with_it_or_after_it(room: Room) -> None:
    room.put(0, 3)
    room.broker.skip(source(0), 1)
    assert commit(room) == [4, 0]
    room.broker.skip(source(0), 2)
    room.broker.skip(source(1), 7)
    assert commit(room) == [6, 7], "no record brings these"
    room.put(0, 1)
    assert commit(room) == [7, 7]
    assert room.outputs(0) == [0, 1, 2, 6]


def test_a_quiet_input_is_committed_no_more(room: Room) -> None:
    room.broker.skip(source(0), 1)
    assert commit(room) == [1, 0]
    commits = room.loop.commits.done_total
    assert commit(room) == [1, 0]
    assert room.loop.commits.done_total == commits


def test_no_marker_is_passed_of_a_paused_task(room: Room) -> None:
    room.pause(0, paused=True)
    room.turn(2)
    room.put(0, 2)
    room.broker.skip(source(0), 1)
    assert commit(room) == [0, 0]
    room.pause(0, paused=False)
    assert commit(room) == [3, 0]


def test_a_task_that_starts_again_reads_behind_what_its_last_commit_passed(room: Room) -> None:
    room.put(0, 2)
    room.broker.skip(source(0), 3)
    assert commit(room) == [5, 0]
    room.adopt(2, [1])
    commit(room)
    room.adopt(3, [0, 1])
    room.put(0, 1)
    assert commit(room) == [6, 0]
    assert room.outputs(0) == [0, 1, 5]
