"""The memory that a frame takes: bounded while it is read, and given back afterwards.

Each frame is read in a process of its own.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import islice

import msgpack
import pytest

from kstreams_assign.errors import MalformedFrame
from kstreams_assign.sidecar.messages import GREETING_BYTES_MAX, PROTOCOL, read_request
from kstreams_assign.wire.framing import (
    ARRAY_BYTES_MIN,
    FRAME_BYTES_MAX,
    MAP_BYTES_MIN,
    Frames,
    unpack,
)

MIB = 1 << 20
PEAK_MIB, KEPT_MIB = 500, 64
"""Of a frame of 16 MiB. Before there was a bound, empty maps took 1,300 MiB."""

HEAD = msgpack.packb({"id": 1, "op": "put", "task": "0_0", "store": "totals"})


def _request(field: str, value: bytes) -> bytes:
    """Pack a put with one more field by hand."""
    return bytes([HEAD[0] + 1]) + HEAD[1:] + msgpack.packb(field) + value


def _filled(item: bytes, size: int = FRAME_BYTES_MAX) -> bytes:
    """Pack a put whose ``keys`` are as many such items as fit into ``size`` bytes."""
    items = (size - len(HEAD) - 10) // len(item)
    return _request("keys", b"\xdd" + struct.pack(">I", items) + item * items)


HOSTILE: Mapping[str, Callable[[], bytes]] = {
    "empty maps": lambda: _filled(b"\x80"),
    "maps of one": lambda: _filled(b"\x81\xa0\xc0"),
    "arrays of one": lambda: _filled(b"\x91\xc0"),
    "short texts": lambda: _filled(b"\xa2ab"),
    "numbers": lambda: _filled(b"\xcd\x12\x34"),
    "extensions": lambda: _filled(b"\xd4\x01\x34"),
    "arrays that announce more than follows": lambda: _request(
        "keys", b"\xdd\x00\x80\x00\x00" * 500 + b"\xc0" * MIB * 8
    ),
}

MEASURE = """
import json, sys
from kstreams_assign.sidecar.session import Session
def memory(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) >> 10
packed = sys.stdin.buffer.read()
session = Session(lambda request: {})
from kstreams_assign.wire.framing import frame
session.receive(frame({"id": 0, "op": "hello", "version": 1}))
before = memory("VmRSS")
sent = session.receive(len(packed).to_bytes(4, "big") + packed)[0].message
peak = memory("VmHWM") - before
del packed
print(json.dumps({"code": sent["error"]["code"], "peak": peak, "kept": memory("VmRSS") - before}))
"""


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_frame_takes_bounded_memory_and_gives_it_back(kind: str) -> None:
    packed = HOSTILE[kind]()
    assert len(packed) <= FRAME_BYTES_MAX
    done = subprocess.run([sys.executable, "-c", MEASURE], input=packed, capture_output=True, check=True)
    measured = json.loads(done.stdout)
    assert measured["code"] in {"malformed", "bad_request"}
    assert measured["peak"] < PEAK_MIB, measured
    assert measured["kept"] < KEPT_MIB, measured


LARGE: Mapping[str, tuple[Mapping[str, object], str, object]] = {
    "entries": ({"op": "put", "store": "s"}, "entries", [b"", b""]),
    "keys": ({"op": "get", "store": "s"}, "keys", b""),
    "records": ({"op": "emit"}, "records", {"topic": "t", "key": None, "value": None}),
    "headers": ({"op": "emit"}, "records", {"topic": "t", "key": None, "value": None, "headers": [["h", None]] * 5}),
}
"""Requests of as small things as the protocol allows."""


@pytest.mark.parametrize("kind", LARGE)
def test_a_legitimate_request_of_the_smallest_items_is_read(kind: str) -> None:
    head, field, smallest = LARGE[kind]
    items = (MIB - 200) // len(msgpack.packb(smallest))  # the limit is proportional to the frame
    packed = msgpack.packb({"id": 1, "task": "0_0", **head, field: [smallest] * items})
    assert len(read_request(unpack(packed)).fields[field]) == items


def test_a_greeting_that_announces_arrays_in_arrays_reserves_nothing() -> None:
    packed = b"\xdc\xff\xff" * 900 + b"\xc0" * (GREETING_BYTES_MAX - 2_700)
    frames = Frames(GREETING_BYTES_MAX)
    frames.feed(struct.pack(">I", len(packed)) + packed)
    with pytest.raises(MalformedFrame):
        frames.next()


def test_small_messages_have_a_minimum_of_memory() -> None:
    for message in ({}, {"a": {}}, {"a": [[1], [2]], "b": {}}, {"id": 1, "op": "tasks"}):
        assert unpack(msgpack.packb(message)).keys() == message.keys()
    assert list(islice(unpack(msgpack.packb({"headers": [[]] * 1000}))["headers"], 2)) == [(), ()]


def test_a_record_may_have_many_headers_of_the_smallest_kind() -> None:
    headers = [["", None]] * 1_000
    assert unpack(msgpack.packb({"headers": headers}))["headers"] == tuple(map(tuple, headers))


def test_the_protocol_names_the_bounds() -> None:
    assert (PROTOCOL["map_bytes_min"], PROTOCOL["array_bytes_min"]) == (MAP_BYTES_MIN, ARRAY_BYTES_MIN)
