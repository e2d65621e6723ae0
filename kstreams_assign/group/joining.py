"""What a member sends in JoinGroup and receives in SyncGroup, read from the bytes of the consumer protocol.

And whether its next generation is the one behind its last (``has_missed``).

It checks that the names in these bytes can be topics. User-data is in ``dialects``, layouts are in ``wire``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.group.values import JoinedMember
from kstreams_assign.topology.internal import TOPIC_NAME
from kstreams_assign.wire import ConsumerAssignment, decode_consumer_assignment, decode_consumer_subscription

_NAME_SHOWN_MAX = 60


def has_missed(before: int, generation: int) -> bool:
    """Return whether a group began a generation between a static member's two; ``before`` is negative for none.

    A static member that does not join in time stays in the group (Kafka: ``onCompleteJoin``), and the leader sees what
    it owned when it joined last. Others may have its newer tasks since, and what it names with its next join is false.
    Any other member is removed. A generation whose answer to JoinGroup was lost counts as missed, too.
    """
    return 0 <= before < generation - 1


def read_member(member_id: str, metadata: bytes, instance_id: str | None) -> JoinedMember:
    """Return a member of a JoinGroup response. Raises ``MalformedUserData``."""
    subscription = decode_consumer_subscription(metadata)
    _refuse_impossible_topics("ConsumerProtocolSubscription", subscription.topics)
    return JoinedMember(
        member_id=member_id,
        topics=subscription.topics,
        owned=subscription.owned_partitions,
        user_data=subscription.user_data or b"",
        instance_id=instance_id,
        rack=subscription.rack_id,
    )


def read_member_or_damage(member_id: str, metadata: bytes, instance_id: str | None) -> JoinedMember:
    """Return a member of a JoinGroup response; if its bytes cannot be read, the reason is its ``damage``."""
    try:
        return read_member(member_id, metadata, instance_id)
    except MalformedUserData as cause:
        return JoinedMember(member_id, (), (), metadata, instance_id, damage=str(cause))


def read_given(assignment: bytes) -> ConsumerAssignment:
    """Return the assignment of a SyncGroup response. Raises ``MalformedUserData``."""
    given = decode_consumer_assignment(assignment)
    _refuse_impossible_topics(
        "ConsumerProtocolAssignment", {partition.topic for partition in given.assigned_partitions}
    )
    return given


def _refuse_impossible_topics(message: str, topics: Iterable[str]) -> None:
    for topic in topics:
        if not TOPIC_NAME.fullmatch(topic):
            raise MalformedUserData(f"{message}: {topic[:_NAME_SHOWN_MAX]!r} is not a valid topic name")
