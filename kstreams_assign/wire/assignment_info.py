"""AssignmentInfo: what the leader tells one member (Kafka: ``AssignmentInfo``, versions 1-11).

What lives here: the value, and its translation to and from records. What must not: layouts (``protocol/``), the host
maps (``host_maps``) and offsets of bytes (``compile``, ``primitives``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kstreams_assign.errors import ConfigError
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
    return encode_assignments((info,))[0]


def encode_assignments(infos: Iterable[AssignmentInfo]) -> list[bytes]:
    """The bytes of each, as ``encode_assignment`` would write them, for all members of a group at once.

    What they share is written once: give them the very same host maps and the very same trailer.
    """
    infos = tuple(infos)
    unknown = [info.version for info in infos if not EARLIEST_VERSION <= info.version <= LATEST_SUPPORTED_VERSION]
    if unknown:
        raise ConfigError(f"version {unknown[0]} is none of 1 to {LATEST_SUPPORTED_VERSION}")
    return write_assignments(infos, "AssignmentInfo")


def write_assignments(infos: tuple[AssignmentInfo, ...], message: str) -> list[bytes]:
    """The bytes of each in the layouts of ``message``. Maps and trailers are told apart by which object they are."""
    hosts: dict[tuple[object, ...], Record] = {}
    trailers: dict[int, bytes] = {}
    written = []
    for info in infos:
        form, trailer = layout(message, info.version), id(info.trailer)
        maps = (id(info.partitions_by_host), id(info.standby_partitions_by_host))
        shared = (info.version, *maps, *info.topic_index.items())
        if shared not in hosts:
            hosts[shared] = _encoded_hosts(info, form)
        if trailer not in trailers:
            trailers[trailer] = trailer_bytes(info.trailer)
        written.append(form.write(_record(info) | hosts[shared], trailers[trailer]))
    return written


def _encoded_hosts(info: AssignmentInfo, form: Layout) -> Record:
    """The fields of the host maps, as bytes that are ready to be written."""
    maps = (info.partitions_by_host, info.standby_partitions_by_host)
    fields = host_fields(info.version, info.topic_index, *maps)
    return {name: form.encoded(name, value) for name, value in fields.items()}


def assignment_value(record: Record, end: int, trailer: GroupTrailer | None, warning: str | None) -> AssignmentInfo:
    """The value of a record that ended at byte ``end``, and what stood behind it."""
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
    """The fields of every version but the host maps; the layout takes those it has."""
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
