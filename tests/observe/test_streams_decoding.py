"""The messages and records of streams groups as JSON: Kafka's own bytes, and damage."""

from __future__ import annotations

import json

import pytest

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.observe.decoding import KINDS, decode_bytes
from kstreams_assign.wire import (
    StreamsCurrentTasks,
    StreamsHeartbeatResponse,
    encode_streams_heartbeat_response,
    encode_streams_value,
)
from tests.wire.test_streams_groups import CASES

WORDS = {
    "StreamsGroupMetadataValue": "streams-group-metadata",
    "StreamsGroupMemberMetadataValue": "streams-member-metadata",
    "StreamsGroupTargetAssignmentMetadataValue": "streams-target-metadata",
    "StreamsGroupTargetAssignmentMemberValue": "streams-target-assignment",
    "StreamsGroupCurrentMemberAssignmentValue": "streams-current-assignment",
    "StreamsGroupTopologyValue": "streams-topology",
    "StreamsGroupHeartbeatRequest": "streams-heartbeat-request",
    "StreamsGroupHeartbeatResponse": "streams-heartbeat-response",
    "StreamsGroupDescribeRequest": "streams-describe-request",
    "StreamsGroupDescribeResponse": "streams-describe-response",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['message']} {case['version']}")
def test_kafkas_bytes_are_decoded_as_what_they_are(case):
    kind = WORDS.get(case["message"], "offsets-key")
    decoded = decode_bytes(kind, bytes.fromhex(case["hex"]))
    assert decoded["message"] == case["message"]
    assert json.loads(json.dumps(decoded)) == decoded
    if kind != "offsets-key":
        assert case["version"] in (decoded["version"], *decoded.get("also_reads_as", ()))


def test_a_version_is_recognised_where_versions_differ():
    versions = {
        (case["message"], case["version"], decode_bytes(WORDS[case["message"]], bytes.fromhex(case["hex"]))["version"])
        for case in CASES
        if case["message"].endswith("HeartbeatResponse")
    }
    assert {(was, read) for _, was, read in versions} == {(0, 0), (1, 1)}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [4, 20_000])
def test_text_that_is_not_utf_8_is_decoded_in_the_version_that_it_has(version, size):
    """Each byte that is replaced takes three bytes as text, so long text cannot be written again."""
    response = StreamsHeartbeatResponse(0, 35, "x" * size, "m", 1, 2, 3, 4)
    data = encode_streams_heartbeat_response(response, version).replace(b"x" * size, b"\xff" * size)
    decoded = decode_bytes("streams-heartbeat-response", data)
    assert (decoded["version"], decoded["also_reads_as"]) == (version, [])
    assert (decoded["error_message"], decoded["task_offset_interval_ms"]) == ("\ufffd" * size, 3)


def test_every_word_of_streams_groups_is_a_kind():
    assert set(WORDS.values()) == {word for word in KINDS if word.startswith("streams-")}


def test_the_state_of_a_member_is_named():
    value = StreamsCurrentTasks(5, 4, 3, (), (), (), (), (), ())
    decoded = decode_bytes("streams-current-assignment", encode_streams_value(value))
    assert (decoded["state"], decoded["state_name"]) == (3, "UnreleasedTasks")


@pytest.mark.parametrize("kind", sorted(set(WORDS.values())))
def test_damage_is_the_one_error(kind):
    with pytest.raises(MalformedUserData):
        decode_bytes(kind, b"\0")
