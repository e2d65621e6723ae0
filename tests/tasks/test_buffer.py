"""The write buffer against the obvious thing: a dict that is written at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.buffer import ABSENT, WriteBuffer

keys = st.binary(min_size=1, max_size=2)
writes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=2)), max_size=30)


@given(
    stored=st.dictionaries(keys, st.binary(max_size=2)), written=writes, start=st.none() | keys, end=st.none() | keys
)
def test_a_range_reads_as_if_the_writes_had_reached_the_store(
    stored: dict[bytes, bytes], written: list[tuple[bytes, bytes | None]], start: bytes | None, end: bytes | None
) -> None:
    buffer, twin = WriteBuffer(), dict(stored)
    for key, value in written:
        buffer.put("s", key, value)
        if value is None:
            twin.pop(key, None)
        else:
            twin[key] = value
    within = [(k, v) for k, v in sorted(twin.items()) if (start is None or k >= start) and (end is None or k < end)]
    below = iter(
        [(k, v) for k, v in sorted(stored.items()) if (start is None or k >= start) and (end is None or k < end)]
    )
    assert list(buffer.overlay("s", below, start, end)) == within


def test_taking_empties_the_buffer_and_keeps_the_newest_write() -> None:
    buffer = WriteBuffer()
    buffer.put("s", b"k", b"1")
    buffer.put("s", b"k", b"2")
    assert buffer.take() == ({"s": {b"k": b"2"}}, [])
    assert buffer.get("s", b"k") is ABSENT
    assert len(buffer) == 0
