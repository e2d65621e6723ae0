"""The engine: version ranges, and blocks of rows compared with the row-by-row twin."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    SubscriptionInfo,
    blocks,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kstreams_assign.wire.blocks import ROWS_AT_ONCE, ROWS_EXACT_MAX
from kstreams_assign.wire.compile import holds, layout
from tests.wire.golden import blobs
from tests.wire.strategies import VERSIONS, assignments, subscriptions, unhurried
from tests.wire.twin import read_record, rows_of

MESSAGES = {"SubscriptionInfo": "subscription", "AssignmentInfo": "assignment"}


def sample(tasks: int = 0) -> SubscriptionInfo:
    return SubscriptionInfo(11, 11, UUID(int=7), task_offset_sums={TaskId(n, 1): n for n in range(tasks)})


def agree(message: str, data: bytes) -> None:
    version = int.from_bytes(data[:4], "big")
    record, end = layout(message, version).read(data)
    twin, rest = read_record(message, version, data)
    assert {name: rows_of(value) for name, value in record.items()} == twin
    assert data[end:] == rest


@pytest.mark.parametrize("message", MESSAGES)
def test_the_engine_reads_every_golden_record_as_its_twin_does(message):
    for blob in blobs(MESSAGES[message]):
        agree(message, blob)


@given(st.sampled_from(VERSIONS).flatmap(subscriptions))
@unhurried
def test_the_engine_reads_any_subscription_as_its_twin_does(info):
    agree("SubscriptionInfo", encode_subscription(info))


@given(st.sampled_from(VERSIONS).flatmap(assignments))
@unhurried
def test_the_engine_reads_any_assignment_as_its_twin_does(info):
    agree("AssignmentInfo", encode_assignment(info))


@pytest.mark.parametrize(
    "rows",
    [0, 1, ROWS_EXACT_MAX, ROWS_EXACT_MAX + 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE + 7],
)
@pytest.mark.parametrize("odd_row", [None, "first", "last"])
def test_blocks_hold_any_number_of_rows_and_a_topology_name_disables_them(rows, odd_row):
    """A block is read at once; a single named topology makes all rows be read singly."""
    names = [None] * rows
    if odd_row and rows:
        names[0 if odd_row == "first" else -1] = "top"
    record = layout("SubscriptionInfo", 11).read(encode_subscription(sample()))[0]
    record["task_offset_sums"] = {
        "subtopology": list(range(rows)),
        "partition": [n * 3 for n in range(rows)],
        "offset_sum": [n * 1_000_003 - 3 for n in range(rows)],
        "topology": names,
    }
    data = layout("SubscriptionInfo", 11).write(record)
    decoded, end = layout("SubscriptionInfo", 11).read(data)
    assert {name: rows_of(value) for name, value in decoded.items()} == {name: rows_of(record[name]) for name in record}
    assert end == len(data)
    agree("SubscriptionInfo", data)


def test_a_thousand_tasks_take_eighteen_bytes_each():
    single, thousand = sample(), sample(1000)
    assert len(encode_subscription(thousand)) - len(encode_subscription(single)) == 18 * 1000


def test_a_compiled_block_never_holds_more_rows_than_the_limit():
    """So a huge array cannot leave a huge compiled struct behind."""
    assert blocks._runs(5 * ROWS_AT_ONCE + 700) == [ROWS_AT_ONCE] * 5 + [512, 128, 60]
    blocks._struct.cache_clear()
    for rows in range(0, 3 * ROWS_AT_ONCE, 17):
        decode_subscription(encode_subscription(sample(rows)))
    assert blocks._struct.cache_info().currsize <= 4 * (ROWS_EXACT_MAX + 7)


@given(st.integers(0, 10**6))
def test_runs_add_up_to_the_number_of_rows(count):
    runs = blocks._runs(count)
    assert sum(runs) == count
    assert all(0 < run <= ROWS_AT_ONCE for run in runs)


@pytest.mark.parametrize(
    ("versions", "inside"),
    [("3", {3}), ("2-4", {2, 3, 4}), ("9+", {9, 10, 11}), ("none", set()), ("10-11", {10, 11})],
)
def test_version_ranges_are_read_as_in_kafka(versions, inside):
    assert {version for version in range(12) if holds(versions, version)} == inside


def test_a_version_that_the_schema_lacks_is_a_config_error():
    with pytest.raises(ConfigError, match="SubscriptionInfo version 12 is not one of 1-11"):
        layout("SubscriptionInfo", 12)


def test_a_value_that_does_not_fit_its_field_is_named():
    record = layout("AssignmentInfo", 11).read(blobs("assignment")[-1])[0]
    with pytest.raises(ConfigError, match="AssignmentInfo version 11: next_rebalance_ms cannot hold"):
        layout("AssignmentInfo", 11).write(record | {"next_rebalance_ms": 2**63})
