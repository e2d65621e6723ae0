"""A thread that makes calls that wait for a broker, one after another, so that the processing loop need not.

``concurrent.futures`` would do but for one thing: a call of librdkafka may never come back, whatever its timeout says
(``send_offsets_to_transaction`` while the group's coordinator is gone). Such a call is left behind with its thread; the executor would
wait for it, also at the program's end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "Future[Any]"] | None


@dataclass(slots=True)
class _Line:
    """The calls of one thread, and since when it makes the one that it makes."""

    calls: queue.SimpleQueue[_Work] = field(default_factory=queue.SimpleQueue)
    since_s: float | None = None


class Sender:
    """Used by one thread; the calls run on another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Call it once all calls before have come back."""
        future: Future[T] = Future()
        self._line.calls.put((work, future))
        return future

    def under_way_s(self) -> float:
        """How long the call has taken that is under way; 0 where none is."""
        since = self._line.since_s
        return 0.0 if since is None else time.monotonic() - since

    def leave(self) -> None:
        """Do not wait for the call that is under way any more, nor make those that wait behind it."""
        left = self._line.calls
        while not left.empty():
            left.get_nowait()
        left.put(None)
        self._begin()

    def close(self, timeout_s: float) -> None:
        """End the thread once all calls have come back; after ``timeout_s`` it is left behind."""
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
        except BaseException as error:  # noqa: BLE001  # raised again by whoever asks for the result
            future.set_exception(error)
        line.since_s = None
