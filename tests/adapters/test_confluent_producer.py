"""Records written to a real broker: where they go, what is acknowledged, and what is reported when they are lost."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.errors import BrokerUnavailable, DeliveryFailed, RecordRefused, TaskMigrated
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, closed_port, new_topic, put, until


@pytest.fixture
def admin(broker):
    return ClusterAdmin(broker)


@pytest.fixture
def producer(broker):
    made = RecordProducer(broker, delivery_timeout_ms=60_000)
    yield made
    made.close()


def murmur2(data: bytes) -> int:
    """Java's ``Utils.murmur2``, read slowly: a signed 32-bit hash."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = hashed * multiplier & mask ^ word
    if data[whole:]:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    hashed ^= hashed >> 15
    return hashed - (hashed >> 31 << 32)


def read_all(broker: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "read-all"})
    partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
    consumer.assign([ClientPartition(topic, partition, 0) for partition in partitions])
    messages = consumer.consume(count, PATIENCE_S)
    messages += consumer.consume(1, 0.2)
    consumer.close()
    return messages


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536), ("abc", 479470107)],
)
def test_the_twin_of_javas_hash_agrees_with_javas_own_test(text, hashed):
    assert murmur2(text.encode()) == hashed


def test_a_key_goes_to_the_partition_that_java_would_choose(broker, admin, producer):
    topic = new_topic(admin, 7)
    dice = random.Random(7)
    keys = [b"", *(dice.randbytes(size % 23 + 1) for size in range(300))]
    for key in keys:
        producer.produce(topic, None, key, b"v")
    producer.flush(PATIENCE_S)
    partition_by_key = {message.key(): message.partition() for message in read_all(broker, topic, len(keys))}
    assert partition_by_key == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys}


def test_a_record_keeps_its_time_also_the_first_of_1970_and_none_at_all(broker, admin, producer):
    topic, before_ms = new_topic(admin, 1), int(time.time() * 1000)
    times_ms = [5, -1, 0, 1, None, before_ms]
    for time_ms in times_ms:
        producer.produce(topic, 0, b"k", b"v", timestamp_ms=time_ms)
    producer.flush(PATIENCE_S)
    kinds_and_times = [message.timestamp() for message in read_all(broker, topic, len(times_ms))]
    sent_ms = kinds_and_times.pop(4)[1]
    assert before_ms <= sent_ms <= time.time() * 1000
    assert [at for _, at in kinds_and_times] == [5, -1, 1, 1, before_ms]


def test_records_of_a_partition_stay_in_order_and_are_written_once(broker, admin, producer):
    topic = new_topic(admin, 1)
    for number in range(2000):
        producer.produce(topic, 0, b"k", b"%d" % number)
    producer.flush(PATIENCE_S)
    assert [message.value() for message in read_all(broker, topic, 2000)] == [b"%d" % number for number in range(2000)]


def test_flush_answers_the_next_offset_of_tracked_partitions_written_since_the_last(broker, admin, producer):
    topic = new_topic(admin, 3)
    put(broker, TopicPartition(topic, 0), [(b"k", b"before")] * 4)
    for _ in range(3):
        producer.produce(topic, 0, b"k", b"v", track=True)
    producer.produce(topic, 1, b"k", b"v", track=True)
    producer.produce(topic, 2, b"k", b"v")
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 1}
    producer.produce(topic, 1, b"k", b"v", track=True)
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 1): 2}
    assert producer.flush(PATIENCE_S) == {}


def test_flush_does_not_wait_for_more_records(broker, admin):
    producer = RecordProducer(broker, {"linger.ms": "50000"}, delivery_timeout_ms=60_000)
    at = TopicPartition(new_topic(admin, 1), 0)
    for written in (1, 2):
        producer.produce(*at, b"k", b"v", track=True)
        assert producer.flush(25) == {at: written}
    producer.close()


def test_acknowledged_answers_as_flush_does_but_does_not_wait(broker, admin):
    topic = new_topic(admin, 1)
    lingering = {"linger.ms": "2000"}  # so that it is asked before the record has left
    producer = RecordProducer(broker, lingering, delivery_timeout_ms=60_000)
    producer.produce(topic, 0, b"k", b"v", track=True)
    answers = [producer.acknowledged()]
    until(lambda: answers.append(producer.acknowledged()), lambda _: answers[-1] is not None)
    assert answers[0] is None
    assert answers[-1] == {TopicPartition(topic, 0): 1}
    assert producer.acknowledged() == {}
    producer.close()


def test_acknowledged_tells_of_a_lost_record_at_once(admin, producer):
    topic = new_topic(admin, 1, max_message_bytes="200")
    producer.produce(topic, 0, b"k", bytes(1000))
    with pytest.raises(DeliveryFailed, match=f"{topic}-0"):
        until(producer.acknowledged, lambda answer: answer is not None)


def test_records_sent_ahead_count_for_the_commit_that_begins_next(broker, admin):
    topic = new_topic(admin, 1)
    producer = RecordProducer(broker, {"linger.ms": "2000"}, delivery_timeout_ms=60_000)
    ahead = [(topic, b"k", b"ahead", (), 0, None)] * 3
    assert producer.send_ahead(ahead) == 3
    assert producer.acknowledged() == {}, "no commit has begun"
    producer.begin_commit()
    assert producer.acknowledged() is None
    producer.produce(topic, 0, b"k", b"v", track=True)
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 0): 4}
    producer.close()


def test_a_commit_does_not_wait_for_what_is_sent_ahead_of_the_next(broker, admin):
    topic = new_topic(admin, 1)
    producer = RecordProducer(broker, {"linger.ms": "500"}, delivery_timeout_ms=60_000)
    producer.begin_commit()
    producer.produce(topic, 0, b"k", b"v", track=True)
    answers = []

    def keeps_something_on_its_way():
        producer.send_ahead([(topic, b"k", b"ahead", (), 0, None)])
        answers.append(producer.acknowledged())

    until(keeps_something_on_its_way, lambda _: answers[-1] is not None)
    assert answers[-1] == {TopicPartition(topic, 0): 1}
    producer.close()


def test_a_record_sent_ahead_that_is_lost_fails_the_commit_it_belongs_to(admin, producer):
    topic = new_topic(admin, 2, max_message_bytes="200")
    producer.begin_commit()
    producer.produce(topic, 0, b"k", b"small", track=True)
    producer.send_ahead([(topic, b"k", bytes(1000), (), 1, None)])
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 0): 1}
    producer.begin_commit()
    with pytest.raises(DeliveryFailed, match=f"{topic}-1"):
        producer.flush(PATIENCE_S)


def test_records_are_sent_ahead_up_to_the_first_that_cannot_be_queued(broker, admin):
    topic = new_topic(admin, 1)
    narrow = RecordProducer(
        broker, {"queue.buffering.max.messages": "3", "linger.ms": "2000"}, delivery_timeout_ms=60_000
    )
    row, too_large = (topic, b"k", b"v", (), 0, None), (topic, b"k", bytes(2_000_000), (), 0, None)
    assert narrow.send_ahead([row, too_large, row]) == 1
    assert narrow.send_ahead([row] * 5) == 2, "there is no room for more, and it does not wait"
    narrow.begin_commit()
    assert narrow.flush(PATIENCE_S) == {}
    assert len(read_all(broker, topic, 3)) == 3
    narrow.close()


def test_more_records_than_the_queue_holds_are_sent_ahead_between_two_commits(broker, admin, monkeypatch):
    """Their reports are taken on the way, or the queue would be full of them."""
    monkeypatch.setattr("kstreams_assign.adapters.confluent.producer._REPORTS_MAX", 20)
    topic, sent = new_topic(admin, 1), []
    producer = RecordProducer(broker, {"queue.buffering.max.messages": "100"}, delivery_timeout_ms=60_000)
    row = (topic, b"k", b"v", (), 0, None)
    until(lambda: sent.append(producer.send_ahead([row] * 10)), lambda _: sum(sent) > 300)
    producer.begin_commit()
    assert producer.flush(PATIENCE_S) == {}
    assert len(read_all(broker, topic, sum(sent))) == sum(sent)
    producer.close()


@pytest.mark.parametrize("queue", ["1", "100000"])
def test_a_record_that_cannot_be_queued_is_refused_where_it_is_produced(broker, admin, queue):
    topic = new_topic(admin, 1)
    producer = RecordProducer(broker, {"queue.buffering.max.messages": queue}, delivery_timeout_ms=60_000)
    producer.produce(topic, 0, b"k", b"v", track=True)
    with pytest.raises(DeliveryFailed, match=f"produce to {topic}: .*MSG_SIZE_TOO_LARGE"):
        producer.produce(topic, 0, b"k", bytes(2_000_000))
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 0): 1}
    producer.close()


@pytest.mark.parametrize("track", [True, False])
def test_on_offset_hears_where_its_own_record_went(admin, producer, track):
    topic, heard = new_topic(admin, 1), []
    producer.produce(topic, 0, b"k", b"v", on_offset=lambda offset: heard.append(("first", offset)), track=track)
    producer.produce(topic, 0, b"k", b"v")
    producer.produce(topic, 0, b"k", b"v", on_offset=lambda offset: heard.append(("third", offset)))
    assert producer.flush(PATIENCE_S) == ({TopicPartition(topic, 0): 1} if track else {})
    assert heard == [("first", 0), ("third", 2)]


def test_more_records_than_the_queue_holds_wait_for_room(broker, admin):
    topic = new_topic(admin, 1)
    narrow = RecordProducer(broker, {"queue.buffering.max.messages": "10"}, delivery_timeout_ms=60_000)
    for _ in range(500):
        narrow.produce(topic, 0, b"k", b"v", track=True)
    assert narrow.flush(PATIENCE_S) == {TopicPartition(topic, 0): 500}
    narrow.close()


def test_a_queue_that_stays_full_is_told_and_not_waited_for_ever():
    producer = RecordProducer(closed_port(), {"queue.buffering.max.messages": "10"}, delivery_timeout_ms=4000)

    def produce_many():
        for _ in range(100):
            producer.produce("t", 0, b"k", b"v")

    with pytest.raises(BrokerUnavailable, match="produce to t: the queue stayed full"):
        produce_many()
    producer.close()


def test_a_record_that_is_refused_fails_the_next_flush_only_and_is_named(admin, producer):
    topic = new_topic(admin, 2, max_message_bytes="200")
    producer.produce(topic, 1, b"k", bytes(1000), track=True)
    producer.produce(topic, 0, b"k", b"small", track=True)
    with pytest.raises(DeliveryFailed, match=rf"1 records lost, the first of them to {topic}-1: .*MSG_SIZE_TOO_LARGE"):
        producer.flush(PATIENCE_S)
    producer.produce(topic, 1, b"k", b"small", track=True)
    assert producer.flush(PATIENCE_S) == {TopicPartition(topic, 1): 1}


def test_a_record_with_a_refused_timestamp_is_known_by_its_key_and_value(admin, producer):
    """Its delivery report has neither its timestamp nor its headers."""
    topic = new_topic(admin, 1, message_timestamp_before_max_ms="3600000")
    producer.produce(topic, 0, b"k", b"v", [("h", b"x")], timestamp_ms=1)
    with pytest.raises(RecordRefused) as raised:
        producer.flush(PATIENCE_S)
    refused = raised.value
    assert (refused.invalid, refused.untimely, refused.contents) == (True, True, {hash((b"k", b"v"))})


def test_a_producer_that_was_fenced_says_that_the_task_has_migrated(producer):
    producer._flight.tracked(KafkaError(KafkaError.PRODUCER_FENCED), Message("t", 0, 0))
    with pytest.raises(TaskMigrated, match="t-0"):
        producer.flush(PATIENCE_S)


def test_a_broker_that_is_gone_loses_records_aloud_and_abandoned_ones_are_never_written():
    with LocalBroker() as own:
        topic = new_topic(ClusterAdmin(own.bootstrap_servers), 1)
        at = TopicPartition(topic, 0)
        producer = RecordProducer(own.bootstrap_servers, delivery_timeout_ms=9000)
        producer.produce(topic, 0, b"k", b"first", track=True)
        assert producer.flush(PATIENCE_S) == {at: 1}
        own.kill()

        producer.produce(topic, 0, b"k", b"lost", track=True)
        with pytest.raises(BrokerUnavailable, match=r"1 records were not acknowledged in 0\.2 s"):
            producer.flush(0.2)
        with pytest.raises(DeliveryFailed, match=f"{at}.*_MSG_TIMED_OUT"):
            producer.flush(PATIENCE_S)

        for _ in range(100):
            producer.produce(topic, 0, b"k", b"abandoned", track=True)
        started = time.monotonic()
        producer.abandon()
        assert time.monotonic() - started < 4, "as long as neither the records nor what is left of the client"
        assert producer.flush(0.2) == {}
        own.restart()
        producer.produce(topic, 0, b"k", b"second", track=True)
        assert producer.flush(PATIENCE_S) == {at: 2}
        producer.close()
        values = [message.value() for message in read_all(own.bootstrap_servers, topic, 2)]
    assert values == [b"first", b"second"]


def test_offsets_acknowledged_while_another_record_was_lost_are_forgotten(admin, producer):
    topic = new_topic(admin, 1, max_message_bytes="200")
    producer.produce(topic, 0, b"k", b"small", track=True)
    producer._producer.flush(PATIENCE_S)
    producer.produce(topic, 0, b"k", bytes(1000), track=True)
    with pytest.raises(DeliveryFailed):
        producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == {}


def test_records_arrive_that_are_produced_at_once_after_nothing_had_to_be_abandoned(admin, producer):
    topic = new_topic(admin, 1)
    at = TopicPartition(topic, 0)
    for written in range(1, 31):
        producer.abandon()
        producer.produce(topic, 0, b"k", b"v", track=True)
        assert producer.flush(PATIENCE_S) == {at: written}


def test_abandon_forgets_what_was_acknowledged(admin, producer):
    topic = new_topic(admin, 1)
    producer.produce(topic, 0, b"k", b"v", track=True)
    producer._producer.flush(PATIENCE_S)
    producer.abandon()
    assert producer.flush(PATIENCE_S) == {}
