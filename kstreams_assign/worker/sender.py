"""A thread that makes calls that wait for a broker, one after another, so that the processing loop does not wait.

``concurrent.futures`` does not suffice: a call of librdkafka may never return, whatever its timeout says
(``send_offsets_to_transaction`` while the group has no coordinator). Such a call is left behind with its thread; an
executor would wait for it, also at the program's end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "Future[Any]"] | None


@dataclass(slots=True)
class _Line:
    """The calls of one thread, and since when the current one runs."""

    calls: queue.SimpleQueue[_Work] = field(default_factory=queue.SimpleQueue)
    since_s: float | None = None


class Calls(Protocol):
    """What runs calls for a thread that must not wait for them."""

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run a call after all earlier calls have returned."""
        ...

    def under_way_s(self) -> float:
        """Return how long the current call runs; 0 if none does."""
        ...

    def leave(self) -> None:
        """Leave the current call behind, and drop the calls that wait behind it."""
        ...

    def close(self, timeout_s: float) -> None:
        """End after all calls have returned; leave the current call behind after ``timeout_s`` seconds."""
        ...


class Sender:
    """Run calls on another thread. Used by one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run a call after all earlier calls have returned."""
        future: Future[T] = Future()
        self._line.calls.put((work, future))
        return future

    def under_way_s(self) -> float:
        """Return how long the current call runs; 0 if none does."""
        since = self._line.since_s
        return 0.0 if since is None else time.monotonic() - since

    def leave(self) -> None:
        """Leave the current call behind, and drop the calls that wait behind it."""
        left = self._line.calls
        while not left.empty():
            left.get_nowait()
        left.put(None)
        self._begin()

    def close(self, timeout_s: float) -> None:
        """End the thread after all calls have returned; leave it behind after ``timeout_s`` seconds."""
        self._line.calls.put(None)
        self._thread.join(timeout_s)

    def _begin(self) -> None:
        self._line = _Line()
        self._thread = threading.Thread(target=_make_calls, args=(self._line,), name=self._name, daemon=True)
        self._thread.start()


def _make_calls(line: _Line) -> None:
    while (call := line.calls.get()) is not None:
        work, future = call
        line.since_s = time.monotonic()
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # the future raises it
            future.set_exception(error)
        line.since_s = None
