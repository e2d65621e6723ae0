"""AssignmentInfo: what the leader sends to one member (Kafka: ``AssignmentInfo``, versions 1-11).

The value, and its translation to and from records. Layouts are in ``protocol/``, the host maps in ``host_maps``, and
byte offsets in ``compile`` and ``primitives``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache

from kstreams_assign.errors import ConfigError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import NO_PROBE_MS, TaskId, TopicPartition
from kstreams_assign.wire.columns import partition_columns, task_columns, task_ids, topic_partitions
from kstreams_assign.wire.compile import Layout, layout
from kstreams_assign.wire.fields import Columns, Record
from kstreams_assign.wire.host_maps import PartitionsByHost, host_fields, read_hosts, topics_by_index
from kstreams_assign.wire.primitives import INT32, Source
from kstreams_assign.wire.trailer import GroupTrailer, read_group_trailer, trailer_bytes
from kstreams_assign.wire.versions import EARLIEST_VERSION, LATEST_SUPPORTED_VERSION, UNKNOWN_VERSION

__all__ = [
    "AssignmentInfo",
    "PartitionsByHost",
    "assignment_value",
    "decode_assignment",
    "encode_assignment",
    "encode_assignments",
    "write_assignments",
]


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """One member's tasks and the group's endpoints. All collections are in the order of the bytes.

    ``active_tasks`` has one entry for each partition assigned to the member, in the order of the sorted partitions, so
    a task with two input topics appears twice. ``standby_tasks`` holds standbys and warm-ups with their input
    partitions. ``next_rebalance_ms`` is a wall-clock time; 0 asks to rejoin at once, ``NO_PROBE_MS`` never.
    ``commonly_supported_version`` is -1 in versions 1 and 2.

    ``topic_index`` is the topic dictionary as read, so that these bytes can be written again unchanged; a new value
    needs none. ``trailer_warning`` says why the bytes after the last field are not a trailer.
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
    """Decode a member's assignment. Raises ``MalformedUserData``.

    It refuses what Java refuses, negative lengths, and a partition whose topic is not in the dictionary. Bytes after
    the last field are read as our trailer, if possible.
    """
    source = Source(data, "AssignmentInfo")
    version = source.number(INT32, "version")
    if not EARLIEST_VERSION <= version <= LATEST_SUPPORTED_VERSION:
        raise source.malformed("version", f"{version} is not one of 1 to {LATEST_SUPPORTED_VERSION}")
    record, end = layout("AssignmentInfo", version).read(data)
    return assignment_value(record, end, *read_group_trailer(data[end:]))


def encode_assignment(info: AssignmentInfo) -> bytes:
    """Encode ``info``, maps in their own order. Fields that its version lacks are left out.

    Raises ``ConfigError`` for a value that its version cannot carry.
    """
    return encode_assignments((info,))[0]


def encode_assignments(infos: Iterable[AssignmentInfo]) -> list[bytes]:
    """Encode each assignment as ``encode_assignment`` would, for all members of a group at once.

    Shared parts are written once: pass the same host map objects and the same trailer object.
    """
    infos = tuple(infos)
    unknown = [info.version for info in infos if not EARLIEST_VERSION <= info.version <= LATEST_SUPPORTED_VERSION]
    if unknown:
        raise ConfigError(f"version {unknown[0]} is not one of 1 to {LATEST_SUPPORTED_VERSION}")
    return write_assignments(infos, "AssignmentInfo")


def write_assignments(infos: tuple[AssignmentInfo, ...], message: str) -> list[bytes]:
    """Return the bytes of each in the layouts of ``message``. Maps and trailers are compared by identity."""
    hosts: dict[tuple[object, ...], Record] = {}
    trailers: dict[int, bytes] = {}
    written = []
    for info in infos:
        form, trailer = layout(message, info.version), id(info.trailer)
        maps = (id(info.partitions_by_host), id(info.standby_partitions_by_host))
        shared = (info.version, *maps, *info.topic_index.items())
        if shared not in hosts:
            hosts[shared] = _encoded_hosts(info, message)
        if trailer not in trailers:
            trailers[trailer] = trailer_bytes(info.trailer)
        written.append(form.write(_record(info) | hosts[shared], trailers[trailer]))
    return written


def _encoded_hosts(info: AssignmentInfo, message: str) -> Record:
    """Return the fields of the host maps as bytes that are ready to be written."""
    maps = (info.partitions_by_host, info.standby_partitions_by_host)
    if any(maps) or info.topic_index:
        return _encoded(layout(message, info.version), host_fields(info.version, info.topic_index, *maps))
    return _without_hosts(message, info.version)


@cache
def _without_hosts(message: str, version: int) -> Record:
    """Return the same for a group without endpoints."""
    return _encoded(layout(message, version), host_fields(version, {}, {}, {}))


def _encoded(form: Layout, fields: Record) -> Record:
    return {name: form.encoded(name, value) for name, value in fields.items()}


def assignment_value(record: Record, end: int, trailer: GroupTrailer | None, warning: str | None) -> AssignmentInfo:
    """Return the value of a record that ended at byte ``end``, with what came after it."""
    standbys: Columns = record["standby_tasks"]
    held = [topic_partitions(rows["topic"], rows["partition"]) for rows in standbys["partitions"]]
    topics = topics_by_index(record)
    return AssignmentInfo(
        version=record["version"],
        commonly_supported_version=record.get("commonly_supported_version", UNKNOWN_VERSION),
        active_tasks=task_ids(record["active_tasks"]),
        standby_tasks=dict(zip(task_ids(standbys), held, strict=True)),
        partitions_by_host=read_hosts(record, "partitions_by_host", topics, end),
        standby_partitions_by_host=read_hosts(record, "standby_partitions_by_host", topics, end),
        error_code=record.get("error_code", 0),
        next_rebalance_ms=record.get("next_rebalance_ms", NO_PROBE_MS),
        trailer=trailer,
        trailer_warning=warning,
        topic_index={name: index for index, name in (topics or {}).items()},
    )


def _record(info: AssignmentInfo) -> Record:
    """Return the fields of every version except the host maps; the layout takes those it has."""
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": task_columns(info.active_tasks, info.version),
        "standby_tasks": {
            **task_columns(info.standby_tasks, info.version),
            "partitions": [partition_columns(partitions) for partitions in info.standby_tasks.values()],
        },
        "error_code": info.error_code,
        "next_rebalance_ms": info.next_rebalance_ms,
    }
