"""Stores in memory answer as stores on disk do."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import TopicPartition
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.tasks.memory_stores import MemoryStores
from tests.samples import examples

CHANGELOG = TopicPartition("log", 0)
KEYS = st.binary(max_size=2)
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=2)), max_size=8), max_size=5)
ENDS = st.none() | KEYS


def stores(*keys: bytes) -> MemoryStores:
    made = MemoryStores(["totals", "other"])
    made.write({"totals": [(key, b"of " + key) for key in keys]}, {CHANGELOG: len(keys)})
    return made


@settings(max_examples=examples(40))
@given(BATCHES, st.lists(st.tuples(ENDS, ENDS, st.booleans()), max_size=4))
def test_reads_and_ranges_are_those_of_a_store_on_disk(
    batches: list[list[tuple[bytes, bytes | None]]], ranges: list[tuple[bytes | None, bytes | None, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        on_disk, in_memory = open_task_stores(Path(folder) / "store", ["totals"]), MemoryStores(["totals"])
        for number, batch in enumerate(batches, 1):
            for each in (on_disk, in_memory):
                each.write({"totals": batch}, {CHANGELOG: number})
            keys = [key for key, _ in batch]
            assert in_memory.get_many("totals", keys) == on_disk.get_many("totals", keys)
            for start, end, reverse in [(None, None, False), *ranges]:
                stored = list(on_disk.range("totals", start, end, reverse=reverse))
                assert list(in_memory.range("totals", start, end, reverse=reverse)) == stored
        assert dict(in_memory.offsets()) == dict(on_disk.offsets())
        on_disk.close()


def test_a_range_does_not_see_later_writes() -> None:
    made = stores(b"a", b"b")
    entries = made.range("totals")
    made.write({"totals": [(b"a", None), (b"b", b"new"), (b"c", b"new")]}, {})
    assert list(entries) == [(b"a", b"of a"), (b"b", b"of b")]
    assert list(made.range("totals")) == [(b"b", b"new"), (b"c", b"new")]


def test_an_empty_value_is_a_value() -> None:
    made = stores()
    made.write({"totals": [(b"k", b"")]}, {})
    assert made.get("totals", b"k") == b""
    made.write({"totals": [(b"k", None)]}, {})
    assert list(made.range("totals")) == []


def test_stores_are_apart_and_a_wipe_empties_all_of_them() -> None:
    made = stores(b"a")
    made.rebuild({"other": [(b"a", b"other")]}, {})
    made.identify({"log": "id"})
    assert (made.get("totals", b"a"), made.get("other", b"a")) == (b"of a", b"other")
    assert (made.offsets(), made.identities()) == ({CHANGELOG: 1}, {"log": "id"})
    made.wipe()
    assert (made.get("totals", b"a"), made.get("other", b"a")) == (None, None)
    assert (made.offsets(), made.identities()) == ({}, {})
