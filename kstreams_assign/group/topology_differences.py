"""What a leader can see of members that run another topology than it does.

No wire carries a topology: what a member subscribes to, owns and has state of is all that shows. So these are warnings, not
refusals; a follower that is given what it cannot run refuses it (``adoption``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from kstreams_assign.group.view import Consumer, GroupView
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape

LISTED_MAX = 5


def list_topology_differences(
    view: GroupView, topology: TopologyShape, tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
) -> tuple[str, ...]:
    """A line for each member and each thing of it that this topology does not have."""
    sources = frozenset(topology.source_topics)
    known = frozenset(partition for partitions in tasks.values() for partition in partitions)
    lines: list[str] = []
    for consumers in view.processes.values():
        for consumer in consumers:
            lines += (
                f"member {consumer.member.member_id} runs another topology than the leader: it {what}"
                for what in _differences(consumer, sources, known, tasks)
            )
    return tuple(lines)


def _differences(
    consumer: Consumer, sources: frozenset[str], known: frozenset[TopicPartition], tasks: Mapping[TaskId, object]
) -> Iterator[str]:
    topics = frozenset(consumer.member.topics)
    if more := topics - sources:
        yield f"reads {_listed(more)}"
    if less := sources - topics:
        yield f"does not read {_listed(less)}"
    if owned := frozenset(consumer.member.owned) - known - _of_topics(consumer.member.owned, topics - sources):
        yield f"owns {_listed(owned)}"
    if told := consumer.info.reported_tasks.keys() - tasks.keys():
        yield f"has state of the tasks {_listed(told)}"


def _of_topics(partitions: Iterable[TopicPartition], topics: frozenset[str]) -> frozenset[TopicPartition]:
    return frozenset(partition for partition in partitions if partition.topic in topics)


def _listed(things: Iterable[object]) -> str:
    listed = sorted(things)  # type: ignore[type-var]  # topics, partitions or tasks: each sorts among its own
    more = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
    return ", ".join(map(str, islice(listed, LISTED_MAX))) + more
