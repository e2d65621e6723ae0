"""Any bytes of a group as JSON: every golden vector of Java's, every dialect, and damage."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import TaskId
from kstreams_assign.observe.decoding import decode_bytes
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    GroupMetadata,
    GroupMetadataKey,
    GroupTrailer,
    KipSubscription,
    MemberTrailer,
    OffsetCommit,
    OffsetCommitKey,
    StoredMember,
    SubscriptionInfo,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
    encode_kip_subscription,
    encode_offset_commit,
    encode_offsets_key,
    encode_subscription,
)
from tests.observe.seen_group import scaled_out
from tests.wire.golden import cases

PROCESS = UUID(int=5)
SUBSCRIPTION = SubscriptionInfo(11, 11, PROCESS, "h:1", {TaskId(0, 3): 7}, trailer=MemberTrailer({"sticky": 1}, "d"))


@pytest.mark.parametrize("kind", ["subscription", "assignment"])
def test_javas_bytes_are_apaches_in_every_version(kind):
    for case in cases(kind):
        decoded = decode_bytes(kind, bytes.fromhex(case["hex"]))
        assert (decoded["dialect"], decoded["version"]) == ("apache", case["request"]["version"])
        assert json.loads(json.dumps(decoded)) == decoded


def test_user_data_is_decoded_with_and_without_the_consumer_protocol_around_it():
    bare = encode_subscription(SUBSCRIPTION)
    around = encode_consumer_subscription(ConsumerSubscription(1, ("in",), bare))
    inner = decode_bytes("subscription", around)
    assert (inner["message"], inner["topics"]) == ("ConsumerProtocolSubscription", ["in"])
    assert inner["user_data"] == decode_bytes("subscription", bare)
    assert inner["user_data"]["task_offset_sums"] == {"0_3": 7}
    assert inner["user_data"]["trailer"] == {
        "assignors": {"sticky": 1},
        "settings_digest": "d",
        "draining": False,
        "restarting": False,
        "awaited": None,
        "generation": None,
        "exactly_once": False,
        "balance_by": "tasks",
        "loads": {},
    }
    assert decode_bytes("assignment", encode_consumer_assignment(ConsumerAssignment(1)))["user_data"] is None


def test_a_leaders_trailer_is_shown():
    group = scaled_out()
    (_, newcomer) = group.decision.assignments.values()
    decoded = decode_bytes("assignment", newcomer.user_data)
    assert decoded["trailer"]["warmups"] == {str(UUID(int=2)): ["0_1", "0_3"]}
    assert decoded["trailer"].keys() >= set(GroupTrailer.__slots__)


@pytest.mark.parametrize(("dialect", "version"), [("kip441", 7), ("kip441-draft", 5)])
def test_the_layouts_of_the_kips_text_are_distinguished(dialect, version):
    lags = {"task_lags": {TaskId(0, 1): 300}} if dialect == "kip441" else {"store_lags": {"totals": 300}}
    report = KipSubscription(version, version, PROCESS, "host:8080", **lags)
    data = encode_kip_subscription(report, dialect)
    decoded = decode_bytes("subscription", data)
    assert dialect in [decoded["dialect"], *decoded["also_reads_as"]]
    asked = decode_bytes("subscription", data, dialect)
    assert (asked["dialect"], asked["version"]) == (dialect, version)
    assert asked["task_lags"] == {str(task): lag for task, lag in report.task_lags.items()}
    assert asked["store_lags"] == report.store_lags


def test_an_unknown_version_shows_its_two_numbers():
    decoded = decode_bytes("subscription", bytes.fromhex("0000000c0000000d"))
    assert (decoded["version"], decoded["latest_supported_version"]) == (12, 13)
    assert "newer" in decoded["note"]


def test_a_group_record_is_shown_with_all_members_readable_or_not():
    bare = encode_consumer_subscription(ConsumerSubscription(1, ("in",), encode_subscription(SUBSCRIPTION)))
    good = StoredMember("a", "client", "/h", 6_000, bare, encode_consumer_assignment(ConsumerAssignment(1)))
    bad = StoredMember("b", "client", "/h", 6_000, b"\xff", b"")
    value = GroupMetadata(3, "consumer", 9, "stream", "a", (good, bad))
    decoded = decode_bytes("group-metadata", encode_group_metadata(value))
    assert (decoded["generation"], decoded["leader"], decoded["protocol"]) == (9, "a", "stream")
    first, second = decoded["members"]
    assert first["subscription"]["user_data"]["process_id"] == str(PROCESS)
    assert second["subscription"]["hex"] == "ff"
    assert "ConsumerProtocolSubscription" in second["subscription"]["error"]
    plain = GroupMetadata(3, "consumer", 9, "range", "a", (good,))
    assert decode_bytes("group-metadata", encode_group_metadata(plain))["members"][0]["subscription"].keys() == {"hex"}


def test_keys_and_commits_of_the_offsets_topic_are_shown():
    commit = decode_bytes("offset-commit", encode_offset_commit(OffsetCommit(3, 42, "AQ==", 1_000)))
    assert (commit["offset"], commit["commit_timestamp_ms"]) == (42, 1_000)
    key = decode_bytes("offsets-key", encode_offsets_key(OffsetCommitKey("app", "in", 3)))
    assert (key["message"], key["group"], key["topic"], key["partition"]) == ("OffsetCommitKey", "app", "in", 3)
    assert decode_bytes("offsets-key", encode_offsets_key(GroupMetadataKey("app")))["group"] == "app"
    assert "newer" in decode_bytes("offsets-key", b"\x00\x03rest")["note"]


@pytest.mark.parametrize("kind", ["subscription", "assignment", "group-metadata", "offset-commit"])
@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 9, bytes.fromhex("0000000b0000")])
def test_damaged_bytes_are_refused_as_such(kind, data):
    with pytest.raises(MalformedUserData):
        decode_bytes(kind, data)


def test_an_unknown_kind_or_dialect_is_refused():
    with pytest.raises(ConfigError, match="'plan' cannot be decoded; it must be one of subscription,"):
        decode_bytes("plan", b"")
    with pytest.raises(ConfigError, match="dialect 'java': must be one of apache,"):
        decode_bytes("subscription", b"", "java")
