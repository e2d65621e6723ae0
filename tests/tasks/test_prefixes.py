"""The end of a prefix, against a search through all keys of up to three bytes of a small alphabet."""

from __future__ import annotations

from itertools import product

from kstreams_assign.tasks.prefixes import prefix_end

ALPHABET = (0x00, 0x01, 0x7F, 0xFE, 0xFF)
KEYS = [bytes(key) for length in range(4) for key in product(ALPHABET, repeat=length)]


def test_the_range_to_the_end_holds_just_the_keys_with_the_prefix() -> None:
    for prefix in KEYS:
        end = prefix_end(prefix)
        in_range = [key for key in KEYS if prefix <= key and (end is None or key < end)]
        assert in_range == [key for key in KEYS if key.startswith(prefix)]


def test_nothing_comes_after_the_empty_prefix_and_0xff_bytes() -> None:
    assert [prefix for prefix in KEYS if prefix_end(prefix) is None] == [b"", b"\xff", b"\xff\xff", b"\xff\xff\xff"]
    assert (prefix_end(b"a\xff"), prefix_end(b"user:")) == (b"b", b"user;")
