"""Any bytes of a group as JSON, with the dialect and the version that were recognised.

What lives here: recognising the form. The consumer protocol around user-data begins with a 16-bit version, user-data
with a 32-bit version, so no bytes fit both. Apache's versions and those of the KIP's text share numbers: the first
dialect that reads the bytes to their end counts; Apache's is tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.observe.forms import (
    Json,
    assignment_form,
    kip_subscription_form,
    pairs,
    subscription_form,
    trailer_form,
)
from kstreams_assign.observe.streams_decoding import STREAMS_KINDS, streams_key_form
from kstreams_assign.wire import (
    AssignmentInfo,
    FutureSubscription,
    GroupMetadataKey,
    KipSubscription,
    OffsetCommitKey,
    SubscriptionInfo,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_group_metadata,
    decode_kip_assignment,
    decode_kip_subscription,
    decode_offset_commit,
    decode_offsets_key,
    decode_subscription,
)

Read = TypeVar("Read", bound="SubscriptionInfo | FutureSubscription | KipSubscription | AssignmentInfo")

_SUBSCRIPTIONS: Mapping[str, Callable[[bytes], SubscriptionInfo | FutureSubscription | KipSubscription]] = {
    "apache": decode_subscription,
    "kip441": lambda data: decode_kip_subscription(data, "kip441"),
    "kip441-draft": lambda data: decode_kip_subscription(data, "kip441-draft"),
}
_ASSIGNMENTS: Mapping[str, Callable[[bytes], AssignmentInfo]] = {
    "apache": decode_assignment,
    "kip441": lambda data: decode_kip_assignment(data, "kip441"),
    "kip441-draft": lambda data: decode_kip_assignment(data, "kip441-draft"),
}
LARGEST_VERSION = 2**16
"""User-data begins with a version below, the consumer protocol with two bytes that make a larger or no number."""


def decode_bytes(kind: str, data: bytes, dialect: str | None = None) -> Json:
    """Return ``data`` as JSON. Raises ``MalformedUserData``, and ``ConfigError`` for an unknown kind or dialect."""
    if kind not in KINDS:
        raise ConfigError(f"{kind!r} cannot be decoded; it must be one of {', '.join(KINDS)}")
    if dialect is not None and dialect not in _SUBSCRIPTIONS:
        raise ConfigError(f"dialect {dialect!r}: must be one of {', '.join(_SUBSCRIPTIONS)}")
    return KINDS[kind](data, dialect)


def _subscription(data: bytes, dialect: str | None) -> Json:
    if _is_user_data(data):
        return _subscription_info(data, dialect)
    around = decode_consumer_subscription(data)
    return {
        "message": "ConsumerProtocolSubscription",
        "version": around.version,
        "topics": list(around.topics),
        "owned_partitions": pairs(around.owned_partitions),
        "generation_id": around.generation_id,
        "rack_id": around.rack_id,
        "user_data": _subscription_info(around.user_data, dialect) if around.user_data else None,
    }


def _subscription_info(data: bytes, dialect: str | None) -> Json:
    read_as, info, others = _first(data, _SUBSCRIPTIONS, dialect)
    about = {"message": "SubscriptionInfo", "dialect": read_as, "also_reads_as": others}
    if isinstance(info, FutureSubscription):
        versions = {"version": info.used_version, "latest_supported_version": info.latest_supported_version}
        return {**about, **versions, "note": "newer than this release reads: only the two versions are shown"}
    form = kip_subscription_form(info) if isinstance(info, KipSubscription) else subscription_form(info)
    return {**about, **form, "trailer": trailer_form(info.trailer), "trailer_warning": info.trailer_warning}


def _assignment(data: bytes, dialect: str | None) -> Json:
    if _is_user_data(data):
        return _assignment_info(data, dialect)
    around = decode_consumer_assignment(data)
    return {
        "message": "ConsumerProtocolAssignment",
        "version": around.version,
        "assigned_partitions": pairs(around.assigned_partitions),
        "user_data": _assignment_info(around.user_data, dialect) if around.user_data else None,
    }


def _assignment_info(data: bytes, dialect: str | None) -> Json:
    read_as, info, others = _first(data, _ASSIGNMENTS, dialect)
    return {
        "message": "AssignmentInfo",
        "dialect": read_as,
        "also_reads_as": others,
        **assignment_form(info),
        "trailer": trailer_form(info.trailer),
        "trailer_warning": info.trailer_warning,
    }


def _is_user_data(data: bytes) -> bool:
    return len(data) >= 4 and 0 < int.from_bytes(data[:4], "big") < LARGEST_VERSION


def _first(
    data: bytes, dialects: Mapping[str, Callable[[bytes], Read]], wanted: str | None
) -> tuple[str, Read, list[str]]:
    """Return the first dialect that reads all bytes (else any), its value, and the others that read all bytes.

    Raises the first dialect's ``MalformedUserData`` if no dialect reads them.
    """
    read: dict[str, Read] = {}
    refused: list[MalformedUserData] = []
    for name, decode in dialects.items() if wanted is None else [(wanted, dialects[wanted])]:
        try:
            read[name] = decode(data)
        except MalformedUserData as why:
            refused.append(why)
    if not read:
        raise refused[0]
    whole = [name for name, value in read.items() if not getattr(value, "trailer_warning", None)] or list(read)[:1]
    return whole[0], read[whole[0]], whole[1:]


def _group_metadata(data: bytes, dialect: str | None) -> Json:
    value = decode_group_metadata(data)
    dialect = dialect or {"stream": "apache"}.get(value.protocol or "", value.protocol)
    streams = dialect in _SUBSCRIPTIONS
    return {
        "message": "GroupMetadataValue",
        "version": value.version,
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp_ms": value.current_state_timestamp_ms,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "session_timeout_ms": member.session_timeout_ms,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "subscription": _member_part(_subscription, member.subscription, dialect, streams),
                "assignment": _member_part(_assignment, member.assignment, dialect, streams),
            }
            for member in value.members
        ],
    }


def _member_part(decode: Callable[[bytes, str | None], Json], data: bytes, dialect: str | None, streams: bool) -> Json:
    """Decode one member's bytes. Damaged or foreign bytes are returned as hex: the other members stay readable."""
    if not streams:
        return {"hex": data.hex()}
    try:
        return decode(data, dialect)
    except MalformedUserData as why:
        return {"error": str(why), "hex": data.hex()}


def _offsets_key(data: bytes, _dialect: str | None) -> Json:
    key = decode_offsets_key(data)
    if isinstance(key, OffsetCommitKey):
        where = {"group": key.group, "topic": key.topic, "partition": key.partition}
        return {"message": "OffsetCommitKey", "type": key.type, **where}
    if isinstance(key, GroupMetadataKey):
        return {"message": "GroupMetadataKey", "type": key.type, "group": key.group}
    other = {"message": None, "type": key.type, "note": "a record of a newer group protocol"}
    return streams_key_form(data) or other


def _offset_commit(data: bytes, _dialect: str | None) -> Json:
    value = decode_offset_commit(data)
    return {
        "message": "OffsetCommitValue",
        "version": value.version,
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp_ms": value.commit_timestamp_ms,
        "expire_timestamp_ms": value.expire_timestamp_ms,
        "topic_id": str(value.topic_id) if value.topic_id else None,
    }


KINDS: Mapping[str, Callable[[bytes, str | None], Json]] = {
    "subscription": _subscription,
    "assignment": _assignment,
    "group-metadata": _group_metadata,
    "offset-commit": _offset_commit,
    "offsets-key": _offsets_key,
    **STREAMS_KINDS,
}
"""The decoders by the word of the command."""
