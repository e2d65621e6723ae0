"""Input records from a real broker: what comes, in which order, how soon, and that others are not disturbed."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.adapters.confluent.feed import Taken
from kstreams_assign.adapters.confluent.inputs import records_of
from kstreams_assign.errors import OffsetOutOfRange
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.input_offsets import Passed
from kstreams_assign.tasks.record import Record
from tests.adapters.confluent_cluster import (
    PATIENCE_S,
    NotUtf8,
    closed_port,
    new_topic,
    put,
    put_with_headers,
    transactional,
    until,
)


@pytest.fixture
def admin(broker):
    return ClusterAdmin(broker)


@pytest.fixture
def inputs(broker):
    made = InputConsumer(broker, group_id="g")
    yield made
    made.close()


class Collected:
    """The offsets that came of each partition, joined; each poll's are checked to go on where the last ended."""

    def __init__(self, inputs):
        self._inputs = inputs
        self.offsets = {}
        self.first_s = {}

    def poll(self, timeout_s=0.2):
        for partition, records in self._inputs.poll(100, timeout_s).items():
            assert {(record.topic, record.partition) for record in records} == {partition}
            self.offsets.setdefault(partition, []).extend(record.offset for record in records)
            self.first_s.setdefault(partition, time.monotonic())

    def until_offset(self, partition, last):
        until(self.poll, lambda _: self.offsets.get(partition, [-1])[-1] >= last)
        return self


def delete_before(broker, at, offset):
    raw = AdminClient({"bootstrap.servers": broker})
    for future in raw.delete_records([ClientPartition(*at, offset)]).values():
        future.result()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.none() | st.binary(max_size=2)), max_size=40))
def test_records_are_grouped_as_their_slow_twin_groups_them(drawn):
    made = [Message(t, p, at, k, b"v", [("h", b"1")], None, (1, 1000 + at)) for at, (t, p, k) in enumerate(drawn)]
    slow = {}
    for at, (topic, partition, key) in enumerate(drawn):
        record = Record(topic, partition, at, 1000 + at, key, b"v", [("h", b"1")])
        slow.setdefault(TopicPartition(topic, partition), []).append(record)
    assert records_of(made) == slow


def test_a_record_arrives_with_all_that_it_was_sent_with(broker, admin, inputs):
    at = TopicPartition(new_topic(admin, 1), 0)
    producer = RecordProducer(broker, delivery_timeout_ms=60_000)
    producer.produce(*at, b"k", b"v", [("h", b"1"), ("h", None)], 1234)
    producer.produce(*at, None, None)
    producer.produce(*at, b"", b"")
    producer.flush(PATIENCE_S)
    producer.close()
    assert inputs.ends() == {}, "nothing was fetched yet"
    inputs.add({at: 0})
    records = []
    until(lambda: records.extend(inputs.poll(10, 0.2).get(at, [])), lambda _: len(records) == 3)
    assert inputs.ends() == {at: 3}
    assert records[0] == Record(*at, 0, 1234, b"k", b"v", [("h", b"1"), ("h", None)])
    assert abs(records[1].timestamp_ms - time.time() * 1000) < 60_000
    assert records[1][4:] == (None, None, None)
    assert records[2][4:6] == (b"", b"")


def test_headers_whose_name_is_not_utf8_are_left_out_and_everything_else_comes(broker, admin, inputs, caplog):
    at = TopicPartition(new_topic(admin, 1), 0)
    poison = [("first", b"1"), (NotUtf8("bad"), b"2"), (NotUtf8("worse"), b"3"), ("last", b"")]
    put_with_headers(broker, at, [(b"a", [("h", b"1")]), (b"b", poison), (b"c", [(NotUtf8("only"), b"")]), (b"d", [])])
    inputs.add({at: 0})
    read = []
    until(lambda: read.extend(inputs.poll(10, 0.2).get(at, [])), lambda _: len(read) == 4)
    assert [(record.key, record.headers) for record in read] == [
        (b"a", [("h", b"1")]),
        (b"b", [("first", b"1"), ("last", b"")]),
        (b"c", []),
        (b"d", None),
    ]
    put_with_headers(broker, at, [(b"%d" % number, poison) for number in range(200)])  # until Python has specialized
    until(lambda: read.extend(inputs.poll(100, 0.2).get(at, [])), lambda _: len(read) == 204)
    assert all(record.headers == [("first", b"1"), ("last", b"")] for record in read[4:])
    assert f"{at.topic}-0: record at offset 1: 2 of its 4 headers left out, their names are not UTF-8" in caplog.text


def test_at_most_max_records_come_and_none_is_lost(broker, admin, inputs):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, [(b"k", b"v")] * 1000)
    inputs.add({at: 0})
    offsets = []
    while len(offsets) < 1000:
        read = inputs.poll(7, PATIENCE_S)[at]
        assert len(read) <= 7
        offsets += [record.offset for record in read]
    assert offsets == list(range(1000))


def test_one_record_comes_at_once_and_not_when_the_timeout_is_over(broker, admin, inputs):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, [(b"k", b"v")])
    inputs.add({at: 0})
    started = time.monotonic()
    assert inputs.poll(1000, PATIENCE_S)
    assert time.monotonic() - started < PATIENCE_S / 4


def test_a_partition_of_a_known_topic_is_served_soon_after_it_was_added(broker, admin, inputs):
    topic = new_topic(admin, 2)
    idle, moving = TopicPartition(topic, 0), TopicPartition(topic, 1)
    put(broker, moving, [(b"k", b"v")])
    inputs.add({idle: 0})
    inputs.poll(1, 0.5)
    waits_s = []
    for _ in range(9):
        started = time.monotonic()
        inputs.add({moving: 0})
        until(lambda: inputs.poll(10, 0.2), bool)
        waits_s.append(time.monotonic() - started)
        inputs.remove([moving])
        inputs.poll(1, 0.05)
    # Measured 0.01 s; librdkafka's own fetch wait would make it 0.4 s. A busy machine makes some longer, none shorter.
    assert sorted(waits_s)[2] < 0.2


def test_a_topic_that_is_new_to_the_consumer_is_served_soon_after_it_was_added(broker, admin, inputs):
    first, *others = (TopicPartition(new_topic(admin, 1), 0) for _ in range(6))
    waits_s = []
    inputs.add({first: 0})
    inputs.poll(1, 0.5)
    for at in others:
        put(broker, at, [(b"k", b"v")])
        started = time.monotonic()
        inputs.add({at: 0})
        until(lambda: inputs.poll(10, 0.2), bool)
        waits_s.append(time.monotonic() - started)
    # Measured 0.03 s. By itself librdkafka looks for new topics once a second, so it sees some early.
    assert sorted(waits_s)[1] < 0.4


def test_many_new_topics_at_once_are_all_served(broker, admin, inputs):
    added = [TopicPartition(new_topic(admin, 1), 0) for _ in range(7)]
    for at in added:
        put(broker, at, [(b"k", b"v")])
    inputs.add(dict.fromkeys(added, 0))
    collected = Collected(inputs)
    until(collected.poll, lambda _: collected.offsets.keys() == set(added))


def test_partitions_come_and_go_while_the_others_flow_without_a_gap_or_a_repetition(broker, admin, inputs):
    topic = new_topic(admin, 4)
    staying, moving = TopicPartition(topic, 0), [TopicPartition(topic, number) for number in (1, 2, 3)]
    for at in moving:
        put(broker, at, [(b"k", b"v")] * 300)
    inputs.add({staying: 0})
    collected, written = Collected(inputs), 0
    for turn in range(15):
        at = moving[turn % 3]
        collected.offsets.pop(at, None)
        inputs.add({at: turn})
        put(broker, staying, [(b"k", b"v")] * 100)
        written += 100
        collected.until_offset(at, 299).until_offset(staying, written - 1)
        assert collected.offsets[at] == list(range(turn, 300))
        inputs.remove([at])
    assert collected.offsets[staying] == list(range(written))


def test_nothing_comes_of_a_partition_that_was_removed_in_the_middle(broker, admin, inputs):
    topic = new_topic(admin, 2)
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    put(broker, at, [(b"k", b"v")] * 1000)
    inputs.add({at: 0})
    assert len(inputs.poll(10, PATIENCE_S)[at]) <= 10
    inputs.remove([at, at])
    put(broker, other, [(b"k", b"v")])
    inputs.add({other: 0})
    assert at not in Collected(inputs).until_offset(other, 0).offsets


def test_a_paused_partition_waits_and_goes_on_where_it_was(broker, admin, inputs):
    topic = new_topic(admin, 2)
    at, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (at, other):
        put(broker, partition, [(b"k", b"v")] * 500)
    inputs.add({at: 0})
    before = [record.offset for record in inputs.poll(10, PATIENCE_S)[at]]
    inputs.pause([at])
    inputs.add({other: 0})
    assert Collected(inputs).until_offset(other, 499).offsets.keys() == {other}
    inputs.resume([at])
    assert before + Collected(inputs).until_offset(at, 499).offsets[at] == list(range(500))


@pytest.mark.parametrize("leaves", [True, False])
def test_a_partition_that_was_paused_is_read_when_it_is_added_again(broker, admin, inputs, leaves):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, [(b"k", b"v")] * 10)
    inputs.add({at: 0})
    inputs.pause([at])
    if leaves:
        inputs.remove([at])
        inputs.poll(1, 0.2)
    inputs.add({at: 3})
    assert Collected(inputs).until_offset(at, 9).offsets[at] == [3, 4, 5, 6, 7, 8, 9]


def test_partitions_that_are_not_read_can_be_paused_resumed_and_removed(inputs):
    stranger = [TopicPartition("never-added", 0)]
    inputs.pause(stranger)
    inputs.resume(stranger)
    inputs.remove(stranger)


def test_an_offset_that_is_gone_is_raised_after_the_records_and_the_partition_may_start_anew(broker, admin, inputs):
    topic = new_topic(admin, 2)
    gone, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for at in (gone, good):
        put(broker, at, [(b"k", b"v")] * 10)
    delete_before(broker, gone, 5)
    inputs.add({gone: 2, good: 0})
    collected = Collected(inputs)
    with pytest.raises(OffsetOutOfRange, match=f"{gone} at 2") as raised:
        until(collected.poll, lambda _: False)
    assert raised.value.positions == {gone: 2}
    collected.until_offset(good, 9)
    inputs.add({gone: 5})
    assert collected.until_offset(gone, 9).offsets == {gone: [5, 6, 7, 8, 9], good: list(range(10))}


def test_an_offset_that_is_gone_is_not_raised_for_a_partition_that_left_in_the_meantime(broker, admin, inputs):
    topic = new_topic(admin, 2)
    left, back = TopicPartition(topic, 0), TopicPartition(topic, 1)
    put(broker, back, [(b"k", b"v")])
    inputs._gone = {left: 99, back: 99}
    inputs.remove([left])
    inputs.add({back: 0})
    Collected(inputs).until_offset(back, 0)


def test_an_offset_that_is_gone_is_raised_while_other_partitions_always_have_records(inputs, monkeypatch):
    lost = TopicPartition("lost", 0)
    found = iter([{lost: 7}])
    monkeypatch.setattr(
        inputs._feed, "take", lambda *_: Taken([Message(topic="busy", partition=0, offset=1)], {}, next(found, {}))
    )
    assert [record.topic for record in inputs.poll(10, 0)[TopicPartition("busy", 0)]] == ["busy"]
    with pytest.raises(OffsetOutOfRange, match="lost-0 at 7") as raised:
        inputs.poll(10, 0)
    assert raised.value.positions == {lost: 7}
    assert inputs.poll(10, 0)


def test_an_offset_that_is_gone_is_not_kept_back_until_a_record_comes(inputs):
    inputs._gone = {TopicPartition("t", 0): 99}
    started = time.monotonic()
    with pytest.raises(OffsetOutOfRange, match="t-0 at 99"):
        inputs.poll(10, PATIENCE_S)
    assert time.monotonic() - started < PATIENCE_S / 4


def test_read_committed_passes_over_what_was_aborted(broker, admin):
    at = TopicPartition(new_topic(admin, 1), 0)
    producer = transactional(broker)
    for finish in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(at.topic, b"v", b"k", at.partition)
        producer.flush()
        finish()
    for read_committed, expected in ((True, [2]), (False, [0, 2])):
        inputs = InputConsumer(broker, group_id="g", read_committed=read_committed)
        inputs.add({at: 0})
        assert Collected(inputs).until_offset(at, 2).offsets[at] == expected
        inputs.close()


@pytest.mark.parametrize("read_committed", [True, False])
def test_the_end_of_a_partition_is_known_behind_the_marker_of_a_transaction(broker, admin, read_committed):
    at, empty = (TopicPartition(new_topic(admin, 1), 0) for _ in range(2))
    inputs = InputConsumer(broker, group_id="g", read_committed=read_committed)
    inputs.add({at: 0, empty: 0})
    collected, producer = Collected(inputs), transactional(broker)
    for last in (0, 2):  # each marker takes an offset
        producer.begin_transaction()
        producer.produce(at.topic, b"v", b"k", at.partition)
        producer.commit_transaction()
        collected.until_offset(at, last)
        until(collected.poll, lambda _: inputs.is_at_end(at) and inputs.is_at_end(empty))
    assert inputs.passed() == {at: Passed(3, 4)}
    inputs.add({at: 0})
    assert not inputs.is_at_end(at), "it is read again"
    assert inputs.passed() == {}
    until(collected.poll, lambda _: inputs.is_at_end(at))
    assert collected.offsets[at] == [0, 2, 0, 2]
    inputs.remove([at])
    assert not inputs.is_at_end(at)
    inputs.close()


def test_a_broker_out_of_reach_brings_nothing_and_blocks_no_longer_than_asked():
    address = closed_port()
    inputs = InputConsumer(address, group_id="g")
    started = time.monotonic()
    inputs.add({TopicPartition("t", 0): 0})
    assert inputs.poll(10, 0.2) == {}
    inputs.close()
    assert time.monotonic() - started < 15
