"""Ends of changelogs as they are after they were asked for, in one request for all who ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition

Look = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Ask the brokers for end offsets (high watermarks); raises ``BrokerError``."""

_ENDING = "the worker is ending"


class _Batch:
    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.ends: Future[Mapping[TopicPartition, int]] = Future()


class FreshEnds:
    """Used by any thread. A request under way is of no use to those who ask after it began; they share the next."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._next: _Batch | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(1, "kstreams-ends")

    def ask(self, partition: TopicPartition, timeout_s: float) -> int:
        """Return the end of a partition, read after this call began.

        Raises ``BrokerError``, also after ``close``, ``KeyError`` for a partition that does not exist, and
        ``TimeoutError``.
        """
        with self._lock:
            if self._closed:
                raise BrokerUnavailable(_ENDING)
            batch = self._next
            if batch is None:
                batch = self._next = _Batch()
                self._pool.submit(self._run)
            batch.partitions.add(partition)
        return batch.ends.result(timeout_s)[partition]

    def close(self) -> None:
        """Start no more requests. Calls of ``ask`` that wait for the next one raise."""
        with self._lock:
            waiting, self._next, self._closed = self._next, None, True
        if waiting is not None:
            waiting.ends.set_exception(BrokerUnavailable(_ENDING))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with self._lock:
            batch, self._next = self._next, None
        if batch is None:
            return  # closed meanwhile
        try:
            batch.ends.set_result(self._look(batch.partitions))
        except BaseException as cause:  # noqa: BLE001  # raised again by those who wait
            batch.ends.set_exception(cause)
