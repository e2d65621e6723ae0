"""The load: a thread sends inputs with ids at a steady pace; each is acknowledged, or listed as lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from threading import Event, Thread
from time import monotonic
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.chaos.rows import write_id
from tests.chaos.schedule import Settings

QUIET = logging.getLogger("tests.chaos.load")
"""It logs at length that the broker is away, as intended."""
QUIET.setLevel(logging.CRITICAL)

TURN_S = 0.05
LAST_ACKS_S = 60.0


def key_of(settings: Settings, number: int, draw: Random) -> bytes:
    """Return the key of an input. A key is used only for a while, so that entries stay small and outlive a sleep."""
    epoch = number // (settings.keys * settings.inputs_per_key)
    return b"%d-%d" % (epoch, draw.randrange(settings.keys))


class Load:
    """Sends from ``start`` to ``stop``.

    ``acknowledged`` grows meanwhile; ``lost`` should stay empty: it retries for ever.
    """

    def __init__(self, broker: str, topic: str, settings: Settings) -> None:
        self.acknowledged: set[int] = set()
        self.lost: list[str] = []
        self._settings = settings
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": broker,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "linger.ms": 5,
                "queue.buffering.max.messages": 2_000_000,  # an outage may last
            },
            logger=QUIET,
        )
        self._ending = Event()
        self._failure: Sequence[BaseException] = ()
        self._thread = Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more inputs and wait until all are acknowledged. Raises the error that ended the thread, if any."""
        self._ending.set()
        self._thread.join()
        waiting = self._producer.flush(LAST_ACKS_S)
        if waiting:
            self.lost.append(f"{waiting} inputs were never acknowledged")
        if self._failure:
            raise self._failure[0]

    def _run(self) -> None:
        try:
            self._send()
        except (KafkaException, BufferError) as failure:  # raised again by stop()
            self._failure = (failure,)

    def _send(self) -> None:
        draw, sent, began = Random(f"load {self._settings.seed}"), 0, monotonic()
        while not self._ending.wait(TURN_S):
            due = int((monotonic() - began) * self._settings.inputs_per_s)
            for number in range(sent, due):
                key = key_of(self._settings, number, draw)
                partition = crc32(key) % self._settings.partitions
                on_ack = lambda error, message, number=number: self._acknowledge(error, message, number)  # noqa: E731
                self._producer.produce(self._topic, write_id(number), key, partition, on_ack)
            sent = due
            self._producer.poll(0)

    def _acknowledge(self, error: KafkaError | None, _message: Message, number: int) -> None:
        if error is None:
            self.acknowledged.add(number)
        else:
            self.lost.append(f"input {number}: {error}")
