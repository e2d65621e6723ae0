"""A thread that makes calls that wait for a broker, one after another, so that the processing loop need not.

``concurrent.futures`` would do but for one thing: a call of librdkafka may never come back, whatever its timeout says
(``send_offsets_to_transaction`` while the group's coordinator is gone). Such a call is left behind with its thread; the executor would
wait for it, also at the program's end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

_Work = tuple[Callable[[], None], "Future[None]"] | None


class Sender:
    """Used by one thread; the calls run on another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Call it once all calls before have come back."""
        future: Future[None] = Future()
        self._queue.put((work, future))
        return future

    def leave(self) -> None:
        """Do not wait for the call that is under way any more, nor make those that wait behind it."""
        left = self._queue
        while not left.empty():
            left.get_nowait()
        left.put(None)
        self._begin()

    def close(self, timeout_s: float) -> None:
        """End the thread once all calls have come back; after ``timeout_s`` it is left behind."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _begin(self) -> None:
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._thread = threading.Thread(target=_make_calls, args=(self._queue,), name=self._name, daemon=True)
        self._thread.start()


def _make_calls(calls: queue.SimpleQueue[_Work]) -> None:
    while (call := calls.get()) is not None:
        work, future = call
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised again by whoever asks for the result
            future.set_exception(error)
