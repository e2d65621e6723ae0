"""Orders on their way in: one thread that writes the stream at a steady rate and waits for every acknowledgement.

So ``acknowledged`` is exact at any moment: the orders with a smaller id are in the broker, and no others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from threading import Event, Thread
from types import TracebackType
from typing import Self

from kstreams_assign.adapters.confluent import RecordProducer
from kstreams_assign.demo.orders import Order
from kstreams_assign.errors import BrokerError
from kstreams_assign.model import TopicPartition

TICK_S = 0.02
ACKNOWLEDGED_WITHIN_S = 30.0


class Traffic:
    """Writes ``stream`` to ``topic`` from ``start`` to ``stop``. As a context manager it stops at the end."""

    def __init__(self, bootstrap_servers: str, topic: str, stream: Iterator[Order], orders_per_s: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._stream = stream
        self._orders_per_s = orders_per_s
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="orders", daemon=True)
        self._ends: dict[TopicPartition, int] = {}
        self._failure: BrokerError | None = None
        self.acknowledged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Next offset of every partition written to."""
        return self._ends

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last order is acknowledged. Raises ``BrokerError`` if one was not."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what ended the thread too soon, if anything did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        producer = RecordProducer(self._bootstrap_servers, delivery_timeout_ms=int(ACKNOWLEDGED_WITHIN_S * 1000))
        try:
            self._write(producer)
        except BrokerError as failure:
            self._failure = failure
        finally:
            producer.close()

    def _write(self, producer: RecordProducer) -> None:
        self._send(producer, 1)  # a new producer needs a second to get going; that is no waiting order's
        started = time.monotonic()
        while not self._stopping.wait(TICK_S):
            due = int((time.monotonic() - started) * self._orders_per_s)
            self._send(producer, max(0, due - self.acknowledged))

    def _send(self, producer: RecordProducer, count: int) -> None:
        for order in islice(self._stream, count):
            producer.produce(self._topic, None, order.key, order.value, track=True)
        self._ends.update(producer.flush(ACKNOWLEDGED_WITHIN_S))
        self.acknowledged += count
