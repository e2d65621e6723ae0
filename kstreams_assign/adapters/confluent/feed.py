"""Records of explicit partitions, as both readers need them: add, remove, take what has arrived.

What lives here: one librdkafka consumer without a group. What must not: what records mean (``changelogs``, ``inputs``).
The idea: partitions come and go by ``incremental_assign``, which leaves the others' fetches and queues alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent.faults import (
    FAILED_READS,
    OFFSET_GONE,
    PARTITION_EOF,
    PASSING,
    UNREADABLE,
    UnreadableRecords,
    describe,
    fault,
    translating,
)
from kstreams_assign.adapters.confluent.settings import Setting, logger, made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.client_settings import read_committed as asks_read_committed
from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.model import TopicPartition

# A record has all of these; the client's types allow for messages that never were at a broker.
topic_of = cast("Callable[[Message], str]", Message.topic)
partition_number_of = cast("Callable[[Message], int]", Message.partition)
offset_of = cast("Callable[[Message], int]", Message.offset)

BATCH_BYTES_MAX = 16 << 20
BUFFER_BYTES = 64 << 20
"""librdkafka's own size of the queue of fetched records."""
_FETCH_BYTES_MIN = 1 << 20
_RECORD_OVERHEAD_BYTES = 512
"""A record in the queue takes about so much beside its key and value."""
_FIRST_RECORDS = 64
_CONSUME_MAX = 1_000_000
"""confluent-kafka's ``consume`` takes no more at a time."""
_SAMPLE_RECORDS = 32

_LEARN_S = 0.5
_LEARN_SINGLY_MAX = 4

_TUNING: Mapping[str, Setting] = {
    # As in Java's consumer. By default librdkafka passes on the records of a batch whose checksum fails.
    "check.crcs": True,
}
_NEEDED: Mapping[str, Setting] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # The caller decides about an offset that the broker deleted: state behind it is useless.
    "auto.offset.reset": "error",
}


def _queue_settings(buffer_bytes: int, min_messages: int, message_bytes: int) -> dict[str, Setting]:
    """Return how much is fetched ahead. A small buffer also gets small answers, which may grow when decompressed.

    An answer has room for ``message_bytes``, or librdkafka refuses to make the consumer.
    """
    settings: dict[str, Setting] = {"queued.max.messages.kbytes": max(1, buffer_bytes >> 10)}
    if buffer_bytes < BUFFER_BYTES:
        settings["queued.min.messages"] = max(1, min(min_messages, buffer_bytes // _RECORD_OVERHEAD_BYTES))
        settings["fetch.max.bytes"] = max(_FETCH_BYTES_MIN, message_bytes, buffer_bytes // 16)
    return settings


class Taken(NamedTuple):
    """What one ``take`` brought: records in order, ends that were reached, partitions whose offset was deleted.

    ``is_all``: it was all that had arrived.
    """

    messages: list[Message]
    ends: dict[TopicPartition, int]
    out_of_range: dict[TopicPartition, int]
    is_all: bool = True


class Feed:
    """A consumer on explicit partitions. Used by one thread.

    ``group_id`` is never joined and nothing is committed to it; librdkafka demands one and looks its coordinator up, so
    under access control it must be a group that the client may describe (the application id). ``isolation.level`` in
    ``client`` may ask for committed records where ``read_committed`` does not. ``buffer_bytes`` bounds what is fetched
    ahead of ``take``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None,
        *,
        group_id: str,
        read_committed: bool,
        tuning: Mapping[str, Setting],
        needed: Mapping[str, Setting],
        max_bytes: int = BATCH_BYTES_MAX,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        min_messages = int(tuning.get("queued.min.messages", 100_000))
        message_bytes = int((client or {}).get("message.max.bytes", 0))
        tuning = {**_TUNING, **tuning, **_queue_settings(buffer_bytes, min_messages, message_bytes)}
        isolation = "read_committed" if read_committed or asks_read_committed(client or {}) else "read_uncommitted"
        ours = {**_NEEDED, **needed, "group.id": group_id, "isolation.level": isolation}
        settings = merged(ClientRole.CONSUMER, bootstrap_servers, client, tuning, ours)
        self._consumer = made(Consumer, settings, client, f"consumer of {bootstrap_servers}")
        self._read: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._known: set[str] = set()
        self._fault: KStreamsAssignError | None = None
        self._unreadable: dict[TopicPartition, UnreadableRecords] = {}
        self._max_bytes = max_bytes
        self._record_bytes = max_bytes / _FIRST_RECORDS

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start at these offsets; a partition that is read already goes on from the new one."""
        self.remove(positions)
        if positions:
            self._learn({partition.topic for partition in positions})
            with translating("add partitions"):
                self._consumer.incremental_assign([ClientPartition(*at, offset) for at, offset in positions.items()])
            self._read |= positions.keys()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading; what was fetched of them is dropped. Partitions that are not read are ignored."""
        asked = list(partitions)
        for partition in asked:
            self._unreadable.pop(partition, None)
        leaving = self._read.intersection(asked)
        if leaving:
            # librdkafka would keep them paused when they come again.
            self.resume(leaving)
            with translating("remove partitions"):
                self._consumer.incremental_unassign(client_partitions(leaving))
            self._read -= leaving

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        stopping = self._read.intersection(partitions) - self._paused
        with translating("pause partitions"):
            self._consumer.pause(client_partitions(stopping))
        self._paused |= stopping

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        starting = self._paused.intersection(partitions)
        with translating("resume partitions"):
            self._consumer.resume(client_partitions(starting))
        self._paused -= starting

    def take(self, max_records: int, timeout_s: float) -> Taken:
        """Wait for the first record or event, then take what is there without waiting.

        At most ``max_records``, and about ``max_bytes``: the number is estimated from the records taken before.
        Raises ``BrokerError`` for an error that does not pass by itself (not authorized), after the records before it
        were taken, and ``UnreadableRecords`` for each partition that is no longer read because of that. A partition
        that does not exist just brings nothing: librdkafka waits for it without a word.
        """
        self._raise_noted()
        max_records = max(1, min(max_records, _CONSUME_MAX, int(self._max_bytes / self._record_bytes)))
        with translating("read"):
            # One consume() of many would wait for all of them, up to its timeout. Each call lets go of Python's lock,
            # which a busy thread gives back 5 ms later.
            messages = self._consumer.consume(max_records, 0)
            if not messages and timeout_s > 0:
                messages = self._consumer.consume(1, timeout_s)
                if messages and max_records > 1:
                    messages += self._consumer.consume(max_records - 1, 0)
        taken = self._without_events(messages) if any(map(Message.error, messages)) else Taken(messages, {}, {})
        self._measure(taken.messages)
        return taken if len(messages) < max_records else taken._replace(is_all=False)

    def _raise_noted(self) -> None:
        if self._unreadable:
            raise self._unreadable.pop(next(iter(self._unreadable)))
        if self._fault is not None:
            error, self._fault = self._fault, None
            raise error

    def _measure(self, messages: list[Message]) -> None:
        """Learn how large records are, from a sample; what was learned before counts half as much each time."""
        if messages:
            sample = messages[:: 1 + len(messages) // _SAMPLE_RECORDS]
            mean = sum(len(message) + len(message.key() or b"") for message in sample) / len(sample)
            self._record_bytes = max(mean, self._record_bytes / 2, 1)

    def ends(self) -> dict[TopicPartition, int]:
        """High watermarks as of the newest fetch of each partition that is read.

        Sends no request; partitions without a fetch are left out.
        """
        ends = {partition: self.end(partition) for partition in self._read}
        return {partition: end for partition, end in ends.items() if end is not None}

    def end(self, partition: TopicPartition) -> int | None:
        """High watermark as of the newest fetch of one partition; sends no request."""
        known = self._consumer.get_watermark_offsets(ClientPartition(*partition), cached=True)
        return None if known is None or known[1] < 0 else known[1]

    def _learn(self, topics: set[str]) -> None:
        """Look up topics that this client never read, so that their partitions start at once.

        By itself librdkafka looks for new topics once a second (measured: 0.9 s to the first record, 0.03 s this way).
        A broker out of reach is no reason to fail: then that second passes.
        """
        unknown = sorted(topics - self._known)
        self._known |= topics
        deadline = time.monotonic() + _LEARN_S
        # A request waits behind the fetch under way, so many topics are looked up by one request for all there are.
        for topic in unknown if len(unknown) <= _LEARN_SINGLY_MAX else [None]:
            try:
                self._consumer.list_topics(topic, max(0.0, deadline - time.monotonic()))
            except KafkaException as raised:
                if raised.args[0].code() not in PASSING:
                    raise fault(raised.args[0], f"look up {topic or 'topics'}") from raised

    def _without_events(self, messages: list[Message]) -> Taken:
        taken = Taken([], {}, {})
        unreadable: dict[TopicPartition, UnreadableRecords] = {}
        for message in messages:
            error = message.error()
            if unreadable and partition_of(message) in unreadable:
                continue
            if error is None:
                taken.messages.append(message)
            elif error.code() in UNREADABLE and message.topic():
                at = partition_of(message)
                unreadable[at] = UnreadableRecords(at, offset_of(message), error)
            else:
                self._note(message, error, taken)
        self.remove([*taken.out_of_range, *unreadable])
        self._unreadable |= unreadable
        return taken

    def _note(self, message: Message, error: KafkaError, taken: Taken) -> None:
        code = error.code()
        if code == PARTITION_EOF:
            taken.ends[partition_of(message)] = offset_of(message)
        elif code == OFFSET_GONE:
            taken.out_of_range[partition_of(message)] = offset_of(message)
        elif code not in PASSING:
            about = f"read {message.topic()}-{message.partition()}" if message.topic() else "read"
            if code in FAILED_READS:
                logger.warning("%s: %s; the client fetches again", about, describe(error))
            elif self._fault is None:
                self._fault = fault(error, about)

    def close(self) -> None:
        self._consumer.close()


def partition_of(message: Message) -> TopicPartition:
    return TopicPartition(topic_of(message), partition_number_of(message))


def runs(messages: list[Message]) -> Iterator[tuple[TopicPartition, list[Message]]]:
    """Neighbours of one partition together; librdkafka hands out long runs, so what is done for each run is cheap."""
    # Two nested groupings by one C call each take half the time of one grouping by a pair.
    for number, same_number in groupby(messages, key=partition_number_of):
        for topic, run in groupby(same_number, key=topic_of):
            yield TopicPartition(topic, number), list(run)


def client_partitions(partitions: Iterable[TopicPartition]) -> list[ClientPartition]:
    return [ClientPartition(*partition) for partition in partitions]
