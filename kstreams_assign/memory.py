"""How the memory of a process is divided between what fills it: pure, bytes in and bytes out.

Each part has a setting of its own (``Config``), and ``memory_limit_bytes`` divides itself among the parts that have
none. What must not live here: who keeps to a part (the adapters and the processing loop).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from kstreams_assign.errors import ConfigError

_MIB = 1 << 20

FIXED_BYTES = 112 * _MIB
"""Of the interpreter, the libraries, the clients' threads and the group. A worker of four tasks begins at 70 MiB."""

FILLED = Fraction(4, 5)
"""The part of the limit that may be filled; the rest is what the allocator cannot give back."""


class _Part(NamedTuple):
    """``weight``: of the memory that is divided. ``copies``: how often a byte of the part is in memory."""

    default: int
    least: int
    weight: int
    copies: int = 1
    is_buffer: bool = False
    """More than the default would bring nothing."""


_PARTS: Mapping[str, _Part] = {
    "rocksdb_block_cache_bytes": _Part(64 * _MIB, 8 * _MIB, 4),
    "rocksdb_write_buffers_bytes": _Part(256 * _MIB, 16 * _MIB, 5),
    "statestore_cache_max_bytes": _Part(10 * _MIB, _MIB, 1),
    # What is in the queue, and what was taken from it or is on its way.
    "input_buffer_max_bytes": _Part(64 * _MIB, 4 * _MIB, 4, 2, is_buffer=True),
    "restore_buffer_max_bytes": _Part(64 * _MIB, 4 * _MIB, 3, 2, is_buffer=True),
    # In the write buffer, in the producer's queue, and in RocksDB's batch.
    "output_buffer_max_bytes": _Part(64 * _MIB, 4 * _MIB, 6, 3, is_buffer=True),
}
MEMORY_SETTINGS = tuple(_PARTS)


@dataclass(frozen=True, slots=True)
class Memory:
    """What each part of a process may fill, in bytes. ``limited``: it was divided from a limit."""

    rocksdb_block_cache_bytes: int
    rocksdb_write_buffers_bytes: int
    statestore_cache_max_bytes: int
    input_buffer_max_bytes: int
    restore_buffer_max_bytes: int
    output_buffer_max_bytes: int
    limited: bool = False

    @property
    def most_bytes(self) -> int:
        """Return what a process may need when all parts are full."""
        filled = sum(getattr(self, key) * part.copies for key, part in _PARTS.items())
        return int((FIXED_BYTES + filled) / FILLED)


def divide_memory(limit: int | None, asked: Mapping[str, int | None]) -> Memory:
    """Return the parts: those asked for, and the others from the limit by their weights; their defaults without one.

    Raises ``ConfigError`` for a limit that is too low for what was asked for and the least of the others.
    """
    given = {key: size for key in _PARTS if (size := asked.get(key)) is not None}
    if limit is None:
        return _memory({key: given.get(key, part.default) for key, part in _PARTS.items()}, limited=False)
    others = {key: part for key, part in _PARTS.items() if key not in given}
    taken = FIXED_BYTES + sum(size * _PARTS[key].copies for key, size in given.items())
    weights = sum(part.weight for part in others.values())
    left = limit * FILLED - taken
    least_left = max(
        (Fraction(part.least * part.copies * weights, part.weight) for part in others.values()), default=Fraction(0)
    )
    if left < least_left:
        least = ceil((taken + least_left) / FILLED / _MIB) * _MIB
        raise ConfigError(
            f"memory_limit_bytes = {limit}: must be at least {least} ({least // _MIB} MiB)"
            + (f" with {', '.join(f'{key} = {size}' for key, size in given.items())}" if given else "")
        )
    return _memory(given | _shares(others, left), limited=True)


def _memory(sizes: Mapping[str, int], *, limited: bool) -> Memory:
    return Memory(
        sizes["rocksdb_block_cache_bytes"],
        sizes["rocksdb_write_buffers_bytes"],
        sizes["statestore_cache_max_bytes"],
        sizes["input_buffer_max_bytes"],
        sizes["restore_buffer_max_bytes"],
        sizes["output_buffer_max_bytes"],
        limited,
    )


def _shares(parts: Mapping[str, _Part], left: Fraction) -> dict[str, int]:
    """Return each part's bytes; what a buffer has no use for goes to the others."""
    weights = sum(part.weight for part in parts.values())
    shares = {key: int(left * part.weight / (weights * part.copies)) for key, part in parts.items()}
    full = {key: part.default for key, part in parts.items() if part.is_buffer and shares[key] > part.default}
    if not full:
        return shares
    taken = sum(size * parts[key].copies for key, size in full.items())
    return full | _shares({key: part for key, part in parts.items() if key not in full}, left - taken)
