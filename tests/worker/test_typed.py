"""Typed stores, sinks and batches: the same state as with bytes, and errors that name the guilty record."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign import (
    Batch,
    ConfigError,
    Record,
    Serde,
    Serdes,
    SerializationError,
    Store,
    SubtopologyShape,
    Task,
    TaskId,
    TimestampedKeyValueStore,
    TypedKeyValueStore,
    TypedTimestampedKeyValueStore,
    ValueAndTime,
)
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task import TYPED_VIEWS_MAX
from kstreams_assign.worker.task_workspace import TaskWorkspace

STORES = (Store("totals"), Store("newest", timestamped=True), Store("table", source="in"))
SHAPE = SubtopologyShape(("in",), STORES)
RECORDS = [
    Record("in", 3, 40, 70, b"ann", b'{"amount":5}'),
    Record("in", 3, 41, 71, b"bob", b'{"amount":7}', [("h", b"1")]),
    Record("in", 3, 42, 72, None, None),
]


@dataclass
class Payment:
    amount: int


def made_workspace() -> TaskWorkspace:
    stores = MemoryStores([store.name for store in STORES])
    return TaskWorkspace(TaskId(0, 3), SHAPE, {"out": "app-out-repartition"}, stores, AtWork(5), {}, "app")


@pytest.fixture
def workspace() -> TaskWorkspace:
    return made_workspace()


@pytest.fixture
def task(workspace: TaskWorkspace) -> Task:
    return workspace.task


KEYS = st.integers(-3, 3)
AMOUNTS = st.integers(-(2**63), 2**63 - 1)
STEPS = st.lists(
    st.tuples(st.just("put"), KEYS, st.none() | AMOUNTS)
    | st.tuples(st.just("put_many"), st.dictionaries(KEYS, st.none() | AMOUNTS), st.none())
    | st.tuples(st.just("delete"), KEYS, st.none())
    | st.tuples(st.just("check"), st.none() | KEYS, st.none() | KEYS)
)


class DictStore:
    """The twin: a dict, and its entries in the order of Java's bytes for a Long."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}

    def put(self, key: int, value: int | None) -> None:
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value

    def range(self, start: int | None, end: int | None) -> Iterator[tuple[int, int]]:
        def place(key: int) -> int:
            return key % 2**64  # negative numbers are behind all others

        for key in sorted(self.entries, key=place):
            if (start is None or place(key) >= place(start)) and (end is None or place(key) < place(end)):
                yield key, self.entries[key]


@pytest.mark.parametrize("name", ["totals", "newest"])
def test_a_typed_store_is_a_dict_in_the_order_of_the_keys_bytes(name: str) -> None:
    @given(STEPS)
    def play(steps: list[tuple[str, Any, Any]]) -> None:
        store, twin = made_workspace().task.store(name, key=int, value=int), DictStore()
        for step, first, second in steps:
            match step:
                case "put":
                    store.put(first, second)
                    twin.put(first, second)
                case "put_many":
                    store.put_many(first.items())
                    for key, value in first.items():
                        twin.put(key, value)
                case "delete":
                    store.delete(first)
                    twin.put(first, None)
                case _:
                    assert list(store.range(first, second)) == list(twin.range(first, second))
                    backward = store.range(first, second, reverse=True)
                    assert list(backward) == list(twin.range(first, second))[::-1]
        assert {key: store.get(key) for key in range(-3, 4)} == {key: twin.entries.get(key) for key in range(-3, 4)}
        assert store.get_many(range(-3, 4)) == [twin.entries.get(key) for key in range(-3, 4)]

    play()


def test_a_typed_store_and_the_store_of_bytes_are_one_store(task: Task) -> None:
    typed, plain = task.store("totals", key=str, value=int), task.store("totals")
    typed.put("ann", 5)
    assert plain.get(b"ann") == bytes.fromhex("0000000000000005")
    plain.put(b"bob", bytes.fromhex("ffffffffffffffff"))
    assert typed.get("bob") == -1
    assert list(typed.range()) == [("ann", 5), ("bob", -1)]
    assert list(typed.prefix_scan("b")) == [("bob", -1)]
    assert list(typed.prefix_scan("", reverse=True)) == [("bob", -1), ("ann", 5)]
    assert typed.approximate_count() == 2


def test_a_view_is_made_once_for_each_pair_of_serdes(task: Task) -> None:
    assert task.store("totals", key=str, value=int) is task.store("totals", key=str, value=int)
    assert task.store("totals", key=str, value=Serdes.integer) is not task.store("totals", key=str, value=int)
    assert task.sink("out", key=str, value=Payment) is task.sink("out", key=str, value=Payment)


def test_serdes_that_each_call_makes_do_not_pile_up(task: Task) -> None:
    alive = weakref.WeakSet[Any]()
    for _ in range(1_000):
        new = Serde("new", lambda text: text.encode(), bytes.decode)
        alive.add(new.serialize)
        task.store("totals", key=str, value=new).put("ann", "5")
        task.sink("out", key=new, value=str).emit("ann", "5")
    del new
    gc.collect()
    assert len(alive) <= TYPED_VIEWS_MAX


def test_a_timestamped_store_keeps_times_beside_typed_values(task: Task, workspace: TaskWorkspace) -> None:
    store = task.timestamped_store("newest", key=str, value=Payment)
    assert type(store) is TypedTimestampedKeyValueStore
    assert type(task.timestamped_store("newest")) is TimestampedKeyValueStore
    list(workspace.batch(RECORDS))
    store.put("ann", Payment(5))
    store.put("bob", Payment(7), timestamp_ms=9)
    store.put_many([("cid", Payment(8))], timestamps_ms=[10])
    assert store.get("ann") == Payment(5)
    assert store.get_with_timestamp("ann") == ValueAndTime(Payment(5), 72)
    assert store.get_many_with_timestamps(iter(["bob", "none"])) == [ValueAndTime(Payment(7), 9), None]
    assert list(store.range_with_timestamps("b", reverse=True)) == [
        ("cid", ValueAndTime(Payment(8), 10)),
        ("bob", ValueAndTime(Payment(7), 9)),
    ]
    assert list(store.prefix_scan_with_timestamps("c")) == [("cid", ValueAndTime(Payment(8), 10))]
    store.delete("ann")
    assert store.get_with_timestamp("ann") is None


def test_a_sink_emits_the_bytes_of_its_serdes_as_emit_does(task: Task, workspace: TaskWorkspace) -> None:
    sink = task.sink("out", key=str, value=Payment)
    sink.emit("ann", Payment(5), headers=[("h", None)], partition=1, timestamp_ms=3)
    sink.emit(None, None)
    task.emit("out", b"ann", b'{"amount":5}', headers=[("h", None)], partition=1, timestamp_ms=3)
    task.emit("out", None, None)
    first, second, *of_bytes = workspace.unsent()
    assert [first, second] == of_bytes


def test_a_sink_emits_many_or_none_of_them(task: Task, workspace: TaskWorkspace) -> None:
    sink = task.sink("out", key=str, value=Payment)
    with pytest.raises(SerializationError, match="output 'out'"):
        sink.emit_many([("ann", Payment(5)), ("bob", "seven")])  # type: ignore[list-item]
    sink.emit_many(iter([("ann", Payment(5)), (None, None)]), [3, 4])
    task.emit("out", b"ann", b'{"amount":5}', headers=(), timestamp_ms=3)
    task.emit("out", None, None, headers=(), timestamp_ms=4)
    first, second, *of_bytes = workspace.unsent()
    assert [first, second] == of_bytes


def test_pairs_make_each_record_the_record_at_work(task: Task, workspace: TaskWorkspace) -> None:
    sink = task.sink("out", key=str, value=Payment)
    pairs = []
    for key, payment in workspace.batch(RECORDS).pairs(key=str, value=Payment):
        pairs.append((key, payment))
        sink.emit(key, payment)
    assert pairs == [("ann", Payment(5)), ("bob", Payment(7)), (None, None)]
    assert [(row[1], row[3], row[5]) for row in workspace.unsent()] == [
        (b"ann", (), 70),
        (b"bob", (("h", b"1"),), 71),
        (None, (), 72),
    ]


def test_columns_are_lists_and_leave_the_record_at_work_as_it_was(workspace: TaskWorkspace) -> None:
    batch = workspace.batch(RECORDS)
    before = workspace.at_work.record
    assert batch.keys_as(str) == ["ann", "bob", None]
    assert batch.values_as(Serdes.json) == [{"amount": 5}, {"amount": 7}, None]
    assert batch.keys_as(bytes) == [b"ann", b"bob", None]
    assert batch.values_as(bytes) == [record.value for record in RECORDS]
    assert batch.timestamps_ms() == [70, 71, 72]
    assert workspace.at_work.record is before


@pytest.mark.parametrize(
    ("decode", "field"),
    [
        (lambda batch: batch.values_as(Payment), "value"),
        (lambda batch: batch.keys_as(int), "key"),
        (lambda batch: batch.pairs(key=bytes, value=Payment), "value"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_named_and_is_the_record_at_work(
    workspace: TaskWorkspace, decode: Any, field: str
) -> None:
    bad = Record("in", 3, 43, 73, b"dan", b"five" * 20)
    good = [record._replace(key=bytes(8)) for record in RECORDS]
    batch = workspace.batch([*good, bad, *good])
    with pytest.raises(SerializationError) as refused:
        decode(batch)
    error = refused.value
    assert workspace.at_work.record is bad
    assert (error.topic, error.partition, error.offset, error.field) == ("in", 3, 43, field)
    assert error.data == getattr(bad, field)
    expected = "JSON of Payment" if field == "value" else "a Java Long (8 bytes)"
    shown = repr(b"five" * 8) + "..." if field == "value" else repr(b"dan")
    assert error.expected == expected
    start = f"in-3 at offset 43: the {field} cannot be read as {expected}: {len(error.data or b'')} bytes {shown}: "
    assert str(error).startswith(start)
    assert error.__cause__ is not None


def test_stored_bytes_that_cannot_be_read_are_named(task: Task, workspace: TaskWorkspace) -> None:
    list(workspace.batch(RECORDS))
    task.store("totals").put(b"ann", b"five")
    store = task.store("totals", key=str, value=int)
    text = (
        r"task 0_3, store 'totals', in-3 at offset 42: the value cannot be read as a Java Long \(8 bytes\): "
        r"4 bytes b'five': "
    )
    for read in (lambda: store.get("ann"), lambda: store.get_many(["ann"]), lambda: list(store.range())):
        with pytest.raises(SerializationError, match=text):
            read()


def test_a_value_that_cannot_be_written_is_named_and_nothing_is_written(task: Task, workspace: TaskWorkspace) -> None:
    list(workspace.batch(RECORDS))
    wrong: Any = "five"
    with pytest.raises(
        SerializationError,
        match=r"store 'totals', in-3 at offset 42: the value cannot be written as a Java Long .*'five'",
    ) as refused:
        task.store("totals", key=str, value=int).put("ann", wrong)
    assert (refused.value.field, refused.value.data) == ("value", None)
    with pytest.raises(
        SerializationError, match=r"output 'out', .* the key cannot be written as a UTF-8 string: int 5"
    ):
        task.sink("out", key=str, value=int).emit(5, 5)  # type: ignore[arg-type]
    assert workspace.waiting_bytes() == 0


def test_a_serde_that_returns_no_bytes_meets_the_check_of_the_store(task: Task) -> None:
    wrong: Serde[str] = Serde("text", lambda text: text, lambda data: data.decode())  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="store 'totals', before its first record: value is str 'five': must be"):
        task.store("totals", key=str, value=wrong).put("ann", "five")


@pytest.mark.parametrize(
    ("opening", "named"),
    [
        (lambda task: task.store("totals", key=str), "value = None: must be str, int"),
        (lambda task: task.store("totals", value=str), "key = None: must be str, int"),
        (lambda task: task.store("totals", key=str, value=dict), "value = <class 'dict'>: must be str"),
        (lambda task: task.store("other", key=str, value=int), "store 'other': subtopology 0 declares"),
        (lambda task: task.timestamped_store("totals", key=str, value=int), "keeps no timestamps"),
        (lambda task: task.timestamped_store("newest", key=str), "value = None"),
        (lambda task: task.sink("in", key=str, value=int), "topic 'in': subtopology 0 declares the sinks"),
        (lambda task: task.sink("out", key=str, value=None), "value = None"),
    ],
)
def test_what_cannot_be_opened_is_refused(task: Task, opening: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        opening(task)


def test_serdes_learn_the_topic_and_field_that_they_code(task: Task, workspace: TaskWorkspace) -> None:
    asked: list[tuple[str, str]] = []

    def bind(topic: str, field: Any) -> Serde[bytes]:
        asked.append((topic, field))
        return Serdes.bytes

    serde = Serde("bound", lambda value: value, lambda data: data, bind=bind)
    task.store("totals", key=serde, value=serde)
    task.store("table", key=serde, value=serde)
    task.sink("out", key=serde, value=serde)
    batch: Batch = workspace.batch(RECORDS)
    batch.pairs(key=serde, value=serde)
    topics = ["app-totals-changelog", "in", "app-out-repartition", "in"]
    assert asked == [(topic, field) for topic in topics for field in ("key", "value")]


def test_typed_views_are_what_the_types_say(task: Task) -> None:
    assert type(task.store("totals", key=str, value=int)) is TypedKeyValueStore
    assert type(task.store("newest", key=str, value=int)) is TypedTimestampedKeyValueStore
