"""The write buffer against the obvious thing: a dict that is written at once."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.buffer import ABSENT, Taken, WriteBuffer

keys = st.binary(min_size=1, max_size=2)
writes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=2)), max_size=30)


@given(
    stored=st.dictionaries(keys, st.binary(max_size=2)),
    taken=writes,
    written=writes,
    start=st.none() | keys,
    end=st.none() | keys,
)
def test_reads_see_the_writes_as_if_they_had_reached_the_store(
    stored: dict[bytes, bytes],
    taken: list[tuple[bytes, bytes | None]],
    written: list[tuple[bytes, bytes | None]],
    start: bytes | None,
    end: bytes | None,
) -> None:
    """Also those of a commit on its way, under those that came after it."""
    buffer, twin = WriteBuffer(), dict(stored)
    _write(buffer, twin, taken)
    buffer.take()
    _write(buffer, twin, written)
    assert list(buffer.of("s").overlay(iter(_within(stored, start, end)), start, end)) == _within(twin, start, end)
    for key in stored.keys() | {key for key, _ in taken + written}:
        seen = buffer.of("s").get(key)
        assert (stored.get(key) if seen is ABSENT else seen) == twin.get(key)


def _write(buffer: WriteBuffer, twin: dict[bytes, bytes], written: list[tuple[bytes, bytes | None]]) -> None:
    for key, value in written:
        buffer.of("s").put(key, value, 0)
        if value is None:
            twin.pop(key, None)
        else:
            twin[key] = value


def _within(entries: dict[bytes, bytes], start: bytes | None, end: bytes | None) -> list[tuple[bytes, bytes]]:
    return [(k, v) for k, v in sorted(entries.items()) if (start is None or k >= start) and (end is None or k < end)]


def test_a_commit_takes_the_newest_writes_and_they_are_read_until_they_have_landed() -> None:
    buffer = WriteBuffer()
    buffer.of("s").put(b"k", b"1", 7)
    buffer.of("s").put(b"k", b"2", 5)
    assert buffer.take() == Taken({"s": {b"k": b"2"}}, {"s": {b"k": 5}}, [])
    assert buffer.of("s").get(b"k") == b"2"
    assert len(buffer) == 0
    buffer.landed()
    assert buffer.of("s").get(b"k") is ABSENT


def test_a_commit_takes_also_what_was_sent_ahead_of_it_and_says_how_much_that_is() -> None:
    rows = [("out", b"k", b"%d" % n, (), None, 1) for n in range(3)]
    buffer = WriteBuffer()
    buffer.emit_many(rows)
    buffer.ahead = 2
    assert buffer.take() == Taken({}, {}, rows, ahead=2)
    buffer.emit_many(rows)
    assert buffer.take().ahead == 0
    buffer.emit_many(rows)
    buffer.ahead = 3
    buffer.drop()
    assert buffer.ahead == 0, "or the next three would not be sent"


def test_bytes_are_counted_until_a_commit_takes_them() -> None:
    buffer = WriteBuffer()
    buffer.of("s").put(b"key", b"value", 1)
    buffer.of("s").put(b"key", None, 2)
    buffer.of("t").put_many({b"k": b"12", b"l": None}, {b"k": 1, b"l": 1})
    buffer.emit_many([("out", None, b"123", (), None, 1), ("out", b"k", None, (), None, 1)])
    assert buffer.size_bytes() == 8 + 3 + 4 + 4
    buffer.take()
    assert buffer.size_bytes() == 0
    buffer.of("s").put(b"key", b"value", 1)
    buffer.drop()
    assert buffer.size_bytes() == 0


puts = st.tuples(st.just("put"), st.sampled_from(["s", "t"]), keys, st.none() | st.binary(max_size=2))
many = st.tuples(st.just("put_many"), st.sampled_from(["s", "t"]), st.dictionaries(keys, st.none() | st.binary()))
emits = st.tuples(st.just("emit"), keys)
steps = st.lists(puts | many | emits, max_size=20)


def _do(buffer: WriteBuffer, step: tuple[object, ...], time_ms: int) -> None:
    match step:
        case ("put", str(store), bytes(key), value):
            buffer.of(store).put(key, value, time_ms)  # type: ignore[arg-type]
        case ("put_many", str(store), dict(entries)):
            buffer.of(store).put_many(entries, dict.fromkeys(entries, time_ms))
        case ("emit", bytes(key)):
            buffer.emit_many([("out", key, b"v", (), None, time_ms)])


def _contents(buffer: WriteBuffer) -> object:
    stores = {name: (s.writes, s.times, s.leaving) for name, s in buffer.stores.items() if s.writes or s.leaving}
    return deepcopy((stores, buffer.emitted, buffer.emitted_bytes, buffer.size_bytes(), buffer.ahead))


@given(taken=steps, before=steps, after=steps)
def test_an_undone_call_leaves_the_buffer_as_a_copy_from_before_it(
    taken: list[tuple[object, ...]], before: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    """The slow twin of a savepoint is a deep copy. A second savepoint replaces it."""
    buffer = WriteBuffer()
    for step in taken:
        _do(buffer, step, 1)
    buffer.take()
    for step in before:
        _do(buffer, step, 2)
    twin = deepcopy(buffer)
    copied = _contents(buffer)
    buffer.save()
    for step in after:
        _do(buffer, step, 3)
        _do(twin, step, 3)
    kept = deepcopy(buffer)
    buffer.undo()
    assert _contents(buffer) == copied
    kept.save()
    kept.undo()
    assert _contents(kept) == _contents(twin)
    kept.undo()
    assert _contents(kept) == _contents(twin), "there is no savepoint any more"


def test_a_savepoint_does_not_outlive_its_commit() -> None:
    buffer = WriteBuffer()
    buffer.save()
    buffer.of("s").put(b"k", b"1", 1)
    buffer.take()
    buffer.of("s").put(b"k", b"2", 1)
    buffer.undo()
    assert buffer.of("s").get(b"k") == b"2"
