"""Between two records of one poll, tasks stop, start again and pause: which of the others are still worked on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

import pytest

from kstreams_assign.group import member as machine
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.worker.feeding import TURN_MS
from tests.worker.loop_in_memory import COMMIT_INTERVAL_MS, Room, task_of

SLOW_MS = TURN_MS + 10
"""The loop takes orders after each call that takes so long."""

both_guarantees = pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once_v2"])


@both_guarantees
def test_what_was_polled_before_a_task_went_back_is_not_worked_on(exactly_once: bool) -> None:
    """The task would skip what lies between its last commit and those records, and commit it as done."""
    room = Room(exactly_once=exactly_once)

    def fail_the_commit(partition: int, _offsets: Sequence[int]) -> None:
        room.clock.advance(SLOW_MS)
        if partition == 0:
            room.producer.fails_next, room.producer.holds, room.work = True, False, slow

    def slow(_partition: int, _offsets: Sequence[int]) -> None:
        room.clock.advance(SLOW_MS)

    room.adopt(1, [0, 1])
    room.turn(3)
    room.put(1, 4)
    room.turn(4, after_ms=COMMIT_INTERVAL_MS)
    assert room.committed(1) == 4
    room.put(1, 4)
    room.producer.holds = True
    room.turn(2, after_ms=COMMIT_INTERVAL_MS)
    room.put(0, 100)
    room.put(1, 40)
    room.work = fail_the_commit
    room.turn()
    assert room.work is slow, "the commit failed in the middle of the poll"
    room.loop.drop_all("as after a kill")
    room.adopt(2, [0, 1])
    room.turn(20, after_ms=COMMIT_INTERVAL_MS)
    assert set(room.outputs(1)) == set(range(48))
    assert room.total(1) >= 48
    if exactly_once:
        assert room.outputs(1) == list(range(48))
        assert room.total(1) == 48


def test_a_task_that_leaves_is_given_no_record_after_its_last_commit_has_begun() -> None:
    """Its outputs could arrive when its next owner has begun."""
    room = Room(exactly_once=False)
    calls = 0

    def lose_the_task(_partition: int, _offsets: Sequence[int]) -> None:
        nonlocal calls
        calls += 1
        room.clock.advance(SLOW_MS)
        if calls == 2:
            room.adopt(2, [1])

    room.adopt(1, [0, 1])
    room.turn(3)
    room.labour._batches[0].records_max = 16
    room.put(0, 200)
    room.work = lose_the_task
    room.turn(8, after_ms=COMMIT_INTERVAL_MS)
    assert machine.TasksReleased(2) in room.member.heard
    assert room.loop.states() == {task_of(1): TaskState.RUNNING}
    assert room.outputs(0) == list(range(room.committed(0)))
    assert calls == 2


@both_guarantees
@pytest.mark.parametrize("inside", [False, True], ids=["by orders", "by its function"])
def test_a_task_that_is_paused_and_resumed_within_a_call_processes_each_record_once(
    exactly_once: bool, inside: bool
) -> None:
    room = Room(exactly_once=exactly_once)
    calls = 0

    def pause_and_resume(_partition: int, _offsets: Sequence[int]) -> None:
        nonlocal calls
        calls += 1
        room.clock.advance(SLOW_MS)
        for paused in (True, False) if calls == 2 else ():
            if inside:
                room.pause(0, paused=paused)
            else:
                room.loop.order(partial(room.loop._pauses.ask, task_of(0), Future(), paused=paused))

    room.adopt(1, [0])
    room.turn(3)
    room.put(0, 100)
    room.work = pause_and_resume
    room.turn(12, after_ms=COMMIT_INTERVAL_MS)
    assert calls > 2
    assert room.outputs(0) == list(range(100))
    assert (room.total(0), room.committed(0)) == (100, 100)


@pytest.mark.parametrize(("joined", "dropped"), [(False, 1), (True, 0)], ids=["in a rebalance", "as a member"])
def test_a_stop_without_a_commit_drops_what_was_sent_ahead(joined: bool, dropped: int) -> None:
    """The tasks are another's as soon as this member leaves. A commit waits for what was sent ahead of it."""
    room = Room(exactly_once=False)
    room.adopt(1, [0])
    room.turn(3)
    room.put(0, 5)
    room.turn()
    assert (room.outputs(0), room.committed(0)) == ([0, 1, 2, 3, 4], 0)
    room.member.is_joined = joined
    room.loop.stop()
    room.turn()
    assert room.producer.dropped == dropped
    assert room.committed(0) == (5 if joined else 0)
