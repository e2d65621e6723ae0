"""A group's last record in ``__consumer_offsets``: read from the end backwards, however much was written since."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstreams_assign.adapters.confluent import ClusterAdmin, group_records
from kstreams_assign.adapters.confluent.coordinators import coordinator_partition
from kstreams_assign.adapters.confluent.group_records import last_group_record
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.wire import decode_group_metadata

SECONDS = 60


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("a", 47), ("connect-cluster", 13), ("orders-app", 5), ("polygenelubricants", 0), ("größe", 7)],
)
def test_a_group_stands_in_the_partition_that_java_says(group, partition):
    assert coordinator_partition(group, 50) == partition


@pytest.fixture
def member(broker):
    ClusterAdmin(broker).create_topics({"recorded-in": 2}, SECONDS)
    settings = {"bootstrap.servers": broker, "group.id": "recorded", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.subscribe(["recorded-in"])
    for _ in range(SECONDS * 10):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    yield consumer
    consumer.close()


def test_the_last_record_is_found_behind_many_commits(broker, member, monkeypatch):
    monkeypatch.setattr(group_records, "FIRST_STEP", 10)
    for offset in range(300):
        member.commit(offsets=[TopicPartition("recorded-in", 0, offset)], asynchronous=False)
    record = last_group_record(broker, None, "recorded", SECONDS)
    assert record is not None
    group = decode_group_metadata(record.value)
    assert [member.member_id for member in group.members] == [group.leader]
    assert (group.protocol, group.generation) == ("range", 1)
    assert record.timestamp_ms > 0


def test_a_group_without_a_record_has_none(broker, member):
    assert member.assignment()
    assert last_group_record(broker, None, "never-seen", SECONDS) is None


def test_a_search_that_takes_too_long_is_given_up(broker, member):
    assert member.assignment()
    with pytest.raises(BrokerUnavailable):
        last_group_record(broker, None, "recorded", 0.0)
