"""The two layouts of user-data that a group may use: Apache's, or the one that KIP-441's text describes.

They are one table. Everything else in this room works on ``MemberReport`` and ``AssignmentInfo``, whichever bytes they
came from. The dialects have different assignor names, so a member of the other dialect cannot even join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from uuid import UUID

from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    LATEST_SUPPORTED_VERSION,
    AssignmentInfo,
    FutureSubscription,
    KipSubscription,
    MemberTrailer,
    SubscriptionInfo,
    decode_assignment,
    decode_kip_assignment,
    decode_kip_subscription,
    decode_subscription,
    encode_assignments,
    encode_kip_assignments,
    encode_kip_subscription,
    encode_subscription,
)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """What a member reports when it joins, in either dialect.

    ``task_offset_sums`` are the positions of its state (Apache); ``task_lags`` the distances to the end (the KIP), or
    None where sums are reported. Only one of the two is used.
    """

    version: int
    latest_supported_version: int
    process_id: UUID
    user_end_point: str | None = None
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    task_lags: Mapping[TaskId, int] | None = None
    unique_field: int = 0
    error_code: int = 0
    client_tags: Mapping[str, str] = field(default_factory=dict)
    trailer: MemberTrailer | None = None
    trailer_warning: str | None = None

    @property
    def reported_tasks(self) -> Mapping[TaskId, int]:
        """The tasks with state on this member, with a sum or a lag."""
        return self.task_offset_sums if self.task_lags is None else self.task_lags


@dataclass(frozen=True, slots=True)
class Dialect:
    """How user-data is written. ``tells_lags``: members compute their lags themselves, before they join.

    ``probes_versions``: members may begin with versions that others cannot read (KIP-268). ``tells_probe``: an
    assignment names the member that asks for the next rebalance; otherwise the leader asks.
    """

    protocol_name: str
    latest_version: int
    tells_lags: bool
    tells_probe: bool
    probes_versions: bool
    read_report: Callable[[bytes], MemberReport | FutureSubscription]
    write_report: Callable[[MemberReport], bytes]
    read_assignment: Callable[[bytes], AssignmentInfo]
    write_assignments: Callable[[Iterable[AssignmentInfo]], list[bytes]]
    assignment_version: Callable[[int], int]


def _read_apache(data: bytes) -> MemberReport | FutureSubscription:
    info = decode_subscription(data)
    if isinstance(info, FutureSubscription):
        return info
    return MemberReport(
        version=info.version,
        latest_supported_version=info.latest_supported_version,
        process_id=info.process_id,
        user_end_point=info.user_end_point,
        task_offset_sums=info.task_offset_sums,
        unique_field=info.unique_field,
        error_code=info.error_code,
        client_tags=info.client_tags,
        trailer=info.trailer,
        trailer_warning=info.trailer_warning,
    )


def _write_apache(report: MemberReport) -> bytes:
    return encode_subscription(
        SubscriptionInfo(
            version=report.version,
            latest_supported_version=report.latest_supported_version,
            process_id=report.process_id,
            user_end_point=report.user_end_point,
            task_offset_sums=report.task_offset_sums,
            unique_field=report.unique_field,
            error_code=report.error_code,
            client_tags=report.client_tags,
            trailer=report.trailer,
        )
    )


def _read_kip(data: bytes) -> MemberReport:
    info = decode_kip_subscription(data)
    return MemberReport(
        version=info.version,
        latest_supported_version=info.latest_supported_version,
        process_id=info.process_id,
        user_end_point=info.user_end_point,
        task_lags=info.task_lags,
        trailer=info.trailer,
        trailer_warning=info.trailer_warning,
    )


def _write_kip(report: MemberReport) -> bytes:
    return encode_kip_subscription(
        KipSubscription(
            version=report.version,
            latest_supported_version=report.latest_supported_version,
            process_id=report.process_id,
            user_end_point=report.user_end_point,
            task_lags=report.task_lags or {},
            trailer=report.trailer,
        )
    )


KIP_VERSION = 7
KIP_ASSIGNMENT_VERSION = 4

APACHE = Dialect(
    protocol_name="stream",
    latest_version=LATEST_SUPPORTED_VERSION,
    tells_lags=False,
    tells_probe=True,
    probes_versions=True,
    read_report=_read_apache,
    write_report=_write_apache,
    read_assignment=decode_assignment,
    write_assignments=encode_assignments,
    assignment_version=lambda version: version,
)
KIP441 = Dialect(
    protocol_name="kip441",
    latest_version=KIP_VERSION,
    tells_lags=True,
    tells_probe=False,
    probes_versions=False,
    read_report=_read_kip,
    write_report=_write_kip,
    read_assignment=decode_kip_assignment,
    write_assignments=encode_kip_assignments,
    assignment_version=lambda _version: KIP_ASSIGNMENT_VERSION,
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({"apache": APACHE, "kip441": KIP441})
"""Dialects by the value of the setting ``user_data``."""
