"""The nouns that every room shares: task, process, topology, partition.

Pure values, no behaviour beyond their own order and text. What lives here: names that Kafka Streams itself uses and
that more than one room needs. What must not: bytes (``wire``), decisions (``assign``), I/O (``adapters``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import UUID

from kstreams_assign.errors import ConfigError, InvalidTaskId

RUNNING_OFFSET_SUM = -2
"""Reported for a running active task: its lag is zero by definition (Kafka: ``Task.LATEST_OFFSET``)."""

UNKNOWN_OFFSET_SUM = -3
"""Reported when a task's position is not known (Kafka: ``SubscriptionInfo.UNKNOWN_OFFSET_SUM``)."""

TtlClock = Literal["stream", "wall"]
TTL_CLOCKS: tuple[TtlClock, ...] = ("stream", "wall")
"""What the time of an entry is compared with: stream time, or the clock of the machine."""

TTL_MS_MAX = 2**62

INT32_DIGITS_MAX = 10
"""The most digits of an int32, as the numbers of subtopologies and partitions are."""

NO_PROBE_MS = 2**63 - 1
"""``next_rebalance_ms`` of an assignment that asks for no rebalance (Java's ``Long.MAX_VALUE``)."""


class TaskId(NamedTuple):
    """Name one partition of one subtopology: ``0_3``, or ``topology__0_3`` in a named topology.

    Task ids sort by subtopology, then partition, as Kafka's ``TaskId`` does within one topology.
    """

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        plain = f"{self.subtopology}_{self.partition}"
        return plain if self.topology is None else f"{self.topology}__{plain}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Return the task id of ``0_3`` or ``topology__0_3``. Raises ``InvalidTaskId`` for another string."""
        topology, named, plain = text.rpartition("__")
        left, split, right = plain.partition("_")
        numbers = split and all(part.isdecimal() and len(part) <= INT32_DIGITS_MAX for part in (left, right))
        if not numbers or (named and not topology):
            raise InvalidTaskId(f"{text[:60]!r} is not a task id; write SUBTOPOLOGY_PARTITION, as in '0_3'")
        return cls(int(left), int(right), topology if named else None)


def task_names(tasks: Iterable[TaskId]) -> tuple[str, ...]:
    """Return tasks as events name them, in order."""
    return tuple(map(str, sorted(tasks)))


class TopicPartition(NamedTuple):
    """Name one partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class HostInfo(NamedTuple):
    """Name the endpoint where a process answers key lookups (Kafka: ``application.server``).

    The text is ``HOST:PORT`` with an IPv6 address in brackets (Kafka: ``Utils.formatAddress``).
    """

    host: str
    port: int

    def __str__(self) -> str:
        bare_ipv6 = ":" in self.host and not self.host.startswith("[")
        return f"[{self.host}]:{self.port}" if bare_ipv6 else f"{self.host}:{self.port}"


def process_order(process_id: UUID) -> tuple[int, int]:
    """Return the sort key of Java's ``UUID.compareTo``: two *signed* 64-bit halves."""
    most, least = process_id.int >> 64, process_id.int & (2**64 - 1)
    return most - ((most >> 63) << 64), least - ((least >> 63) << 64)


@dataclass(frozen=True, slots=True)
class Store:
    """Declare a key-value store of a subtopology (Kafka: ``Stores.keyValueStoreBuilder``).

    - ``name``: name in ``task.store(name)`` and in the changelog.
    - ``logged``: whether a changelog topic keeps the store.
    - ``source``: source topic that is the changelog: the store is a table of it.
    - ``timestamped``: whether a time is kept beside each value.
    - ``drop_headers``: whether headers of the changelog may be lost.
    - ``in_memory``: whether the store is kept in memory, not on disk.
    - ``changelog_config``: settings of the changelog topic.
    - ``ttl_ms``: milliseconds after which an entry expires that was not written again.
    - ``ttl_clock``: the time by which entries expire.

    Raises ``ConfigError`` for an argument that cannot be used.
    """

    name: str
    """Name; the changelog is ``<application_id>-<name>-changelog``."""
    logged: bool = True
    """Whether writes go to a changelog topic. Without one nothing restores the store. On disk its entries stay as long
    as the task's folder, also over a restart, and are missing in other processes; in memory they are lost when the task
    leaves or the process ends."""
    source: str | None = None
    """Source topic of the subtopology that is also the changelog, as Java's ``topology.optimization`` makes it for a
    table. Nothing is written to it, and the store has to hold just its keys and values, as far as they are
    committed."""
    timestamped: bool = False
    """Whether a time is kept beside each value, as Java's DSL does (``Stores.timestampedKeyValueStoreBuilder``)."""
    drop_headers: bool = False
    """Whether to ignore headers in the changelog. Otherwise the first header is an error: Java's stores with headers
    (KIP-1271) write them."""
    in_memory: bool = False
    """Whether the store is kept in memory (Kafka: ``Stores.inMemoryKeyValueStore``). It is restored from its changelog
    each time a task starts in a process."""
    changelog_config: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Topic settings of the changelog by Kafka's names, as in ``{"min.insync.replicas": "2"}`` (Kafka:
    ``withLoggingEnabled``). The leader sets them when it creates the topic; an existing topic keeps its settings."""
    ttl_ms: int | None = None
    """Milliseconds after which an entry expires that was not written again; None: entries stay. The time of a write is
    its changelog record's. Expired entries are not read, and are deleted with tombstones. Such a store is always
    ``timestamped``."""
    ttl_clock: TtlClock = "stream"
    """Time by which entries expire: ``stream``, the highest timestamp of the task's records, or ``wall``, the clock of
    the machine, which also passes without records."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"store: name = {self.name!r}: must be a non-empty string")
        for flag in ("logged", "timestamped", "drop_headers", "in_memory"):
            refuse_no_bool(f"store {self.name}: {flag}", getattr(self, flag))
        if self.ttl_clock not in TTL_CLOCKS:
            raise ConfigError(
                f"store {self.name}: ttl_clock = {self.ttl_clock!r}: must be one of {', '.join(TTL_CLOCKS)}"
            )
        if self.ttl_ms is None:
            return
        ttl_ms: object = self.ttl_ms
        if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or not 1 <= ttl_ms <= TTL_MS_MAX:
            raise ConfigError(
                f"store {self.name}: ttl_ms = {ttl_ms!r}: must be a whole number of milliseconds, 1 to {TTL_MS_MAX}"
            )
        if self.source is not None:
            raise ConfigError(
                f"store {self.name}: ttl_ms = {ttl_ms}: entries cannot be deleted from the source topic "
                f"{self.source!r}, which is the changelog; leave out ttl_ms or source"
            )
        object.__setattr__(self, "timestamped", True)  # the time in the value is what an entry expires by

    def changelog(self, application_id: str) -> str:
        """Return the topic from which the store is restored."""
        return self.source or changelog_topic(application_id, self.name)


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """Declare an internal topic between two subtopologies by its full name, as ``repartition_topic`` returns it.

    With ``partitions`` None it has as many as the largest source of the subtopologies that write to it.
    """

    topic: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class SubtopologyShape:
    """Declare the topics and stores of a subtopology, as the group has to know them (Kafka: ``TopicsInfo``).

    All topics have their full names.
    """

    sources: tuple[str, ...]
    """Topics to read: task ``N_p`` reads partition ``p`` of each."""
    stores: tuple[Store, ...] = ()
    """Stores that each task keeps."""
    repartition: tuple[RepartitionTopic, ...] = ()
    """Those of the sources that are internal; the leader creates them."""
    sinks: tuple[str, ...] = ()
    """Internal topics that it writes; other topics may be among them."""
    copartition: tuple[tuple[str, ...], ...] = ()
    """Groups of sources that must have equally many partitions."""
    pattern: str | None = None
    """Regular expression: topics whose whole name matches are sources too."""

    def reads(self, topic: str) -> bool:
        """Return whether the topic is a source, by its name or the pattern."""
        return topic in self.sources or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)

    @property
    def stateful(self) -> bool:
        """Return whether a task has any store, logged or not (KIP-441)."""
        return bool(self.stores)

    @property
    def logged(self) -> bool:
        """Return whether any store has a changelog: Java 4.3's stateful (``ChangelogTopics.statefulTaskIds``)."""
        return any(store.logged for store in self.stores)

    @property
    def timestamped(self) -> frozenset[str]:
        """Return the names of the timestamped stores."""
        return frozenset(store.name for store in self.stores if store.timestamped)

    @property
    def in_memory(self) -> frozenset[str]:
        """Return the names of the stores that are kept in memory."""
        return frozenset(store.name for store in self.stores if store.in_memory)

    @property
    def on_disk(self) -> frozenset[str]:
        """Return the names of the other stores."""
        return frozenset(store.name for store in self.stores if not store.in_memory)


@dataclass(frozen=True, slots=True)
class TopologyShape:
    """Hold all subtopologies of an application; a subtopology's number is its index."""

    subtopologies: tuple[SubtopologyShape, ...]

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.sources}))

    def stateful(self, task: TaskId, *, javas: bool = False) -> bool:
        """Return whether a task counts as stateful: by KIP-441, or as Java 4.3 decides."""
        sub = self.subtopologies[task.subtopology]
        return sub.logged if javas else sub.stateful

    @property
    def repartition_topics(self) -> dict[str, RepartitionTopic]:
        """Return all repartition topics by their full names."""
        return {each.topic: each for sub in self.subtopologies for each in sub.repartition}

    @property
    def source_changelogs(self) -> frozenset[str]:
        """Return the source topics that are also a store's changelog."""
        return frozenset(store.source for sub in self.subtopologies for store in sub.stores if store.source)

    def tasks(self, partition_counts: Mapping[str, int]) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Return every task with its input partitions, in order (Kafka: ``PartitionGrouper``).

        A subtopology has as many tasks as its largest source topic has partitions. Topics that are not in
        ``partition_counts`` have none.
        """
        inputs: dict[TaskId, tuple[TopicPartition, ...]] = {}
        for number, sub in enumerate(self.subtopologies):
            largest = max((partition_counts.get(topic, 0) for topic in sub.sources), default=0)
            for partition in range(largest):
                inputs[TaskId(number, partition)] = tuple(
                    TopicPartition(topic, partition)
                    for topic in sorted(sub.sources)
                    if partition < partition_counts.get(topic, 0)
                )
        return inputs

    def changelogs(self, application_id: str, task: TaskId) -> dict[str, TopicPartition]:
        """Return one task's changelog partitions by store, for its logged stores."""
        return {
            store.name: TopicPartition(store.changelog(application_id), task.partition)
            for store in self.subtopologies[task.subtopology].stores
            if store.logged
        }

    def kept_changelogs(self, application_id: str, task: TaskId) -> frozenset[TopicPartition]:
        """Return the changelog partitions whose offsets are valid after the task closes: those of stores on disk.

        An in-memory store is empty after that (Kafka: ``ProcessorStateManager.checkpoint`` leaves it out).
        """
        in_memory = self.subtopologies[task.subtopology].in_memory
        changelogs = self.changelogs(application_id, task).items()
        return frozenset(partition for store, partition in changelogs if store not in in_memory)

    def changelog_topics(self, application_id: str) -> list[str]:
        """Return the changelog topics that are no source topics."""
        stores = [store for sub in self.subtopologies for store in sub.stores]
        return [store.changelog(application_id) for store in stores if store.logged and not store.source]

    def timestamped_changelogs(self, application_id: str) -> frozenset[str]:
        """Return the changelog topics of timestamped stores."""
        stores = [store for sub in self.subtopologies for store in sub.stores if store.logged and store.timestamped]
        return frozenset(store.changelog(application_id) for store in stores)

    def bare_changelogs(self, application_id: str) -> dict[str, str]:
        """Return the changelog topics whose records may have no headers, each with its store."""
        stores = [store for sub in self.subtopologies for store in sub.stores if store.logged and not store.source]
        return {store.changelog(application_id): store.name for store in stores if not store.drop_headers}


def refuse_no_bool(key: str, value: object) -> None:
    """Raise ``ConfigError`` unless this is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r}: must be True or False")


def changelog_topic(application_id: str, store: str) -> str:
    """Return Kafka's name for a store's changelog (``ProcessorStateManager.storeChangelogTopic``)."""
    return f"{application_id}-{store}-changelog"


def repartition_topic(application_id: str, name: str) -> str:
    """Return Kafka's name for a repartition topic (``KStreamImpl.REPARTITION_TOPIC_SUFFIX``)."""
    return f"{application_id}-{name}-repartition"
