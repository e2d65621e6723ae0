"""Internal topics: how many partitions each must have, and the settings it is created with.

The arithmetic of Kafka's ``RepartitionTopics``, ``CopartitionedTopicsEnforcer`` and ``InternalTopicConfig``. Creating
topics does not belong here (``worker.leading``). The partition counts of existing topics go in; the count of every
internal topic comes out, or one error that names the contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kstreams_assign.errors import ConfigError, TopologyMismatch
from kstreams_assign.model import RepartitionTopic, TopologyShape
from kstreams_assign.topology.changelog_settings import refuse_changelog_config

REPARTITION_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}
"""Kafka's ``RepartitionTopicConfig``: nothing expires, members delete what they have consumed; so segments are small.
"""


BROKERS_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
"""Topics of the brokers themselves: a pattern matches none of them (Kafka: ``exclude.internal.topics``)."""

TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
"""Kafka: ``Topic.validate``."""


def refuse_wrong_topology(topology: TopologyShape, application_id: str) -> None:
    """Raise ``ConfigError`` for invalid names or settings of internal topics, and for a topic that is read twice."""
    _refuse_impossible_names(topology, application_id)
    for sub in topology.subtopologies:
        for store in sub.stores:
            refuse_changelog_config(store)
    _refuse_second_readers(topology, application_id)


def _refuse_impossible_names(topology: TopologyShape, application_id: str) -> None:
    """Raise ``ConfigError`` if an internal topic would have an invalid name, which brokers refuse at each rebalance."""
    topics = [*topology.changelog_topics(application_id), *topology.repartition_topics]
    if wrong := [topic for topic in topics if not TOPIC_NAME.fullmatch(topic)]:
        raise ConfigError(
            f"application_id = {application_id!r}: {wrong[0]!r} cannot be a topic's name; use only letters, digits, "
            f"'.', '_' and '-' in the application id and in the names of stores and repartition topics, and at most "
            f"249 characters in all"
        )


def _refuse_second_readers(topology: TopologyShape, application_id: str) -> None:
    """Raise ``ConfigError`` for a topic that is read twice, by name or by a pattern (``InternalTopologyBuilder``).

    Each record of such a topic would reach only one of its readers. Topics that match patterns and are not named are
    checked when they are known (``resolve_patterns``).
    """
    reader_by_topic: dict[str, int] = {}
    for number, sub in enumerate(topology.subtopologies):
        for topic in sub.sources:
            reader = reader_by_topic.setdefault(topic, number)
            if reader != number:
                raise ConfigError(
                    f"topology: topic {topic} is read by subtopologies {reader} and {number}; a topic has one reader: "
                    f"read it in one subtopology, and call both functions there"
                )
        if twice := [topic for topic in sub.sources if sub.sources.count(topic) > 1]:
            raise ConfigError(f"topology: subtopology {number} lists topic {twice[0]} twice; list it once")
    for topic, reader in reader_by_topic.items():
        for number, sub in enumerate(topology.subtopologies):
            if number != reader and not is_internal(application_id, topic) and sub.reads(topic):
                raise ConfigError(
                    f"topology: topic {topic} is read by subtopology {reader}, and the pattern of subtopology {number} "
                    f"matches it; a topic has one reader: make the pattern narrower"
                )


def is_internal(application_id: str, topic: str) -> bool:
    """Return whether a topic is, by its name, an internal topic of the application; patterns match none of these."""
    own = topic[len(application_id) + 1 :]
    return topic.startswith(f"{application_id}-") and own.endswith(("-changelog", "-repartition"))


def internal_topics_of(application_id: str, topics: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Return those of the ``topics`` that are internal topics of the application, by their names, in order.

    ``groups``: all that are known. A topic is of the one with the longest name that fits: ``app-eu-sums-changelog`` is
    of ``app-eu``, and of ``app`` only if there is no ``app-eu``.
    """
    longer = [other for other in groups if other.startswith(f"{application_id}-")]
    named = sorted(topic for topic in topics if is_internal(application_id, topic))
    return [topic for topic in named if not any(is_internal(other, topic) for other in longer)]


def missing_sources(topology: TopologyShape, counts: Mapping[str, int]) -> list[str]:
    """Return the external source topics that do not exist. Kafka: ``INCOMPLETE_SOURCE_TOPIC_METADATA``."""
    internal = topology.repartition_topics
    return [topic for topic in topology.source_topics if topic not in internal and not counts.get(topic)]


def add_repartition_counts(topology: TopologyShape, counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return ``counts`` with those of the repartition topics. Raises as ``repartition_counts``."""
    return {**counts, **repartition_counts(topology, counts)}


def repartition_counts(topology: TopologyShape, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of partitions that each repartition topic must have, by full name.

    ``counts`` holds the other source topics; none may be missing. A topic without a declared count gets the maximum
    over the sources of the subtopologies that write to it. Java takes the sources that it knows so far, in the order of
    a hash table. Here a count waits until all sources are known; only in a cycle do the known ones suffice. Raises
    ``TopologyMismatch`` for counts that contradict each other or cannot be derived.
    """
    internal = topology.repartition_topics
    result = {topic: declared.partitions for topic, declared in internal.items() if declared.partitions is not None}
    known = {topic: count for topic, count in counts.items() if topic not in internal} | result
    while pending := sorted(internal.keys() - result.keys()):
        upstream = {topic: _upstream(topology, topic) for topic in pending}
        whole = [topic for topic in pending if upstream[topic] and all(source in known for source in upstream[topic])]
        partly = [topic for topic in pending if any(source in known for source in upstream[topic])]
        if not partly:
            is_written = any(pending[0] in sub.sinks for sub in topology.subtopologies)
            raise TopologyMismatch(
                f"repartition topic {pending[0]}: its number of partitions is unknown; "
                + (
                    "create a topic that the subtopology that writes to it reads, or set its partitions"
                    if is_written
                    else "list it in the sinks of the subtopology that writes to it, or set its partitions"
                )
            )
        for topic in whole or partly[:1]:
            result[topic] = known[topic] = max(known[source] for source in upstream[topic] if source in known)
    for sub in topology.subtopologies:
        for group in sub.copartition:
            result.update(_copartitioned(group, internal, result, counts))
    refuse_small_tables(topology, {**counts, **result})
    return result


def _upstream(topology: TopologyShape, topic: str) -> tuple[str, ...]:
    return tuple(source for sub in topology.subtopologies if topic in sub.sinks for source in sub.sources)


def _copartitioned(
    group: Sequence[str],
    internal: Mapping[str, RepartitionTopic],
    counted: Mapping[str, int],
    counts: Mapping[str, int],
) -> dict[str, int]:
    """Return the counts of a group's repartition topics: the external topics' count, the declared or the maximum."""
    others = {topic: counts[topic] for topic in group if topic not in internal}
    declared = {
        topic: counted[topic] for topic in group if topic in internal and internal[topic].partitions is not None
    }
    mine = {topic: counted[topic] for topic in group if topic in internal}
    refuse_unequal(others | declared)
    expected = next(iter((others | declared).values()), max(mine.values(), default=0))
    return dict.fromkeys(mine, expected)


def refuse_unequal(counts: Mapping[str, int]) -> None:
    """Raise ``TopologyMismatch``, with two topics and their counts, if copartitioned topics have different counts."""
    named = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if named and named[0][1] != named[-1][1]:
        (most, many), (least, few) = named[0], named[-1]
        raise TopologyMismatch(
            f"copartitioned topics with different numbers of partitions: {most} has {many}, {least} has {few}; joined "
            f"topics must have the same number: recreate one of them, or read it through a repartition topic"
        )


def refuse_small_tables(topology: TopologyShape, counts: Mapping[str, int]) -> None:
    """Raise ``TopologyMismatch`` for a store whose source topic has no partition for some tasks of its subtopology.

    The source topic is the changelog, so these tasks could never run. Topics that are not in ``counts`` are passed
    over.
    """
    for sub in topology.subtopologies:
        sizes = {topic: counts[topic] for topic in sub.sources if topic in counts}
        for store in sub.stores:
            if store.logged and store.source in sizes:
                _refuse_small_table(store.name, store.source, sizes)


def _refuse_small_table(store: str, source: str, sizes: Mapping[str, int]) -> None:
    largest = max(sizes, key=lambda topic: (sizes[topic], topic))
    if sizes[source] < sizes[largest]:
        raise TopologyMismatch(
            f"store {store}: its source topic, which is its changelog, has too few partitions: {source} has "
            f"{sizes[source]}, {largest} has {sizes[largest]}; give both topics the same number and list "
            f"them in copartitioned, read {largest} through a repartition topic, or leave out source of the store"
        )


def refuse_wrong_counts(expected: Mapping[str, int], there: Mapping[str, int]) -> None:
    """Raise ``TopologyMismatch`` if an internal topic exists with another number of partitions. It is never altered."""
    wrong = [
        f"Existing internal topic {topic} has invalid partitions: expected: {count}; actual: {there[topic]}"
        for topic, count in expected.items()
        if there.get(topic, count) != count
    ]
    if wrong:
        raise TopologyMismatch(
            f"{'. '.join(wrong)}. Nothing was altered. Possible causes: a source topic has grown; another application "
            "uses the name; another member declares another number of partitions for a repartition topic. Otherwise "
            "run Kafka's kafka-streams-application-reset, which deletes internal topics"
        )


def resolve_patterns(topology: TopologyShape, application_id: str, topics: Iterable[str]) -> TopologyShape:
    """Return the topology with the topics that patterns match added to the sources.

    Neither internal topics nor those of the brokers match a pattern.
    Raises ``TopologyMismatch``, as Java does, for a topic that two subtopologies would read.
    """
    if all(sub.pattern is None for sub in topology.subtopologies):
        return topology
    others = sorted({topic for topic in topics if not is_internal(application_id, topic)} - BROKERS_TOPICS)
    named = frozenset(topology.source_topics)
    matched = [
        [] if sub.pattern is None else [t for t in others if t not in sub.sources and sub.reads(t)]
        for sub in topology.subtopologies
    ]
    listed = [topic for topics_of_sub in matched for topic in topics_of_sub]
    if twice := sorted({topic for topic in listed if topic in named or listed.count(topic) > 1}):
        raise TopologyMismatch(
            f"topic {twice[0]} is matched by a pattern and read by another subtopology; make the pattern narrower"
        )
    shapes = (
        replace(sub, sources=(*sub.sources, *more)) for sub, more in zip(topology.subtopologies, matched, strict=True)
    )
    return TopologyShape(tuple(shapes))


def subscription_pattern(topology: TopologyShape) -> str | None:
    """Return one pattern that matches the names of all sources; None if no subtopology has a pattern."""
    patterns = [f"(?:{sub.pattern})" for sub in topology.subtopologies if sub.pattern is not None]
    return "|".join([*patterns, *map(re.escape, topology.source_topics)]) if patterns else None
