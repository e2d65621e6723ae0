"""An assignment's host maps: which process has which input partitions, sent to every member.

The maps as read, their translation to and from records, and the topic dictionary of version 5 and later. The maps are
the largest part of an assignment and equal for all members of one decision; a member rarely looks at them. So their
bytes are made once, and partitions only on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.model import HostInfo, TopicPartition
from kstreams_assign.wire.columns import partition_columns, topic_partitions
from kstreams_assign.wire.fields import Columns, Record
from kstreams_assign.wire.versions import TOPIC_DICTIONARY_VERSION

PartitionsByHost = Mapping[HostInfo, tuple[TopicPartition, ...]]


class HostPartitions(Mapping[HostInfo, tuple[TopicPartition, ...]]):
    """A host map as read: each look-up builds the partitions of one host from their columns."""

    __slots__ = ("_hosts", "_topics")

    def __init__(self, hosts: Mapping[HostInfo, Columns], topics: Mapping[int, str] | None) -> None:
        """Keep the columns. ``topics`` is the dictionary; without it, the rows contain topic names."""
        self._hosts = hosts
        self._topics = topics

    def __getitem__(self, host: HostInfo) -> tuple[TopicPartition, ...]:
        rows = self._hosts[host]
        if self._topics is None:
            return topic_partitions(rows["topic"], rows["partition"])
        return topic_partitions(map(self._topics.__getitem__, rows["topic"]), rows["partition"])

    def __iter__(self) -> Iterator[HostInfo]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def __repr__(self) -> str:
        return repr(dict(self))


def topics_by_index(record: Record) -> dict[int, str] | None:
    """Return the dictionary of a record, ``None`` before version 5. If an index occurs twice, the last counts."""
    topics: Columns | None = record.get("topics")
    return None if topics is None else dict(zip(topics["index"], topics["name"], strict=True))


def read_hosts(record: Record, name: str, topics: Mapping[int, str] | None, end: int) -> PartitionsByHost:
    """Return the host map ``name`` of a record that ended at byte ``end``; empty if the version has none.

    Raises ``MalformedUserData`` for a topic that the dictionary lacks.
    """
    hosts: Columns = record.get(name, {"host": (), "port": (), "partitions": (), "indexed_partitions": ()})
    if not hosts["host"]:
        return {}
    held: Sequence[Columns] = hosts["partitions" if topics is None else "indexed_partitions"]
    missing = set().union(*(rows["topic"] for rows in held)) - topics.keys() if topics is not None else ()
    if missing:
        place = f"AssignmentInfo version {record['version']}: {name}.indexed_partitions.topic before byte {end}"
        raise MalformedUserData(f"{place}: the dictionary has no topic {min(missing)}")
    return HostPartitions(dict(zip(map(HostInfo, hosts["host"], hosts["port"]), held, strict=True)), topics)


def topic_index(known: Mapping[str, int], active: PartitionsByHost, standby: PartitionsByHost) -> Mapping[str, int]:
    """Return the dictionary to write: ``known``, as read, if it still fits, else topics in order of appearance."""
    held = chain(active.values(), standby.values())
    used = dict.fromkeys(map(itemgetter(0), chain.from_iterable(held)))
    if used.keys() == known.keys():
        return known
    return {topic: index for index, topic in enumerate(used)}


def host_fields(version: int, known: Mapping[str, int], active: PartitionsByHost, standby: PartitionsByHost) -> Record:
    """Return the fields of a record that hold the two maps and their dictionary."""
    index = topic_index(known, active, standby)
    return {
        "topics": {"index": list(index.values()), "name": list(index)},
        "partitions_by_host": _host_columns(active, index, version),
        "standby_partitions_by_host": _host_columns(standby, index, version),
    }


def _host_columns(hosts: PartitionsByHost, index: Mapping[str, int], version: int) -> Columns:
    columns: dict[str, Sequence[Any]] = {"host": [host.host for host in hosts], "port": [host.port for host in hosts]}
    held = [partition_columns(partitions) for partitions in hosts.values()]
    if version < TOPIC_DICTIONARY_VERSION:
        return columns | {"partitions": held}
    return columns | {"indexed_partitions": [_indexed(rows, index) for rows in held]}


def _indexed(rows: Columns, index: Mapping[str, int]) -> Columns:
    return {"topic": list(map(index.__getitem__, rows["topic"])), "partition": rows["partition"]}
