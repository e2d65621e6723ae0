"""What stores on disk, stores in memory, and a task with both have in common (``tasks.stores.TaskStores``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.mixed_stores import MixedStores
from kstreams_assign.tasks.stores import TaskStores
from tests.samples import examples

COUNTS, TOTALS = TopicPartition("app-counts-changelog", 3), TopicPartition("app-totals-changelog", 3)

KINDS: Mapping[str, Callable[[Path], TaskStores]] = {
    "on disk": lambda path: open_task_stores(path, ["counts", "totals"]),
    "in memory": lambda _: MemoryStores(["counts", "totals"]),
    "counts on disk, totals in memory": lambda path: MixedStores(
        open_task_stores(path, ["counts"]), {"totals": TOTALS}
    ),
    "counts in memory, totals on disk": lambda path: MixedStores(
        open_task_stores(path, ["totals"]), {"counts": COUNTS}
    ),
}

SOURCE = TopicPartition("in", 3)
SOURCES = frozenset({SOURCE.topic})

KINDS_OF_A_TABLE: Mapping[str, Callable[[Path], TaskStores]] = {
    "on disk": lambda path: open_task_stores(path, ["counts", "totals"], sources=SOURCES),
    "in memory": lambda _: MemoryStores(["counts", "totals"], SOURCES),
    "counts on disk, totals in memory": lambda path: MixedStores(
        open_task_stores(path, ["counts"], sources=SOURCES), {"totals": SOURCE}, SOURCES
    ),
    "counts in memory, totals on disk": lambda path: MixedStores(
        open_task_stores(path, ["totals"], sources=SOURCES), {"counts": COUNTS}, SOURCES
    ),
}


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskStores]:
    opened = KINDS[request.param](tmp_path / "0_3")
    yield opened
    opened.close()


def test_stores_of_a_task_do_not_see_each_other(stores: TaskStores) -> None:
    stores.write({"counts": [(b"k", b"1")], "totals": [(b"k", b"2")]}, {})
    assert (stores.get("counts", b"k"), stores.get("totals", b"k")) == (b"1", b"2")


def test_an_empty_key_and_an_empty_value_are_a_key_and_a_value(stores: TaskStores) -> None:
    stores.write({"counts": [(b"", b"")]}, {})
    assert stores.get("counts", b"") == b""
    assert list(stores.range("counts")) == [(b"", b"")]


def test_within_a_batch_the_last_write_of_a_key_wins(stores: TaskStores) -> None:
    stores.write({"counts": [(b"a", b"1"), (b"a", None), (b"b", None), (b"b", b"2")]}, {})
    assert stores.get_many("counts", [b"a", b"b", b"c"]) == [None, b"2", None]
    assert stores.get_many("counts", []) == []


def test_offsets_are_those_of_all_writes_so_far(stores: TaskStores) -> None:
    stores.write({}, {COUNTS: 5, TOTALS: 2**62})
    stores.rebuild({}, {COUNTS: 6})
    assert dict(stores.offsets()) == {COUNTS: 6, TOTALS: 2**62}
    stores.identify({COUNTS.topic: "a", TOTALS.topic: "b"})
    stores.identify({COUNTS.topic: "c"})
    assert dict(stores.identities()) == {COUNTS.topic: "c", TOTALS.topic: "b"}


def test_a_store_that_the_task_lacks_is_named_and_nothing_is_written(stores: TaskStores) -> None:
    with pytest.raises(StateError, match=r"no.* 'nope'"):
        stores.get("nope", b"k")
    with pytest.raises(StateError, match=r"no.* 'nope'"):
        stores.write(
            {"counts": [(b"k", b"1")], "nope": [(b"k", b"1")], "totals": [(b"k", b"1")]}, {COUNTS: 1, TOTALS: 1}
        )
    assert (stores.get("counts", b"k"), stores.get("totals", b"k"), dict(stores.offsets())) == (None, None, {})


@pytest.mark.parametrize("back", [COUNTS, TOTALS], ids=str)
@pytest.mark.parametrize("how", ["write", "rebuild"])
def test_an_offset_that_goes_back_is_damage_and_nothing_is_written(
    stores: TaskStores, back: TopicPartition, how: str
) -> None:
    stores.write({"counts": [(b"k", b"1")], "totals": [(b"k", b"1")]}, {COUNTS: 5, TOTALS: 5})
    with pytest.raises(StoreDamaged, match=f"is at offset 5 of {back}, which has gone back to 3"):
        getattr(stores, how)({"counts": [(b"k", b"2")], "totals": [(b"k", b"2")]}, {COUNTS: 6, TOTALS: 6} | {back: 3})
    assert (stores.get("counts", b"k"), stores.get("totals", b"k")) == (b"1", b"1")
    assert dict(stores.offsets()) == {COUNTS: 5, TOTALS: 5}


@pytest.mark.parametrize("kind", KINDS_OF_A_TABLE)
def test_the_offset_of_a_source_topic_may_go_back(kind: str, tmp_path: Path) -> None:
    stores = KINDS_OF_A_TABLE[kind](tmp_path / "0_3")
    for value, offset in ((b"new", 5), (b"old", 3)):
        stores.write({"counts": [(b"k", value)], "totals": [(b"k", value)]}, {COUNTS: 5, SOURCE: offset})
    assert (stores.get("totals", b"k"), dict(stores.offsets())) == (b"old", {COUNTS: 5, SOURCE: 3})
    with pytest.raises(StoreDamaged, match=f"is at offset 5 of {COUNTS}, which has gone back to 4"):
        stores.write({}, {COUNTS: 4, SOURCE: 2})
    assert dict(stores.offsets()) == {COUNTS: 5, SOURCE: 3}
    stores.close()


def test_closed_stores_say_so_and_closing_twice_is_fine(stores: TaskStores) -> None:
    stores.write({"counts": [(b"a", b"1")], "totals": [(b"a", b"1")]}, {COUNTS: 1})
    unfinished = [stores.range(name) for name in ("counts", "totals")]
    stores.close()
    stores.close()
    assert [list(entries) for entries in unfinished] == [[], []]
    for name in ("counts", "totals"):
        for use in (
            lambda name: stores.get(name, b"k"),
            lambda name: stores.get_many(name, [b"k"]),
            stores.range,
            stores.approximate_count,
            lambda name: stores.write({name: [(b"k", b"v")]}, {}),
        ):
            with pytest.raises(StateError, match="closed"):
                use(name)


def test_wiped_stores_are_empty_and_can_be_written(stores: TaskStores) -> None:
    stores.write({"counts": [(b"%d" % n, b"v") for n in range(1_000)], "totals": [(b"\xff" * 50, b"v")]}, {COUNTS: 9})
    stores.identify({COUNTS.topic: "a", TOTALS.topic: "b"})
    unfinished = stores.range("counts")
    stores.wipe()
    stores.wipe()
    assert list(unfinished) == []
    assert (dict(stores.offsets()), dict(stores.identities())) == ({}, {})
    assert (list(stores.range("counts")), list(stores.range("totals"))) == ([], [])
    assert (stores.approximate_count("counts"), stores.approximate_count("totals")) == (0, 0)
    stores.write({"counts": [(b"new", b"1")]}, {COUNTS: 1})
    assert (list(stores.range("counts")), dict(stores.offsets())) == ([(b"new", b"1")], {COUNTS: 1})


@pytest.mark.parametrize("how", ["write", "rebuild"])
def test_the_count_of_keys_that_were_written_once_is_exact(stores: TaskStores, how: str) -> None:
    for name, changelog in (("counts", COUNTS), ("totals", TOTALS)):
        getattr(stores, how)({name: [(b"%d" % n, b"v") for n in range(300)]}, {changelog: 300})
        assert stores.approximate_count(name) == 300


def test_the_count_is_never_negative(stores: TaskStores) -> None:
    stores.write({"counts": [(b"%d" % n, None) for n in range(300)]}, {})
    assert stores.approximate_count("counts") == 0


# Ranges, against a sorted list.

keys = st.binary(max_size=3)
entries = st.lists(st.tuples(keys, st.none() | keys), max_size=20)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(entries, max_size=4), bounds=st.tuples(st.none() | keys, st.none() | keys))
def test_a_range_is_the_sorted_slice_after_each_write(
    stores: TaskStores, batches: list[list[tuple[bytes, bytes | None]]], bounds: tuple[bytes | None, bytes | None]
) -> None:
    start, end = bounds
    for name in ("counts", "totals"):
        data: dict[bytes, bytes] = {}
        stores.write({name: [(key, None) for key, _ in stores.range(name)]}, {})
        for batch in batches:
            stores.write({name: batch}, {})
            for key, value in batch:
                data.pop(key, None)
                if value is not None:
                    data[key] = value
            ours = sorted((k, v) for k, v in data.items() if (start is None or k >= start) and (end is None or k < end))
            assert list(stores.range(name, start, end)) == ours
            assert list(stores.range(name, start, end, reverse=True)) == ours[::-1]


@pytest.mark.parametrize("size", [999, 1_000, 1_001, 2_000])
@pytest.mark.parametrize("name", ["counts", "totals"])
def test_a_range_longer_than_a_chunk_is_whole_both_ways(stores: TaskStores, name: str, size: int) -> None:
    data = [(b"%05d" % n, b"v") for n in range(size)]
    stores.write({name: data}, {})
    assert list(stores.range(name)) == data
    assert list(stores.range(name, reverse=True)) == data[::-1]


@pytest.mark.parametrize("name", ["counts", "totals"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_shows_the_store_as_it_was_when_asked_for(stores: TaskStores, name: str, reverse: bool) -> None:
    stores.write({name: [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]}, {})
    asked = stores.range(name, reverse=reverse)
    first = next(asked)
    stores.write({name: [(b"a", b"2"), (b"b", None), (b"c", b"2"), (b"d", b"2")]}, {})
    stores.write({name: [(b"b", b"3")]}, {})
    seen = [first, *asked]
    assert sorted(seen, reverse=reverse) == seen
    assert sorted(seen) == [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
    assert list(stores.range(name)) == [(b"a", b"2"), (b"b", b"3"), (b"c", b"2"), (b"d", b"2")]
