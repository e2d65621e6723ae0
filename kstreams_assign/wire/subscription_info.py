"""SubscriptionInfo: what a member reports to the leader (Kafka: ``SubscriptionInfo``, versions 1-11).

The value, and its translation to and from records. Layouts are in ``protocol/``, byte offsets in ``compile`` and
``primitives``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from kstreams_assign.errors import ConfigError
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.wire.compile import Columns, Record, layout
from kstreams_assign.wire.offset_sums import offset_sum_fields, offset_sums
from kstreams_assign.wire.primitives import INT32, Source, utf8_bytes, utf8_text
from kstreams_assign.wire.trailer import MemberTrailer, read_member_trailer, trailer_bytes
from kstreams_assign.wire.versions import (
    EARLIEST_PROBEABLE_VERSION,
    EARLIEST_VERSION,
    LATEST_SUPPORTED_VERSION,
    UNKNOWN_VERSION,
)


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """One member's user-data.

    ``task_offset_sums`` holds each task with state on this member, in the order of the bytes: the sum of its
    changelogs' offsets, ``RUNNING_OFFSET_SUM`` or ``UNKNOWN_OFFSET_SUM``. ``unique_field`` is a signed byte.
    ``latest_supported_version`` is -1 in versions 1 and 2. ``trailer_warning`` says why the bytes after the last field
    are not a trailer.
    """

    version: int
    latest_supported_version: int
    process_id: UUID
    user_end_point: str | None = None
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    unique_field: int = 0
    error_code: int = 0
    client_tags: Mapping[str, str] = field(default_factory=dict)
    trailer: MemberTrailer | None = None
    trailer_warning: str | None = None

    @property
    def prev_tasks(self) -> frozenset[TaskId]:
        """The tasks that were active on this member."""
        return frozenset(task for task, total in self.task_offset_sums.items() if total == RUNNING_OFFSET_SUM)

    @property
    def standby_tasks(self) -> frozenset[TaskId]:
        """The tasks that have state on this member and were not active."""
        return frozenset(task for task, total in self.task_offset_sums.items() if total != RUNNING_OFFSET_SUM)


@dataclass(frozen=True, slots=True)
class FutureSubscription:
    """A subscription newer than we can read: only its two version numbers are known (version probing)."""

    used_version: int
    latest_supported_version: int


def decode_subscription(data: bytes) -> SubscriptionInfo | FutureSubscription:
    """Decode one member's user-data. Raises ``MalformedUserData``.

    It refuses what Java refuses, and negative lengths. Bytes after the last field are read as our trailer, if
    possible.
    """
    source = Source(data, "SubscriptionInfo")
    version = source.number(INT32, "version")
    if version > LATEST_SUPPORTED_VERSION:
        latest = source.number(INT32, "latest_supported_version")
        return FutureSubscription(version, _checked(version, latest, source))
    if version < EARLIEST_VERSION:
        raise source.malformed("version", f"{version} is not one of 1 to {LATEST_SUPPORTED_VERSION}")
    record, end = layout("SubscriptionInfo", version).read(data)
    _checked(version, record.get("latest_supported_version", UNKNOWN_VERSION), source)
    return _value(record, *read_member_trailer(data[end:]))


def encode_subscription(info: SubscriptionInfo) -> bytes:
    """Encode ``info``, maps in their own order. Fields that its version lacks are left out.

    Raises ``ConfigError`` for a value that its version cannot carry.
    """
    if not EARLIEST_VERSION <= info.version <= LATEST_SUPPORTED_VERSION:
        raise ConfigError(f"version {info.version} is not one of 1 to {LATEST_SUPPORTED_VERSION}")
    if not _supported(info.version, info.latest_supported_version):
        raise ConfigError(f"latest_supported_version {info.latest_supported_version} is below version {info.version}")
    return layout("SubscriptionInfo", info.version).write(_record(info), trailer_bytes(info.trailer))


def _supported(version: int, latest: int) -> bool:
    """Return whether a member that supports up to ``latest`` can have used ``version``."""
    return version <= latest or (latest == UNKNOWN_VERSION and version < EARLIEST_PROBEABLE_VERSION)


def _checked(version: int, latest: int, source: Source) -> int:
    if not _supported(version, latest):
        raise source.malformed("latest_supported_version", f"{latest} is below the version {version} that was used")
    return latest


def _value(record: Record, trailer: MemberTrailer | None, warning: str | None) -> SubscriptionInfo:
    tags: Columns = record.get("client_tags", {"key": (), "value": ()})
    return SubscriptionInfo(
        version=record["version"],
        latest_supported_version=record.get("latest_supported_version", UNKNOWN_VERSION),
        process_id=record["process_id"],
        user_end_point=utf8_text(record.get("user_end_point", b"")) or None,
        task_offset_sums=offset_sums(record),
        unique_field=record.get("unique_field", 0),
        error_code=record.get("error_code", 0),
        client_tags=dict(zip(map(utf8_text, tags["key"]), map(utf8_text, tags["value"]), strict=True)),
        trailer=trailer,
        trailer_warning=warning,
    )


def _record(info: SubscriptionInfo) -> Record:
    """Return the fields of every version; the layout takes those it has."""
    return {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
        "process_id": info.process_id,
        "user_end_point": utf8_bytes(info.user_end_point or ""),
        "unique_field": info.unique_field,
        "error_code": info.error_code,
        "client_tags": {
            "key": [utf8_bytes(key) for key in info.client_tags],
            "value": [utf8_bytes(value) for value in info.client_tags.values()],
        },
        **offset_sum_fields(info.task_offset_sums, info.version),
    }
