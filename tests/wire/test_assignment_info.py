"""AssignmentInfo: the topic dictionary, what each version keeps, what cannot be read or written."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import NO_PROBE_MS, HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import (
    AssignmentInfo,
    GroupTrailer,
    decode_assignment,
    encode_assignment,
    encode_assignments,
)
from tests.wire.golden import cases

A, B = HostInfo("a", 1), HostInfo("b", 2)
ORDERS, CLICKS = TopicPartition("orders", 3), TopicPartition("clicks", 0)
FULL = AssignmentInfo(
    version=11,
    commonly_supported_version=9,
    active_tasks=(TaskId(0, 1), TaskId(0, 1), TaskId(0, 0)),
    standby_tasks={TaskId(1, 0): (CLICKS, ORDERS), TaskId(0, 3): ()},
    partitions_by_host={B: (ORDERS, CLICKS), A: ()},
    standby_partitions_by_host={A: (TopicPartition("standby-only", 1), ORDERS)},
    error_code=2,
    next_rebalance_ms=5,
)


def round_trip(info: AssignmentInfo) -> AssignmentInfo:
    return decode_assignment(encode_assignment(info))


@pytest.mark.parametrize("version", range(1, 12))
def test_a_version_keeps_the_fields_it_has(version):
    read = round_trip(replace(FULL, version=version))
    assert read.commonly_supported_version == (9 if version >= 3 else -1)
    assert read.active_tasks == FULL.active_tasks
    assert read.standby_tasks == FULL.standby_tasks
    assert read.partitions_by_host == (FULL.partitions_by_host if version >= 2 else {})
    assert read.error_code == (2 if version >= 4 else 0)
    assert read.standby_partitions_by_host == (FULL.standby_partitions_by_host if version >= 6 else {})
    assert read.next_rebalance_ms == (5 if version >= 7 else NO_PROBE_MS)


@pytest.mark.parametrize("version", [0, 12, -1, 2**31 - 1])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(MalformedUserData, match=f"version at byte 4: {version} is not one of 1 to 11"):
        decode_assignment(version.to_bytes(4, "big", signed=True) + bytes(60))
    with pytest.raises(ConfigError, match=f"version {version} is not one of 1 to 11"):
        encode_assignment(replace(FULL, version=version))


def test_topics_are_numbered_in_order_of_appearance():
    assert round_trip(FULL).topic_index == {"orders": 0, "clicks": 1, "standby-only": 2}


def test_a_topic_is_in_the_bytes_once():
    many = {HostInfo("h", n): (TopicPartition("a-long-topic-name", n),) for n in range(50)}
    assert encode_assignment(AssignmentInfo(11, 11, partitions_by_host=many)).count(b"a-long-topic-name") == 1
    assert encode_assignment(AssignmentInfo(4, 11, partitions_by_host=many)).count(b"a-long-topic-name") == 50


def test_a_dictionary_that_was_read_is_written_again():
    """Java numbers topics in the order of its hash tables, which the value itself does not contain."""
    shuffled = {"clicks": 7, "standby-only": -1, "orders": 0}
    assert dict(round_trip(replace(FULL, topic_index=shuffled)).topic_index) == shuffled
    assert list(round_trip(replace(FULL, topic_index=shuffled)).topic_index) == list(shuffled)


def test_a_dictionary_that_no_longer_fits_is_rebuilt():
    moved = replace(
        round_trip(FULL), partitions_by_host={A: (TopicPartition("new", 0),)}, standby_partitions_by_host={}
    )
    assert round_trip(moved) == moved
    assert round_trip(moved).topic_index == {"new": 0}


def test_a_partition_of_a_topic_that_the_dictionary_lacks_is_refused():
    """Java reads it as a partition of no topic at all."""
    raw = encode_assignment(AssignmentInfo(11, 11, partitions_by_host={A: (TopicPartition("t", 0),)}))
    odd = raw.replace(b"\0\0\0\0\0\1t", b"\0\0\0\7\0\1t")
    with pytest.raises(MalformedUserData, match=r"partitions_by_host.*: the dictionary has no topic 0"):
        decode_assignment(odd)


def test_a_dictionary_with_duplicates_is_read_and_written_with_the_same_meaning():
    raw = encode_assignment(replace(FULL, standby_partitions_by_host={}))
    twice = raw.replace(b"\0\0\0\2\0\0\0\0\0\6orders", b"\0\0\0\3\0\0\0\0\0\1x\0\0\0\0\0\6orders")
    assert twice != raw
    assert round_trip(decode_assignment(twice)) == decode_assignment(raw)


def test_a_named_topology_is_not_written_before_version_10():
    for field in ({"active_tasks": (TaskId(0, 1, "top"),)}, {"standby_tasks": {TaskId(0, 1, "top"): ()}}):
        with pytest.raises(ConfigError, match="task top__0_1: version 9 carries no named topologies"):
            encode_assignment(AssignmentInfo(9, 11, **field))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("active_tasks", (TaskId(2**31, 0),)),
        ("partitions_by_host", {HostInfo("h" * 70_000, 1): ()}),
        ("standby_partitions_by_host", {HostInfo("h", 2**31): ()}),
        ("next_rebalance_ms", 2**63),
    ],
)
def test_a_value_too_large_for_its_field_is_a_config_error(field, wrong):
    with pytest.raises(ConfigError, match=f"AssignmentInfo version 11: {field} cannot hold"):
        encode_assignment(AssignmentInfo(11, 11, **{field: wrong}))


def test_some_vectors_number_topics_in_javas_own_order():
    """Otherwise the vectors would not show that a dictionary is kept."""
    read = [decode_assignment(bytes.fromhex(case["hex"])) for case in cases("assignment")]
    assert any(list(info.topic_index.values()) != sorted(info.topic_index.values()) for info in read)


def test_assignments_of_a_group_equal_those_encoded_singly():
    other = {HostInfo("c", 3): (TopicPartition("third", 0),)}
    trailer = GroupTrailer("least_movement", 1, next_probe_ms=5)
    group = [
        FULL,
        replace(FULL, active_tasks=(TaskId(5, 5),), trailer=trailer),
        replace(FULL, partitions_by_host=other, trailer=replace(trailer, next_probe_ms=6)),
        replace(FULL, standby_partitions_by_host=other),
        replace(FULL, version=4),
        replace(FULL, version=2, commonly_supported_version=-1),
        replace(FULL, topic_index={"clicks": 7, "standby-only": -1, "orders": 0}),
        replace(FULL, topic_index={"clicks": 0, "standby-only": 1, "orders": 2}),
    ]
    assert encode_assignments(group) == [encode_assignment(info) for info in group]
    assert [decode_assignment(blob) for blob in encode_assignments(iter(group))] == [round_trip(info) for info in group]


def test_shared_parts_of_a_group_are_encoded_once():
    class Counted(dict):
        looks = 0

        def values(self):
            Counted.looks += 1
            return super().values()

    shared = Counted(FULL.partitions_by_host)
    encode_assignments([replace(FULL, partitions_by_host=shared)])
    once = Counted.looks
    encode_assignments([replace(FULL, partitions_by_host=shared, error_code=n) for n in range(50)])
    assert Counted.looks == 2 * once


def test_a_wrong_assignment_refuses_the_whole_group():
    with pytest.raises(ConfigError, match="version 12 is not one of 1 to 11"):
        encode_assignments([FULL, replace(FULL, version=12)])
    assert encode_assignments([]) == []


def test_host_maps_that_were_read_behave_as_dicts():
    read = round_trip(FULL).partitions_by_host
    assert read == FULL.partitions_by_host
    assert FULL.partitions_by_host == read
    assert list(read.items()) == list(FULL.partitions_by_host.items())
    assert (len(read), HostInfo("z", 1) in read, read.get(HostInfo("z", 1))) == (2, False, None)
    assert repr(read) == repr(FULL.partitions_by_host)
    assert pickle.loads(pickle.dumps(round_trip(FULL))) == round_trip(FULL)
