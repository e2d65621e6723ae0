"""The nouns that every room shares: task, process, topology, partition.

Pure values, no behaviour beyond their own order and text. What lives here: names that Kafka Streams itself uses and
that more than one room needs. What must not: bytes (``wire``), decisions (``assign``), I/O (``adapters``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kstreams_assign.errors import InvalidTaskId

RUNNING_OFFSET_SUM = -2
"""Reported for a running active task: its lag is zero by definition (Kafka: ``Task.LATEST_OFFSET``)."""

UNKNOWN_OFFSET_SUM = -3
"""Reported when a task's position is not known (Kafka: ``SubscriptionInfo.UNKNOWN_OFFSET_SUM``)."""

NO_PROBE_MS = 2**63 - 1
"""``next_rebalance_ms`` of an assignment that asks for no rebalance (Java's ``Long.MAX_VALUE``)."""


class TaskId(NamedTuple):
    """One partition of one subtopology: ``0_3``, or ``topology__0_3`` in a named topology.

    Sorts by subtopology, then partition, as Kafka's ``TaskId`` does within one topology.
    """

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        plain = f"{self.subtopology}_{self.partition}"
        return plain if self.topology is None else f"{self.topology}__{plain}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read ``0_3`` or ``topology__0_3``; raises ``InvalidTaskId`` for anything else."""
        topology, named, plain = text.rpartition("__")
        left, split, right = plain.partition("_")
        if not (split and left.isdecimal() and right.isdecimal()) or (named and not topology):
            raise InvalidTaskId(f"{text!r} is not a task id; write SUBTOPOLOGY_PARTITION, as in '0_3'")
        return cls(int(left), int(right), topology if named else None)


class TopicPartition(NamedTuple):
    """A topic's name and one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class HostInfo(NamedTuple):
    """An endpoint (``application.server``): where a process answers key lookups."""

    host: str
    port: int


def process_order(process_id: UUID) -> tuple[int, int]:
    """The sort key under which Java orders process ids: two *signed* 64-bit halves (``java.util.UUID.compareTo``)."""
    most, least = process_id.int >> 64, process_id.int & (2**64 - 1)
    return most - ((most >> 63) << 64), least - ((least >> 63) << 64)


@dataclass(frozen=True, slots=True)
class Store:
    """A key-value store of a subtopology. With ``logged`` its writes go to a changelog topic.

    ``source``: a source topic of the subtopology that is its changelog, as Java's ``topology.optimization`` makes it of a table.
    Nothing is written to it; its end is what the group has committed of it, and the store has to hold just its keys and values.
    A ``timestamped`` one keeps a time beside each value, as the stores of Java's DSL do (``timestampedKeyValueStoreBuilder``).
    ``drop_headers``: records of its changelog may have headers, which are lost here; else the first of them is an error, as Java's
    stores with headers (KIP-1271) are told by that.
    """

    name: str
    logged: bool = True
    source: str | None = None
    timestamped: bool = False
    drop_headers: bool = False

    def changelog(self, application_id: str) -> str:
        """The topic that the store is restored from."""
        return self.source or changelog_topic(application_id, self.name)


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic that one subtopology writes and another reads, by its full name (``repartition_topic``).

    ``partitions`` None: as many as the largest source of the subtopologies that write to it.
    """

    topic: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class SubtopologyShape:
    """What the group must know of a subtopology: where it reads, what state it keeps.

    Task ``N_p`` reads partition ``p`` of each of ``sources``, of which those in ``repartition`` are internal. ``sinks`` tell which
    internal topics it writes (others may be among them). Each set in ``copartition`` are sources that must have equally many
    partitions. ``pattern``: beside its sources it reads every topic whose whole name matches. All topics stand under their full
    names (Kafka: ``TopicsInfo``).
    """

    sources: tuple[str, ...]
    stores: tuple[Store, ...] = ()
    repartition: tuple[RepartitionTopic, ...] = ()
    sinks: tuple[str, ...] = ()
    copartition: tuple[tuple[str, ...], ...] = ()
    pattern: str | None = None

    def reads(self, topic: str) -> bool:
        """Whether the topic is a source, by its name or the pattern."""
        return topic in self.sources or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)

    @property
    def stateful(self) -> bool:
        """KIP-441: a task with any store counts as stateful, logged or not."""
        return bool(self.stores)

    @property
    def logged(self) -> bool:
        """Whether any store has a changelog; what Java 4.3 takes for stateful (``ChangelogTopics.statefulTaskIds``)."""
        return any(store.logged for store in self.stores)

    @property
    def timestamped(self) -> frozenset[str]:
        """The names of the timestamped stores."""
        return frozenset(store.name for store in self.stores if store.timestamped)


@dataclass(frozen=True, slots=True)
class TopologyShape:
    """All subtopologies of an application; a subtopology's number is its index."""

    subtopologies: tuple[SubtopologyShape, ...]

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.sources}))

    def stateful(self, task: TaskId, *, javas: bool = False) -> bool:
        """Whether a task counts as stateful: by KIP-441, or as Java 4.3 decides."""
        sub = self.subtopologies[task.subtopology]
        return sub.logged if javas else sub.stateful

    @property
    def repartition_topics(self) -> dict[str, RepartitionTopic]:
        """Full name -> the internal topic, of all that any subtopology reads."""
        return {one.topic: one for sub in self.subtopologies for one in sub.repartition}

    @property
    def source_changelogs(self) -> frozenset[str]:
        """The source topics that are a store's changelog, too."""
        return frozenset(store.source for sub in self.subtopologies for store in sub.stores if store.source)

    def tasks(self, partition_counts: Mapping[str, int]) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Every task with its input partitions, in order (Kafka: ``PartitionGrouper``).

        A subtopology has as many tasks as its largest source topic has partitions. Topics that
        ``partition_counts`` lacks count as having none.
        """
        found: dict[TaskId, tuple[TopicPartition, ...]] = {}
        for number, sub in enumerate(self.subtopologies):
            largest = max((partition_counts.get(topic, 0) for topic in sub.sources), default=0)
            for partition in range(largest):
                found[TaskId(number, partition)] = tuple(
                    TopicPartition(topic, partition)
                    for topic in sorted(sub.sources)
                    if partition < partition_counts.get(topic, 0)
                )
        return found

    def changelogs(self, application_id: str, task: TaskId) -> dict[str, TopicPartition]:
        """Store name -> changelog partition of one task, for its logged stores (``Store.changelog``)."""
        return {
            store.name: TopicPartition(store.changelog(application_id), task.partition)
            for store in self.subtopologies[task.subtopology].stores
            if store.logged
        }

    def changelog_topics(self, application_id: str) -> list[str]:
        """The topics that only are changelogs."""
        stores = [store for sub in self.subtopologies for store in sub.stores]
        return [store.changelog(application_id) for store in stores if store.logged and not store.source]

    def timestamped_changelogs(self, application_id: str) -> frozenset[str]:
        """The topics of timestamped stores: the time of a value there is its record's."""
        stores = [store for sub in self.subtopologies for store in sub.stores if store.logged and store.timestamped]
        return frozenset(store.changelog(application_id) for store in stores)

    def bare_changelogs(self, application_id: str) -> dict[str, str]:
        """Topic -> store, of the changelogs whose records may have no headers."""
        stores = [store for sub in self.subtopologies for store in sub.stores if store.logged and not store.source]
        return {store.changelog(application_id): store.name for store in stores if not store.drop_headers}


def changelog_topic(application_id: str, store: str) -> str:
    """Kafka's name for a store's changelog (``ProcessorStateManager.storeChangelogTopic``)."""
    return f"{application_id}-{store}-changelog"


def repartition_topic(application_id: str, name: str) -> str:
    """Kafka's name for an internal topic between two subtopologies (``KStreamImpl.REPARTITION_TOPIC_SUFFIX``)."""
    return f"{application_id}-{name}-repartition"
