"""A group that is not of Kafka Streams gets a clear message and status 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.insight.fetch import name_groups
from tests.insight.run import Cli
from tests.java.streams_app import streams_app

SECONDS = 60


@contextmanager
def consumer(broker: str, group: str, **settings: object) -> Iterator[Consumer]:
    ClusterAdmin(broker).create_topics({f"{group}-in": 2}, SECONDS)
    client = Consumer({"bootstrap.servers": broker, "group.id": group, "auto.offset.reset": "earliest", **settings})
    try:
        yield client
    finally:
        client.close()


def until_assigned(member: Consumer, topic: str) -> None:
    assigned: list[TopicPartition] = []
    member.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    for _ in range(SECONDS * 10):
        member.poll(0.1)
        if assigned:
            return
    raise AssertionError("no partitions were assigned")


def test_a_name_that_is_nearly_right_is_suggested(broker: str, run: Cli) -> None:
    with consumer(broker, "orders-app-x") as member:
        until_assigned(member, "orders-app-x-in")
        done = run("inspect", "order-app-x", "-b", broker)
    assert done.status == 1
    assert f"no group order-app-x on {broker}; the groups there are: orders-app-x" in done.err


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ((), "there are no groups yet"),
        (("b", "app-2"), "the groups there are: app-2, b"),
        (("z", "y", "x", "app-1", "a", "ap", "w"), "the groups there are: ap, app-1, a, w, x and 2 more"),
    ],
)
def test_the_groups_that_exist_are_named_the_closest_first(groups: tuple[str, ...], says: str) -> None:
    assert name_groups("app", groups) == says


def test_a_simple_consumer_group_is_called_that(broker: str, run: Cli) -> None:
    with consumer(broker, "simple-one") as member:
        member.commit(offsets=[TopicPartition("simple-one-in", 0, 5)], asynchronous=False)
        done = run("inspect", "simple-one", "-b", broker)
    assert done.status == 1
    assert "simple-one is a simple consumer group" in done.err


def test_a_plain_consumer_group_is_called_that(broker: str, run: Cli) -> None:
    with consumer(broker, "plain-one") as member:
        until_assigned(member, "plain-one-in")
        done = run("inspect", "plain-one", "-b", broker)
    assert done.status == 1
    assert "plain-one is a plain consumer group: it assigns by 'range'" in done.err


def test_a_group_of_the_consumer_rebalance_protocol_is_called_that(broker: str, run: Cli) -> None:
    with consumer(broker, "next-generation", **{"group.protocol": "consumer"}) as member:
        until_assigned(member, "next-generation-in")
        done = run("inspect", "next-generation", "-b", broker)
    assert done.status == 1
    assert "KIP-848" in done.err


def test_get_asks_a_streams_group_for_endpoints_which_plain_java_members_do_not_have(
    broker: str, java_peer: list[str], run: Cli, tmp_path: Path
) -> None:
    assert java_peer
    ClusterAdmin(broker).create_topics({"kip-1071-in": 2}, SECONDS)
    settings = {"group.protocol": "streams"}
    with streams_app(broker, "kip-1071", tmp_path, ["kip-1071-in"], settings=settings) as app:
        app.until_tasks(active=2)
        done = run("get", "kip-1071", "totals", "key", "-b", broker)
    assert done.status == 3
    assert "no process reports an application_server" in done.err
