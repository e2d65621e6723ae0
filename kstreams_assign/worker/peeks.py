"""Reads of running tasks' stores, on the loop's thread and for another thread.

What must not live here: who asks, and what it does where a task does not run here (``lookup``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.lookup import Reading
from kstreams_assign.worker.running import Running

PEEKED_MS = 100
"""For how long after a read the loop waits for input in short turns: the next is likely to come."""

_NO_POSITIONS: Mapping[TopicPartition, int] = {}


class Peeks:
    """Used on the loop's thread. ``broken`` is given a task whose store cannot be read."""

    def __init__(
        self,
        running: Mapping[TaskId, Running],
        stores: Mapping[TaskId, TaskStores],
        broken: Callable[[TaskId, StateError], None],
    ) -> None:
        self._running = running
        self._stores = stores
        self._broken = broken
        self._peeked_ms = -PEEKED_MS

    def peek(self, task: TaskId, store: str, key: bytes, answer: Future[Reading | None], now_ms: int) -> None:
        """Answer what a running task's store holds of a key; None if the task does not run here."""
        if not answer.set_running_or_notify_cancel():
            return
        self._peeked_ms = now_ms
        stores, reading = self._stores.get(task), None
        if task in self._running and stores is not None:
            try:
                value, expiry = stores.get(store, key), self._running[task].expiry
                hidden = expiry is not None and expiry.hides(store, value)
                reading = Reading(None if hidden else value, _NO_POSITIONS)
            except StateError as error:
                self._broken(task, error)
        answer.set_result(reading)

    def are_recent(self, now_ms: int) -> bool:
        """Return whether another thread has read just now."""
        return now_ms - self._peeked_ms < PEEKED_MS
