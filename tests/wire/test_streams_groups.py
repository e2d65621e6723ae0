"""Messages and records of streams groups: Kafka's own bytes, the laws of every codec, and hostile input."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import TaskId
from kstreams_assign.wire.compile import holds, layout
from kstreams_assign.wire.fields import TAGGED
from kstreams_assign.wire.schemas import schema_text
from kstreams_assign.wire.streams_describe import (
    StreamsDescribeRequest,
    StreamsDescribeResponse,
    decode_streams_describe_request,
    decode_streams_describe_response,
    encode_streams_describe_request,
    encode_streams_describe_response,
)
from kstreams_assign.wire.streams_heartbeat import (
    StreamsHeartbeatRequest,
    StreamsHeartbeatResponse,
    decode_streams_heartbeat_request,
    decode_streams_heartbeat_response,
    encode_streams_heartbeat_request,
    encode_streams_heartbeat_response,
)
from kstreams_assign.wire.streams_records import (
    CURRENT_MEMBER,
    GROUP,
    MEMBER,
    TARGET,
    TARGET_MEMBER,
    TOPOLOGY,
    StreamsCurrentTasks,
    StreamsGroupMetadata,
    StreamsGroupTopology,
    StreamsKey,
    StreamsMemberMetadata,
    StreamsTargetMetadata,
    StreamsTargetTasks,
    decode_streams_key,
    decode_streams_value,
    encode_streams_key,
    encode_streams_value,
)
from kstreams_assign.wire.streams_structs import TaskIds, task_ids, tasks_of
from tests.wire.golden import GOLDEN
from tests.wire.strategies import texts, unhurried
from tests.wire.twin import read_record, rows_of

CASES = [json.loads(line) for line in (GOLDEN / "streams.jsonl").read_text(encoding="utf-8").splitlines()]
MESSAGES = {
    "StreamsGroupHeartbeatRequest": (
        StreamsHeartbeatRequest,
        decode_streams_heartbeat_request,
        encode_streams_heartbeat_request,
    ),
    "StreamsGroupHeartbeatResponse": (
        StreamsHeartbeatResponse,
        decode_streams_heartbeat_response,
        encode_streams_heartbeat_response,
    ),
    "StreamsGroupDescribeRequest": (
        StreamsDescribeRequest,
        decode_streams_describe_request,
        encode_streams_describe_request,
    ),
    "StreamsGroupDescribeResponse": (
        StreamsDescribeResponse,
        decode_streams_describe_response,
        encode_streams_describe_response,
    ),
}
RECORDS = {
    "StreamsGroupMetadata": (GROUP, StreamsGroupMetadata),
    "StreamsGroupMemberMetadata": (MEMBER, StreamsMemberMetadata),
    "StreamsGroupTargetAssignmentMetadata": (TARGET, StreamsTargetMetadata),
    "StreamsGroupTargetAssignmentMember": (TARGET_MEMBER, StreamsTargetTasks),
    "StreamsGroupCurrentMemberAssignment": (CURRENT_MEMBER, StreamsCurrentTasks),
    "StreamsGroupTopology": (TOPOLOGY, StreamsGroupTopology),
}
SHORT = [case for case in CASES if len(case["hex"]) < 2_000]


def name(case) -> str:
    return f"{case['message']} {case['version']}"


each_case = pytest.mark.parametrize("case", CASES, ids=name)
each_short_case = pytest.mark.parametrize("case", SHORT, ids=name)


def version_in_schema(case) -> int:
    """Return the version of the layout: that of a key is the type of its record."""
    return RECORDS[case["message"].removesuffix("Key")][0] if case["message"].endswith("Key") else case["version"]


def decode(case, data: bytes):
    message = case["message"]
    if message in MESSAGES:
        return MESSAGES[message][1](data, case["version"])
    if message.endswith("Key"):
        return decode_streams_key(data)
    return decode_streams_value(RECORDS[message.removesuffix("Value")][0], data)


def encode(case, value) -> bytes:
    message = case["message"]
    if message in MESSAGES:
        return MESSAGES[message][2](value, case["version"])
    return encode_streams_key(value) if message.endswith("Key") else encode_streams_value(value)


def as_java_names(value):
    """Return a record by rows in the form of Kafka's JSON converters: tagged fields stand among the others."""
    if isinstance(value, list):
        return [as_java_names(part) for part in value]
    if not isinstance(value, dict):
        return value
    flat = {key: part for key, part in value.items() if key != "tagged_fields"} | value.get("tagged_fields", {})
    return {camel(key): as_java_names(part) for key, part in flat.items() if key not in ("type", "version")}


def camel(text: str) -> str:
    first, *rest = text.split("_")
    return first + "".join(part.capitalize() for part in rest)


def test_the_vectors_hold_every_schema_in_every_version():
    counted = {(case["message"], case["version"]) for case in CASES}
    assert counted >= {(message, version) for message in MESSAGES for version in (0, 1)}
    assert counted >= {(f"{record}{part}", 0) for record in RECORDS for part in ("Key", "Value")}


@each_case
def test_kafkas_bytes_read_as_kafka_reads_them(case):
    record, end = layout(case["message"], version_in_schema(case)).read(bytes.fromhex(case["hex"]))
    assert as_java_names(rows_of(record)) == case["java_reads"]
    assert 2 * end == len(case["hex"])


@each_case
def test_the_engine_reads_what_its_twin_reads(case):
    data = bytes.fromhex(case["hex"])
    record, _ = layout(case["message"], version_in_schema(case)).read(data)
    twin, rest = read_record(case["message"], version_in_schema(case), data)
    assert rows_of(record) == twin
    assert rest == b""


@each_case
def test_kafkas_bytes_are_written_again_unchanged(case):
    assert encode(case, decode(case, bytes.fromhex(case["hex"]))).hex() == case["hex"]


@each_case
def test_trailing_bytes_are_not_read(case):
    data = bytes.fromhex(case["hex"])
    assert decode(case, data + b"more") == decode(case, data)


def struct_values(schema, version: int):
    """Return records of a schema by rows, as the twin reads them."""
    structs = {shared["name"]: shared["fields"] for shared in schema.get("commonStructs", ())}
    flexible = holds(schema["flexibleVersions"], version)

    def struct(fields):
        held = [field for field in fields if holds(field["versions"], version)]
        plain = {field["name"]: value(field) for field in held if "tag" not in field}
        if not flexible:
            return st.fixed_dictionaries(plain)
        known = {field["name"]: value(field) for field in held if "tag" in field}
        unknown = {tag: st.binary(max_size=3) for tag in (9, 300)}
        return st.fixed_dictionaries(plain | {TAGGED: st.fixed_dictionaries({}, optional=known | unknown)})

    def value(field):
        kind = field["type"]
        values = {"type": st.just(version), "version": st.just(version)}.get(field["name"])
        if values is None:
            values = st.lists(single(kind[2:]), max_size=2) if kind.startswith("[]") else single(kind)
        return st.none() | values if holds(field.get("nullableVersions", "none"), version) else values

    def single(kind):
        return struct(structs[kind]) if kind in structs else SINGLE[kind]

    return struct(schema["fields"])


def signed(bits: int):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SINGLE = {f"int{bits}": signed(bits) for bits in (8, 16, 32, 64)} | {
    "bool": st.booleans(),
    "uint16": st.integers(0, 65_535),
    "string": texts,
}


def columns_of(rows, fields, structs):
    """Return a record by rows as the engine takes it: arrays of structs as columns."""
    by_name = {field["name"]: field for field in fields}

    def part(name, value):
        if name == TAGGED:
            return {tag: part(tag, held) for tag, held in value.items()}
        kind = by_name[name]["type"] if name in by_name else ""
        if value is None or kind.removeprefix("[]") not in structs:
            return value
        inner = structs[kind.removeprefix("[]")]
        if not kind.startswith("[]"):
            return columns_of(value, inner, structs)
        records = [columns_of(row, inner, structs) for row in value]
        names = [field["name"] for field in inner if "tag" not in field] + [TAGGED]
        return {name: [record[name] for record in records if name in record] for name in names}

    return {name: part(name, value) for name, value in rows.items()}


SCHEMAS = [
    pytest.param(case["message"], version_in_schema(case), case, id=name(case))
    for case in {(case["message"], case["version"]): case for case in CASES}.values()
]


@pytest.mark.parametrize(("message", "version", "case"), SCHEMAS)
@given(data=st.data())
@unhurried
def test_every_record_and_value_survives_a_round_trip(message, version, case, data):
    schema = json.loads(schema_text(message))
    structs = {shared["name"]: shared["fields"] for shared in schema.get("commonStructs", ())}
    rows = data.draw(struct_values(schema, version))
    blob = layout(message, version).write(columns_of(rows, schema["fields"], structs))
    assert rows_of(layout(message, version).read(blob)[0]) == rows
    assert read_record(message, version, blob) == (rows, b"")
    value = decode(case, blob)
    assert decode(case, encode(case, value)) == value


@each_short_case
def test_bytes_that_end_early_get_the_one_error(case):
    data = bytes.fromhex(case["hex"])
    for end in range(len(data)):
        with pytest.raises(MalformedUserData, match=r"at byte \d+"):
            decode(case, data[:end])


@each_case
@given(
    position=st.integers(0),
    hostile=st.sampled_from([b"\xff\xff\xff\xff\x07", b"\xff", b"\x80" * 9, b"\x7f\xff", b"\0"]),
)
@unhurried
def test_hostile_numbers_get_the_one_error_or_a_value(case, position, hostile):
    data = bytearray.fromhex(case["hex"])
    at = position % len(data)
    data[at : at + len(hostile)] = hostile
    try:
        value = decode(case, bytes(data))
    except MalformedUserData:
        return
    if value is not None:  # the key of another record
        assert decode(case, encode(case, value)) == value


def test_a_huge_length_costs_no_memory():
    claimed = b"\x02" + b"\xff\xff\xff\xff\x07" * 40
    tracemalloc.start()
    with pytest.raises(MalformedUserData, match="a length of 2147483646 is impossible"):
        decode_streams_describe_response(b"\0\0\0\0" + claimed[1:], 0)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("message", MESSAGES)
def test_another_version_is_a_config_error(message):
    _, read, write = MESSAGES[message]
    case = next(case for case in CASES if case["message"] == message and case["version"] == 0)
    value = read(bytes.fromhex(case["hex"]), 0)
    for version in (2, -1):
        with pytest.raises(ConfigError, match=f"{message} version {version} is not one of 0-1"):
            write(value, version)
        with pytest.raises(ConfigError, match=f"{message} version {version} is not one of 0-1"):
            read(b"", version)


@pytest.mark.parametrize("kind", [kind for kind, _ in RECORDS.values()])
def test_a_record_of_another_version_is_refused(kind):
    with pytest.raises(MalformedUserData, match="version at byte 2: 7 is not one of 0"):
        decode_streams_value(kind, b"\0\x07rest")


def test_the_key_of_another_record_is_not_read():
    assert decode_streams_key(b"\0\x02\0\x01g") is None
    assert decode_streams_key(b"\0\x12rest") is None
    assert decode_streams_key(b"\0\x11\0\x01g") == StreamsKey(GROUP, "g")
    assert decode_streams_key(b"\0\x13\0\x01g\0\x01m") == StreamsKey(MEMBER, "g", "m")


@pytest.mark.parametrize(
    "wrong", [{"member_epoch": 2**31}, {"group_id": None}, {"group_id": "g" * 32_768}, {"rebalance_timeout_ms": None}]
)
def test_a_value_that_its_field_cannot_hold_is_named(wrong):
    value = replace(StreamsHeartbeatRequest("g", "m", 0), **wrong)
    with pytest.raises(ConfigError, match=f"version 0: {next(iter(wrong))} cannot hold this value"):
        encode_streams_heartbeat_request(value, 0)


def test_tasks_become_rows_by_subtopology_and_come_back():
    tasks = frozenset({TaskId(1, 3), TaskId(0, 2), TaskId(1, 0), TaskId(11, 5)})
    assert task_ids(tasks) == (TaskIds("0", (2,)), TaskIds("1", (0, 3)), TaskIds("11", (5,)))
    assert tasks_of(task_ids(tasks)) == tasks
    assert task_ids(()) == ()


@pytest.mark.parametrize("name", ["", "orders", "-1", "\u0663", "1.0"])
def test_a_subtopology_id_that_is_not_a_number_is_refused(name):
    with pytest.raises(MalformedUserData, match="is not a number"):
        tasks_of((TaskIds(name, (0,)),))


@pytest.mark.parametrize("digits", [11, 5_000], ids=["more than an int32 has", "more than int() reads"])
def test_a_subtopology_id_of_too_many_digits_is_refused(digits):
    with pytest.raises(MalformedUserData, match="is not a number"):
        tasks_of((TaskIds("9" * digits, (0,)),))
