"""The end of a worker's threads, and the topology that look-ups know, without a broker."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest

from kstreams_assign.model import SubtopologyShape, TopologyShape
from kstreams_assign.worker.working import Working


def nothing() -> None:
    """A thread that ends at once, or a part that needs no call."""


def carry_out(orders: deque[Callable[[], None]]) -> None:
    while orders:
        orders.popleft()()


def test_the_folder_of_a_task_whose_stores_come_back_late_is_released():
    """The restore thread hands stores over when the loop has ended, which sends them back to be closed."""
    to_loop: deque[Callable[[], None]] = deque()
    to_restore: deque[Callable[[], None]] = deque()
    released: list[str] = []

    def take_stores() -> None:
        to_restore.append(close_stores)

    def close_stores() -> None:
        to_loop.append(lambda: released.append("0_0"))

    working = Working.__new__(Working)
    working._ending = threading.Event()
    working._stopped = threading.Event()
    working._failures = []
    working._membership = SimpleNamespace(
        run=nothing, await_shutdown=lambda *_: nothing(), close=nothing, keep_place=lambda _: nothing()
    )
    ended: list[str] = []

    def settle(how: str) -> None:
        ended.append(how)
        carry_out(to_loop)

    working._processor = SimpleNamespace(
        run=nothing, stop=nothing, settle=partial(settle, "settled"), close=partial(settle, "closed")
    )
    working._restoring = SimpleNamespace(
        run=nothing, stop=lambda: to_loop.append(take_stores), settle=lambda: carry_out(to_restore)
    )
    working._talk = lambda _: working._ending.set()
    working._work()
    assert released == ["0_0"]
    assert ended[-1] == "closed", "no order is taken after the last ones"


def test_the_place_in_the_group_is_kept_while_a_call_still_runs():
    working, kept = Working.__new__(Working), threading.Event()
    calls: list[str] = []

    def run_a_long_call() -> None:
        assert kept.wait(20)
        calls.append("processing ended")

    def keep_place(leaves: threading.Event) -> None:
        calls.append("keeps its place")
        kept.set()
        assert leaves.wait(20)
        calls.append("leaves")

    working._ending, working._stopped = threading.Event(), threading.Event()
    working._failures = []
    working._membership = SimpleNamespace(
        run=nothing,
        await_shutdown=lambda *_: nothing(),
        close=lambda: calls.append("closes"),
        keep_place=keep_place,
    )
    working._processor = SimpleNamespace(run=run_a_long_call, stop=nothing, settle=nothing, close=nothing)
    working._restoring = SimpleNamespace(run=nothing, stop=nothing, settle=nothing)
    working._talk = lambda _: working._ending.set()
    working._work()
    working._stopped.set()
    working._keeping_place.join(20)
    assert calls == ["closes", "keeps its place", "processing ended", "leaves"]
    assert working._failures == []


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_worker_that_ends_before_its_tables_are_complete_answers_what_waits(interrupted):
    def await_ready():
        working._ending.set()
        if interrupted:
            raise KeyboardInterrupt

    working, ended = Working.__new__(Working), list[str]()
    working._ending, working._stopped = threading.Event(), threading.Event()
    working._failures, working._keeping_place = [], None
    working._upkeep, working._disconnect = lambda _requests: nothing(), lambda _operation: nothing()
    working._tables = SimpleNamespace(run=nothing, await_ready=await_ready, stop=nothing)
    working._emptying = SimpleNamespace(close=nothing)
    commits = SimpleNamespace(close=lambda: ended.append("commits"))
    working._processor = SimpleNamespace(commits=commits, close=lambda: ended.append("loop"))
    working._restoring = SimpleNamespace(settle=lambda: ended.append("restore thread"))
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        working.run(queue.SimpleQueue(), lambda: None)
    assert ended == ["commits", "loop", "restore thread"]


def test_look_ups_know_the_partitions_of_a_topic_that_has_grown():
    """In a streams group that is a new epoch, with the same assignment where no task of this member changes."""
    counts = {"orders": 4}
    working = Working.__new__(Working)
    working._shape, working._known = TopologyShape((SubtopologyShape(("orders",)),)), None
    working._admin = SimpleNamespace(partition_counts=lambda _topics, _timeout_s: dict(counts))
    for generation, epoch, known in ((2, 7, 4), (2, 7, 4), (2, 8, 5), (3, 8, 5)):
        working._membership = SimpleNamespace(generation=generation, group_generation=epoch)
        assert working._topology()[1] == {"orders": known}
        counts["orders"] = 5


def test_a_listener_that_fails_while_the_group_is_asked_to_end_leaves_nothing_running():
    def fail(*_: object) -> None:
        raise BrokenPipeError("the listener's log is gone")

    working, calls = Working.__new__(Working), []
    working._ending, working._stopped, working._failures = threading.Event(), threading.Event(), []
    working._membership = SimpleNamespace(
        run=nothing, await_shutdown=fail, close=lambda: calls.append("membership"), keep_place=lambda _: nothing()
    )
    working._processor = SimpleNamespace(
        run=nothing, stop=nothing, settle=nothing, close=lambda: calls.append("processor")
    )
    working._restoring = SimpleNamespace(run=nothing, stop=nothing, settle=nothing)
    working._talk = lambda _: working._ending.set()
    working._work()
    assert calls == ["membership", "processor"]
    assert [type(failure) for failure in working._failures] == [BrokenPipeError]
