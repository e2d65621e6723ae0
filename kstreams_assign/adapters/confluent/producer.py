"""What tasks write: changelogs and outputs, acknowledged before anything is committed.

What must not live here: when to flush, whose offsets to commit, and what became of a record (``flight``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstreams_assign.adapters.confluent.faults import fault
from kstreams_assign.adapters.confluent.feed import offset_of
from kstreams_assign.adapters.confluent.flight import ANY_PARTITION, Flight, Lost
from kstreams_assign.adapters.confluent.settings import Setting, made, merged
from kstreams_assign.client_settings import MESSAGE_BYTES_MAX, ClientRole
from kstreams_assign.client_settings import delivery_timeout_ms as delivery_timeout_of
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, KStreamsAssignError
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import EARLIEST_MS, Row

_TUNING: Mapping[str, Setting] = {"linger.ms": 5, "message.max.bytes": MESSAGE_BYTES_MAX}
_NEEDED: Mapping[str, Setting] = {
    # Java's for keyed records; librdkafka's own default would send a key elsewhere than a Java member does.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
}
Delivered = Callable[[KafkaError | None, Message], None]

_PROPAGATION_MAX_MS = 30_000
"""librdkafka's own."""
_NOW = 0
_ROOM_TRY_S = 0.01
_REPORTS_MAX = 10_000
"""Records sent ahead whose reports may wait for the next commit; the client's queue holds 100,000 by default."""
_ABANDON_S = 5.0
_TURN_S = 0.1
"""confluent-kafka 2.16 splits a flush of 0.2 s or more. It goes on with the next part although a fatal error was raised
in the one before, and then calls back with that exception set: ``SystemError``, or worse."""


class RecordProducer:
    """Writes records in order, each once (idempotent). Used by one thread.

    ``flush`` and ``acknowledged`` answer for what was produced. Records that are sent ahead of a commit count from the
    next ``begin_commit`` on.

    Make it early: librdkafka needs half a second until a new producer has its id and may send. ``needed`` goes over
    everything else. ``delivery_timeout_ms`` (``message.timeout.ms``) must be below the session timeout: what a process
    that slept still holds has then expired before another owns its tasks. ``client`` may name less.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None = None,
        *,
        delivery_timeout_ms: int,
        needed: Mapping[str, Setting] | None = None,
    ) -> None:
        delivery_timeout_ms = delivery_timeout_of(client or {}, delivery_timeout_ms)
        needed = {**_NEEDED, "message.timeout.ms": delivery_timeout_ms, **(needed or {})}
        # librdkafka must report a deleted topic before its records have waited too long: that failure may pass.
        deleted_topics = {"topic.metadata.propagation.max.ms": min(delivery_timeout_ms * 3 // 4, _PROPAGATION_MAX_MS)}
        self._client = client
        self._settings = merged(ClientRole.PRODUCER, bootstrap_servers, client, {**_TUNING, **deleted_topics}, needed)
        self._producer = self._connected()
        # Reported before the first of the waiting records is lost.
        self._room_timeout_s = delivery_timeout_ms / 2000
        self._spoiled = False
        self._flight, self._ahead = Flight(self._spoil), Flight(self._spoil)

    def produce(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int | None = None,
        *,
        track: bool = False,
        on_offset: Callable[[int], None] | None = None,
    ) -> None:
        """Queue a record; without ``partition`` Java's partitioner chooses by key, and any for no key.

        With ``track`` its offset counts for what ``flush`` answers. ``on_offset`` gets the record's offset, during a
        later ``produce`` or ``flush``. Raises ``BrokerUnavailable`` when the queue stayed full for half the delivery
        timeout, ``RecordRefused`` for a record that cannot be queued (too large); such a record is not counted as lost.
        """
        delivered: Delivered = self._flight.tracked if track else self._flight.untracked
        if on_offset is not None:
            delivered = partial(self._report_offset, on_offset, delivered)
        self._produce_rows([(topic, key, value, headers or (), partition, timestamp_ms)], delivered)

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None:
        """Queue records in order. Raises as ``produce`` does, those behind the record that cannot be queued are not."""
        self._produce_rows(rows, self._flight.tracked if track else self._flight.untracked)

    def send_ahead(self, rows: Iterable[Row]) -> int:
        """Queue records in order that belong to the commit that begins next; return how many were queued.

        It stops at the first for which there is no room now, or that cannot be queued, and does not say why: the commit
        produces the rest, and meets the error.
        """
        produce, delivered, queued = self._producer.produce, self._ahead.untracked, 0
        try:
            if len(self._producer) > _REPORTS_MAX:  # reports that are not taken fill the queue
                self._producer.poll(0)
            for row in rows:
                produce(*_arguments(row, delivered))
                queued += 1
        except BufferError:
            pass
        except KafkaException as raised:
            self._spoiled |= raised.args[0].fatal()
        self._ahead.on_their_way += queued
        return queued

    def begin_commit(self) -> None:
        """What was sent ahead counts for ``flush`` and ``acknowledged`` now; what is sent ahead later does not."""
        self._flight, self._ahead = self._ahead, Flight(self._spoil)

    def _produce_rows(self, rows: Iterable[Row], delivered: Delivered) -> None:
        produce, queued = self._producer.produce, 0
        try:
            for row in rows:
                arguments = _arguments(row, delivered)
                try:
                    produce(*arguments)
                except BufferError:
                    self._produce_when_room(arguments)
                except KafkaException as raised:
                    raise self._not_queued(raised.args[0], arguments) from raised
                queued += 1
        finally:
            self._flight.on_their_way += queued

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Wait until everything produced is acknowledged.

        Returns the next offsets of the tracked partitions that were written since the last flush.

        Raises ``DeliveryFailed`` when a record was lost since the last flush (nothing it belongs to may be committed,
        and it will not come by itself), ``RecordRefused`` when it would be lost again, ``TaskMigrated`` when another
        producer took over, ``BrokerUnavailable`` when records still wait after ``timeout_s``: flush again, or
        ``abandon``.
        """
        try:
            self._flush_in_turns(timeout_s)
        except KafkaException as raised:
            raise self._beyond_use(raised.args[0], "flush") from raised
        if not self._flight.over:
            waiting = self._flight.on_their_way
            raise BrokerUnavailable(f"{waiting} records were not acknowledged in {timeout_s:.1f} s and still wait")
        return self._outcome()

    def acknowledged(self) -> Mapping[TopicPartition, int] | None:
        """What ``flush`` answers, without waiting; None while records are on their way.

        Raises ``DeliveryFailed`` and ``TaskMigrated`` as ``flush`` does.
        """
        self._poll(0)
        return self._outcome() if self._flight.over else None

    def _outcome(self) -> Mapping[TopicPartition, int]:
        return self._flight.take()

    def abandon(self) -> None:
        """Drop everything queued and in flight, and forget what was acknowledged: the tasks are another's now.

        What is on its way over the network may still be written; its owner's fencing has to deal with that.
        """
        self._purge()
        self._forget()
        if self._spoiled:
            self._renew()

    def renew_if_spoiled(self) -> None:
        """Replace a client that had a fatal error, after which it writes nothing; what it held is lost."""
        if self._spoiled:
            self.abandon()

    def close(self) -> None:
        """End the client. What was not flushed is dropped, as it was not committed either."""
        self.abandon()
        self._producer.close()

    def _produce_when_room(self, arguments: tuple[Any, ...]) -> None:
        deadline = time.monotonic() + self._room_timeout_s
        while time.monotonic() < deadline:
            self._poll(_ROOM_TRY_S)
            try:
                self._producer.produce(*arguments)
            except BufferError:
                continue
            except KafkaException as raised:
                raise self._not_queued(raised.args[0], arguments) from raised
            return
        raise BrokerUnavailable(f"produce to {arguments[0]}: the queue stayed full for {self._room_timeout_s:.1f} s")

    def _poll(self, timeout_s: float) -> None:
        """Take the delivery reports.

        A fatal error comes out of whichever call is next, so out of this one, too.
        """
        try:
            self._producer.poll(timeout_s)
        except KafkaException as raised:
            raise self._beyond_use(raised.args[0], "delivery") from raised

    def _flush_in_turns(self, timeout_s: float) -> None:
        """Send what is queued, without ``linger.ms``, and take the delivery reports until none is due."""
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        while self._producer.flush(max(0.0, min(_TURN_S, left_s))) and left_s > _TURN_S:
            left_s = deadline - time.monotonic()

    def _beyond_use(self, error: KafkaError, about: str) -> KStreamsAssignError:
        self._spoiled |= error.fatal()
        return fault(error, about, DeliveryFailed)

    def _purge(self) -> None:
        """Drop what is queued and in flight, if anything is.

        The client returns before its threads have purged (it passes ``blocking`` on negated, and would hold the
        interpreter's lock while it waits). They also drop records that are produced soon after.
        """
        try:
            self._producer.poll(0)  # delivery reports that were not taken count as queued
            if len(self._producer):
                self._producer.purge()
                self._flush_in_turns(_ABANDON_S)
        except KafkaException:  # after a fatal error it does nothing any more, and so sends nothing either
            self._spoiled = True

    def _forget(self) -> None:
        self._flight, self._ahead = Flight(self._spoil), Flight(self._spoil)

    def _renew(self) -> None:
        """Replace a client that had a fatal error; it holds nothing any more."""
        self._producer, self._spoiled = self._connected(), False

    def _connected(self) -> Producer:
        return made(Producer, self._settings, self._client, f"producer to {self._settings['bootstrap.servers']}")

    def _not_queued(self, error: KafkaError, arguments: tuple[Any, ...]) -> KStreamsAssignError:
        topic, value, key, partition, *_, headers = arguments
        self._spoiled |= error.fatal()
        return Lost.of(topic, partition, key, value, headers or (), error).fault(f"produce to {topic}")

    def _spoil(self) -> None:
        self._spoiled = True

    def _report_offset(
        self, on_offset: Callable[[int], None], delivered: Delivered, error: KafkaError | None, message: Message
    ) -> None:
        delivered(error, message)
        if error is None:
            on_offset(offset_of(message))


def _arguments(row: Row, delivered: Delivered) -> tuple[Any, ...]:
    """What the client's ``produce`` takes, by position: keywords cost more, for each record."""
    topic, key, value, headers, partition, timestamp_ms = row
    at = ANY_PARTITION if partition is None else partition
    time_ms = _NOW if timestamp_ms is None else timestamp_ms or EARLIEST_MS
    return topic, value, key, at, delivered, None, time_ms, list(headers) if headers else None
