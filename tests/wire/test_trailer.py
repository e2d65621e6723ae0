"""The trailer: what Python members append after the last field, and how a damaged trailer is handled."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    AssignmentInfo,
    AwaitedProcess,
    GroupTrailer,
    MemberTrailer,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kstreams_assign.wire.trailer import (
    TRAILER_SIZE_MAX,
    read_group_trailer,
    read_member_trailer,
    trailer_bytes,
)
from tests.wire.strategies import group_trailers, member_trailers, unhurried

PROCESS = UUID("f1d2c3b4-a596-8778-695a-4b3c2d1e0fff")
MEMBER = MemberTrailer({"least_movement": 2, "high_availability": 1}, "9f86d081")
GROUP = GroupTrailer(
    assignor="least_movement",
    assignor_version=2,
    warmups={PROCESS: (TaskId(0, 2), TaskId(0, 1), TaskId(1, 0), TaskId(0, 5), TaskId(3, 1, "a__b"))},
    next_probe_ms=1_700_000_000_000,
    followup=True,
    withheld=(TaskId(1, 1),),
    owners={TaskId(0, 1): PROCESS, TaskId(1, 0): UUID(int=1)},
)


def sealed(content: object) -> bytes:
    """Return any content in a valid envelope."""
    packed = content if isinstance(content, bytes) else msgpack.packb(content)
    return struct.pack(">4sII", b"KSA\x01", len(packed), zlib.crc32(packed)) + packed


def content_of(trailer: MemberTrailer | GroupTrailer) -> dict:
    return msgpack.unpackb(trailer_bytes(trailer)[12:], strict_map_key=False)


@given(member_trailers)
@unhurried
def test_a_members_trailer_survives_a_round_trip(trailer):
    assert read_member_trailer(trailer_bytes(trailer)) == (trailer, None)


@given(group_trailers)
@unhurried
def test_a_groups_trailer_survives_a_round_trip(trailer):
    assert read_group_trailer(trailer_bytes(trailer)) == (trailer, None)


def test_no_bytes_yield_no_trailer_and_no_warning():
    assert read_member_trailer(b"") == read_group_trailer(b"") == (None, None)
    assert trailer_bytes(None) == b""


def test_the_order_of_warmups_is_kept():
    trailer, _ = read_group_trailer(trailer_bytes(GROUP))
    assert trailer.warmups[PROCESS] == GROUP.warmups[PROCESS]


def test_keys_of_a_later_version_are_ignored():
    assert read_member_trailer(sealed(content_of(MEMBER) | {"control": ["udp", 9], 7: None})) == (MEMBER, None)
    assert read_group_trailer(sealed(content_of(GROUP) | {"cost": 1.5})) == (GROUP, None)


def test_a_member_that_balances_by_number_sends_the_bytes_of_earlier_releases():
    """They have neither key, and ignore both: so a group of mixed releases reads every trailer."""
    assert content_of(MEMBER).keys() == {"assignors", "settings"}
    assert "loads" not in content_of(GROUP)
    weighed = replace(MEMBER, balance_by="input_rate", loads={TaskId(0, 1): 12_000, TaskId(0, 0): 7})
    content = content_of(weighed)
    assert (content["balance_by"], content["loads"]) == ("input_rate", [[0, [0, 1]], [7, 12_000]])
    assert {key: content[key] for key in ("assignors", "settings")} == content_of(MEMBER)


def test_a_generation_is_one_key_more_that_earlier_releases_ignore():
    dated = replace(MEMBER, awaited={}, generation=7)
    assert content_of(dated) == content_of(MEMBER) | {"awaited": {}, "generation": 7}


def test_a_thousand_loads_take_about_five_bytes_each():
    loads = {TaskId(n % 10, n // 10): 1000 * n for n in range(1000)}
    assert len(trailer_bytes(MemberTrailer(loads=loads))) < 7000


def test_bytes_behind_the_trailer_are_ignored():
    assert read_member_trailer(trailer_bytes(MEMBER) + b"more") == (MEMBER, None)


def test_a_thousand_owned_tasks_take_about_two_bytes_each():
    owners = {TaskId(n % 10, n // 10): UUID(int=n % 5) for n in range(1000)}
    assert len(trailer_bytes(GroupTrailer("a", 1, owners=owners))) < 2600


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (trailer_bytes(MEMBER)[:-1], "it announces"),
        (trailer_bytes(MEMBER)[:7], "do not begin with its marker"),
        (b"KSB" + trailer_bytes(MEMBER)[3:], "do not begin with its marker"),
        (trailer_bytes(MEMBER)[:-1] + b"\0", "checksum"),
        (struct.pack(">4sII", b"KSA\x01", TRAILER_SIZE_MAX + 1, 0) + bytes(TRAILER_SIZE_MAX + 1), "it announces"),
        (sealed(b"\xc1"), "msgpack"),
        (sealed(b""), "msgpack"),
        (sealed(b"\x81\x81\x00\x00\x00"), "msgpack"),
        (sealed(b"\x91" * 5000), "msgpack"),
        (sealed(b"\xdd\x7f\xff\xff\xff"), "msgpack"),
        (sealed(b"\xa1\xff"), "msgpack"),
        (sealed([1]), "the content"),
        (sealed({}), "assignors"),
        (sealed({"assignors": {"a": True}, "settings": ""}), "assignors"),
        (sealed({"assignors": {1: 1}, "settings": ""}), "assignors"),
        (sealed({"assignors": {}, "settings": b"x"}), "settings"),
        (sealed({"assignors": {}, "settings": "", "balance_by": 1}), "balance_by"),
        (sealed({"assignors": {}, "settings": "", "generation": "7"}), "generation"),
        (sealed({"assignors": {}, "settings": "", "loads": [[0, [1, 2]], [5]]}), "loads has 1 numbers for 2 tasks"),
        (sealed({"assignors": {}, "settings": "", "loads": [[0, [1]]]}), "loads has 1 parts"),
        (sealed({"assignors": {}, "settings": "", "loads": [[0, [1]], [-1]]}), "a load is negative"),
        (sealed({"assignors": {}, "settings": "", "loads": [[0, [1]], [1.5]]}), "loads"),
    ],
)
def test_a_damaged_trailer_is_ignored_with_a_reason(damaged, why):
    trailer, warning = read_member_trailer(damaged)
    assert trailer is None
    assert why in warning


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("assignor", 1),
        ("version", "1"),
        ("version", None),
        ("probe", "soon"),
        ("probe", 1.0),
        ("followup", 1),
        ("withheld", {}),
        ("withheld", [0]),
        ("withheld", [0, 1]),
        ("withheld", [0, ["1"]]),
        ("withheld", [0, [True]]),
        ("withheld", [0.5, [1]]),
        ("withheld", ["top__x", [1]]),
        ("withheld", ["top__" + "9" * 5000, [1]]),
        ("warmups", []),
        ("warmups", {"process": []}),
        ("warmups", {b"short": []}),
        ("owners", {PROCESS.bytes: None}),
        ("owners", None),
    ],
)
def test_wrong_types_anywhere_are_detected(key, wrong):
    trailer, warning = read_group_trailer(sealed(content_of(GROUP) | {key: wrong}))
    assert trailer is None
    assert key in warning


def test_any_flipped_bit_is_detected():
    whole = trailer_bytes(GROUP)
    for bit in range(8 * len(whole)):
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << bit % 8
        trailer, warning = read_group_trailer(bytes(raw))
        assert trailer is None, bit
        assert warning


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.binary(max_size=16) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    st.sampled_from(["assignor", "version", "warmups", "probe", "followup", "withheld", "owners"]),
)
@unhurried
def test_any_content_gives_a_trailer_or_a_warning(content, key):
    trailer, warning = read_group_trailer(sealed(content_of(GROUP) | {key: content}))
    assert (trailer is None) == (warning is not None)


@given(st.binary(max_size=60))
@unhurried
def test_any_bytes_in_a_right_envelope_give_a_trailer_or_a_warning(packed):
    for read in (read_member_trailer, read_group_trailer):
        trailer, warning = read(sealed(packed))
        assert (trailer is None) == (warning is not None)


def test_a_message_with_a_damaged_trailer_is_read_nevertheless():
    info = SubscriptionInfo(11, 11, PROCESS, "host:1", {TaskId(0, 1): 5}, trailer=MEMBER)
    read = decode_subscription(encode_subscription(info)[:-1])
    assert replace(read, trailer=MEMBER, trailer_warning=None) == info
    assert "not a valid trailer" in read.trailer_warning


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_carries_a_trailer(version):
    latest = 11 if version > 2 else -1
    assert (
        decode_subscription(encode_subscription(SubscriptionInfo(version, latest, PROCESS, trailer=MEMBER))).trailer
        == MEMBER
    )
    assert decode_assignment(encode_assignment(AssignmentInfo(version, latest, trailer=GROUP))).trailer == GROUP


AWAITED = {PROCESS: AwaitedProcess(60_000, (TaskId(0, 1),), (TaskId(1, 0),), 2, {"zone": "a"}, "r1")}
OLDER_KEYS = {
    MemberTrailer: {"assignors", "settings", "draining", "join", "partitions", "exactly_once"},
    GroupTrailer: {
        *("assignor", "version", "warmups", "probe", "followup", "withheld", "owners"),
        *("at_once", "draining", "partitions"),
    },
}
"""What a release that does not know of restarts reads."""


@pytest.mark.parametrize("plain", [MEMBER, GROUP])
def test_an_older_release_reads_all_that_it_knows_beside_what_it_does_not(plain):
    restarting = {"restarting": True} if isinstance(plain, MemberTrailer) else {}
    newer = content_of(replace(plain, awaited=AWAITED, **restarting))
    assert {key: value for key, value in newer.items() if key in OLDER_KEYS[type(plain)]} == content_of(plain)


def test_nothing_awaited_differs_from_nothing_known_only_in_a_member():
    assert content_of(replace(MEMBER, awaited={})) == {**content_of(MEMBER), "awaited": {}}
    assert trailer_bytes(replace(GROUP, awaited={})) == trailer_bytes(GROUP)


@pytest.mark.parametrize(
    "broken",
    [
        *({"left": 1.5}, {"threads": 0}, {"threads": True}, {"tags": {1: "a"}}, {"tags": {"a": b"b"}}, {"rack": 7}),
        *({"active": [0]}, {"standby": "0_1"}),
    ],
)
def test_an_awaited_process_that_cannot_be_is_damage(broken):
    content = content_of(replace(GROUP, awaited=AWAITED))
    content["awaited"] = {PROCESS.bytes: {**content["awaited"][PROCESS.bytes], **broken}}
    trailer, warning = read_group_trailer(sealed(content))
    assert trailer is None
    assert "not a valid trailer" in warning
