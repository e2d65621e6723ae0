"""The load on the input topic, and the reader of the output topic; each in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event, Thread

from bench.scaling.measures import Outputs
from bench.scaling.records import INPUT, KEY, OUTPUT
from kstreams_assign.adapters.confluent import InputConsumer, RecordProducer
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import Row

PATIENCE_S = 90.0
TURN_S = 0.01
POLL_S = 0.05
PRELOAD_CHUNK = 20_000


class Load:
    """Sends inputs to all partitions in turn; the keys of a partition repeat after ``keys`` inputs."""

    def __init__(self, servers: str, topic: str, partitions: int, keys: int) -> None:
        self.total = 0
        """Number of inputs that were sent."""
        self._topic, self._partitions, self._keys = topic, partitions, keys
        # Without lingering: what is measured is the application's time, not the load's.
        self._producer = RecordProducer(servers, {"linger.ms": "0"}, delivery_timeout_ms=round(PATIENCE_S * 1_000))
        self._ending = Event()
        self._thread: Thread | None = None

    def preload(self) -> None:
        """Send each key once; return when all inputs are acknowledged."""
        while (left := self._partitions * self._keys - self.total) > 0:
            self._send(min(left, PRELOAD_CHUNK))
        self._producer.flush(PATIENCE_S)

    def start(self, per_s: int) -> None:
        """Send at this rate until ``stop``."""
        self._thread = Thread(target=self._run, args=(per_s,), name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending; return when all inputs are acknowledged."""
        if not self._ending.is_set():
            self._ending.set()
            if self._thread is not None:
                self._thread.join()
                self._producer.flush(PATIENCE_S)
            self._producer.close()

    def _run(self, per_s: int) -> None:
        began, first = time.monotonic(), self.total
        while not self._ending.wait(TURN_S):
            self._send(first + int((time.monotonic() - began) * per_s) - self.total)

    def _send(self, count: int) -> None:
        self._producer.produce_all(self._rows(self.total, self.total + count))
        self.total += count

    def _rows(self, first: int, end: int) -> Iterator[Row]:
        for turn in range(first, end):
            number, partition = divmod(turn, self._partitions)
            sent_us = time.time_ns() // 1000
            key, value = KEY.pack(partition, number % self._keys), INPUT.pack(number, sent_us)
            yield self._topic, key, value, (), partition, sent_us // 1000


class Reader:
    """Reads the output topic from its creation to ``stop``.

    The latency of an input is the time from sending it until its first output arrives here: a reader that reads only
    committed records gets an output after its transaction, which the broker's time of the record would not show.
    Outputs of preloaded inputs are counted, but not timed.
    """

    def __init__(self, servers: str, topic: str, partitions: int, keys: int, *, read_committed: bool) -> None:
        self.tasks = {partition: Outputs() for partition in range(partitions)}
        self.answered = 0
        """Number of inputs that have an output."""
        self.repeated = 0
        """Number of outputs of inputs that had one already."""
        self.low = 0
        """Number of outputs whose count is too low: state was lost."""
        self._keys = keys
        self._seen = {partition: bytearray() for partition in range(partitions)}
        self._consumer = InputConsumer(servers, group_id=f"{topic}-reader", read_committed=read_committed)
        self._consumer.add({TopicPartition(topic, partition): 0 for partition in range(partitions)})
        self._ending = Event()
        self._thread = Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def until_answered(self, inputs: int, limit_s: float) -> None:
        """Wait until so many inputs have an output, at most until the limit."""
        deadline = time.monotonic() + limit_s
        while self.answered < inputs and time.monotonic() < deadline:
            self._ending.wait(POLL_S)

    def stop(self) -> None:
        if not self._ending.is_set():
            self._ending.set()
            self._thread.join()
            self._consumer.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            by_partition = self._consumer.poll(50_000, POLL_S)
            arrived_us = time.time_ns() // 1000
            for at, records in by_partition.items():
                for record in records:
                    assert record.value is not None
                    self._read(at.partition, arrived_us, record.value)

    def _read(self, partition: int, arrived_us: int, value: bytes) -> None:
        number, sent_us, count, process = OUTPUT.unpack(value)
        is_first = self._is_first(self._seen[partition], number)
        self.answered += is_first
        self.repeated += not is_first
        self.low += count <= number // self._keys
        if number >= self._keys:
            latency_ms = (arrived_us - sent_us) / 1000 if is_first else None
            self.tasks[partition].add(arrived_us / 1000, latency_ms, process)

    @staticmethod
    def _is_first(seen: bytearray, number: int) -> bool:
        if number >= len(seen):
            seen.extend(bytes(number + 10_000 - len(seen)))
        is_first = not seen[number]
        seen[number] = 1
        return is_first
