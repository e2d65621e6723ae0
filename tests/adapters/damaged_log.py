"""Record batches in the segments of a broker's log on disk, and a change to one of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign.model import TopicPartition

_HEAD = struct.Struct(">qi")
"""Base offset of a batch, and the length of what follows."""


@contextmanager
def damaged(data_dir: Path, at: TopicPartition, offset: int) -> Iterator[None]:
    """Inside, the last value in the batch that begins at ``offset`` has another last byte; no record has headers."""
    (log,) = data_dir.rglob(f"{at}/*.log")
    position = _end(log.read_bytes(), offset) - 2  # the number of headers is the last byte
    _flip(log, position)
    try:
        yield
    finally:
        _flip(log, position)


def _end(segment: bytes, offset: int) -> int:
    position = 0
    while True:
        base, length = _HEAD.unpack_from(segment, position)
        position += _HEAD.size + length
        if base == offset:
            return position


def _flip(log: Path, position: int) -> None:
    with log.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1]))
