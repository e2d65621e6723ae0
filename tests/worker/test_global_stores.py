"""A table's database under readers and a writer: on a real RocksDB, and what a read may not see."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import ConfigError, StateError, StoreDamaged
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.stamped import ValueAndTime, stamped
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.global_stores import NOT_READ_YET, TableReads, TableStores
from kstreams_assign.worker.global_views import (
    ReadOnlyKeyValueStore,
    ReadOnlyTimestampedKeyValueStore,
    global_table,
    timestamped_global_table,
    view_of,
)

P0 = TopicPartition("countries", 0)
ENTRIES = [(b"key-%04d" % n, b"%d" % n) for n in range(3_000)]  # more than a cursor reads at once


class Table:
    """A table, its database, and the errors that its readers met."""

    def __init__(self, stores: TaskStores) -> None:
        self.errors: list[StateError] = []
        self.reads = TableReads("t", lambda _database, error: self.errors.append(error))
        self.stores = TableStores(stores, self.reads)


@pytest.fixture(params=["RocksDB", "memory"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    made = Table(open_task_stores(tmp_path / "t", ["t"]) if request.param == "RocksDB" else MemoryStores(["t"]))
    yield made
    made.stores.close()


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[Table]:
    made = Table(open_task_stores(tmp_path / "t", ["t"]))
    yield made
    made.stores.close()


def test_a_reader_sees_what_was_written_last(table):
    table.stores.write({"t": [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]}, {P0: 3})
    table.stores.allow_reads()
    assert table.reads.get(b"a") == b"1"
    assert table.reads.get_many([b"c", b"none", b"a"]) == [b"3", None, b"1"]
    assert table.reads.get_many([]) == []
    assert list(table.reads.range(b"b")) == [(b"b", b"2"), (b"c", b"3")]
    assert list(table.reads.range(None, b"c", reverse=True)) == [(b"b", b"2"), (b"a", b"1")]
    view = ReadOnlyKeyValueStore(table.reads)
    assert list(view.prefix_scan(b"b")) == [(b"b", b"2")]
    assert view.approximate_count() == 3
    table.stores.write({"t": [(b"a", None), (b"b", b"two")]}, {P0: 5})
    assert [table.reads.get(b"a"), table.reads.get(b"b")] == [None, b"two"]
    assert table.stores.offsets() == {P0: 5}


def test_a_range_is_a_snapshot(table):
    table.stores.write({"t": ENTRIES}, {P0: 1})
    table.stores.allow_reads()
    entries = table.reads.range()
    first = next(entries)
    table.stores.write({"t": [(key, b"changed") for key, _ in ENTRIES]}, {P0: 2})
    assert [first, *entries] == ENTRIES


def reads_of(table: Table) -> list:
    return [lambda: table.reads.get(b"a"), lambda: table.reads.get_many([b"a"]), lambda: list(table.reads.range())]


@pytest.mark.parametrize("number", range(3), ids=["get", "get_many", "range"])
def test_a_table_that_is_not_complete_is_refused(table, number):
    read = reads_of(table)[number]
    with pytest.raises(StateError, match=r"^global table t cannot be read: the worker is not running$"):
        read()
    table.reads.refuse(NOT_READ_YET)
    with pytest.raises(StateError, match=r"^global table t cannot be read: it is not read to its end yet$"):
        read()
    table.stores.allow_reads()
    read()
    table.stores.wipe()
    with pytest.raises(StateError, match="read again from the start"):
        read()
    table.stores.allow_reads()
    table.stores.close()
    with pytest.raises(StateError, match="the worker is not running"):
        read()
    assert table.errors == [], "these are no errors of the database"


@pytest.mark.parametrize("end", ["wipe", "close"])
def test_a_range_that_is_cut_short_is_an_error_and_not_the_end_of_the_table(rocks, end):
    rocks.stores.write({"t": ENTRIES}, {P0: 1})
    rocks.stores.allow_reads()
    entries = rocks.reads.range()
    assert next(entries) == ENTRIES[0]
    getattr(rocks.stores, end)()
    with pytest.raises(StateError, match="read the range again"):
        list(entries)
    assert rocks.errors == []


@pytest.mark.parametrize("name", ["get", "get_many"])
def test_a_read_that_met_a_database_being_emptied_is_refused_although_the_table_is_complete_again(
    rocks, monkeypatch, name
):
    rocks.stores.write({"t": [(b"a", b"1")]}, {P0: 1})
    rocks.stores.allow_reads()
    stores = rocks.reads._stores
    read = getattr(type(stores), name)

    def slow(*arguments: object) -> object:
        rocks.stores.wipe()
        value = read(*arguments)
        rocks.stores.write({"t": [(b"a", b"1")]}, {P0: 1})
        rocks.stores.allow_reads()
        return value

    monkeypatch.setattr(type(stores), name, slow)
    with pytest.raises(StateError, match="it is ready now; read again"):
        getattr(rocks.reads, name)(b"a" if name == "get" else [b"a"])


def test_an_error_of_the_database_is_reported_and_is_no_damage_of_the_readers_own_stores(rocks, monkeypatch):
    rocks.stores.allow_reads()
    damage = StoreDamaged("a block is damaged")

    def broken(*_arguments: object, **_named: object) -> None:
        raise damage

    for name in ("get", "get_many", "range"):
        monkeypatch.setattr(type(rocks.reads._stores), name, broken)
    for read in reads_of(rocks):
        with pytest.raises(StateError, match="global table t cannot be read: a block is damaged") as raised:
            read()
        assert not isinstance(raised.value, StoreDamaged)
    assert rocks.errors == [damage] * 3


def test_bulk_writes_never_close_the_database_under_readers(rocks):
    bulk = rocks.stores.database
    rocks.stores.rebuild({"t": ENTRIES}, {P0: 1})
    assert bulk._bulk
    rocks.stores.allow_reads()
    assert not bulk._bulk
    rocks.stores.rebuild({"t": [(b"a", b"1")]}, {P0: 2})
    assert not bulk._bulk
    assert rocks.reads.get(b"a") == b"1"


def test_readers_see_each_batch_whole_while_it_is_written_and_flushed(rocks):
    """Each batch gives all keys one number, so a reader that sees two has seen half of a batch."""
    keys = [b"key-%d" % n for n in range(500)]
    done, mixed, rounds = threading.Event(), [], [0, 0, 0]
    rocks.stores.write({"t": [(key, struct.pack(">q", 0)) for key in keys]}, {P0: 0})
    rocks.stores.allow_reads()

    def read(number: int) -> None:
        while not done.is_set():
            seen = set(rocks.reads.get_many(keys)), {value for _, value in rocks.reads.range()}
            mixed.extend(values for values in seen[1:] if len(values) != 1)
            assert rocks.reads.get(keys[0]) is not None
            rounds[number] += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    batch = 0
    while min(rounds) < 20:
        batch += 1
        rocks.stores.write({"t": [(key, struct.pack(">q", batch)) for key in keys]}, {P0: batch})
        if batch % 10 == 0:
            rocks.stores.database._db.flush()
    done.set()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert rocks.errors == []


def test_keys_of_another_type_are_refused_with_table_and_value():
    view = ReadOnlyKeyValueStore(TableReads("t", print))
    with pytest.raises(TypeError, match=r"^global table t: key is str 'a': must be bytes$"):
        view.get("a")
    with pytest.raises(TypeError, match=r"key is int 1: must be bytes"):
        view.get_many([b"a", 1])
    with pytest.raises(TypeError, match=r"prefix is str 'a': must be bytes"):
        view.prefix_scan("a")
    with pytest.raises(TypeError, match=r"an end of the range is str 'a': must be bytes or None"):
        view.range("a")


def test_a_timestamped_table_gives_values_with_and_without_their_times():
    made = Table(MemoryStores(["t"]))
    made.stores.write({"t": [(b"a", stamped(b"1", 7)), (b"b", stamped(b"", 9))]}, {P0: 2})
    made.stores.allow_reads()
    view = view_of(GlobalTable("t", topic="countries", timestamped=True), made.reads)
    assert isinstance(view, ReadOnlyTimestampedKeyValueStore)
    assert [view.get(b"a"), view.get(b"none"), view.get_with_timestamp(b"none")] == [b"1", None, None]
    assert view.get_with_timestamp(b"b") == ValueAndTime(b"", 9)
    assert view.get_many([b"b", b"none"]) == view.get_many(key for key in (b"b", b"none")) == [b"", None]
    assert view.get_many_with_timestamps([b"a", b"none"]) == [ValueAndTime(b"1", 7), None]
    assert view.get_many_with_timestamps({b"a": 1}.keys()) == [ValueAndTime(b"1", 7)]
    assert list(view.range()) == [(b"a", b"1"), (b"b", b"")]
    assert list(view.prefix_scan(b"a")) == [(b"a", b"1")]
    assert list(view.prefix_scan_with_timestamps(b"a")) == [(b"a", ValueAndTime(b"1", 7))]
    assert list(view.range_with_timestamps(b"b", reverse=True)) == [(b"b", ValueAndTime(b"", 9))]


def test_a_table_that_is_not_declared_is_named_with_those_that_are():
    views = {"t": view_of(GlobalTable("t", topic="countries"), TableReads("t", print))}
    assert global_table(views, "t") is views["t"]
    with pytest.raises(ConfigError, match=r"global table 'u': no such table; global_tables declares t"):
        global_table(views, "u")
    with pytest.raises(ConfigError, match=r"keeps no timestamps; declare it as GlobalTable\('t', \.\.\., timestamped"):
        timestamped_global_table(views, "t")
