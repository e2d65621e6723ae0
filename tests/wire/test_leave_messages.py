"""What members write to each other before one leaves a streams group, and bytes that are none of it."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.model import TaskId
from kstreams_assign.wire.leave_messages import LeaveAnnounced, WarmReported, read_leave_message, write_leave_message

task_ids = st.builds(TaskId, st.integers(0, 99), st.integers(0, 9_999), topology=st.none())
names = st.text(min_size=1, max_size=9)
announcements = st.builds(
    LeaveAnnounced,
    names,
    names,
    st.dictionaries(names, st.dictionaries(task_ids, st.integers(0, 1 << 60), max_size=4), max_size=3),
    st.booleans(),
)
reports = st.builds(WarmReported, names, names, st.frozensets(task_ids), st.frozensets(task_ids))


@given(st.one_of(announcements, reports))
def test_a_message_is_read_as_it_was_written(message: LeaveAnnounced | WarmReported) -> None:
    assert read_leave_message(write_leave_message(message)) == message


def test_keys_of_later_releases_are_ignored() -> None:
    packed = msgpack.packb({"drain": "d", "member": "m", "warm": ["0_1"], "later": 3})
    assert read_leave_message(packed) == WarmReported("d", "m", frozenset({TaskId(0, 1)}))


@pytest.mark.parametrize(
    "content",
    [
        7,
        {},
        {"drain": "d"},
        {"drain": 1, "member": "m"},
        {"drain": "d", "member": "m", "tasks": ["0_1"]},
        {"drain": "d", "member": "m", "tasks": {"a": {"0_1": "many"}}},
        {"drain": "d", "member": "m", "tasks": {"a": {"zero": 1}}},
        {"drain": "d", "member": "m", "warm": [f"0_{'9' * 5_000}"]},
        {"drain": "d", "member": "m", "tasks": {}, "leaves": 1},
        {"drain": "d", "member": "m", "warm": "0_1"},
        {"drain": "d", "member": "m", "without_room": [3]},
    ],
)
def test_other_content_is_refused(content: object) -> None:
    with pytest.raises(MalformedUserData, match="of a member that leaves"):
        read_leave_message(msgpack.packb(content))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    try:
        message = read_leave_message(value)
    except MalformedUserData:
        return
    assert read_leave_message(write_leave_message(message)) == message
