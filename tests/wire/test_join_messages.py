"""What processes write to each other before they join a streams group, and bytes that are none of it."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.wire.join_messages import JoinAnnounced, Stage, read_join_message, write_join_message

names = st.text(min_size=1, max_size=9)
numbers = st.integers(0, 1 << 60)
announcements = st.builds(JoinAnnounced, names, names, numbers, st.sampled_from(Stage), numbers, st.booleans())
CONTENT = {"member": "m", "process": "p", "since_ms": 5, "stage": "warm", "valid_ms": 9, "alone": True}


@given(announcements)
def test_a_message_is_read_as_it_was_written(message: JoinAnnounced) -> None:
    assert read_join_message(write_join_message(message)) == message


def test_the_bytes_are_a_map_of_these_keys() -> None:
    message = JoinAnnounced("m", "p", 5, Stage.WARM, 9, is_alone=True)
    assert msgpack.unpackb(write_join_message(message)) == CONTENT


def test_keys_of_later_releases_are_ignored_and_new_ones_may_be_missing() -> None:
    packed = msgpack.packb({key: value for key, value in CONTENT.items() if key != "alone"} | {"later": 3})
    assert read_join_message(packed) == JoinAnnounced("m", "p", 5, Stage.WARM, 9)


@pytest.mark.parametrize(
    "change",
    [
        {"member": 1},
        {"process": None},
        {"since_ms": "5"},
        {"since_ms": True},
        {"stage": "asleep"},
        {"stage": 2},
        {"valid_ms": 1.5},
        {"alone": 0},
    ],
)
def test_other_content_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(MalformedUserData, match="of a process that joins"):
        read_join_message(msgpack.packb(CONTENT | change))


@pytest.mark.parametrize("content", [7, {}, [], "text"])
def test_what_is_no_announcement_is_refused(content: object) -> None:
    with pytest.raises(MalformedUserData, match="of a process that joins"):
        read_join_message(msgpack.packb(content))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    try:
        message = read_join_message(value)
    except MalformedUserData:
        return
    assert read_join_message(write_join_message(message)) == message
