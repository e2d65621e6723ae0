"""A task's code gives its stores and outputs a wrong type: the call fails, and the error names the code's place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import (
    Config,
    Record,
    Store,
    Subtopology,
    SubtopologyShape,
    Task,
    TaskId,
    TopicPartition,
    Worker,
)
from kstreams_assign.adapters.confluent import RecordProducer
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import TransactionAbortedEvent
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.stamped import ValueAndTime
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task_workspace import TaskWorkspace
from kstreams_assign.worker.views import KeyValueStore
from tests.worker.app import App, count

SHAPE = SubtopologyShape(("in",), (Store("plain"), Store("stamped", timestamped=True)))
WRONG: list[Any] = ["text", 7, bytearray(b"k"), memoryview(b"k"), ["k"], object()]


class Word(bytes):
    """Bytes all the same."""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[TaskWorkspace]:
    stores = open_task_stores(tmp_path / "0_3", ["plain", "stamped"], timestamped=SHAPE.timestamped)
    made = TaskWorkspace(
        TaskId(0, 3), SHAPE, {"out": "the-output"}, stores, AtWork(5), {TopicPartition("in", 3): PartitionTime("")}
    )
    yield made
    stores.close()


@pytest.fixture
def task(workspace: TaskWorkspace) -> Task:
    return workspace.task


def at_work(workspace: TaskWorkspace) -> None:
    for _ in workspace.batch([Record("in", 3, 41, 7, None, b"v")]):
        pass


Call = Callable[[KeyValueStore, Any], Any]
KEYS: dict[str, Call] = {
    "get": lambda store, wrong: store.get(wrong),
    "get_many": lambda store, wrong: store.get_many([b"k", wrong]),
    "put": lambda store, wrong: store.put(wrong, b"v"),
    "put_many": lambda store, wrong: store.put_many([(b"k", b"v"), (wrong, b"v")]),
    "delete": lambda store, wrong: store.delete(wrong),
}
VALUES: dict[str, Call] = {
    "put": lambda store, wrong: store.put(b"k", wrong),
    "put_many": lambda store, wrong: store.put_many([(b"k", b"v"), (b"l", wrong)]),
}


@pytest.mark.parametrize("name", ["plain", "stamped"])
@pytest.mark.parametrize("call", KEYS)
@pytest.mark.parametrize("wrong", [*WRONG, None], ids=lambda wrong: type(wrong).__name__)
def test_a_key_that_is_not_bytes_is_refused_where_it_is_given(
    workspace: TaskWorkspace, task: Task, name: str, call: str, wrong: Any
) -> None:
    at_work(workspace)
    with pytest.raises(TypeError) as raised:
        KEYS[call](task.store(name), wrong)
    given = "None" if wrong is None else type(wrong).__name__
    text = str(raised.value)
    assert text.startswith(f"task 0_3, store '{name}', in-3 at offset 41: key is {given}")
    assert text.endswith(": must be bytes")
    assert not workspace.take().writes


@pytest.mark.parametrize("name", ["plain", "stamped"])
@pytest.mark.parametrize("call", VALUES)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_a_value_that_is_not_bytes_is_refused_where_it_is_given(
    workspace: TaskWorkspace, task: Task, name: str, call: str, wrong: Any
) -> None:
    at_work(workspace)
    with pytest.raises(
        TypeError, match=r"task 0_3, store '.*', in-3 at offset 41: value is .*: must be None or bytes$"
    ):
        VALUES[call](task.store(name), wrong)
    assert not workspace.take().writes


@pytest.mark.parametrize("name", ["plain", "stamped"])
def test_ends_of_a_range_and_times_are_checked_too(task: Task, name: str) -> None:
    store = task.store(name)
    place = f"task 0_3, store '{name}', before its first record: "
    wrong: Any = "a"
    for ends in ((wrong, None), (None, wrong)):
        with pytest.raises(TypeError, match=place + "an end of the range is str 'a': must be None or bytes"):
            store.range(*ends)
    for time_ms in ("7", 7.5, True):
        with pytest.raises(TypeError, match=place + "timestamp_ms is .*: must be int"):
            store.put(b"k", b"v", time_ms)  # type: ignore[arg-type]
    for time_ms in (-1, 2**63):
        for write in (lambda: store.delete(b"k", time_ms), lambda: store.put(b"k", b"v", time_ms)):  # noqa: B023
            with pytest.raises(ValueError, match=place + rf"timestamp_ms = {time_ms}: must be from 0 to 2\^63 - 1"):
                write()
    store.put(b"k", b"v", 2**63 - 1)


def test_none_deletes_and_a_kind_of_bytes_is_bytes(workspace: TaskWorkspace, task: Task) -> None:
    at_work(workspace)
    plain, stamped = task.store("plain"), task.timestamped_store("stamped")
    for store in (plain, stamped):
        store.put(Word(b"k"), Word(b"v"))
        assert (store.get(b"k"), store.get(Word(b"k"))) == (b"v", b"v")
    assert stamped.get_with_timestamp(b"k") == ValueAndTime(b"v", 7)
    for store in (plain, stamped):
        store.put(b"k", None)
        assert store.get(b"k") is None
    assert workspace.take().writes == {"plain": {b"k": None}, "stamped": {b"k": None}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"key": "k"}, "key is str 'k': must be None or bytes"),
        ({"value": bytearray(b"v")}, r"value is bytearray bytearray\(b'v'\): must be None or bytes"),
        ({"value": 7}, "value is int 7: must be None or bytes"),
        ({"partition": "1"}, "partition is str '1': must be int"),
        ({"partition": True}, "partition is bool True: must be int"),
        ({"timestamp_ms": 7.5}, "timestamp_ms is float 7.5: must be int"),
        ({"headers": 7}, "headers is int 7: must be list or tuple"),
        ({"headers": "ab"}, "headers is str 'ab': must be list or tuple"),
        ({"headers": [("a",)]}, r"a header is tuple \('a',\): must be tuple"),
        ({"headers": ["ab"]}, "a header is str 'ab': must be tuple"),
        ({"headers": [(b"name", b"v")]}, "a header's name is bytes b'name': must be str"),
        ({"headers": [("name", "v")]}, "a header's value is str 'v': must be None or bytes"),
    ],
)
def test_an_output_of_wrong_types_is_refused_where_it_is_given(
    workspace: TaskWorkspace, task: Task, arguments: dict[str, Any], says: str
) -> None:
    at_work(workspace)
    with pytest.raises(TypeError, match=f"^task 0_3, output 'out', in-3 at offset 41: {says}"):
        task.emit("out", **{"key": b"k", "value": b"v", **arguments})
    assert workspace.take().emitted == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"partition": -1}, "partition = -1: must be the number of one of the topic's partitions"),
        ({"partition": 2**31}, "partition = 2147483648: must be the number of one of the topic's partitions"),
        ({"timestamp_ms": -1}, "timestamp_ms = -1: must be from 0 to 2^63 - 1, milliseconds since 1970"),
        ({"timestamp_ms": 2**63}, "timestamp_ms = 9223372036854775808: must be from 0 to 2^63 - 1, milliseconds since"),
        ({"headers": [("\ud800", b"")]}, r"a header's name = '\ud800': must be text that UTF-8 can encode"),
    ],
)
def test_an_output_out_of_range_is_refused_where_it_is_given(
    workspace: TaskWorkspace, task: Task, arguments: dict[str, Any], says: str
) -> None:
    at_work(workspace)
    with pytest.raises(ValueError, match=re.escape(f"task 0_3, output 'out', in-3 at offset 41: {says}")):
        task.emit("out", b"k", b"v", **arguments)
    assert workspace.take().emitted == []


def test_what_is_just_in_range_can_be_produced(workspace: TaskWorkspace, task: Task) -> None:
    """librdkafka ends the process for a header name that is not UTF-8, and Python's client overflows."""
    task.emit("out", b"k", b"v", partition=2**31 - 1, timestamp_ms=2**63 - 1, headers=[("\U0001f600", b""), ("", None)])
    producer = RecordProducer("127.0.0.1:1", delivery_timeout_ms=5_000)
    producer.produce_all(workspace.take().emitted)
    producer.close()


def test_many_outputs_are_refused_together_or_sent_together(workspace: TaskWorkspace, task: Task) -> None:
    at_work(workspace)
    wrong: Any = "text"
    for record in (Emitted("out", wrong, b"v"), Emitted("out", b"k", wrong)):
        with pytest.raises(TypeError, match="output 'out', in-3 at offset 41: key or value is str 'text'"):
            workspace.emit_many([Emitted("out", b"k", b"v"), record])
    workspace.emit_many([Emitted("out", None, None)])
    task.emit("out", None, None, headers=[("a", None)], partition=0, timestamp_ms=0)
    assert workspace.take().emitted == [
        Emitted("the-output", None, None),
        Emitted("the-output", None, None, (("a", None),), 0, 0),
    ]


def test_many_outputs_of_a_function_are_refused_together_or_sent_together(workspace: TaskWorkspace, task: Task) -> None:
    at_work(workspace)
    wrong: Any = "text"
    for what, entry in (("key", (wrong, b"v")), ("value", (b"k", wrong))):
        with pytest.raises(TypeError, match=f"output 'out', in-3 at offset 41: {what} is str 'text': must be None or"):
            task.emit_many("out", [(b"k", b"v"), entry])
    for times, error, says in (
        ([1], ValueError, "the number of timestamps_ms = 1: must be 2, one for each"),
        ([1, -1], ValueError, r"timestamps_ms = -1: must be from 0 to 2\^63 - 1"),
        ([1, 2**63], ValueError, "timestamps_ms = 9223372036854775808: must be from 0 to"),
        ([1, True], TypeError, "timestamps_ms is bool True: must be int"),
    ):
        with pytest.raises(error, match=f"output 'out', in-3 at offset 41: {says}"):
            task.emit_many("out", [(b"k", b"v"), (None, None)], times)
        with pytest.raises(error, match=f"store 'plain', in-3 at offset 41: {says}"):
            task.store("plain").put_many([(b"k", b"v"), (b"l", None)], times)
    with pytest.raises(ConfigError, match="topic 'elsewhere'"):
        task.emit_many("elsewhere", [])
    task.emit_many("out", [(b"k", b"vw"), (None, None)])
    task.emit_many("out", iter([(b"k", b"")]), [9])
    assert workspace.waiting_bytes() == 4
    assert workspace.take().emitted == [
        Emitted("the-output", b"k", b"vw", (), None, 7),
        Emitted("the-output", None, None, (), None, 7),
        Emitted("the-output", b"k", b"", (), None, 9),
    ]


def put_without_key(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.store("totals").put(record.key, b"1")  # type: ignore[arg-type]


def emit_text(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.store("totals").put(b"a key", b"1")
        task.emit(f"{record.topic}-counts", "text", b"1")  # type: ignore[arg-type]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize(
    ("process", "says"),
    [
        (put_without_key, r"task 0_\d, store 'totals', {name}-\d at offset 0: key is None: must be bytes"),
        (
            emit_text,
            r"task 0_\d, output '{name}-counts', {name}-\d at offset 0: key is str 'text': must be None or bytes",
        ),
    ],
    ids=["store", "output"],
)
def test_a_wrong_type_ends_the_worker_with_its_place_and_nothing_is_kept_or_locked(
    broker: str, tmp_path: Path, guarantee: str, process: Any, says: str
) -> None:
    name = f"wrong-type-{process.__name__.replace('_', '-')}-{guarantee.replace('_', '-')}"
    app = App(broker, name, tmp_path)
    app._producer.produce(name, 0, None, b"no key")
    app._producer.flush(60)
    worker = app.start(1, process, processing_guarantee=guarantee)
    error = worker.until_error()
    assert type(error) is TypeError

    assert re.match(says.format(name=name), str(error)), error
    assert not worker.reported(TransactionAbortedEvent)
    worker.join()

    def count_keys(task: Task, records: Sequence[Record]) -> None:
        count(task, [record for record in records if record.key is not None])

    after = app.start(1, count_keys, processing_guarantee=guarantee)  # the same state directory, in the same process
    app.send([b"word"] * 3)
    app.until_counted(read_committed=guarantee == "exactly_once_v2")
    after.stop()


def test_a_topology_that_is_no_list_is_refused_with_the_fix(tmp_path: Path) -> None:
    config = Config(application_id="app", bootstrap_servers="localhost:9092", state_dir=str(tmp_path))
    no_list: Any = Subtopology(count, sources=["in"])
    with pytest.raises(TypeError, match=re.escape("write Worker(config, [Subtopology(...)])")):
        Worker(config, no_list)
