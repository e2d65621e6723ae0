"""OffsetCommit of a member of a streams group (KIP-1071): with the member's epoch in place of a generation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest

from kstreams_assign.adapters.kafka_python.absent_partitions import refuse_absent, take_absent
from kstreams_assign.errors import CommitRefused
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition

VERSION = 9
"""The first version that knows member epochs; the next one names topics by their ids."""

_GONE = frozenset({kafka_errors.UnknownMemberIdError.errno, kafka_errors.GroupIdNotFoundError.errno})

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = _Topic.OffsetCommitRequestPartition


def commit_request(
    group: str, member: MemberId, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]
) -> OffsetCommitRequest:
    """Return the request; ``member.generation`` is the member's epoch."""
    return OffsetCommitRequest(
        min_version=VERSION,
        max_version=VERSION,
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            _Topic(
                name=topic,
                partitions=[
                    _Partition(
                        partition_index=at.partition, committed_offset=offset, committed_metadata=metadata.get(at, "")
                    )
                    for at, offset in held
                ],
            )
            for topic, held in groupby(sorted(offsets.items()), key=lambda item: item[0].topic)
        ],
    )


def check_commit(answer: Any) -> None:
    """Raise for the answer to a commit that was not taken.

    Raises ``CommitRefused`` where the group does not know the member, and kafka-python's errors; where there is no
    other error, ``PartitionsAbsent``.
    """
    absent = take_absent(answer)
    codes = {each.error_code for topic in answer.topics for each in topic.partitions} - {0}
    if not codes.isdisjoint(_GONE):
        raise CommitRefused("commit offsets: the group does not know this member")
    for code in sorted(codes):
        raise kafka_errors.for_code(code)
    refuse_absent(absent)
