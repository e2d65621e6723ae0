"""The topics that a leader makes: how many partitions each must have, and the settings it is made with.

What lives here: the arithmetic of Kafka's ``RepartitionTopics``, ``CopartitionedTopicsEnforcer`` and ``InternalTopicConfig``.
What must not: making them, which is ``worker.leading``'s. The idea: counts of the topics that exist go in, and either every
internal topic's count comes out or one error that names what contradicts what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kstreams_assign.errors import ConfigError, TopologyMismatch
from kstreams_assign.model import RepartitionTopic, TopologyShape

CHANGELOG_SETTINGS: Mapping[str, str] = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
"""Kafka's ``UnwindowedUnversionedChangelogTopicConfig``."""

REPARTITION_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}
"""Kafka's ``RepartitionTopicConfig``: nothing expires, as members delete what they have consumed; small segments, so that it goes."""


TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
"""Kafka: ``Topic.validate``."""


def refuse_impossible_names(topology: TopologyShape, application_id: str) -> None:
    """Raises ``ConfigError`` where an internal topic cannot have its name; brokers would refuse it at every rebalance anew."""
    topics = [*topology.changelog_topics(application_id), *topology.repartition_topics]
    if wrong := [topic for topic in topics if not TOPIC_NAME.fullmatch(topic)]:
        raise ConfigError(
            f"application_id = {application_id!r}: {wrong[0]!r} cannot be a topic's name; allowed: letters, digits, '.', '_', '-' in it and in "
            f"the names of stores and repartition topics, 249 characters in all"
        )


def is_internal(application_id: str, topic: str) -> bool:
    """Whether a topic is one of the application's own, by its name; no pattern matches such a topic."""
    return topic.startswith(f"{application_id}-") and topic.endswith(("-changelog", "-repartition"))


def missing_sources(topology: TopologyShape, counts: Mapping[str, int]) -> list[str]:
    """The source topics that somebody else has to make and that have no partition. Kafka: ``INCOMPLETE_SOURCE_TOPIC_METADATA``."""
    internal = topology.repartition_topics
    return [topic for topic in topology.source_topics if topic not in internal and not counts.get(topic)]


def add_repartition_counts(topology: TopologyShape, counts: Mapping[str, int]) -> Mapping[str, int]:
    """``counts`` and those of ``repartition_counts``, whose errors it raises."""
    return {**counts, **repartition_counts(topology, counts)}


def repartition_counts(topology: TopologyShape, counts: Mapping[str, int]) -> dict[str, int]:
    """Full name -> number of partitions that each repartition topic must have.

    ``counts`` are those of the other source topics, none of which is missing. Where nothing is told it is the maximum over the
    sources of the subtopologies that write to it. Java takes those that it knows by then, in the order of a hash table; here a
    count is taken once all of them are known, and with what is known only where they go round in a circle.
    Raises ``TopologyMismatch`` for counts that contradict each other or cannot be had.
    """
    internal = topology.repartition_topics
    found = {topic: one.partitions for topic, one in internal.items() if one.partitions is not None}
    known = {topic: count for topic, count in counts.items() if topic not in internal} | found
    while open_ones := sorted(internal.keys() - found.keys()):
        upstream = {topic: _upstream(topology, topic) for topic in open_ones}
        whole = [topic for topic in open_ones if upstream[topic] and all(one in known for one in upstream[topic])]
        partly = [topic for topic in open_ones if any(one in known for one in upstream[topic])]
        if not partly:
            raise TopologyMismatch(
                f"repartition topic {open_ones[0]}: nobody says how many partitions it has; name it among the sinks of the "
                "subtopology that writes to it, or give its number of partitions"
            )
        for topic in whole or partly[:1]:
            found[topic] = known[topic] = max(known[one] for one in upstream[topic] if one in known)
    for sub in topology.subtopologies:
        for group in sub.copartition:
            found.update(_copartitioned(group, internal, found, counts))
    return found


def _upstream(topology: TopologyShape, topic: str) -> tuple[str, ...]:
    return tuple(source for sub in topology.subtopologies if topic in sub.sinks for source in sub.sources)


def _copartitioned(
    group: Sequence[str],
    internal: Mapping[str, RepartitionTopic],
    found: Mapping[str, int],
    counts: Mapping[str, int],
) -> dict[str, int]:
    """The counts of a copartition group's repartition topics: the others' count, else the told one, else the maximum."""
    others = {topic: counts[topic] for topic in group if topic not in internal}
    told = {topic: found[topic] for topic in group if topic in internal and internal[topic].partitions is not None}
    mine = {topic: found[topic] for topic in group if topic in internal}
    refuse_unequal(others | told)
    wanted = next(iter((others | told).values()), max(mine.values(), default=0))
    return dict.fromkeys(mine, wanted)


def refuse_unequal(counts: Mapping[str, int]) -> None:
    """Raises ``TopologyMismatch`` naming two of these copartitioned topics, and both numbers, where they differ."""
    named = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    if named and named[0][1] != named[-1][1]:
        (most, many), (least, few) = named[0], named[-1]
        raise TopologyMismatch(
            f"copartitioned topics with different numbers of partitions: {most} has {many}, {least} has {few}; they are joined, so "
            "both must have as many"
        )


def refuse_wrong_counts(expected: Mapping[str, int], there: Mapping[str, int]) -> None:
    """Raises ``TopologyMismatch`` for an internal topic that exists with another number of partitions. It is never altered."""
    wrong = [
        f"Existing internal topic {topic} has invalid partitions: expected: {count}; actual: {there[topic]}"
        for topic, count in expected.items()
        if there.get(topic, count) != count
    ]
    if wrong:
        raise TopologyMismatch(
            f"{'. '.join(wrong)}. Nothing was altered: a source topic has grown, another application uses the name, or the number that "
            "another member's topology gives a repartition topic is not given here. Else use Kafka's kafka-streams-application-reset to "
            "clean up before processing"
        )


def resolve_patterns(topology: TopologyShape, application_id: str, topics: Iterable[str]) -> TopologyShape:
    """With every topic that a subtopology's pattern matches among its sources; the application's own topics match none.

    Raises ``TopologyMismatch`` for a topic that two subtopologies would read by it, as Java does.
    """
    if all(sub.pattern is None for sub in topology.subtopologies):
        return topology
    others = sorted({topic for topic in topics if not is_internal(application_id, topic)})
    named = frozenset(topology.source_topics)
    found = [
        [] if sub.pattern is None else [t for t in others if t not in sub.sources and sub.reads(t)]
        for sub in topology.subtopologies
    ]
    listed = [topic for one in found for topic in one]
    if twice := sorted({topic for topic in listed if topic in named or listed.count(topic) > 1}):
        raise TopologyMismatch(
            f"topic {twice[0]} is matched by a pattern and read by another subtopology; make the pattern narrower"
        )
    shapes = (
        replace(sub, sources=(*sub.sources, *more)) for sub, more in zip(topology.subtopologies, found, strict=True)
    )
    return TopologyShape(tuple(shapes))


def subscription_pattern(topology: TopologyShape) -> str | None:
    """One pattern for the whole names of all sources; None where all are named."""
    patterns = [f"(?:{sub.pattern})" for sub in topology.subtopologies if sub.pattern is not None]
    return "|".join([*patterns, *map(re.escape, topology.source_topics)]) if patterns else None
