"""A group's subtopologies with their inputs and state: given by the caller, or inferred and reported as assumed.

Members do not report their topology. Assignments pair active tasks with their input partitions, offset sums and
standbys show which tasks have state, and changelogs are known by their names. Nothing shows which changelog belongs to
which subtopology, so ``assumed`` lists every conclusion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kstreams_assign.model import (
    RepartitionTopic,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
    TopologyShape,
    changelog_topic,
)
from kstreams_assign.observe.decoded import DecodedGroup
from kstreams_assign.observe.snapshot import GroupSnapshot
from kstreams_assign.topology.described import (
    REPARTITION,
    DescribedSubtopology,
    internal_topics,
    read_description,
    topic_matcher,
)
from kstreams_assign.topology.internal import BROKERS_TOPICS, is_internal

CHANGELOG = "-changelog"
UNSEEN_STORE = "store-without-visible-changelog"
"""Stands for the state of a subtopology whose changelog is not known."""
_UNLOGGED = "so it counts as a store without a changelog"
PERHAPS_A_TABLE = "if it is a table of a source topic, describe it in TOML with its source"


@dataclass(frozen=True, slots=True)
class ObservedTopology:
    """A topology; ``assumed``: what was inferred, subject -> sentence."""

    shape: TopologyShape
    assumed: Mapping[str, str] = field(default_factory=dict)


def source_matcher(text: str, name: str = "--topology") -> Callable[[str], bool]:
    """Return a predicate for the topics that a described topology reads, by name or by pattern. Raises ``ConfigError``.

    Internal topics are not among them: descriptions omit the group's name.
    """
    listed = read_description(text, name)
    topics = {topic for subtopology in listed for topic in subtopology.topics}
    matchers = [topic_matcher(pattern, name) for subtopology in listed for pattern in subtopology.patterns]
    return lambda topic: topic in topics or (topic not in BROKERS_TOPICS and any(match(topic) for match in matchers))


def given_topology(
    text: str, snapshot: GroupSnapshot, name: str = "--topology", *, is_saved: bool = False
) -> ObservedTopology:
    """Build a topology from a description (see ``described``). Raises ``ConfigError`` naming the file (``name``).

    Java prints internal topics without the group's name: the existing topics complete them. A store counts as logged if
    its changelog exists, unless the description states it. A table of a source topic that does not exist has no
    changelog. ``is_saved``: the snapshot may lack topics that exist.
    """
    assumed: dict[str, str] = {}
    listed = read_description(text, name)
    internal = internal_topics(listed)
    shape = TopologyShape(tuple(_shape(subtopology, snapshot, internal, assumed, name) for subtopology in listed))
    missing = sorted({*shape.source_topics, *shape.source_changelogs} - snapshot.partition_counts.keys())
    if missing:
        absent = "are not in the snapshot" if is_saved or "topics" in snapshot.gaps else "do not exist"
        assumed["topology"] = f"{name} names topics that {absent}: {', '.join(missing)}; they count as empty"
    return ObservedTopology(shape, assumed)


def _shape(
    subtopology: DescribedSubtopology,
    snapshot: GroupSnapshot,
    internal: Collection[str],
    assumed: dict[str, str],
    name: str,
) -> SubtopologyShape:
    full = {topic: _full_name(topic, snapshot, internal) for topic in subtopology.topics}
    sources = set(full.values())
    others = [topic for topic in snapshot.partition_counts if not is_internal(snapshot.group, topic)]
    for pattern in subtopology.patterns:
        sources.update(filter(topic_matcher(pattern, name), others))
    return SubtopologyShape(
        () if subtopology.is_global else tuple(sorted(sources)),
        _stores(subtopology, snapshot, internal, assumed),
        repartition=tuple(RepartitionTopic(full[topic]) for topic in sorted(full) if full[topic] != topic),
        sinks=tuple(_full_name(topic, snapshot, internal) for topic in subtopology.sinks),
    )


def _full_name(topic: str, snapshot: GroupSnapshot, internal: Collection[str]) -> str:
    """Complete an internal topic: descriptions omit the group's name, our TOML also a sink's ending."""
    ended = f"{topic}{REPARTITION}"
    if ended in internal:
        return f"{snapshot.group}-{ended}"
    full = f"{snapshot.group}-{topic}"
    there = snapshot.partition_counts
    return full if topic in internal or (topic not in there and full in there) else topic


def _stores(
    subtopology: DescribedSubtopology, snapshot: GroupSnapshot, internal: Collection[str], assumed: dict[str, str]
) -> tuple[Store, ...]:
    ends = {partition.topic for partition in snapshot.end_offsets}
    stores = []
    for name, store in subtopology.stores.items():
        if store is None:
            topic = changelog_topic(snapshot.group, name)
            exists = topic in snapshot.partition_counts
            if not exists:
                counts_as = f"there is no topic {topic}, {_UNLOGGED}"
                assumed[f"store {name}"] = f"{counts_as}; {PERHAPS_A_TABLE}"
            stores.append(Store(name, exists))
        elif store.source is None:
            stores.append(store)
        else:
            source = _full_name(store.source, snapshot, internal)
            is_known = source in ends or not ends
            if not is_known and source in snapshot.partition_counts:
                assumed[f"store {name}"] = f"the snapshot has no offsets of {source}, {_UNLOGGED}"
            exists = is_known and source in snapshot.partition_counts
            stores.append(replace(store, source=source, logged=store.logged and exists))
    return tuple(stores)


def inferred_topology(group: DecodedGroup) -> ObservedTopology:
    """Infer a topology from the members' reports and assignments, and the names of topics."""
    placed = _placed(group)
    if any(task.topology is not None for task in placed):
        text = "named topologies: their tasks are shown as assigned, and nothing is predicted about them"
        return ObservedTopology(TopologyShape(()), {"topology": text})
    sources = _sources(placed)
    stateful = {task.subtopology for task in _with_state(group)} & sources.keys()
    seen = "inferred: a subtopology reads the topics whose partitions came with its tasks"
    assumed = {"topology": f"{seen}; which stores are tables of source topics is not seen"}
    assumed.update(_unseen(group, sources))
    counts = group.snapshot.partition_counts
    sizes = {sub: max((counts.get(t, 0) for t in topics), default=0) for sub, topics in sources.items()}
    stores = _stores_of(group.snapshot, sources, sizes, stateful, assumed)
    for sub in sorted(stateful - stores.keys()):
        stores[sub] = [Store(UNSEEN_STORE, logged=False)]
        unknown = "no changelog of it is seen, so its lags are not known and count as 0"
        assumed[f"state of subtopology {sub}"] = f"{unknown}; {PERHAPS_A_TABLE}"
    shapes = [
        SubtopologyShape(tuple(sorted(sources.get(sub, ()))), tuple(stores.get(sub, ())))
        for sub in range(max(sources, default=-1) + 1)
    ]
    return ObservedTopology(TopologyShape(tuple(shapes)), assumed)


def _placed(group: DecodedGroup) -> dict[TaskId, set[TopicPartition]]:
    placed: dict[TaskId, set[TopicPartition]] = {}
    for member in group.members.values():
        active = member.given.active if member.given else {}
        copies = member.info.standby_tasks if member.info else {}
        for task, partitions in (*active.items(), *copies.items()):
            placed.setdefault(task, set()).update(partitions)
    return placed


def _sources(placed: Mapping[TaskId, Iterable[TopicPartition]]) -> dict[int, set[str]]:
    sources: dict[int, set[str]] = {}
    for task, partitions in placed.items():
        sources.setdefault(task.subtopology, set()).update(partition.topic for partition in partitions)
    return sources


def _with_state(group: DecodedGroup) -> set[TaskId]:
    """Return tasks with a reported offset sum or a replica: a stateless task has neither."""
    reported = {task for process in group.processes for task in process.offset_sums}
    return reported | {task for process in group.processes for task in process.copies}


def _unseen(group: DecodedGroup, sources: Mapping[int, set[str]]) -> dict[str, str]:
    unseen = {}
    for sub in sorted(set(range(max(sources, default=-1) + 1)) - sources.keys()):
        unseen[f"subtopology {sub}"] = "no task of it was seen; it counts as without tasks (a global store has none)"
    read = {topic for topics in sources.values() for topic in topics}
    subscribed = {topic for member in group.members.values() if member.joined for topic in member.joined.topics}
    for topic in sorted(subscribed - read):
        unseen[f"topic {topic}"] = "subscribed, and no assigned task reads it; its tasks are left out"
    return unseen


def _stores_of(
    snapshot: GroupSnapshot,
    sources: Mapping[int, set[str]],
    sizes: Mapping[int, int],
    stateful: set[int],
    assumed: dict[str, str],
) -> dict[int, list[Store]]:
    """Assign each changelog's store to its most likely subtopology."""
    stores: dict[int, list[Store]] = {}
    prefix = f"{snapshot.group}-"
    named = [t for t in snapshot.partition_counts if t.startswith(prefix) and t.endswith(CHANGELOG)]
    for topic in sorted(named, key=_node_order):
        store = topic[len(prefix) : -len(CHANGELOG)]
        fits, why = _fitting(snapshot, store, sources, sizes, stateful)
        if fits:
            sub = next((number for number in fits if number not in stores), fits[-1])
            stores.setdefault(sub, []).append(Store(store))
            others = f", one of {', '.join(map(str, fits))} by order" if len(fits) > 1 else ""
            assumed[f"changelog of {store}"] = f"subtopology {sub}{others}: {why}"
        else:
            assumed[f"changelog of {store}"] = "left out: no subtopology has as many tasks as it has partitions"
    return stores


def _fitting(
    snapshot: GroupSnapshot, store: str, sources: Mapping[int, set[str]], sizes: Mapping[int, int], stateful: set[int]
) -> tuple[list[int], str]:
    repartition = f"{snapshot.group}-{store}-repartition"
    if by_name := [sub for sub, topics in sources.items() if repartition in topics]:
        return by_name, f"it reads {repartition}"
    count = snapshot.partition_counts[changelog_topic(snapshot.group, store)]
    fits = sorted(sub for sub, size in sizes.items() if size == count)
    if with_state := [sub for sub in fits if sub in stateful]:
        return with_state, f"it has state, and {count} tasks as the changelog has partitions"
    return fits, f"it has {count} tasks as the changelog has partitions; no member has reported state of it yet"


def _node_order(topic: str) -> tuple[int, str]:
    """Sort by Java's node number: Java numbers nodes and stores in the order of the subtopologies."""
    number = re.search(r"-(\d{10})(?:-[a-z]+)?-changelog$", topic)
    return int(number[1]) if number else -1, topic
