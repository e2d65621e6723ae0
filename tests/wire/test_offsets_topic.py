"""The records of ``__consumer_offsets``: Kafka's own bytes, the laws of every codec, and hostile input."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict, replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.wire import (
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommit,
    OffsetCommitKey,
    OtherKey,
    StoredMember,
    decode_group_metadata,
    decode_offset_commit,
    decode_offsets_key,
    encode_group_metadata,
    encode_offset_commit,
    encode_offsets_key,
)
from kstreams_assign.wire.compact import read_varint, write_varint
from kstreams_assign.wire.compile import layout
from kstreams_assign.wire.primitives import Source
from tests.samples import sample
from tests.wire.golden import kafka_cases
from tests.wire.strategies import group_metadata, int32, offset_commits, texts, unhurried
from tests.wire.twin import read_record, rows_of

CODECS = {
    "offset_commit": (decode_offset_commit, encode_offset_commit),
    "group_metadata": (decode_group_metadata, encode_group_metadata),
}
MESSAGES = {"offset_commit": "OffsetCommitValue", "group_metadata": "GroupMetadataValue"}
each_key = pytest.mark.parametrize("case", kafka_cases("offsets_key"))
each_value = pytest.mark.parametrize(
    "case", [case for kind in CODECS for case in kafka_cases(kind)], ids=lambda case: case["kind"]
)
FULL = GroupMetadata(4, "consumer", 7, "stream", "m", (StoredMember("m", "c", "/h", 1, b"s", b"a"),), 5)


def words(value):
    """Return a value in the form of ``KafkaVectors.java``."""
    if isinstance(value, UUID):
        return [int.from_bytes(half, "big", signed=True) for half in (value.bytes[:8], value.bytes[8:])]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): words(part) for name, part in value.items()}
    return [words(part) for part in value] if isinstance(value, tuple) else value


@each_key
def test_kafkas_keys_are_distinguished(case):
    read, expected = decode_offsets_key(bytes.fromhex(case["hex"])), case["java_reads"]
    assert asdict(read) == expected
    assert type(read) is (OtherKey, GroupMetadataKey, OtherKey, OffsetCommitKey)[len(expected) - 1]


@each_key
def test_kafkas_keys_are_written_again_unchanged(case):
    key = decode_offsets_key(bytes.fromhex(case["hex"]))
    if not isinstance(key, OtherKey):
        assert encode_offsets_key(key).hex() == case["hex"]


def test_the_vectors_have_records_of_newer_groups():
    """KIP-848, KIP-932 and KIP-1071 write the types from 3 on."""
    others = {case["java_reads"]["type"] for case in kafka_cases("offsets_key")} - {0, 1, 2}
    assert len(others) > 15


@pytest.mark.parametrize("kind", [3, 17, 30_000, -1])
def test_an_unknown_type_is_an_other_key(kind):
    assert decode_offsets_key(kind.to_bytes(2, "big", signed=True) + b"anything") == OtherKey(kind)


@given(st.builds(OffsetCommitKey, texts, texts, int32, st.sampled_from([0, 1])) | st.builds(GroupMetadataKey, texts))
@unhurried
def test_every_key_survives_a_round_trip(key):
    assert decode_offsets_key(encode_offsets_key(key)) == key


def test_a_key_under_a_type_that_is_not_its_own_is_not_written():
    with pytest.raises(ConfigError, match="version 2 is not one of 0-1"):
        encode_offsets_key(OffsetCommitKey("g", "t", 0, type=2))


@each_value
def test_kafkas_values_read_as_kafka_reads_them(case):
    decode, _ = CODECS[case["kind"]]
    assert words(asdict(decode(bytes.fromhex(case["hex"])))) == case["java_reads"]


@each_value
def test_kafkas_values_are_written_again_unchanged(case):
    """Including unknown tagged fields."""
    decode, encode = CODECS[case["kind"]]
    assert encode(decode(bytes.fromhex(case["hex"]))).hex() == case["hex"]


@each_value
def test_the_engine_reads_what_its_twin_reads(case):
    data, message = bytes.fromhex(case["hex"]), MESSAGES[case["kind"]]
    record, end = layout(message, case["java_reads"]["version"]).read(data)
    twin, rest = read_record(message, case["java_reads"]["version"], data)
    assert {name: rows_of(value) for name, value in record.items()} == twin
    assert (end, rest) == (len(data), b"")


@given(st.integers(0, 4).flatmap(offset_commits))
@unhurried
def test_every_commit_survives_a_round_trip(value):
    assert decode_offset_commit(encode_offset_commit(value)) == value


@given(st.integers(0, 4).flatmap(group_metadata))
@unhurried
def test_every_group_survives_a_round_trip(value):
    assert decode_group_metadata(encode_group_metadata(value)) == value


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("version", [5, -1])
def test_another_version_is_refused_and_not_written(kind, version):
    decode, encode = CODECS[kind]
    value = FULL if kind == "group_metadata" else OffsetCommit(4, 1)
    with pytest.raises(MalformedUserData, match=f"version at byte 2: {version} is not one of 0-4"):
        decode(version.to_bytes(2, "big", signed=True) + encode(value)[2:])
    with pytest.raises(ConfigError, match=f"version {version} is not one of 0-4"):
        encode(replace(value, version=version))


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("wrong", [{"leader": "l" * 32_768}, {"generation": 2**31}])
def test_a_value_that_its_field_cannot_hold_is_a_config_error(version, wrong):
    with pytest.raises(ConfigError, match=f"version {version}: {next(iter(wrong))} cannot hold"):
        encode_group_metadata(replace(FULL, version=version, **wrong))


def test_null_is_not_written_for_a_required_string():
    with pytest.raises(ConfigError, match="protocol_type cannot hold this value: null"):
        encode_group_metadata(replace(FULL, protocol_type=None))


@given(st.integers(0, 2**31 - 1))
def test_varints_survive_a_round_trip_in_as_few_bytes_as_can_be(number):
    out = bytearray()
    write_varint(out, number)
    assert read_varint(Source(bytes(out), "m"), "f") == number
    assert len(out) == max(1, -(-number.bit_length() // 7))


@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff\xff\x08", b"\x80" * 6 + b"\0", b"\xff\xff\xff\xff\xff\xff", b"\x80", b""]
)
def test_a_varint_that_is_too_long_or_cut_is_refused(raw):
    with pytest.raises(MalformedUserData, match="m: f at byte"):
        read_varint(Source(raw, "m"), "f")


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (b"\1\0\x0f" + bytes(16), "tag 0 should end at byte"),
        (b"\1\0\x11" + bytes(17), "tag 0 should end at byte"),
        (b"\1\0\x10" + bytes(15), "needs 16 bytes"),
        (b"\1\x09\x09x", "needs 9 bytes"),
        (b"\x7f", "needs 1 bytes"),
    ],
)
def test_a_damaged_tagged_field_is_refused(tail, why):
    raw = encode_offset_commit(OffsetCommit(4, 1))
    assert raw.endswith(b"\0")
    with pytest.raises(MalformedUserData, match=why):
        decode_offset_commit(raw[:-1] + tail)


def test_null_for_a_required_string_is_refused():
    for version in range(5):
        raw = encode_group_metadata(GroupMetadata(version, "", 1))
        null = b"\0" if version == 4 else b"\xff\xff"
        with pytest.raises(MalformedUserData, match="protocol_type"):
            decode_group_metadata(raw[:2] + null + raw[2 + len(null) :])


@each_value
def test_cut_and_overwritten_bytes_are_refused_or_read(case):
    decode, _ = CODECS[case["kind"]]
    whole = bytes.fromhex(case["hex"])
    assert all(refused(decode, whole[:end]) for end in range(len(whole)))
    tracemalloc.start()
    try:
        for at in sample(range(len(whole)), 30):
            for length in (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x07", b"\xff\xfe"):
                refused(decode, whole[:at] + length + whole[at + len(length) :])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100 * len(whole) + 100_000


@given(st.sampled_from([decode_offsets_key, decode_offset_commit, decode_group_metadata]), st.binary(max_size=80))
@unhurried
def test_any_bytes_are_refused_or_read(decode, rest):
    for version in range(-1, 6):
        refused(decode, version.to_bytes(2, "big", signed=True) + rest)


def refused(decode, data: bytes) -> bool:
    """Return whether these bytes are refused; any other error fails the test."""
    try:
        decode(data)
    except MalformedUserData as error:
        return " at byte " in str(error)
    return False
