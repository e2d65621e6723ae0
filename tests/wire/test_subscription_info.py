"""SubscriptionInfo: version probing, what each version keeps, what cannot be written."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.errors import ConfigError, MalformedUserData
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.wire import FutureSubscription, SubscriptionInfo, decode_subscription, encode_subscription

PROCESS = UUID("f1d2c3b4-a596-8778-695a-4b3c2d1e0fff")
SUMS = {TaskId(1, 0): 70_000, TaskId(0, 2): RUNNING_OFFSET_SUM, TaskId(1, 1): UNKNOWN_OFFSET_SUM, TaskId(0, 1): 0}


def round_trip(version: int, **fields) -> SubscriptionInfo:
    latest = 11 if version > 2 else -1
    return decode_subscription(encode_subscription(SubscriptionInfo(version, latest, PROCESS, **fields)))


def test_a_newer_version_yields_its_two_version_numbers():
    data = (12).to_bytes(4, "big") + (14).to_bytes(4, "big") + b"anything"
    assert decode_subscription(data) == FutureSubscription(used_version=12, latest_supported_version=14)


@pytest.mark.parametrize(
    ("version", "latest"), [(12, 11), (12, -1), (3, 2), (11, -1), (0, 11), (-1, 11), (-(2**31) + 11, 11)]
)
def test_invalid_versions_are_refused(version, latest):
    numbers = version.to_bytes(4, "big", signed=True) + latest.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedUserData, match="version"):
        decode_subscription(numbers + bytes(60))


@pytest.mark.parametrize(("version", "latest"), [(12, 12), (0, 11), (11, 10), (3, -1)])
def test_invalid_versions_are_not_written(version, latest):
    with pytest.raises(ConfigError, match="version"):
        encode_subscription(SubscriptionInfo(version, latest, PROCESS))


@pytest.mark.parametrize("version", range(1, 7))
def test_up_to_version_6_only_running_or_not_is_reported(version):
    read = round_trip(version, task_offset_sums=SUMS)
    assert read.prev_tasks == {TaskId(0, 2)}
    assert read.standby_tasks == {TaskId(1, 0), TaskId(1, 1), TaskId(0, 1)}
    assert set(read.task_offset_sums.values()) == {RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM}


@pytest.mark.parametrize("version", range(1, 7))
def test_up_to_version_6_a_task_is_reported_once(version):
    def size(sums) -> int:
        return len(encode_subscription(SubscriptionInfo(version, 11, PROCESS, task_offset_sums=sums)))

    assert size(SUMS) - size({}) == 8 * len(SUMS)


@pytest.mark.parametrize("version", [7, 8, 9])
def test_versions_7_to_9_nest_by_subtopology_in_order_of_appearance(version):
    read = round_trip(version, task_offset_sums=SUMS)
    assert read.task_offset_sums == SUMS
    assert list(read.task_offset_sums) == [TaskId(1, 0), TaskId(1, 1), TaskId(0, 2), TaskId(0, 1)]


@pytest.mark.parametrize("version", range(1, 12))
def test_a_version_keeps_the_fields_it_has(version):
    read = round_trip(version, user_end_point="host:1", unique_field=5, error_code=2, client_tags={"zone": "a"})
    assert read.user_end_point == ("host:1" if version >= 2 else None)
    assert read.latest_supported_version == (11 if version >= 3 else -1)
    assert read.unique_field == (5 if version >= 8 else 0)
    assert read.error_code == (2 if version >= 9 else 0)
    assert read.client_tags == ({"zone": "a"} if version >= 11 else {})


def test_an_empty_endpoint_is_none():
    assert round_trip(11, user_end_point="").user_end_point is None


def test_an_empty_topology_name_is_none():
    assert round_trip(11, task_offset_sums={TaskId(0, 1, ""): 5}).task_offset_sums == {TaskId(0, 1): 5}
    raw = encode_subscription(SubscriptionInfo(11, 11, PROCESS, None, {TaskId(0, 1, "x"): 5, TaskId(0, 1, "top"): 5}))
    expected = [TaskId(0, 1), TaskId(0, 1, "top")]
    assert list(decode_subscription(raw.replace(b"\0\1x", b"\0\0")).task_offset_sums) == expected


@pytest.mark.parametrize("version", [1, 6, 7, 9])
def test_a_named_topology_is_not_written_before_version_10(version):
    with pytest.raises(ConfigError, match=f"task top__0_1: version {version} carries no named topologies"):
        round_trip(version, task_offset_sums={TaskId(3, 3): 1, TaskId(0, 1, "top"): 5})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("unique_field", 128), ("error_code", 2**31), ("task_offset_sums", {TaskId(0, 0): 2**63})],
)
def test_a_value_too_large_for_its_field_is_a_config_error(field, wrong):
    with pytest.raises(ConfigError, match=f"SubscriptionInfo version 11: {field} cannot hold"):
        round_trip(11, **{field: wrong})


def test_an_endpoint_of_invalid_utf8_reads_as_in_java():
    raw = encode_subscription(SubscriptionInfo(11, 11, PROCESS, "host:1")).replace(b"host", b"h\xffst")
    assert decode_subscription(raw).user_end_point == "h\ufffdst:1"
