"""The nouns that every room shares: task, process, topology, partition.

Pure values, no behaviour beyond their own order and text. What lives here: names that Kafka Streams itself uses and
that more than one room needs. What must not: bytes (``wire``), decisions (``assign``), I/O (``adapters``).
"""

from __future__ import annotations

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
    """A key-value store of a subtopology. With ``logged`` its writes go to a changelog topic."""

    name: str
    logged: bool = True


@dataclass(frozen=True, slots=True)
class SubtopologyShape:
    """What the group must know of a subtopology: where it reads, what state it keeps.

    ``sources`` are copartitioned topics: task ``N_p`` reads partition ``p`` of each.
    """

    sources: tuple[str, ...]
    stores: tuple[Store, ...] = ()

    @property
    def stateful(self) -> bool:
        """KIP-441: a task with any store counts as stateful, logged or not."""
        return bool(self.stores)


@dataclass(frozen=True, slots=True)
class TopologyShape:
    """All subtopologies of an application; a subtopology's number is its index."""

    subtopologies: tuple[SubtopologyShape, ...]

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for sub in self.subtopologies for topic in sub.sources}))

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
        """Store name -> changelog partition of one task, for its logged stores (``app-store-changelog``)."""
        return {
            store.name: TopicPartition(changelog_topic(application_id, store.name), task.partition)
            for store in self.subtopologies[task.subtopology].stores
            if store.logged
        }


def changelog_topic(application_id: str, store: str) -> str:
    """Kafka's name for a store's changelog (``ProcessorStateManager.storeChangelogTopic``)."""
    return f"{application_id}-{store}-changelog"
