"""Warnings about members whose topology differs from the leader's.

No message carries a topology. Only a member's subscription, owned partitions and reported state reveal it, so these
are warnings and no refusals. A follower refuses an assignment that it cannot run (``adoption``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape

LISTED_MAX = 5


def list_topology_differences(
    view: GroupView, topology: TopologyShape, tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
) -> tuple[str, ...]:
    """Return a warning for each difference between a member's topics, partitions or tasks and this topology."""
    sources = frozenset(topology.source_topics)
    known = frozenset(partition for partitions in tasks.values() for partition in partitions)
    lines: list[str] = []
    for consumers in view.processes.values():
        for consumer in consumers:
            lines += (
                f"member {consumer.member.member_id} runs another topology than the leader: it {difference}; "
                "run the same topology in all members"
                for difference in _differences(consumer, sources, known, tasks)
            )
    return tuple(lines)


def _differences(
    consumer: Consumer, sources: frozenset[str], known: frozenset[TopicPartition], tasks: Mapping[TaskId, object]
) -> Iterator[str]:
    topics = frozenset(consumer.member.topics)
    if extra := topics - sources:
        yield f"reads {_listed(sorted(extra))}"
    if missing := sources - topics:
        yield f"does not read {_listed(sorted(missing))}"
    if owned := frozenset(consumer.member.owned) - known - _of_topics(consumer.member.owned, topics - sources):
        yield f"owns {_listed(sorted(owned))}"
    if unknown := consumer.info.reported_tasks.keys() - tasks.keys():
        yield f"has state of the tasks {_listed(sorted_tasks(unknown))}"


def _of_topics(partitions: Iterable[TopicPartition], topics: frozenset[str]) -> frozenset[TopicPartition]:
    return frozenset(partition for partition in partitions if partition.topic in topics)


def _listed(listed: Sequence[object]) -> str:
    rest = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
    return ", ".join(map(str, islice(listed, LISTED_MAX))) + rest
