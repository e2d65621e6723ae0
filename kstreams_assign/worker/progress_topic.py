"""The topic by which members of a group speak to each other: ``<application id>-warm-up-progress``.

It has one partition and an hour's retention. Members of a classic group publish the progress of their replicas there
(``early``), those of a streams group who leaves and what is warm (``warm_leaving``), and processes that they are about
to join one (``join_announcements``). It is a topic and not offsets under side groups, because a reader then needs one
fetch for the whole group instead of one request for each member, and because the access rules of the application's
changelogs cover it. What must not live here: what the records mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, OffsetOutOfRange, RecordRefused
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record

REQUEST_S = 5.0
RECORDS_MAX = 10_000
TOPIC_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.bytes": "1048576"}


def progress_topic(application_id: str) -> str:
    """Return the topic's name."""
    return f"{application_id}-warm-up-progress"


@contextmanager
def let_outages_pass() -> Iterator[None]:
    """Suppress what a later try mends. Raises ``RecordRefused``: the brokers will not take the next message either."""
    try:
        yield
    except RecordRefused:
        raise
    except (BrokerUnavailable, DeliveryFailed):
        return


class ProgressTopic:
    """The topic, created when it is first needed. For one thread; ``clients`` closes what was made."""

    def __init__(self, config: Config, admin: ClusterAdmin) -> None:
        self._config = config
        self._admin = admin
        self._producer: RecordProducer | None = None
        self._reader: InputConsumer | None = None
        self._is_lost = False
        """Whether the reader's place is gone, so that it reads nothing until it has another."""
        self.partition = TopicPartition(progress_topic(config.application_id), 0)

    def publish(self, key: bytes, value: bytes, headers: list[tuple[str, bytes | None]], clients: ExitStack) -> None:
        """Write a record, without waiting for it. Raises ``BrokerUnavailable``, ``DeliveryFailed`` for one before."""
        producer = self._producer = self._producer or self._made_producer(clients)
        producer.renew_if_spoiled()
        producer.produce(*self.partition, key, value, headers)
        producer.acknowledged()

    def flush(self, timeout_s: float) -> None:
        """Wait until what was written has arrived. Raises ``BrokerUnavailable``, ``DeliveryFailed``."""
        if self._producer is not None:
            self._producer.flush(timeout_s)

    def read(self, clients: ExitStack) -> list[Record]:
        """Read on, from the topic's end at the first call, or where what comes next is gone after a long time.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        reader = self._reader = self._reader or self._made_reader(clients)
        if self._is_lost:
            reader.add(self._ends())
            self._is_lost = False
        try:
            return [record for records in reader.poll(RECORDS_MAX, 0).values() for record in records]
        except OffsetOutOfRange:
            self._is_lost = True
            return []

    def _made_producer(self, clients: ExitStack) -> RecordProducer:
        self._make_topic()
        config = self._config
        timeout_ms = config.session_timeout_ms * 2 // 3
        producer = RecordProducer(config.bootstrap_servers, config.client, delivery_timeout_ms=timeout_ms)
        return clients.enter_context(closing(producer))

    def _made_reader(self, clients: ExitStack) -> InputConsumer:
        """Create a reader at the topic's present end: members repeat what they have to say."""
        self._make_topic()
        config = self._config
        ends = self._ends()
        reader = InputConsumer(config.bootstrap_servers, config.client, group_id=config.application_id)
        clients.enter_context(closing(reader))
        reader.add(ends)
        return reader

    def _ends(self) -> Mapping[TopicPartition, int]:
        return self._admin.end_offsets([self.partition], REQUEST_S)

    def _make_topic(self) -> None:
        topic = self.partition.topic
        factor = self._config.replication_factor
        self._admin.create_topics({topic: 1}, REQUEST_S, configs={topic: TOPIC_SETTINGS}, replication_factor=factor)
