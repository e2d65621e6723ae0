"""What happens to a join between two calls of ``join`` is not lost: neither its assignment nor the join itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from uuid import uuid4

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient
from kstreams_assign.adapters.kafka_python.join_results import finish_joins
from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic


@pytest.fixture
def coordinator() -> SimpleNamespace:
    """A coordinator that joins a new generation at each try."""
    joins: list[object] = []

    async def join_and_sync() -> bytes:
        joins.append(state._generation)
        state._generation = object()
        return b"assignment %d" % len(joins)

    async def on_join_complete(*arguments: object) -> None:
        state.adopted.append(arguments[-1])

    state = SimpleNamespace(
        joins=joins,
        adopted=[],
        _generation=object(),
        rejoining=False,
        need_rejoin=lambda: False,
        _do_join_and_sync_async=join_and_sync,
        _on_join_complete_async=on_join_complete,
    )
    finish_joins(state)
    return state


def try_to_join(coordinator: SimpleNamespace) -> bytes:
    assignment: bytes = asyncio.run(coordinator._do_join_and_sync_async())
    return assignment


def test_a_result_that_was_not_adopted_is_returned_again_without_another_join(coordinator: SimpleNamespace) -> None:
    assert [try_to_join(coordinator) for _ in range(3)] == [b"assignment 1"] * 3
    assert len(coordinator.joins) == 1


def test_the_member_joins_again_once_the_result_was_adopted(coordinator: SimpleNamespace) -> None:
    asyncio.run(coordinator._on_join_complete_async(1, "member", "stream", try_to_join(coordinator)))
    assert try_to_join(coordinator) == b"assignment 2"
    assert coordinator.adopted == [b"assignment 1"]


def test_a_result_of_a_generation_that_was_reset_is_dropped(coordinator: SimpleNamespace) -> None:
    try_to_join(coordinator)
    coordinator._generation = object()
    assert try_to_join(coordinator) == b"assignment 2"


def test_a_join_that_was_started_is_needed_until_it_ends(coordinator: SimpleNamespace) -> None:
    assert not coordinator.need_rejoin()
    coordinator.rejoining = True
    assert coordinator.need_rejoin()


class Protocol:
    """A member that leads itself and counts what the client asks."""

    def __init__(self) -> None:
        self.led = 0
        self.generations: list[int] = []
        self.losses = 0

    def subscription(self) -> tuple[Sequence[TopicPartition], bytes]:
        return (), b""

    def lead(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> Mapping[str, MemberAssignment]:
        self.led += 1
        partitions = tuple(TopicPartition(topic, number) for topic, count in counts.items() for number in range(count))
        return {member.member_id: MemberAssignment(partitions, b"") for member in members}

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None:
        assert (len(partitions), user_data) == (1, b"")
        self.generations.append(generation)

    def turn_soon(self) -> None:
        pass

    def lost(self) -> None:
        self.losses += 1


@pytest.fixture
def protocol() -> Protocol:
    return Protocol()


@pytest.fixture
def client(broker: str, protocol: Protocol) -> Iterator[GroupClient]:
    client = GroupClient(
        group_id=f"g-{uuid4().hex}",
        bootstrap_servers=broker,
        topics=[new_topic(ClusterAdmin(broker), 1)],
        protocol_name="stream",
        protocolist=protocol,
        settings={"session_timeout_ms": 30_000, "max_poll_interval_ms": 60_000, "retry_backoff_ms": 20},
    )
    yield client
    client.close(PATIENCE_S, leave=True)
    assert protocol.losses == 0, "the group kept this member"


def test_a_member_on_a_broker_adopts_what_came_between_two_calls(client: GroupClient, protocol: Protocol) -> None:
    coordinator = client._coordinator
    assert coordinator.ensure_coordinator_ready(PATIENCE_S * 1000)
    while not protocol.led:  # the first answer is a member id only
        assert not client.join(0), "a broker cannot answer in no time"
        until(lambda: coordinator._join_task.is_done)
    assert coordinator._join_task.succeeded()
    assert protocol.generations == []
    assert client.join(PATIENCE_S)
    assert (protocol.generations, protocol.led) == ([1], 1)


def test_a_member_on_a_broker_finishes_a_join_whose_reason_vanished(client: GroupClient, protocol: Protocol) -> None:
    coordinator = client._coordinator
    until(lambda: client.join(1))
    coordinator._assignment_snapshot = {}  # as if the topic's metadata had changed
    assert not client.join(0), "a broker cannot answer in no time"
    assert not client.joined()
    coordinator._assignment_snapshot = coordinator._metadata_snapshot  # and had changed back
    until(lambda: client.join(1))
    assert client.joined()
    assert protocol.generations == [1, 2]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the broker did not answer in time"
        threading.Event().wait(0.01)
