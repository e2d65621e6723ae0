"""The consumer protocol: Kafka's own bytes, the laws of every codec, and hostile input."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_consumer_assignment,
    decode_consumer_subscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)
from kstreams_assign.wire.compile import layout
from tests.wire.golden import kafka_cases
from tests.wire.strategies import consumer_assignments, consumer_subscriptions, unhurried
from tests.wire.twin import read_record, rows_of

CODECS = {
    "consumer_subscription": (decode_consumer_subscription, encode_consumer_subscription),
    "consumer_assignment": (decode_consumer_assignment, encode_consumer_assignment),
}
MESSAGES = {
    "consumer_subscription": "ConsumerProtocolSubscription",
    "consumer_assignment": "ConsumerProtocolAssignment",
}
each_kind = pytest.mark.parametrize("kind", CODECS)
each_case = pytest.mark.parametrize(
    "case", [case for kind in CODECS for case in kafka_cases(kind)], ids=lambda case: case["kind"]
)
FULL = ConsumerSubscription(3, ("a", "b"), b"x", (TopicPartition("b", 2), TopicPartition("a", 1)), 7, "rack")


def words(value):
    """Return a value in the form of ``KafkaVectors.java``."""
    fields = asdict(value)
    fields |= {name: [list(partition) for partition in fields[name]] for name in fields if name.endswith("_partitions")}
    fields["user_data"] = None if value.user_data is None else value.user_data.hex()
    return fields | ({"topics": list(fields["topics"])} if "topics" in fields else {})


@each_case
def test_kafkas_bytes_read_as_kafka_reads_them(case):
    decode, _ = CODECS[case["kind"]]
    assert words(decode(bytes.fromhex(case["hex"]))) == case["java_reads"]


@each_case
def test_kafkas_bytes_are_written_again_unchanged(case):
    decode, encode = CODECS[case["kind"]]
    assert encode(decode(bytes.fromhex(case["hex"]))).hex() == case["hex"]


@each_case
def test_the_engine_reads_what_its_twin_reads(case):
    data, message = bytes.fromhex(case["hex"]), MESSAGES[case["kind"]]
    record, end = layout(message, case["java_reads"]["version"]).read(data)
    twin, rest = read_record(message, case["java_reads"]["version"], data)
    assert {name: rows_of(value) for name, value in record.items()} == twin
    assert (end, rest) == (len(data), b"")


@given(st.integers(0, 3).flatmap(consumer_subscriptions))
@unhurried
def test_every_subscription_survives_a_round_trip(value):
    assert decode_consumer_subscription(encode_consumer_subscription(value)) == value


@given(consumer_assignments)
@unhurried
def test_every_assignment_survives_a_round_trip(value):
    assert decode_consumer_assignment(encode_consumer_assignment(value)) == value


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 3000])
def test_any_number_of_partitions_survives_a_round_trip(count):
    value = ConsumerAssignment(1, tuple(TopicPartition("t", n) for n in range(count)), b"")
    assert decode_consumer_assignment(encode_consumer_assignment(value)) == value


def test_partitions_are_grouped_by_topic_where_it_first_appears():
    a, b, c = TopicPartition("b", 1), TopicPartition("a", 1), TopicPartition("b", 0)
    assert decode_consumer_assignment(encode_consumer_assignment(ConsumerAssignment(1, (a, b, c)))) == (
        ConsumerAssignment(1, (a, c, b))
    )


@each_kind
def test_a_later_version_is_read_as_the_newest_known_version(kind):
    """Kafka promises that later versions only append fields."""
    decode, encode = CODECS[kind]
    value = FULL if kind == "consumer_subscription" else ConsumerAssignment(3, FULL.owned_partitions, b"x")
    later = (9).to_bytes(2, "big") + encode(value)[2:] + b"a field that we do not know"
    assert decode(later) == replace(value, version=9)
    with pytest.raises(ConfigError, match="version 9 is not one of 0-3"):
        encode(decode(later))


@pytest.mark.parametrize(
    "wrong",
    [
        {"generation_id": 2**31},
        {"rack_id": "r" * 40_000},
        {"topics": ("t" * 40_000,)},
        {"owned_partitions": (TopicPartition("t", 2**31),)},
    ],
)
def test_a_value_too_large_for_its_field_is_a_config_error(wrong):
    with pytest.raises(ConfigError, match=f"version 3: {next(iter(wrong))} cannot hold"):
        encode_consumer_subscription(replace(FULL, **wrong))


@each_case
def test_cut_and_overwritten_bytes_are_refused_or_read(case):
    decode, _ = CODECS[case["kind"]]
    whole = bytes.fromhex(case["hex"])
    assert all(refused(decode, whole[:end]) for end in range(len(whole)))
    for at in range(min(len(whole), 200)):
        for length in (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\xff\xfe"):
            refused(decode, whole[:at] + length + whole[at + len(length) :])


@each_kind
@given(rest=st.binary(max_size=80), version=st.integers(-2, 5))
@unhurried
def test_any_bytes_are_refused_or_read(kind, rest, version):
    refused(CODECS[kind][0], version.to_bytes(2, "big", signed=True) + rest)


def test_a_negative_version_is_refused():
    with pytest.raises(MalformedUserData, match="version at byte 2: -1 is below 0"):
        decode_consumer_subscription(b"\xff\xff" + encode_consumer_subscription(FULL)[2:])


def refused(decode, data: bytes) -> bool:
    """Return whether these bytes are refused; any other error fails the test."""
    try:
        decode(data)
    except MalformedUserData as error:
        return " at byte " in str(error)
    return False
