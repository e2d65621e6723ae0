"""A static member that did not join in time stays in the group, and others may have its tasks since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient
from kstreams_assign.group.joining import has_missed
from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until


class Owning(Protocol):
    """A member that says what it owns, and as the leader gives all to the last one that joined."""

    def __init__(self) -> None:
        super().__init__()
        self.owned: Sequence[TopicPartition] = ()
        self.said: list[Sequence[TopicPartition]] = []

    def subscription(self) -> tuple[Sequence[TopicPartition], bytes]:
        self.said.append(self.owned)
        return self.owned, b""

    def lead(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> Mapping[str, MemberAssignment]:
        partitions = tuple(TopicPartition(topic, number) for topic, count in counts.items() for number in range(count))
        last = max(members, key=lambda member: member.instance_id or "")
        return {member.member_id: MemberAssignment(partitions if member is last else (), b"") for member in members}

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:  # noqa: ARG002
        self.owned = partitions
        self.generations.append(generation)

    def lost(self) -> None:
        super().lost()
        self.owned = ()


def joining(broker: str, group: str, topic: str, protocol: Protocol, instance: str | None) -> GroupClient:
    return GroupClient(
        group_id=group,
        bootstrap_servers=broker,
        topics=[topic],
        protocol_name="stream",
        protocolist=protocol,
        settings={
            "group_instance_id": instance,
            "session_timeout_ms": 60_000,
            "heartbeat_interval_ms": 20_000,  # the first member does not see that the group rebalances
            "max_poll_interval_ms": 2_000,
            "retry_backoff_ms": 20,
        },
    )


@pytest.mark.parametrize(
    ("before", "generation", "missed"),
    [(-1, 1, False), (-1, 7, False), (0, 1, False), (4, 4, False), (4, 5, False), (4, 6, True), (4, 1, False)],
)
def test_a_generation_is_missed_where_another_lies_between(before: int, generation: int, missed: bool) -> None:
    assert has_missed(before, generation) is missed


def test_it_loses_its_tasks_as_it_joins_again(broker: str) -> None:
    group, topic = f"g-{uuid4().hex}", new_topic(ClusterAdmin(broker), 1)
    first, second = Owning(), Owning()
    owner = joining(broker, group, topic, first, "a")
    until(lambda: owner.join(1))
    owner._coordinator.heartbeat.poll_timeout_expired = lambda: False  # it stays, however slow this thread is
    assert list(first.owned) == [TopicPartition(topic, 0)]
    other = joining(broker, group, topic, second, "b")

    def joined_alone() -> bool:
        owner.beat(alive=True)
        return other.join(0.2)

    until(joined_alone)
    assert (first.losses, list(second.owned)) == (0, [TopicPartition(topic, 0)])
    owner.request_rejoin()
    until(lambda: owner.join(0.2) or (other.request_rejoin(), other.join(0.2))[0])
    assert first.losses == 1
    assert first.said[-1] == ()
    assert first.generations[-1] > first.generations[0] + 1
    for client in (owner, other):
        client.close(PATIENCE_S, leave=True)
