"""The layouts that the text of KIP-441 describes, as dialects of their own: ``kip441`` and ``kip441-draft``.

Apache's real versions 4 to 7 differ, so the caller names the dialect of the bytes; nothing is guessed.

================  =======================  =====================================================
dialect           SubscriptionInfo         says
================  =======================  =====================================================
``kip441``        6                        previous tasks and standby tasks
``kip441``        7, and 5 as its listing  task lags (int64)
                  is headed
``kip441-draft``  4                        previous tasks and standby tasks
``kip441-draft``  5                        store lags (int32)
================  =======================  =====================================================

Both use Apache's AssignmentInfo 4. Here are the subscription's value and both translations. The layouts are in
``protocol/kip441*/*.json``, which also say how they read the gaps in the KIP's text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.wire.assignment_info import AssignmentInfo, assignment_value, write_assignments
from kstreams_assign.wire.columns import task_columns, task_ids
from kstreams_assign.wire.compile import Columns, Record, holds, layout, valid_versions
from kstreams_assign.wire.primitives import INT32, Source, utf8_bytes, utf8_text
from kstreams_assign.wire.task_numbers import task_numbers
from kstreams_assign.wire.trailer import MemberTrailer, read_group_trailer, read_member_trailer, trailer_bytes

DIALECTS = ("kip441", "kip441-draft")


@dataclass(frozen=True, slots=True)
class KipSubscription:
    """One member's user-data as in the KIP's text. A field that a version lacks is read as empty.

    ``task_lags`` are offsets behind the end of a task's logged stores, added up; a task without logged stores is
    absent. ``store_lags`` are the same by store, under names that the sender chose. Both are in the order of the
    bytes; numbers are passed on unchecked, negative ones too. ``trailer_warning`` as in ``SubscriptionInfo``.
    """

    version: int
    latest_supported_version: int
    process_id: UUID
    user_end_point: str | None = None
    prev_tasks: frozenset[TaskId] = frozenset()
    standby_tasks: frozenset[TaskId] = frozenset()
    task_lags: Mapping[TaskId, int] = field(default_factory=dict)
    store_lags: Mapping[str, int] = field(default_factory=dict)
    trailer: MemberTrailer | None = None
    trailer_warning: str | None = None


def decode_kip_subscription(data: bytes, dialect: str = "kip441") -> KipSubscription:
    """Decode one member's user-data. Raises ``MalformedUserData``; a dialect has no version probing."""
    message = _message("SubscriptionInfo", dialect)
    record, end = layout(message, _version(data, message)).read(data)
    version, latest = record["version"], record["latest_supported_version"]
    if latest < version:
        why = f"{latest} is below the version {version} that was used"
        raise Source(data, message).malformed("latest_supported_version", why)
    return _value(record, *read_member_trailer(data[end:]))


def encode_kip_subscription(value: KipSubscription, dialect: str = "kip441") -> bytes:
    """Encode ``value``: sets sorted, maps in their own order. Fields that its version lacks are left out.

    Raises ``ConfigError`` for a value that its version cannot carry.
    """
    if value.latest_supported_version < value.version:
        raise ConfigError(f"latest_supported_version {value.latest_supported_version} is below version {value.version}")
    form = layout(_message("SubscriptionInfo", dialect), value.version)
    return form.write(_record(value), trailer_bytes(value.trailer))


def decode_kip_assignment(data: bytes, dialect: str = "kip441") -> AssignmentInfo:
    """Decode a member's assignment: no standby host map, no probe (``NO_PROBE_MS``). Raises ``MalformedUserData``."""
    message = _message("AssignmentInfo", dialect)
    record, end = layout(message, _version(data, message)).read(data)
    return assignment_value(record, end, *read_group_trailer(data[end:]))


def encode_kip_assignment(info: AssignmentInfo, dialect: str = "kip441") -> bytes:
    """Encode ``info``, whose version must be 4; the standbys' host map and the probe are left out.

    Raises ``ConfigError`` for a value that its version cannot carry.
    """
    return encode_kip_assignments((info,), dialect)[0]


def encode_kip_assignments(infos: Iterable[AssignmentInfo], dialect: str = "kip441") -> list[bytes]:
    """Encode each assignment as ``encode_kip_assignment`` would; shared parts are written once."""
    return write_assignments(tuple(infos), _message("AssignmentInfo", dialect))


def _message(name: str, dialect: str) -> str:
    if dialect not in DIALECTS:
        raise ConfigError(f"dialect {dialect!r} is not one of {', '.join(DIALECTS)}")
    return f"{dialect}/{name}"


def _version(data: bytes, message: str) -> int:
    source = Source(data, message)
    version = source.number(INT32, "version")
    if not holds(valid_versions(message), version):
        raise source.malformed("version", f"{version} is not one of {valid_versions(message)}")
    return version


def _value(record: Record, trailer: MemberTrailer | None, warning: str | None) -> KipSubscription:
    nothing: Columns = {"subtopology": (), "partition": (), "store": (), "lag": ()}
    tasks, stores = record.get("task_lags", nothing), record.get("store_lags", nothing)
    return KipSubscription(
        version=record["version"],
        latest_supported_version=record["latest_supported_version"],
        process_id=record["process_id"],
        user_end_point=utf8_text(record["user_end_point"]) or None,
        prev_tasks=frozenset(task_ids(record.get("prev_tasks", nothing))),
        standby_tasks=frozenset(task_ids(record.get("standby_tasks", nothing))),
        task_lags=task_numbers(tasks, "lag"),
        store_lags=dict(zip(stores["store"], stores["lag"], strict=True)),
        trailer=trailer,
        trailer_warning=warning,
    )


def _record(value: KipSubscription) -> Record:
    """Return the fields of every version; the layout takes those it has."""
    return {
        "version": value.version,
        "latest_supported_version": value.latest_supported_version,
        "process_id": value.process_id,
        "user_end_point": utf8_bytes(value.user_end_point or ""),
        "prev_tasks": task_columns(_sorted(value.prev_tasks), value.version),
        "standby_tasks": task_columns(_sorted(value.standby_tasks), value.version),
        "task_lags": {**task_columns(value.task_lags, value.version), "lag": list(value.task_lags.values())},
        "store_lags": {"store": list(value.store_lags), "lag": list(value.store_lags.values())},
    }


def _sorted(tasks: Collection[TaskId]) -> list[TaskId]:
    return sorted(tasks, key=lambda task: (task.topology or "", *task[:2]))
