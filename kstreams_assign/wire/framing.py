"""Bytes of the socket <-> messages, without the socket.

A frame is a 4-byte big-endian length and one msgpack map. What lives here: cutting the stream and (un)packing. What
must not: what a message means. ``Frames`` keeps no more than one frame and the chunk that completed it.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import msgpack  # type: ignore[import-untyped]

from kstreams_assign.errors import MalformedFrame

_LENGTH = struct.Struct(">I")

LENGTH_BYTES = _LENGTH.size
VERSION = 1
FRAME_BYTES_MAX = 16 << 20
LONG_TEXT_MAX = 65_536
"""All of these stand in ``protocol/sidecar.json``, too; here for clients, which read no schema."""

MAP_BYTES_MIN, ARRAY_BYTES_MIN = 20, 3
"""A frame has at least so many bytes for each map in it and for each array that is not empty.

The smallest map of the protocol (a record to emit) has more, and the smallest array (a header with an empty name and no
value) just these; smaller maps and arrays take up to 90 times their bytes of memory.
"""

_BYTES_FREE = 64
"""For the map of the message itself, which may be smaller."""

Message = dict[str, Any]


class Frames:
    """A stream of frames, fed in pieces of any size. ``bytes_max`` bounds a frame and may be changed between frames."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what arrived."""
        self._held += data

    def next(self) -> Message | None:
        """The next message, or None while it is not complete.

        Raises ``MalformedFrame``; the stream is of no use then.
        """
        if len(self._held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._held)
        if not 0 < length <= self.bytes_max:
            raise MalformedFrame(f"a frame of {length} bytes; allowed are 1 to {self.bytes_max}")
        end = _LENGTH.size + length
        if len(self._held) < end:
            return None
        packed = bytes(memoryview(self._held)[_LENGTH.size : end])
        del self._held[:end]
        return unpack(packed)


def unpack(packed: bytes) -> Message:
    """One msgpack map with text keys; arrays become tuples. Raises ``MalformedFrame`` for anything else.

    Memory: at most some 30 times the size of the frame, and none before the frame is known to have all that its lengths
    announce.
    """
    try:
        _skip(packed)
        message = _Bounded(len(packed)).unpack(packed)
    except (ValueError, msgpack.UnpackException, RecursionError) as cause:
        raise MalformedFrame(f"msgpack cannot read the frame: {type(cause).__name__}: {cause}"[:200]) from None
    if not isinstance(message, dict) or not all(type(key) is str for key in message):
        raise MalformedFrame("the frame is no msgpack map with text keys")
    return message


def _skip(packed: bytes) -> None:
    """Read over the whole frame without making an object of it: msgpack reserves memory for what a length announces."""
    reader = msgpack.Unpacker(max_buffer_size=len(packed))
    reader.feed(packed)
    reader.skip()


class _Bounded:
    """Unpacks a frame of ``size`` bytes, and gives up once it has more maps and arrays than ``size`` allows."""

    def __init__(self, size: int) -> None:
        self._bytes_left = size + _BYTES_FREE

    def unpack(self, packed: bytes) -> Any:
        return msgpack.unpackb(
            packed,
            use_list=False,
            strict_map_key=True,
            object_hook=self._map,
            list_hook=self._array,
            ext_hook=_no_extension,
        )

    def _map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        self._spend(MAP_BYTES_MIN)
        return value

    def _array(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if value:
            self._spend(ARRAY_BYTES_MIN)
        return value

    def _spend(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise ValueError(
                f"more maps and arrays than its size allows: "
                f"{MAP_BYTES_MIN} bytes for each map, {ARRAY_BYTES_MIN} for each array"
            )


def _no_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}: no message has one")


def pack(message: Message) -> bytes:
    """Return the map that ``unpack`` reads."""
    packed: bytes = msgpack.packb(message)
    return packed


def frame(message: Message) -> bytes:
    """The bytes of a message. Raises ``MalformedFrame`` for one that msgpack cannot write."""
    try:
        packed: bytes = msgpack.packb(message)
    except (ValueError, TypeError, OverflowError) as cause:
        raise MalformedFrame(f"msgpack cannot write the message: {cause}") from None
    return _LENGTH.pack(len(packed)) + packed
