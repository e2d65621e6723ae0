"""Changelogs read back from a real broker, and the batching against its slow twin."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    CommittedOffsets,
    ConfluentChangelogReader,
    SourceLimits,
)
from kstreams_assign.adapters.confluent.changelogs import _by_partition
from kstreams_assign.adapters.confluent.feed import Feed, Taken
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.ports import ChangelogBatch
from kstreams_assign.tasks.stamped import stamped
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


def test_no_number_of_records_is_too_large_for_the_client():
    feed = Feed(f"127.0.0.1:{closed_port()}", None, group_id="any", read_committed=False, tuning={}, needed={})
    feed._record_bytes = 1.0
    try:
        assert feed.take(2_000_000, 0).messages == []
    finally:
        feed.close()


@pytest.fixture
def admin(broker):
    return ClusterAdmin(broker)


@pytest.fixture
def reader(broker, admin):
    made = ConfluentChangelogReader(broker, group_id="g", admin=admin)
    yield made
    made.close()


class Collected:
    """All batches of a reader, joined; and that each batch goes on where the one before ended."""

    def __init__(self, reader):
        self._reader = reader
        self.writes = {}
        self.next = {}

    def poll(self, timeout_s=0.2):
        batches = self._reader.poll(timeout_s)
        assert len({batch.partition for batch in batches}) == len(batches)
        for batch in batches:
            self.writes.setdefault(batch.partition, []).extend(batch.writes)
            assert batch.next_offset > self.next.get(batch.partition, -1)
            self.next[batch.partition] = batch.next_offset
        return batches

    def until_next(self, wanted):
        until(self.poll, lambda _: wanted.items() <= self.next.items())
        return self


def records(count, start=0):
    return [(b"k%d" % number, b"v%d" % number) for number in range(start, start + count)]


messages = st.lists(
    st.builds(
        lambda topic, partition, key, value, at: (topic, partition, key, value, at),
        st.sampled_from(["a", "b"]),
        st.integers(0, 2),
        st.none() | st.binary(max_size=2),
        st.none() | st.binary(max_size=2),
        st.integers(-1, 2**62),
    ),
    max_size=40,
)


@given(messages)
def test_batching_equals_its_slow_twin_for_any_mixture_of_partitions_and_kinds_of_stores(drawn):
    made = [Message(t, p, offset * 3, k, v, timestamp=(1, at)) for offset, (t, p, k, v, at) in enumerate(drawn)]
    writes, reached = {}, {}
    for message in made:
        at = TopicPartition(message.topic(), message.partition())
        writes.setdefault(at, [])
        if message.key() is not None:
            value = message.value()
            bare = value is None or message.topic() == "a"
            writes[at].append((message.key(), value if bare else stamped(value, message.timestamp()[1])))
        reached[at] = message.offset() + 1
    assert _by_partition(made, frozenset({"b"})) == (writes, reached)


def test_reads_what_a_plain_consumer_reads(broker, admin, reader):
    topic = new_topic(admin, 3)
    for partition in range(3):
        put(broker, TopicPartition(topic, partition), [*records(3000), (b"k1", None), (None, b"no key"), (b"", b"")])
    twin = {TopicPartition(topic, partition): [] for partition in range(3)}
    plain = Consumer({"bootstrap.servers": broker, "group.id": "twin"})
    plain.assign([ClientPartition(topic, partition, 0) for partition in range(3)])
    for _ in range(3 * 3003):
        message = plain.poll(PATIENCE_S)
        if message.key() is not None:
            twin[TopicPartition(topic, message.partition())].append((message.key(), message.value()))
    plain.close()
    reader.add(dict.fromkeys(twin, 0))
    collected = Collected(reader).until_next(dict.fromkeys(twin, 3003))
    assert collected.writes == twin


def test_headers_whose_name_is_not_utf8_are_no_obstacle_and_refused_where_there_may_be_none(broker, admin):
    at = TopicPartition(new_topic(admin, 1), 0)
    put_with_headers(broker, at, [(b"a", []), (b"b", [(NotUtf8("bad"), b"1")]), (b"c", [("c", b"1")])])
    reader = ConfluentChangelogReader(broker, group_id="g", admin=admin)
    reader.add({at: 0})
    keys = []
    until(lambda: keys.extend(k for batch in reader.poll(0.2) for k, _ in batch.writes), lambda _: len(keys) == 3)
    assert keys == [b"a", b"b", b"c"]
    reader.close()
    bare = ConfluentChangelogReader(broker, group_id="g", admin=admin, bare={at.topic: "totals"})
    bare.add({at: 0})
    with pytest.raises(ConfigError, match=r"'totals': .* has records with headers \(.*a name that is not UTF-8.*\)"):
        until(lambda: bare.poll(0.2), bool)
    bare.close()


def test_records_with_headers_are_refused_where_there_may_be_none(broker, admin):
    totals, other = (new_topic(admin, 1) for _ in range(2))
    reader = ConfluentChangelogReader(broker, group_id="g", admin=admin, bare={totals: "totals"})
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 0})

    def write(topic, headers):
        producer.produce(topic, b"value", b"key", 0, headers=headers)
        assert producer.flush(PATIENCE_S) == 0

    write(other, [("origin", b"here")])
    write(totals, None)
    write(totals, [("v", b"\0"), ("c", b"")])
    at, elsewhere = TopicPartition(totals, 0), TopicPartition(other, 0)
    reader.add({at: 0, elsewhere: 0})
    Collected(reader).until_next({at: 2, elsewhere: 1})
    write(totals, [("origin", b"here")])
    with pytest.raises(ConfigError, match=rf"store 'totals': {totals} has records with headers \(origin\)"):
        until(lambda: reader.poll(0.2), lambda _: False)
    reader.close()


def test_the_buffer_of_a_java_suppression_is_refused_at_its_first_record(broker, admin):
    """Java writes only the version beside a buffered value, and nothing beside a tombstone."""
    at = TopicPartition(new_topic(admin, 1), 0)
    put_with_headers(broker, at, [(b"a", []), (b"b", [("v", b"\3")])])
    reader = ConfluentChangelogReader(broker, group_id="g", admin=admin, bare={at.topic: "late-store"})
    reader.add({at: 0})
    with pytest.raises(ConfigError, match=r"store 'late-store': .* the buffer of a suppression"):
        until(lambda: reader.poll(0.2), lambda _: False)
    reader.close()


def test_starts_where_it_is_told(broker, admin, reader):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, records(10))
    reader.add({at: 7})
    assert Collected(reader).until_next({at: 10}).writes[at] == records(3, start=7)


def test_one_record_comes_at_once_and_not_when_a_batch_is_full_or_the_timeout_over(broker, admin, reader):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, records(1))
    reader.add({at: 0})
    started = time.monotonic()
    assert [batch.writes for batch in reader.poll(PATIENCE_S)] == [records(1)]
    assert time.monotonic() - started < PATIENCE_S / 4


def test_an_end_that_is_known_is_no_news_and_poll_waits_its_time_out(broker, admin, reader):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, records(2))
    reader.add({at: 2})
    started = time.monotonic()
    assert reader.poll(0.7) == []
    assert time.monotonic() - started >= 0.69


def test_poll_waits_when_nothing_is_read(reader):
    started = time.monotonic()
    assert reader.poll(0.3) == []
    assert time.monotonic() - started >= 0.29


def test_next_offset_passes_a_transaction_marker_at_the_end(broker, admin, reader):
    at = TopicPartition(new_topic(admin, 1), 0)
    producer = transactional(broker)
    producer.begin_transaction()
    producer.produce(at.topic, b"v", b"k", at.partition)
    producer.commit_transaction()
    reader.add({at: 0})
    assert Collected(reader).until_next({at: 2}).writes[at] == [(b"k", b"v")]
    assert admin.bounds([at], PATIENCE_S) == {at: (0, 2)}  # not before: the marker comes after the commit's answer


def test_read_committed_waits_for_an_open_transaction_and_passes_over_an_aborted_one(broker, admin):
    at = TopicPartition(new_topic(admin, 1), 0)
    producer = transactional(broker)
    reader = ConfluentChangelogReader(broker, group_id="g", admin=admin, read_committed=True)
    put(broker, at, records(1))
    producer.begin_transaction()
    producer.produce(at.topic, b"aborted", b"k", at.partition)
    producer.flush()
    reader.add({at: 0})
    collected = Collected(reader).until_next({at: 1})
    assert reader.bounds([at])[at][:2] == (0, 2)
    producer.abort_transaction()
    assert collected.until_next({at: 3}).writes[at] == records(1)
    reader.close()


def test_next_offset_passes_what_compaction_took_away():
    """The cleaner leaves holes, and of a batch that lost all its records only the offsets."""
    with LocalBroker(settings={"log.cleaner.backoff.ms": "50"}) as own:
        broker = own.bootstrap_servers
        admin = ClusterAdmin(broker)
        eager = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "50", "delete_retention_ms": "0"}
        at = TopicPartition(new_topic(admin, 1, cleanup_policy="compact", **eager), 0)
        newest = {}

        def write_more():
            # Each write rolls a segment that has become old; what lies behind it can be compacted.
            put(broker, at, [(b"k%d" % (number % 3), b"v%d" % number) for number in range(30)])
            reader = ConfluentChangelogReader(broker, group_id="g", admin=admin)
            end = admin.end_offsets([at], PATIENCE_S)
            reader.add({at: 0})
            collected = Collected(reader).until_next(end)
            reader.close()
            newest.update(collected.writes[at])
            return len(collected.writes[at]), end[at]

        read, end = until(write_more, lambda seen: seen[0] < seen[1] - 30)
        assert read < end - 30
        assert newest == {b"k0": b"v27", b"k1": b"v28", b"k2": b"v29"}


def test_partitions_come_and_go_while_the_others_read_on(broker, admin, reader):
    topic = new_topic(admin, 4)
    staying, moving = TopicPartition(topic, 0), [TopicPartition(topic, number) for number in (1, 2, 3)]
    for at in moving:
        put(broker, at, records(500))
    reader.add({staying: 0})
    collected, written = Collected(reader), 0
    for turn in range(15):
        at = moving[turn % 3]
        reader.add({at: turn})
        put(broker, staying, records(50, start=written))
        written += 50
        for gone in (collected.writes, collected.next):
            gone.pop(at, None)
        collected.until_next({staying: written, at: 500})
        assert collected.writes[at] == records(500 - turn, start=turn)
        reader.remove([at])
    assert collected.writes[staying] == records(written)


def test_a_partition_that_is_added_again_goes_on_from_its_new_offset(broker, admin, reader):
    at = TopicPartition(new_topic(admin, 1), 0)
    put(broker, at, records(100))
    reader.add({at: 0})
    Collected(reader).until_next({at: 100})
    reader.add({at: 40})
    assert Collected(reader).until_next({at: 100}).writes[at] == records(60, start=40)


def test_nothing_comes_of_a_partition_that_was_removed(broker, admin, reader):
    at, other = (TopicPartition(new_topic(admin, 1), 0) for _ in range(2))
    put(broker, at, records(1000))
    put(broker, other, records(1))
    reader.add({at: 0})
    reader.poll(PATIENCE_S)
    reader.remove([at, at])
    reader.add({other: 0})
    assert at not in Collected(reader).until_next({other: 1}).next


@pytest.mark.parametrize("asked", [2, 99])
def test_an_offset_that_is_gone_or_never_was_is_told_once_and_not_read(broker, admin, reader, asked):
    at, other = (TopicPartition(new_topic(admin, 1), 0) for _ in range(2))
    put(broker, at, records(10))
    raw = AdminClient({"bootstrap.servers": broker})
    for future in raw.delete_records([ClientPartition(at.topic, 0, 5)]).values():
        future.result()
    reader.add({at: asked, other: 0})
    [batch] = until(lambda: reader.poll(0.2), bool)
    assert batch == ChangelogBatch(at, [], asked, in_range=False)
    assert reader._feed._read == {other}
    put(broker, other, records(1))
    assert at not in Collected(reader).until_next({other: 1}).next
    reader.add({at: reader.bounds([at])[at].first})
    assert Collected(reader).until_next({at: 10}).writes[at] == records(5, start=5)


def test_a_partition_that_does_not_exist_brings_nothing_and_has_no_bounds(reader):
    missing = TopicPartition("no-such-changelog", 3)
    reader.add({missing: 0})
    assert reader.poll(0.5) == []
    assert reader.bounds([missing]) == {}


def test_a_source_topic_with_a_pending_offset_waits_alone_and_goes_on_when_it_is_committed(broker, admin):
    source, changelog = new_topic(admin, 3), TopicPartition(new_topic(admin, 1), 0)
    of_source = [TopicPartition(source, number) for number in range(3)]
    group = f"g-{uuid4().hex}"
    offsets = CommittedOffsets(broker, None, group_id=group, stable=True)
    limits = SourceLimits({source}, lambda asked: offsets.read(asked, 1))
    reader = ConfluentChangelogReader(broker, group_id=group, admin=admin, limits=limits)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    producer = transactional(broker)
    assert offsets.read(of_source, PATIENCE_S) == {}, "the coordinator is there"
    producer.begin_transaction()
    pending = ClientPartition(*of_source[1], 7)
    producer.send_offsets_to_transaction([pending], consumer.consumer_group_metadata(), PATIENCE_S)

    def look():
        bounds = reader.bounds([*of_source, changelog])
        assert bounds.keys() == {*of_source, changelog}
        assert bounds[changelog][:2] == (0, 0), "other changelogs never wait for it"
        return [at for at, its in bounds.items() if its is None], {at: its and its.limit for at, its in bounds.items()}

    waiting, limit = until(look, lambda answer: len(answer[0]) == 1)
    assert waiting == [of_source[1]]
    assert limit == {of_source[0]: 0, of_source[1]: None, of_source[2]: 0, changelog: None}
    producer.commit_transaction(PATIENCE_S)
    waiting, limit = until(look, lambda answer: not answer[0])
    assert limit == {of_source[0]: 0, of_source[1]: 7, of_source[2]: 0, changelog: None}
    for each in (offsets, reader, consumer):
        each.close()


class Bounded:
    """An admin client whose partitions all have a leader, and end at 10."""

    def bounds_and_ids(self, partitions, _timeout_s, _leader_timeout_s):
        return dict.fromkeys(partitions, (0, 10)), {}


def limited(committed):
    """A reader without a broker; ``committed`` answers about the source topic ``s``."""
    limits = SourceLimits({"s"}, committed)
    return ConfluentChangelogReader(closed_port(), group_id="g", admin=Bounded(), limits=limits)


def test_pending_offsets_delay_the_others_by_few_questions():
    """A question about a pending offset takes its whole time-out."""
    of_source, changelog = [TopicPartition("s", number) for number in range(4)], TopicPartition("c", 0)
    pending, questions = {of_source[0], of_source[2]}, []

    def committed(asked):
        questions.append([at.partition for at in asked])
        if pending.intersection(asked):
            raise BrokerUnavailable("an open transaction")
        return dict.fromkeys(asked, 5)

    def waiting():
        questions.clear()
        bounds = reader.bounds([*of_source, changelog])
        assert bounds[changelog] == (0, 10, None, None)
        assert {its.limit for at, its in bounds.items() if its is not None and at != changelog} <= {5}
        return [at.partition for at, its in bounds.items() if its is None]

    reader = limited(committed)
    assert (waiting(), questions) == ([0, 1, 2, 3], [[0, 1, 2, 3], [0]])
    assert (waiting(), questions) == ([0, 2, 3], [[1], [2]])
    assert (waiting(), questions) == ([0, 2], [[1], [3], [0]])
    assert (waiting(), questions) == ([0, 2], [[1, 3], [2]])
    pending.clear()
    assert (waiting(), questions) == ([], [[1, 3], [0], [2]])
    assert (waiting(), questions) == ([], [[0, 1, 2, 3]])
    reader.close()


def test_a_partition_that_is_at_its_limit_and_out_of_range_is_not_read_on(monkeypatch):
    at, limit = TopicPartition("s", 0), {}
    reader = limited(lambda asked: dict.fromkeys(asked, limit["at"]))
    limit["at"] = 5
    reader.bounds([at])
    reader.add({at: 3})
    monkeypatch.setattr(reader._feed, "take", lambda *_: Taken([], {at: 5}, {at: 3}))
    assert reader.poll(0) == [ChangelogBatch(at, [], 3, in_range=False)]
    limit["at"] = 8
    assert reader.bounds([at]) == {at: (0, 10, None, 8)}
    assert reader._feed._read == set()
    reader.close()


def event(code, topic="t"):
    return Message(topic, 3, 7, error=KafkaError(code, "as the broker put it"))


def test_what_waiting_does_not_mend_is_an_error_that_names_the_partition_after_the_records(reader):
    record = Message("t", 3, 6, b"k", b"v")
    taken = reader._feed._without_events([record, event(KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    assert taken.messages == [record]
    with pytest.raises(BrokerError, match="read t-3: as the broker put it"):
        reader.poll(0.1)
    assert reader.poll(0.1) == []


def test_what_passes_by_itself_is_waited_out(reader):
    record = Message("t", 3, 7, b"k", b"v")
    taken = reader._feed._without_events([event(KafkaError._TRANSPORT), record, event(KafkaError._ALL_BROKERS_DOWN)])
    assert (taken.messages, taken.ends, taken.out_of_range) == ([record], {}, {})


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.INCONSISTENT_TOPIC_ID])
def test_a_fetch_that_failed_at_the_broker_is_logged_once_and_read_on(reader, caplog, code):
    """As by Java's ``FetchCollector``; librdkafka fetches again by itself."""
    topic, record = f"t-{uuid4().hex}", Message("t", 3, 7, b"k", b"v")
    taken = reader._feed._without_events([event(code, topic), record, event(code, topic)])
    assert (taken.messages, taken.ends, taken.out_of_range) == ([record], {}, {})
    assert reader.poll(0.1) == []
    (line,) = (line for line in caplog.messages if topic in line)
    assert "as the broker put it" in line
    assert "fetches again" in line


def test_a_broker_out_of_reach_brings_nothing_and_blocks_no_longer_than_asked():
    address = closed_port()
    reader = ConfluentChangelogReader(address, group_id="g", admin=ClusterAdmin(address))
    started = time.monotonic()
    reader.add({TopicPartition("t", 0): 0, TopicPartition("u", 0): 0})
    assert reader.poll(0.2) == []
    reader.close()
    assert time.monotonic() - started < 15
