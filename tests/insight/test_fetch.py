"""A snapshot from the brokers, also at moments when they report little."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.insight.fetch import group_reader, take_snapshot
from tests.insight.test_wrong_groups import SECONDS, consumer, until_assigned


def test_a_group_that_rebalances_is_shown_as_of_its_last_completed_generation(broker: str) -> None:
    with consumer(broker, "slow-to-rejoin") as first:
        until_assigned(first, "slow-to-rejoin-in")
        before = take_snapshot(broker, "slow-to-rejoin")
        second = Consumer({"bootstrap.servers": broker, "group.id": "slow-to-rejoin"})
        second.subscribe(["slow-to-rejoin-in"])
        with group_reader(broker) as reader:
            seen = reader.snapshot("slow-to-rejoin")
            while seen.state == "Stable":  # the first member does not poll, so the group cannot come to rest again
                second.poll(0.1)
                seen = reader.snapshot("slow-to-rejoin")
    second.close()
    assert seen.state == "PreparingRebalance"
    assert seen.gaps["members"].startswith("the group is PreparingRebalance: what is shown is its last completed")
    assert (seen.generation, seen.leader, seen.members) == (before.generation, before.leader, before.members)
    assert seen.generation == 1
    assert [(member.client_id, member.subscription) for member in seen.joining] == [("rdkafka", b"")]
    assert (seen.left, seen.rebalance_timeout_ms) == ((), 300_000)
    assert (before.joining, before.rebalance_timeout_ms) == ((), 0)


def test_topics_of_the_group_bounds_of_its_changelogs_and_ends_of_its_tables_are_looked_up_and_no_others(
    broker: str,
) -> None:
    """A changelog that is named after another group is that one's, though the name of this group fits, too.

    A table of an input topic ends at the group's committed offset.
    """
    name, other = "with-topics", "with-topics-eu"
    theirs = {"with-others": 1, f"{other}-s-changelog": 2}
    ClusterAdmin(broker).create_topics({f"{name}-s-changelog": 2, f"{name}-s-repartition": 2, **theirs}, SECONDS)
    with consumer(broker, name) as member, closing(Consumer({"bootstrap.servers": broker, "group.id": other})) as eu:
        eu.commit(offsets=[ClientPartition(f"{name}-s-changelog", 0, 0)], asynchronous=False)
        until_assigned(member, f"{name}-in")
        member.commit(offsets=[ClientPartition(f"{name}-in", 1, 7)], asynchronous=False)
        seen = take_snapshot(broker, name)
    assert seen.partition_counts == {f"{name}-in": 2, f"{name}-s-changelog": 2, f"{name}-s-repartition": 2}
    changelogs = {f"{name}-s-changelog-{n}": 0 for n in (0, 1)}
    ends = {str(partition): end for partition, end in seen.end_offsets.items()}
    assert ends == {**changelogs, f"{name}-in-0": 0, f"{name}-in-1": 7}
    assert {str(partition): begin for partition, begin in seen.begin_offsets.items()} == changelogs
    assert seen.gaps == {}
