"""Stores behind the record cache against stores alone: the same answers, fewer reads, and never more than the limit."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.errors import StateError
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record_cache import ENTRY_BYTES, RecordCache
from kstreams_assign.tasks.stores import Write
from tests.samples import examples

CHANGELOG = TopicPartition("app-totals-changelog", 0)
NAMES = ("totals", "names", "quick")
ON_DISK = NAMES[:2]


class Disk(MemoryStores):
    """Count the reads of each key. With ``fails`` a write reaches the stores, and is reported as failed."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(NAMES))
        self.reads: Counter[tuple[str, bytes]] = Counter()
        self.fails = False

    def get(self, store: str, key: bytes) -> bytes | None:
        self.reads[store, key] += 1
        return super().get(store, key)

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(store, key) for key in keys]

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        super().write(writes, offsets)
        if self.fails:
            raise StateError("the disk is full")


KEYS, STORES = st.binary(max_size=1).map(lambda key: b"key-" + key[:1]), st.sampled_from(NAMES)
VALUES = st.none() | st.binary(max_size=40) | st.just(b"large" * 100)
WRITES = st.dictionaries(STORES, st.lists(st.tuples(KEYS, VALUES), max_size=6), max_size=3)
ACTIONS = st.lists(
    st.tuples(st.just("get"), STORES, KEYS)
    | st.tuples(st.just("get_many"), STORES, st.lists(KEYS, max_size=8))
    | st.tuples(st.sampled_from(["write", "rebuild", "fail"]), WRITES)
    | st.tuples(st.sampled_from(["wipe", "hand over"])),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(st.sampled_from([0, 400, 2_000, 1 << 20]), st.lists(st.tuples(st.integers(0, 1), ACTIONS), max_size=3))
def test_they_answer_what_the_stores_hold_within_the_limit(limit: int, turns: list[tuple[int, list[object]]]) -> None:
    cache, disks = RecordCache(limit), (Disk(), Disk())
    tasks = [cache.over(disk, ON_DISK) for disk in disks]
    twins: list[dict[str, dict[bytes, bytes | None]]] = [{name: {} for name in NAMES} for _ in disks]
    for number, actions in turns:
        for what, *given_ in actions:  # type: ignore[misc]
            stores, disk, twin = tasks[number], disks[number], twins[number]
            match what, *given_:
                case "get", store, key:
                    assert stores.get(store, key) == twin[store].get(key)
                case "get_many", store, keys:
                    assert stores.get_many(store, keys) == [twin[store].get(key) for key in keys]
                case ("wipe",):
                    stores.wipe()
                    twins[number] = {name: {} for name in NAMES}
                case ("hand over",):
                    assert cache.disclose(stores) is disk
                    disk.write({"totals": [(b"key-", b"by another")]}, {})
                    twin["totals"][b"key-"] = b"by another"
                    tasks[number] = cache.over(disk, ON_DISK)
                case (("write" | "rebuild" | "fail"), writes):
                    if what == "fail":
                        disk.fails = True
                        with pytest.raises(StateError):
                            stores.write({name: iter(entries) for name, entries in writes.items()}, {})
                        disk.fails = False
                    else:
                        getattr(stores, what)({name: iter(entries) for name, entries in writes.items()}, {})
                    for name, entries in writes.items():
                        twin[name].update(entries)
            assert cache.size_bytes() <= limit


def test_a_key_is_read_once_and_what_was_written_not_at_all() -> None:
    disk = Disk()
    disk.write({"totals": [(b"ann", b"1")], "quick": [(b"ann", b"1")]}, {})
    stores = RecordCache(1 << 20).over(disk, ON_DISK)
    for _ in range(3):
        assert stores.get("totals", b"ann") == b"1"
        assert stores.get("totals", b"bob") is None
        assert stores.get_many("totals", [b"ann", b"bob", b"cid", b"ann"]) == [b"1", None, None, b"1"]
        assert stores.get("quick", b"ann") == b"1"
    stores.write({"totals": [(b"dan", b"4"), (b"ann", None)]}, {CHANGELOG: 2})
    assert stores.get_many("totals", [b"dan", b"ann"]) == [b"4", None]
    totals = {key: count for (store, key), count in disk.reads.items() if store == "totals"}
    assert totals == {b"ann": 1, b"bob": 1, b"cid": 1}
    assert disk.reads["quick", b"ann"] == 3, "a store in memory is not kept twice"


def test_keys_that_are_used_again_and_again_stay_while_others_pass() -> None:
    disk = Disk()
    stores = RecordCache(100 * ENTRY_BYTES).over(disk, ON_DISK)
    for number in range(10_000):
        stores.get("totals", b"often-%d" % (number % 10))
        stores.get("totals", b"once-%d" % number)
    reads = sum(count for (_, key), count in disk.reads.items() if key.startswith(b"often"))
    assert reads == 10


def test_keys_that_are_written_again_and_again_do_not_count_twice() -> None:
    """They would drive out what is only read."""
    disk = Disk()
    stores = RecordCache(100 * ENTRY_BYTES).over(disk, ON_DISK)
    stores.get("names", b"read now and then")
    for number in range(1_000):
        stores.write({"totals": [(b"%d" % key, b"%d" % number) for key in range(10)]}, {})
        if number % 20 == 0:
            stores.get("names", b"read now and then")
    assert disk.reads["names", b"read now and then"] == 1


def test_an_entry_is_counted_as_what_it_takes() -> None:
    for count in (1_000, 10_000):
        entries = {b"key-%d" % number: b"%d" % (number * 1_000_003) for number in range(count)}
        taken = sys.getsizeof(entries) + sum(sys.getsizeof(key) + sys.getsizeof(entries[key]) for key in entries)
        counted = sum(ENTRY_BYTES + len(key) + len(value) for key, value in entries.items())
        assert taken * 0.9 < counted < taken * 1.5
