"""Bytes <-> values: the user-data of a Kafka Streams group and the messages around it. No I/O, clock, decision or log.

Bytes of versions 1-11 as Kafka Streams writes them, followed by our trailer, which Java does not read. There are two
levels: a *record* is the fields in wire order (``compile``, driven by ``protocol/*.json``); a *value* is a frozen
dataclass. The layouts of KIP-441's text, which Apache never shipped, are dialects with functions of their own
(``kip441``). Around the user-data are the consumer protocol and the records of ``__consumer_offsets``.
"""

from __future__ import annotations

from kstreams_assign.wire.assignment_info import (
    AssignmentInfo,
    decode_assignment,
    encode_assignment,
    encode_assignments,
)
from kstreams_assign.wire.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_consumer_assignment,
    decode_consumer_subscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)
from kstreams_assign.wire.kip441 import (
    DIALECTS,
    KipSubscription,
    decode_kip_assignment,
    decode_kip_subscription,
    encode_kip_assignment,
    encode_kip_assignments,
    encode_kip_subscription,
)
from kstreams_assign.wire.offsets_topic import (
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommit,
    OffsetCommitKey,
    OtherKey,
    StoredMember,
    decode_group_metadata,
    decode_offset_commit,
    decode_offsets_key,
    encode_group_metadata,
    encode_offset_commit,
    encode_offsets_key,
)
from kstreams_assign.wire.schemas import schema_text
from kstreams_assign.wire.subscription_info import (
    FutureSubscription,
    SubscriptionInfo,
    decode_subscription,
    encode_subscription,
)
from kstreams_assign.wire.trailer import AwaitedProcess, GroupTrailer, MemberTrailer
from kstreams_assign.wire.versions import (
    COOPERATIVE_VERSION,
    EARLIEST_PROBEABLE_VERSION,
    LATEST_SUPPORTED_VERSION,
    NAMED_TOPOLOGY_VERSION,
    OFFSET_SUMS_VERSION,
    UNIQUE_FIELD_VERSION,
    UNKNOWN_VERSION,
)

__all__ = [
    "COOPERATIVE_VERSION",
    "DIALECTS",
    "EARLIEST_PROBEABLE_VERSION",
    "LATEST_SUPPORTED_VERSION",
    "NAMED_TOPOLOGY_VERSION",
    "OFFSET_SUMS_VERSION",
    "UNIQUE_FIELD_VERSION",
    "UNKNOWN_VERSION",
    "AssignmentInfo",
    "AwaitedProcess",
    "ConsumerAssignment",
    "ConsumerSubscription",
    "FutureSubscription",
    "GroupMetadata",
    "GroupMetadataKey",
    "GroupTrailer",
    "KipSubscription",
    "MemberTrailer",
    "OffsetCommit",
    "OffsetCommitKey",
    "OtherKey",
    "StoredMember",
    "SubscriptionInfo",
    "decode_assignment",
    "decode_consumer_assignment",
    "decode_consumer_subscription",
    "decode_group_metadata",
    "decode_kip_assignment",
    "decode_kip_subscription",
    "decode_offset_commit",
    "decode_offsets_key",
    "decode_subscription",
    "encode_assignment",
    "encode_assignments",
    "encode_consumer_assignment",
    "encode_consumer_subscription",
    "encode_group_metadata",
    "encode_kip_assignment",
    "encode_kip_assignments",
    "encode_kip_subscription",
    "encode_offset_commit",
    "encode_offsets_key",
    "encode_subscription",
    "schema_text",
]
