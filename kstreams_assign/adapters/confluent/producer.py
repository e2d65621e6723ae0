"""What tasks write: changelogs and outputs, acknowledged before anything is committed.

What must not live here: when to flush, whose offsets to commit. The idea: one delivery callback for all records, which
reads the partition off the message, so that a record costs no closure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstreams_assign.adapters.confluent.faults import ABSENT, FAULTS, REMEDIES, describe, fault
from kstreams_assign.adapters.confluent.feed import offset_of, partition_number_of, topic_of
from kstreams_assign.adapters.confluent.settings import Setting, made, merged
from kstreams_assign.client_settings import MESSAGE_BYTES_MAX, ClientRole
from kstreams_assign.client_settings import delivery_timeout_ms as delivery_timeout_of
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, KStreamsAssignError, RecordRefused, TaskMigrated
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import Row

_TUNING: Mapping[str, Setting] = {"linger.ms": 5, "message.max.bytes": MESSAGE_BYTES_MAX}
_NEEDED: Mapping[str, Setting] = {
    # Java's for keyed records; librdkafka's own default would send a key elsewhere than a Java member does.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
}
Delivered = Callable[[KafkaError | None, Message], None]

_PROPAGATION_MAX_MS = 30_000
"""librdkafka's own."""
_ANY_PARTITION = -1
_NOW = 0
_ROOM_TRY_S = 0.01
_ABANDON_S = 5.0


class _Lost(NamedTuple):
    """A record that was not delivered. ``partition`` -1: none was chosen yet. ``size`` is that of key and value."""

    topic: str
    partition: int
    key: bytes | None
    size: int
    error: KafkaError

    def fault(self, about: str) -> KStreamsAssignError:
        """Our error for it, the remedy named where waiting is none."""
        code = self.error.code()
        text = f"{about}: {describe(self.error)}"
        if code not in REMEDIES:
            return (TaskMigrated if FAULTS.get(code) is TaskMigrated else DeliveryFailed)(text)
        size = f"{text}; the record has {self.size:,} bytes"
        text, absent = f"{size}: {REMEDIES[code]}", code in ABSENT
        return RecordRefused(text, self.topic, self.partition, self.key, absent=absent)


class RecordProducer:
    """Writes records in order, each once (idempotent). Used by one thread.

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
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._failed: list[_Lost] = []
        self._spoiled = False

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
        delivered: Delivered = self._tracked if track else self._untracked
        if on_offset is not None:
            delivered = partial(self._report_offset, on_offset, delivered)
        self._produce_rows([(topic, key, value, headers or (), partition, timestamp_ms)], delivered)

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None:
        """Queue records in order. Raises as ``produce`` does, those behind the record that cannot be queued are not."""
        self._produce_rows(rows, self._tracked if track else self._untracked)

    def _produce_rows(self, rows: Iterable[Row], delivered: Delivered) -> None:
        produce = self._producer.produce
        for topic, key, value, headers, partition, timestamp_ms in rows:
            arguments: tuple[Any, ...] = (
                topic,
                value,
                key,
                _ANY_PARTITION if partition is None else partition,
                delivered,
                None,
                timestamp_ms or _NOW,
                list(headers) if headers else None,
            )
            try:
                produce(*arguments)
            except BufferError:
                self._produce_when_room(arguments)
            except KafkaException as raised:
                raise self._not_queued(raised.args[0], arguments) from raised

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, int]:
        """Wait until everything produced is acknowledged.

        Returns the next offsets of the tracked partitions that were written since the last flush.

        Raises ``DeliveryFailed`` when a record was lost since the last flush (nothing it belongs to may be committed,
        and it will not come by itself), ``RecordRefused`` when it would be lost again, ``TaskMigrated`` when another
        producer took over, ``BrokerUnavailable`` when records still wait after ``timeout_s``: flush again, or
        ``abandon``.
        """
        try:
            waiting = self._producer.flush(timeout_s)
        except KafkaException as raised:
            raise self._beyond_use(raised.args[0], "flush") from raised
        if self._failed:
            self._raise_failed()
        if waiting:
            raise BrokerUnavailable(f"{waiting} records were not acknowledged in {timeout_s:.1f} s and still wait")
        acknowledged, self._acknowledged = self._acknowledged, {}
        return {TopicPartition(*at): offset for at, offset in acknowledged.items()}

    def acknowledged(self) -> Mapping[TopicPartition, int] | None:
        """What ``flush`` answers, without waiting; None while records are on their way.

        Raises ``DeliveryFailed`` and ``TaskMigrated`` as ``flush`` does.
        """
        self._poll(0)
        if len(self._producer) and not self._failed:
            return None
        return self.flush(0)

    def abandon(self) -> None:
        """Drop everything queued and in flight, and forget what was acknowledged: the tasks are another's now.

        What is on its way over the network may still be written; its owner's fencing has to deal with that.
        """
        self._purge()
        self._forget()
        if self._spoiled:
            self._renew()

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

    def _beyond_use(self, error: KafkaError, about: str) -> KStreamsAssignError:
        self._spoiled |= error.fatal()
        return fault(error, about, DeliveryFailed)

    def _purge(self) -> None:
        try:
            self._producer.purge()
            self._producer.flush(_ABANDON_S)
        except KafkaException:  # after a fatal error it does nothing any more, and so sends nothing either
            self._spoiled = True

    def _forget(self) -> None:
        self._failed.clear()
        self._acknowledged.clear()

    def _renew(self) -> None:
        """Replace a client that had a fatal error; it holds nothing any more."""
        self._producer, self._spoiled = self._connected(), False

    def _connected(self) -> Producer:
        return made(Producer, self._settings, self._client, f"producer to {self._settings['bootstrap.servers']}")

    def _not_queued(self, error: KafkaError, arguments: tuple[Any, ...]) -> KStreamsAssignError:
        topic, value, key, partition, *_ = arguments
        self._spoiled |= error.fatal()
        return _Lost(topic, partition, key, len(key or b"") + len(value or b""), error).fault(f"produce to {topic}")

    def _untracked(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error, message)

    def _tracked(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error, message)
        else:
            # Acknowledged in the order of their offsets, so the last one wins.
            self._acknowledged[topic_of(message), partition_number_of(message)] = offset_of(message) + 1

    def _report_offset(
        self, on_offset: Callable[[int], None], delivered: Delivered, error: KafkaError | None, message: Message
    ) -> None:
        delivered(error, message)
        if error is None:
            on_offset(offset_of(message))

    def _fail(self, error: KafkaError, message: Message) -> None:
        key, partition = message.key(), message.partition()
        self._spoiled |= error.fatal()
        size = len(key or b"") + len(message)
        lost = _Lost(topic_of(message), _ANY_PARTITION if partition is None else partition, key, size, error)
        self._failed.append(lost)

    def _raise_failed(self) -> NoReturn:
        failed, self._failed = self._failed, []
        self._acknowledged.clear()
        worst = next((lost for lost in failed if lost.error.code() in REMEDIES), failed[0])
        at = worst.topic if worst.partition == _ANY_PARTITION else f"{worst.topic}-{worst.partition}"
        raise worst.fault(f"{len(failed)} records lost, the first of them to {at}")
