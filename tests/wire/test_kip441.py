"""The layouts of KIP-441's text, byte by byte from its lists of fields, and the laws of every codec."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId
from kstreams_assign.wire import (
    AssignmentInfo,
    GroupTrailer,
    KipSubscription,
    MemberTrailer,
    decode_assignment,
    decode_kip_assignment,
    decode_kip_subscription,
    encode_assignment,
    encode_kip_assignment,
    encode_kip_subscription,
)
from tests.wire.golden import cases
from tests.wire.strategies import KIP_VERSIONS, assignments, kip_subscriptions, unhurried

PROCESS = UUID("f1d2c3b4-a596-8778-695a-4b3c2d1e0fff")
TRAILER = MemberTrailer({"least_movement": 1}, "9f86d081")
FULL = KipSubscription(
    version=7,
    latest_supported_version=7,
    process_id=PROCESS,
    user_end_point="h:1",
    prev_tasks=frozenset({TaskId(1, 0), TaskId(0, 2)}),
    standby_tasks=frozenset({TaskId(0, 3)}),
    task_lags={TaskId(1, 0): 2**40, TaskId(0, 2): 0},
    store_lags={"counts": 70_000, "": 0},
)
HEAD = PROCESS.bytes
END_POINT = b"\0\0\0\3h:1"
TASKS = struct.pack(">i4ii2i", 2, 0, 2, 1, 0, 1, 0, 3)
LAGS = struct.pack(">iiiqiiq", 2, 1, 0, 2**40, 0, 2, 0)
STORES = struct.pack(">ih6sihi", 2, 6, b"counts", 70_000, 0, 0)
BYTES = {
    ("kip441", 6): HEAD + TASKS + END_POINT,
    ("kip441", 5): HEAD + END_POINT + LAGS,
    ("kip441", 7): HEAD + END_POINT + LAGS,
    ("kip441-draft", 4): HEAD + TASKS + END_POINT,
    ("kip441-draft", 5): HEAD + STORES + END_POINT,
}
PLACE = re.compile(r"kip441(-draft)?/(Sub|As)[a-zI]+Info( version \d+)?: [a-z_.]+ at byte \d+: .+", re.DOTALL)

each_layout = pytest.mark.parametrize(("dialect", "version"), KIP_VERSIONS)
each_dialect = pytest.mark.parametrize("dialect", ["kip441", "kip441-draft"])


def written(dialect: str, version: int, trailer: MemberTrailer | None = None) -> bytes:
    return encode_kip_subscription(replace(FULL, version=version, trailer=trailer), dialect)


@each_layout
def test_the_bytes_are_in_the_order_of_the_kips_list_of_fields(dialect, version):
    assert written(dialect, version) == struct.pack(">ii", version, 7) + BYTES[dialect, version]


@each_layout
def test_a_version_keeps_the_fields_it_has(dialect, version):
    read = decode_kip_subscription(written(dialect, version, TRAILER), dialect)
    lists, stores = version in {4, 6}, (dialect, version) == ("kip441-draft", 5)
    assert read == replace(
        FULL,
        version=version,
        trailer=TRAILER,
        prev_tasks=FULL.prev_tasks if lists else frozenset(),
        standby_tasks=FULL.standby_tasks if lists else frozenset(),
        store_lags=FULL.store_lags if stores else {},
        task_lags={} if lists or stores else FULL.task_lags,
    )


@given(st.sampled_from(KIP_VERSIONS).flatmap(lambda layout: kip_subscriptions(*layout)))
@unhurried
def test_every_subscription_survives_a_round_trip_in_the_same_order(drawn):
    dialect, value = drawn
    decoded = decode_kip_subscription(encode_kip_subscription(value, dialect), dialect)
    assert decoded == value
    assert [*decoded.task_lags, *decoded.store_lags] == [*value.task_lags, *value.store_lags]


@each_dialect
@given(info=assignments(4))
@unhurried
def test_every_assignment_survives_a_round_trip(dialect, info):
    assert decode_kip_assignment(encode_kip_assignment(info, dialect), dialect) == info


@each_dialect
@pytest.mark.parametrize("case", [case for case in cases("assignment") if case["request"]["version"] == 4])
def test_the_kips_assignment_is_javas_version_4(dialect, case):
    java = bytes.fromhex(case["hex"])
    assert decode_kip_assignment(java, dialect) == decode_assignment(java)
    assert encode_kip_assignment(decode_assignment(java), dialect) == java


@each_dialect
def test_an_assignment_has_no_probe_and_no_standby_hosts(dialect):
    trailer = GroupTrailer("least_movement", 1, followup=True)
    info = AssignmentInfo(
        4, 7, (TaskId(0, 1),), {}, {HostInfo("h", 1): ()}, {HostInfo("s", 1): ()}, 3, 5, trailer=trailer
    )
    read = decode_kip_assignment(encode_kip_assignment(info, dialect), dialect)
    assert read == replace(info, standby_partitions_by_host={}, next_rebalance_ms=NO_PROBE_MS)


def test_dialects_are_not_mixed_up():
    with pytest.raises(MalformedUserData, match="kip441/SubscriptionInfo: version at byte 4: 4 is not one of 5-7"):
        decode_kip_subscription(written("kip441-draft", 4))
    with pytest.raises(MalformedUserData, match="7 is not one of 4-5"):
        decode_kip_subscription(written("kip441", 7), "kip441-draft")
    with pytest.raises(MalformedUserData, match="11 is not one of 4"):
        decode_kip_assignment(encode_assignment(AssignmentInfo(11, 11)))


@pytest.mark.parametrize(
    ("dialect", "wrong", "why"),
    [
        ("kip441", {"version": 4}, "version 4 is not one of 5-7"),
        ("kip441-draft", {"version": 7}, "version 7 is not one of 4-5"),
        ("kip442", {}, "dialect 'kip442' is not one of kip441, kip441-draft"),
        ("kip441", {"latest_supported_version": 6}, "6 is below version 7"),
        ("kip441", {"task_lags": {TaskId(0, 0): 2**63}}, "task_lags cannot hold"),
        ("kip441-draft", {"version": 5, "store_lags": {"s": 2**31}}, "store_lags cannot hold"),
        ("kip441", {"task_lags": {TaskId(0, 0, "top"): 1}}, "carries no named topologies"),
        ("kip441", {"version": 6, "prev_tasks": {TaskId(0, 0), TaskId(0, 0, "top")}}, "carries no named topologies"),
    ],
)
def test_a_value_that_a_version_cannot_carry_is_a_config_error(dialect, wrong, why):
    with pytest.raises(ConfigError, match=why):
        encode_kip_subscription(replace(FULL, **wrong), dialect)


def test_an_assignment_of_another_version_is_a_config_error():
    with pytest.raises(ConfigError, match="version 11 is not one of 4"):
        encode_kip_assignment(AssignmentInfo(11, 11))


def test_a_latest_version_below_the_used_version_is_refused():
    odd = struct.pack(">ii", 7, 6) + BYTES["kip441", 7]
    with pytest.raises(MalformedUserData, match="latest_supported_version"):
        decode_kip_subscription(odd)


def refused(decode, data: bytes) -> bool:
    """Return whether these bytes are refused with a text that names the place."""
    try:
        decode(data)
    except MalformedUserData as error:
        text = str(error)
    else:
        return False
    assert PLACE.fullmatch(text), text
    return True


@each_layout
def test_cut_and_overwritten_subscriptions_are_refused_or_read(dialect, version):
    decode = partial(decode_kip_subscription, dialect=dialect)
    whole = written(dialect, version)
    assert all(refused(decode, whole[:end]) for end in range(len(whole)))
    for at in range(len(whole) - 3):
        for length in (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
            refused(decode, whole[:at] + length.to_bytes(4, "big") + whole[at + 4 :])


@given(data=st.data())
@unhurried
def test_any_bytes_are_refused_or_read(data):
    dialect, version = data.draw(st.sampled_from(KIP_VERSIONS))
    rest = data.draw(st.binary(max_size=120))
    refused(partial(decode_kip_subscription, dialect=dialect), struct.pack(">ii", version, 11) + rest)
    refused(partial(decode_kip_assignment, dialect=dialect), struct.pack(">ii", 4, 11) + rest)
