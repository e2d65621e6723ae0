"""The end of a worker's threads, without a broker."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

from kstreams_assign.worker.working import Working


def nothing() -> None:
    """A thread that ends at once, or a part that needs no call."""


def test_the_folder_of_a_task_whose_stores_come_back_late_is_released():
    """The restore thread hands stores over when the loop has ended, which sends them back to be closed."""
    orders: deque[str] = deque(["stores come back"])
    to_close: deque[str] = deque()
    released: list[str] = []

    def settle_processor() -> None:
        while orders:
            to_close.append("close") if orders.popleft() == "stores come back" else released.append("0_0")

    def settle_restoring() -> None:
        while to_close:
            to_close.popleft()
            orders.append("closed")

    working = Working.__new__(Working)
    working._ending = threading.Event()
    working._failures = []
    working._membership = SimpleNamespace(run=nothing, close=nothing)
    working._processor = SimpleNamespace(run=nothing, stop=nothing, settle=nothing)
    working._restoring = SimpleNamespace(run=nothing, stop=nothing, settle=settle_restoring)
    working._talk = lambda _: working._ending.set()
    working._restoring.stop = lambda: setattr(working._processor, "settle", settle_processor)
    working._work()
    assert released == ["0_0"]
