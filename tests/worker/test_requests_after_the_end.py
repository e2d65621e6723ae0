"""What is asked of a worker while it ends, or afterwards, is answered at once."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from kstreams_assign import TaskNotLocal
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.lookup import Reading
from kstreams_assign.worker.pauses import Target, Tasks, change_pauses
from kstreams_assign.worker.restoring import RestoreThread
from tests.restore.logs import LogReader
from tests.worker.loop_in_memory import Room, task_of


@pytest.fixture
def room() -> Room:
    room = Room(exactly_once=False)
    room.adopt(1, (0, 1))
    room.turn(6)
    return room


def end(room: Room) -> None:
    """End the loop, as ``Working`` does with its thread."""
    room.loop.stop()
    room.loop.run()


@pytest.mark.parametrize("target", [None, 0, task_of(0)])
def test_a_pause_that_is_asked_for_while_the_worker_ends_is_refused(room: Room, target: Target) -> None:
    end(room)
    answer: Future[Tasks] = Future()
    room.loop.pause(target, answer, paused=True)
    room.loop.close()
    with pytest.raises(TaskNotLocal, match=r"^the worker is not running$"):
        answer.result(0)


@pytest.mark.parametrize("which", [None, 0, "0_0"])
def test_a_pause_after_the_end_is_refused_at_once(room: Room, which: str | int | None) -> None:
    end(room)
    room.loop.close()
    with pytest.raises(TaskNotLocal, match=r"^the worker is not running$"):
        change_pauses(room.loop, which, paused=True, timeout_s=60)


def test_a_pause_of_a_worker_that_ends_before_its_first_task_is_refused() -> None:
    room = Room(exactly_once=False)
    answer: Future[Tasks] = Future()
    room.loop.pause(None, answer, paused=True)
    room.loop.close()
    with pytest.raises(TaskNotLocal, match=r"^the worker is not running$"):
        answer.result(0)


def test_a_read_after_the_end_finds_no_running_task(room: Room) -> None:
    end(room)
    before: Future[Reading | None] = Future()
    room.loop.peek(task_of(0), "totals", b"n", before)
    room.loop.close()
    after: Future[Reading | None] = Future()
    room.loop.peek(task_of(0), "totals", b"n", after)
    assert before.result(0) is None
    assert after.result(0) is None


def test_a_read_after_the_end_finds_no_replica(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app", clock_ms=monotonic_ms)
    thread = RestoreThread(
        TopologyShape((SubtopologyShape(("in",), (Store("totals"),)),)),
        "app",
        Restorer(LogReader({}), now_ms=monotonic_ms),
        lambda _task: MemoryStores(["totals"]),
        lambda _partitions: {},
        directory,
        OffsetSums(),
        EventLog("p", None),
    )
    thread.stop()
    thread.run()
    thread.settle()
    answer: Future[Reading | None] = Future()
    thread.peek(task_of(0), "totals", b"n", answer)
    assert answer.result(0) is None
    directory.close()


def test_no_thread_is_taken_for_that_of_a_loop_that_has_ended(room: Room) -> None:
    """A new thread may get the number of one that has ended."""
    end(room)
    assert not room.loop.is_this_thread
