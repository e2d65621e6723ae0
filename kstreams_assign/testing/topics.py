"""The topics and stores of a topology, by the names that a test uses, and how many partitions each has.

Repartition topics have their short names too, as in ``Task.emit``, unless another topic has that name. What must not
live here: records (``broker``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.internal import add_repartition_counts, is_internal, resolve_patterns


class Topics:
    """Creates the topics in the broker. ``partitions``: topic -> its number; topics that are left out have one.

    Raises ``ConfigError`` for a topic or a number that cannot be.
    """

    def __init__(
        self,
        shape: TopologyShape,
        flows: Sequence[Flow],
        config: Config,
        partitions: Mapping[str, int],
        broker: MemoryBroker,
        global_topics: Iterable[str] = (),
    ) -> None:
        self._shape = shape
        self._global_topics = frozenset(global_topics)
        self._application_id = application_id = config.application_id
        self._broker = broker
        self._sinks = {topic for flow in flows for topic in flow.sinks.values()}
        if config.errors_dead_letter_queue_topic_name is not None:
            self._sinks.add(config.errors_dead_letter_queue_topic_name)
        self._full_names = {
            topic.removeprefix(f"{application_id}-").removesuffix("-repartition"): topic
            for topic in shape.repartition_topics
        }
        external = {*shape.source_topics, *self._sinks, *self._global_topics} - shape.repartition_topics.keys()
        for topic, count in partitions.items():
            self._check_partitions(topic, count, external)
        for topic in sorted(external | partitions.keys()):
            broker.create(topic, partitions.get(topic, 1))

    def source(self, topic: str) -> str:
        """Return the full name of a topic that is read. Raises ``ConfigError`` for another."""
        if topic in self._shape.source_topics or topic in self._global_topics or self._is_matched(topic):
            return topic
        if topic in self._full_names:
            return self._full_names[topic]
        patterns = [f"those that match {sub.pattern}" for sub in self._shape.subtopologies if sub.pattern is not None]
        raise ConfigError(
            f"topic = {topic!r}: no subtopology reads it; must be one of "
            f"{_listed([*self._shape.source_topics, *sorted(self._global_topics), *patterns])}"
        )

    def written(self, topic: str) -> str:
        """Return the full name of a topic that is written to. Raises ``ConfigError`` for another."""
        written = self._sinks | {*self._shape.changelog_topics(self._application_id)}
        full = topic if topic in written else self._full_names.get(topic)
        if full in written:
            return full
        raise ConfigError(
            f"topic = {topic!r}: the topology does not write to it; must be one of {_listed(sorted(written))}"
        )

    def create_matched(self, topic: str) -> None:
        """Create a topic that matches a pattern, with one partition."""
        self._broker.create(topic, 1)

    def refuse_missing(self, topic: str, partition: int) -> None:
        """Raise ``ConfigError`` for a partition that the topic does not have."""
        _refuse_outside(partition, self._broker.partition_counts()[topic], f"topic {topic!r}")

    def tasks(self) -> dict[TaskId, tuple[TopicPartition, ...]]:
        """Return every task with its inputs, after the internal topics are created. Raises ``TopologyMismatch``."""
        there = self._broker.partition_counts()
        shape = resolve_patterns(self._shape, self._application_id, there)
        counts = add_repartition_counts(shape, there)
        for topic in shape.repartition_topics:
            self._broker.create(topic, counts[topic])
        tasks = shape.tasks(counts)
        for number, sub in enumerate(shape.subtopologies):
            of_subtopology = sum(task.subtopology == number for task in tasks)
            for store in sub.stores:
                if store.logged and store.source is None:
                    self._broker.create(store.changelog(self._application_id), of_subtopology)
        return tasks

    def task_of(self, store: str, partition: int) -> TaskId:
        """Return the task that has this part of a store. Raises ``ConfigError``."""
        numbers = {each.name: number for number, sub in enumerate(self._shape.subtopologies) for each in sub.stores}
        if store not in numbers:
            raise ConfigError(f"store = {store!r}: no such store; the topology declares {_listed(numbers)}")
        task = TaskId(numbers[store], partition)
        _refuse_outside(
            partition, sum(each.subtopology == task.subtopology for each in self.tasks()), f"store {store!r}"
        )
        return task

    def changelog(self, store: str) -> str:
        """Return the topic from which a store of the topology is restored."""
        stores = {each.name: each for sub in self._shape.subtopologies for each in sub.stores}
        return stores[store].changelog(self._application_id)

    def _check_partitions(self, topic: str, count: int, external: Iterable[str]) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"partitions = {{{topic!r}: {count!r}}}: must be a whole number >= 1")
        if topic in external or self._is_matched(topic):
            return
        if topic in self._full_names or topic in self._full_names.values():
            raise ConfigError(
                f"partitions = {{{topic!r}: {count}}}: it is a repartition topic; write "
                f"Repartition(..., partitions={count}) in the subtopology that reads it"
            )
        raise ConfigError(
            f"partitions = {{{topic!r}: {count}}}: the topology neither reads nor writes it; must be one of "
            f"{_listed(sorted(external))}"
        )

    def _is_matched(self, topic: str) -> bool:
        """Return whether a pattern matches a topic."""
        return not is_internal(self._application_id, topic) and any(
            sub.pattern is not None and sub.reads(topic) for sub in self._shape.subtopologies
        )


def _refuse_outside(partition: int, count: int, of: str) -> None:
    if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < count:
        there = "has no partitions yet" if count == 0 else f"has the partitions 0 to {count - 1}"
        raise ConfigError(f"partition = {partition!r}: {of} {there}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
