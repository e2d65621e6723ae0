"""The stream of frames: any split gives the same messages; bytes that are not a frame are refused."""

from __future__ import annotations

import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import MalformedFrame
from kstreams_assign.wire.framing import FRAME_BYTES_MAX, Frames, frame

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=10)
messages = st.lists(st.dictionaries(st.text(max_size=5), values, max_size=4), max_size=5)


@given(sent=messages, data=st.data())
def test_any_split_of_the_bytes_gives_the_same_messages(sent, data):
    stream = b"".join(map(frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    frames, received = Frames(FRAME_BYTES_MAX), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames.feed(stream[start:end])
        while (message := frames.next()) is not None:
            received.append(message)
    assert received == sent


def test_a_stream_fed_byte_by_byte_gives_a_message_with_its_last_byte():
    frames = Frames(100)
    packed = frame({"id": 1})
    for byte in packed[:-1]:
        frames.feed(bytes([byte]))
        assert frames.next() is None
    frames.feed(packed[-1:])
    assert frames.next() == {"id": 1}


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",  # never used by msgpack
        msgpack.packb([1, 2]),
        msgpack.packb({1: 2}),
        msgpack.packb({b"id": 2}),
        msgpack.packb({"id": 1}) + b"\x00",
        msgpack.packb({"id": 1})[:-1],
        b"\xdf\xff\xff\xff\xff",  # a map of 4 billion
        b"\x91" * 2_000 + b"\x00",  # arrays in arrays
        b"\x81\xa2\xff\xfe\x00",  # text that is not UTF-8
    ],
    ids=repr,
)
def test_anything_but_a_msgpack_map_with_text_keys_is_malformed(packed):
    frames = Frames(FRAME_BYTES_MAX)
    frames.feed(struct.pack(">I", len(packed)) + packed)
    with pytest.raises(MalformedFrame):
        frames.next()


def test_a_frame_that_is_too_long_is_refused_by_its_length_before_its_content():
    frames = Frames(FRAME_BYTES_MAX)
    frames.feed(struct.pack(">I", FRAME_BYTES_MAX + 1))
    with pytest.raises(MalformedFrame, match=str(FRAME_BYTES_MAX)):
        frames.next()
    frames = Frames(FRAME_BYTES_MAX)
    frames.feed(struct.pack(">I", FRAME_BYTES_MAX))
    assert frames.next() is None


def test_a_message_that_msgpack_cannot_write_is_refused():
    with pytest.raises(MalformedFrame):
        frame({"id": 2**64})
    with pytest.raises(MalformedFrame):
        frame({"value": object()})
