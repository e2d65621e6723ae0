"""Which process has a key: the task by Kafka's partitioner, its owners by the host maps of the assignment.

Pure. What must not live here: asking that process.
"""

from __future__ import annotations

from typing import Any

from kstreams_assign.group.values import Hosts
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return Kafka's hash of a key (``common.utils.Utils.murmur2``) as an unsigned 32-bit number."""
    mixed = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        mixed = mixed * _MULTIPLIER & _MASK ^ word
    if whole < len(key):
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * _MULTIPLIER & _MASK
    return mixed ^ mixed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Java's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def locate(flow: SubtopologyShape, number: int, active: Hosts, standby: Hosts) -> dict[str, Any]:
    """Return ``{active, standbys}`` of partition ``number``'s task as HOST:PORT; None and an empty list if unknown."""
    inputs = {TopicPartition(source, number) for source in flow.sources}
    owners = [str(host) for host, has in active.items() if inputs.intersection(has)]
    standbys = sorted(str(host) for host, has in standby.items() if inputs.intersection(has))
    return {"active": owners[0] if owners else None, "standbys": standbys}


def endpoint_of(flow: SubtopologyShape, task: TaskId, active: Hosts) -> str | None:
    """Return the HOST:PORT of the process where a task is active; None where it is not known."""
    return next(
        (
            str(host)
            for host, has in active.items()
            if any(partition == task.partition and flow.reads(topic) for topic, partition in has)
        ),
        None,
    )
