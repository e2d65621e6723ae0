"""Records whose checksum fails: neither reader brings them, or what lies behind them."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError, Message

from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, InputConsumer
from kstreams_assign.errors import BrokerError
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import closed_port, new_topic, put, until
from tests.adapters.damaged_log import damaged

BATCHES, DAMAGED = 6, 2


@pytest.fixture(scope="module")
def own(broker):  # noqa: ARG001  # the part
    with LocalBroker() as started:
        yield started


@pytest.fixture
def partitions(own):
    """Two partitions with a record in each batch; a batch of the first is damaged."""
    topic = new_topic(ClusterAdmin(own.bootstrap_servers), 2)
    bad, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for at in (bad, good):
        for number in range(BATCHES):
            put(own.bootstrap_servers, at, [(b"k%d" % number, b"value")])
    with damaged(own.data_dir, bad, DAMAGED):
        yield bad, good


def changelog_reader(own, client=None):
    servers = own.bootstrap_servers
    return ConfluentChangelogReader(servers, client, group_id="g", admin=ClusterAdmin(servers))


def test_a_changelog_ends_at_what_is_damaged_and_the_reason_comes_once_with_partition_and_offset(own, partitions):
    bad, good = partitions
    reader, batches = changelog_reader(own), []
    reader.add({bad: 0, good: 0})
    until(
        lambda: batches.extend(reader.poll(0.2)),
        lambda _: (
            any(b.unreadable for b in batches) and (good, BATCHES) in {(b.partition, b.next_offset) for b in batches}
        ),
    )
    assert reader.poll(0.5) == []
    reader.close()
    assert [key for b in batches if b.partition == bad for key, _ in b.writes] == [b"k0", b"k1"]
    assert [key for b in batches if b.partition == good for key, _ in b.writes] == [b"k%d" % n for n in range(BATCHES)]
    (last,) = [batch for batch in batches if batch.unreadable]
    assert (last.partition, last.writes, last.next_offset) == (bad, [], DAMAGED)
    assert re.match(
        rf"{bad} cannot be read from offset {DAMAGED} on: .* failed CRC32C check .*_BAD_MSG", last.unreadable
    )


def test_input_is_an_error_that_names_partition_and_offset_after_the_records_before(own, partitions):
    bad, good = partitions
    inputs, offsets = InputConsumer(own.bootstrap_servers, group_id="g"), {bad: [], good: []}
    inputs.add({bad: 0, good: 0})

    def poll():
        for at, records in inputs.poll(100, 0.2).items():
            offsets[at] += [record.offset for record in records]

    with pytest.raises(BrokerError, match=f"{bad} cannot be read from offset {DAMAGED} on: .* failed CRC32C check"):
        until(poll, lambda _: False)
    until(poll, lambda _: len(offsets[good]) == BATCHES)
    assert inputs.poll(10, 0.5) == {}
    inputs.close()
    assert offsets == {bad: [0, 1], good: list(range(BATCHES))}


def test_a_partition_is_read_on_where_it_is_added_again(own, partitions):
    bad, _ = partitions
    reader = changelog_reader(own)
    reader.add({bad: DAMAGED})
    (first,) = until(lambda: reader.poll(0.2), bool)
    assert first.unreadable
    reader.remove([bad])
    reader.add({bad: DAMAGED + 1})
    (rest,) = until(lambda: reader.poll(0.2), bool)
    reader.close()
    assert (rest.unreadable, rest.writes[0][0]) == ("", b"k%d" % (DAMAGED + 1))


def test_a_client_setting_lets_damaged_records_through(own, partitions):
    bad, _ = partitions
    reader, values = changelog_reader(own, {"check.crcs": "false"}), []
    reader.add({bad: 0})
    until(lambda: values.extend(v for b in reader.poll(0.2) for _, v in b.writes), lambda _: len(values) == BATCHES)
    reader.close()
    assert set(values) == {b"value", b"valud"}


@pytest.fixture
def alone():
    """A reader without a broker."""
    made = InputConsumer(closed_port(), group_id="g")
    yield made
    made.close()


AT = TopicPartition("t", 3)


def event(code, offset, at=AT):
    return Message(*at, offset, error=KafkaError(code, f"text of {code}"))


def record(offset, at=AT):
    return Message(*at, offset, b"k", b"v")


@pytest.mark.parametrize(
    "code", [KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG]
)
def test_the_first_error_of_a_partition_counts_and_nothing_behind_it(alone, code):
    """librdkafka reads on behind a batch that it cannot read, wherever its parser then stands."""
    other = record(0, TopicPartition("t", 4))
    taken = alone._feed._without_events(
        [
            record(6),
            event(code, 7),
            record(8),
            event(KafkaError._NOT_IMPLEMENTED, 1 << 61),
            event(KafkaError._AUTO_OFFSET_RESET, 1 << 61),
            other,
        ]
    )
    assert ([m.offset() for m in taken.messages], taken.messages[1], taken.out_of_range) == ([6, 0], other, {})
    with pytest.raises(BrokerError, match=f"t-3 cannot be read from offset 7 on: text of {code}"):
        alone.poll(1, 0)
    assert alone.poll(1, 0) == {}


def test_each_partition_has_an_error_of_its_own_and_one_that_left_has_none(alone):
    left, first, second = (TopicPartition("t", number) for number in range(3))
    alone._feed._without_events([event(KafkaError._BAD_MSG, 5, at) for at in (left, first, second)])
    alone.remove([left])
    for at in (first, second):
        with pytest.raises(BrokerError, match=f"{at} cannot be read from offset 5 on"):
            alone.poll(1, 0)
    assert alone.poll(1, 0) == {}


def test_of_several_faults_of_one_take_the_first_is_raised(alone):
    alone._feed._without_events(
        [event(KafkaError.TOPIC_AUTHORIZATION_FAILED, 0), event(KafkaError.GROUP_AUTHORIZATION_FAILED, 0)]
    )
    with pytest.raises(BrokerError, match=f"text of {KafkaError.TOPIC_AUTHORIZATION_FAILED}"):
        alone.poll(1, 0)
    assert alone.poll(1, 0) == {}
