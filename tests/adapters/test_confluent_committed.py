"""Committed offsets, asked for beside the member, on a real broker."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, closed_port, new_topic, transactional


def test_offsets_of_an_open_transaction_are_waited_for_by_who_asks_for_stable_ones(broker):
    admin = ClusterAdmin(broker)
    first, second = (TopicPartition(new_topic(admin, 2), number) for number in range(2))
    group = f"g-{uuid4().hex}"
    stable = CommittedOffsets(broker, None, group_id=group, stable=True)
    unstable = CommittedOffsets(broker, None, group_id=group)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    producer = transactional(broker)
    assert stable.read([first, second], PATIENCE_S) == {}
    producer.begin_transaction()
    producer.send_offsets_to_transaction([ClientPartition(*first, 7)], consumer.consumer_group_metadata(), PATIENCE_S)
    assert unstable.read([first, second], PATIENCE_S) == {}
    with pytest.raises(BrokerUnavailable, match=f"committed offsets of {group}"):
        stable.read([first, second], 0.5)
    producer.commit_transaction(PATIENCE_S)
    assert stable.read([first, second], PATIENCE_S) == {first: 7}
    for each in (stable, unstable, consumer):
        each.close()


def test_they_are_told_also_after_the_broker_was_restarted():
    """An AdminClient of librdkafka 2.16 never hears of them again."""
    with LocalBroker() as own:
        at = TopicPartition(new_topic(ClusterAdmin(own.bootstrap_servers), 1), 0)
        offsets = CommittedOffsets(own.bootstrap_servers, None, group_id="a-group")
        assert offsets.read([at], PATIENCE_S) == {}
        own.kill()
        own.restart()
        assert offsets.read([at], PATIENCE_S) == {}
        offsets.close()


def test_a_broker_out_of_reach_is_told_within_the_deadline():
    offsets = CommittedOffsets(closed_port(), None, group_id="g")
    assert offsets.read([], 0.5) == {}
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        offsets.read([TopicPartition("t", 0)], 0.5)
    assert time.monotonic() - started < 15
    offsets.close()


def test_a_question_waits_for_that_of_another_thread_within_its_own_time(monkeypatch):
    offsets = CommittedOffsets(closed_port(), None, group_id="g")
    asked, answered = threading.Event(), threading.Event()

    def answer_late(_wanted, _timeout_s):
        asked.set()
        answered.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr(offsets, "_read", answer_late)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(offsets.read, [TopicPartition("t", 0)], PATIENCE_S)
        assert asked.wait(PATIENCE_S)
        second = threads.submit(offsets.read, [TopicPartition("t", 0)], 0.2)
        try:
            with pytest.raises(
                BrokerUnavailable, match=r"committed offsets of g: another question took all of the 0\.2 s"
            ):
                second.result(15)
            assert not first.done()
        finally:
            answered.set()
        assert first.result(PATIENCE_S) == {}


def test_connecting_early_waits_for_no_broker():
    offsets = CommittedOffsets(closed_port(), None, group_id="g")
    started = time.monotonic()
    offsets.connect()
    assert time.monotonic() - started < 5
    with pytest.raises(BrokerUnavailable):
        offsets.read([TopicPartition("t", 0)], 0.5)
    offsets.close()


def test_a_client_that_was_connected_early_answers(broker):
    offsets = CommittedOffsets(broker, None, group_id=f"g-{uuid4().hex}")
    offsets.connect()
    assert offsets.read([TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)], PATIENCE_S) == {}
    offsets.close()
