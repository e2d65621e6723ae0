"""What a coordinator says of a streams group, as hosts."""

from __future__ import annotations

from kstreams_assign.model import HostInfo, TopicPartition
from kstreams_assign.wire.streams_heartbeat import EndpointPartitions, EndpointTopic
from kstreams_assign.wire.streams_structs import Endpoint
from kstreams_assign.worker.streams_status import hosts_of


def row(port: int, active: tuple[int, ...], standby: tuple[int, ...]) -> EndpointPartitions:
    return EndpointPartitions(
        Endpoint("java", port), (EndpointTopic("orders", active),), (EndpointTopic("orders", standby),)
    )


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def test_members_that_share_an_endpoint_are_one_host() -> None:
    """The threads of a Java process are members of their own, with one ``application.server``."""
    first, other = HostInfo("java", 8080), HostInfo("java", 8081)
    active, standby = hosts_of([row(8080, (0,), (2,)), row(8081, (4,), ()), row(8080, (1,), (3,))])
    assert active == {first: orders(0, 1), other: orders(4)}
    assert standby == {first: orders(2, 3), other: ()}
