"""Records of ``__consumer_offsets`` as columns, and whom each is about.

What lives here: the form in which Spark, a test or a file gives records to ``derive``, and the quick reading of a key
that finds a record's group. What must not: values, and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.wire import (
    GroupMetadataKey,
    OffsetCommitKey,
    OtherKey,
    StreamsKey,
    decode_offsets_key,
    decode_streams_key,
)

KEYS_KEPT = 1 << 16
"""A partition is committed again and again under one key; some 20 MB."""


class Kind(StrEnum):
    """What a record's key says it is; also how the table ``counts`` names it."""

    GROUP_METADATA = "group_metadata"
    OFFSET_COMMIT = "offset_commit"
    STREAMS_GROUP = "streams_group"
    OTHER_PROTOCOL = "other_protocol"
    DAMAGED_KEY = "damaged_key"


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Records as five columns of one length. ``timestamp_ms`` is the record's own, since 1970 UTC."""

    partition: Sequence[int]
    offset: Sequence[int]
    timestamp_ms: Sequence[int]
    key: Sequence[bytes | None]
    value: Sequence[bytes | None]


SAMPLED_WITHIN_MS = 60_000
"""End offsets say something of a rebalance only if they were sampled soon after it."""


class EndOffset(NamedTuple):
    """Where a changelog partition began and ended at ``sampled_ms`` (wall clock)."""

    topic: str
    partition: int
    end: int
    begin: int
    sampled_ms: int


def sampled_near(ends: Iterable[EndOffset], time_ms: int) -> list[EndOffset]:
    """The end offsets that say something of a rebalance at ``time_ms``."""
    return [end for end in ends if abs(end.sampled_ms - time_ms) <= SAMPLED_WITHIN_MS]


class RecordKey(NamedTuple):
    """What a record is about. ``group`` is None for groups of other protocols; ``reason``: what is wrong with the key.

    ``streams`` is the key of a record about a streams group.
    """

    kind: Kind
    group: str | None = None
    topic: str = ""
    partition: int = -1
    reason: str = ""
    streams: StreamsKey | None = None


@lru_cache(maxsize=KEYS_KEPT)
def key_of(key: bytes | None) -> RecordKey:
    """What a record's key says. Never raises: what cannot be read is ``DAMAGED_KEY``."""
    if key is None:
        return RecordKey(Kind.DAMAGED_KEY, reason="a record without a key")
    try:
        decoded = decode_offsets_key(key)
        streams = decode_streams_key(key) if isinstance(decoded, OtherKey) else None
    except MalformedUserData as wrong:
        return RecordKey(Kind.DAMAGED_KEY, reason=str(wrong))
    match decoded:
        case OffsetCommitKey():
            return RecordKey(Kind.OFFSET_COMMIT, decoded.group, decoded.topic, decoded.partition)
        case GroupMetadataKey():
            return RecordKey(Kind.GROUP_METADATA, decoded.group)
        case OtherKey() if streams is not None:
            return RecordKey(Kind.STREAMS_GROUP, streams.group_id, streams=streams)
        case OtherKey():
            return RecordKey(Kind.OTHER_PROTOCOL)
