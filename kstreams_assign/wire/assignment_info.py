"""AssignmentInfo: what the leader tells one member (Kafka: ``AssignmentInfo``, versions 1-11).

What lives here: the value, and its translation to and from records, the topic dictionary of version 5 and up
included. What must not: layouts (``protocol/``) and offsets of bytes (``compile``, ``primitives``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId, TopicPartition
from kstreams_assign.wire.columns import partition_columns, task_columns, task_ids, topic_partitions
from kstreams_assign.wire.compile import Columns, Record, layout
from kstreams_assign.wire.primitives import INT32, Source
from kstreams_assign.wire.trailer import GroupTrailer, read_group_trailer, trailer_bytes
from kstreams_assign.wire.versions import (
    EARLIEST_VERSION,
    LATEST_SUPPORTED_VERSION,
    TOPIC_DICTIONARY_VERSION,
    UNKNOWN_VERSION,
)

PartitionsByHost = Mapping[HostInfo, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """One member's tasks and the group's endpoints. All collections stand in the order of the bytes.

    ``active_tasks`` has one entry for each partition that the member was assigned, in the order of the sorted
    partitions, so a task with two input topics stands there twice. ``standby_tasks`` holds standbys and warm-ups with
    their input partitions. ``next_rebalance_ms`` is a wall-clock time; 0 asks to rejoin at once, ``NO_PROBE_MS``
    for nothing. ``commonly_supported_version`` is -1 in versions 1 and 2.

    ``topic_index`` is the topic dictionary as it was read, so that these bytes can be written again as they were; a
    value that is built needs none. ``trailer_warning`` says why the bytes behind the last field were no trailer.
    """

    version: int
    commonly_supported_version: int
    active_tasks: tuple[TaskId, ...] = ()
    standby_tasks: Mapping[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    partitions_by_host: PartitionsByHost = field(default_factory=dict)
    standby_partitions_by_host: PartitionsByHost = field(default_factory=dict)
    error_code: int = 0
    next_rebalance_ms: int = NO_PROBE_MS
    trailer: GroupTrailer | None = None
    trailer_warning: str | None = None
    topic_index: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


def decode_assignment(data: bytes) -> AssignmentInfo:
    """Read a member's assignment. Raises ``MalformedUserData``.

    Refuses what Java refuses, negative lengths, and a partition whose topic is not in the dictionary. Bytes after
    the last field are tried as our trailer.
    """
    source = Source(data, "AssignmentInfo")
    version = source.number(INT32, "version")
    if not EARLIEST_VERSION <= version <= LATEST_SUPPORTED_VERSION:
        raise source.malformed("version", f"{version} is none of 1 to {LATEST_SUPPORTED_VERSION}")
    record, end = layout("AssignmentInfo", version).read(data)
    return assignment_value(record, end, *read_group_trailer(data[end:]))


def encode_assignment(info: AssignmentInfo) -> bytes:
    """The bytes of ``info``, maps in their own order. What its version lacks is left out.

    Raises ``ConfigError`` for a value that its version cannot carry.
    """
    if not EARLIEST_VERSION <= info.version <= LATEST_SUPPORTED_VERSION:
        raise ConfigError(f"version {info.version} is none of 1 to {LATEST_SUPPORTED_VERSION}")
    body = layout("AssignmentInfo", info.version).write(assignment_record(info))
    return bytes(body) + trailer_bytes(info.trailer)


def assignment_value(record: Record, end: int, trailer: GroupTrailer | None, warning: str | None) -> AssignmentInfo:
    """The value of a record that ended at byte ``end``, and what stood behind it."""
    standbys: Columns = record["standby_tasks"]
    held = [topic_partitions(rows["topic"], rows["partition"]) for rows in standbys["partitions"]]
    topics = _topics_by_index(record)
    return AssignmentInfo(
        version=record["version"],
        commonly_supported_version=record.get("commonly_supported_version", UNKNOWN_VERSION),
        active_tasks=task_ids(record["active_tasks"]),
        standby_tasks=dict(zip(task_ids(standbys), held, strict=True)),
        partitions_by_host=_hosts(record, "partitions_by_host", topics, end),
        standby_partitions_by_host=_hosts(record, "standby_partitions_by_host", topics, end),
        error_code=record.get("error_code", 0),
        next_rebalance_ms=record.get("next_rebalance_ms", NO_PROBE_MS),
        trailer=trailer,
        trailer_warning=warning,
        topic_index={name: index for index, name in topics.items()},
    )


def assignment_record(info: AssignmentInfo) -> Record:
    """The fields of every version; the layout takes those it has."""
    index = _topic_index(info)
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": task_columns(info.active_tasks, info.version),
        "standby_tasks": {
            **task_columns(info.standby_tasks, info.version),
            "partitions": [partition_columns(partitions) for partitions in info.standby_tasks.values()],
        },
        "topics": {"index": list(index.values()), "name": list(index)},
        "partitions_by_host": _host_columns(info.partitions_by_host, index, info.version),
        "standby_partitions_by_host": _host_columns(info.standby_partitions_by_host, index, info.version),
        "error_code": info.error_code,
        "next_rebalance_ms": info.next_rebalance_ms,
    }


def _topics_by_index(record: Record) -> dict[int, str]:
    topics: Columns = record.get("topics", {"index": (), "name": ()})
    return dict(zip(topics["index"], topics["name"], strict=True))


def _hosts(record: Record, name: str, topics: Mapping[int, str], end: int) -> PartitionsByHost:
    hosts: Columns = record.get(name, {"host": (), "port": (), "partitions": ()})
    indexed: Sequence[Columns] = hosts.get("indexed_partitions", ())
    plain: Sequence[Columns] = hosts.get("partitions", ())
    held = [topic_partitions(rows["topic"], rows["partition"]) for rows in plain]
    try:
        held += [topic_partitions(map(topics.__getitem__, rows["topic"]), rows["partition"]) for rows in indexed]
    except KeyError as missing:
        place = f"AssignmentInfo version {record['version']}: {name}.indexed_partitions.topic before byte {end}"
        raise MalformedUserData(f"{place}: the dictionary has no topic {missing}") from None
    return dict(zip(map(HostInfo, hosts["host"], hosts["port"]), held, strict=True))


def _topic_index(info: AssignmentInfo) -> Mapping[str, int]:
    """The dictionary to write: the one that was read if it still fits, else topics in order of appearance."""
    held = chain(info.partitions_by_host.values(), info.standby_partitions_by_host.values())
    used = dict.fromkeys(map(itemgetter(0), chain.from_iterable(held)))
    if used.keys() == info.topic_index.keys():
        return info.topic_index
    return {topic: index for index, topic in enumerate(used)}


def _host_columns(hosts: PartitionsByHost, index: Mapping[str, int], version: int) -> Columns:
    columns: dict[str, Sequence[Any]] = {"host": [one.host for one in hosts], "port": [one.port for one in hosts]}
    held = [partition_columns(partitions) for partitions in hosts.values()]
    if version < TOPIC_DICTIONARY_VERSION:
        return columns | {"partitions": held}
    return columns | {"indexed_partitions": [_indexed(rows, index) for rows in held]}


def _indexed(rows: Columns, index: Mapping[str, int]) -> Columns:
    return {"topic": list(map(index.__getitem__, rows["topic"])), "partition": rows["partition"]}
