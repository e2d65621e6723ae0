"""Where the keys with a prefix end, in byte order."""

from __future__ import annotations


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key that is greater than every key with the prefix; None if there is none.

    There is none for the empty prefix, and for one of 0xff bytes alone (Kafka: ``Bytes.increment``, which raises then).
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
