"""Records for which the user's function raises are set aside as ``on_error`` says; the others are processed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreams_assign import Config, ConfigError, Record, StateError, Subtopology, Task, TaskId, TopicPartition
from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.errors import RecordRefused
from kstreams_assign.events import Event, FunctionFailedEvent, RecordSetAsideEvent
from kstreams_assign.model import Store, SubtopologyShape
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.on_error import OnError
from kstreams_assign.worker.refused_outputs import Output
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

SOURCE = TopicPartition("in", 0)
TASK = TaskId(0, 0)
SHAPE = SubtopologyShape(("in",), (Store("seen"),))
CONFIG = Config(application_id="app", bootstrap_servers="localhost:1", errors_dead_letter_queue_topic_name="dead")


class Poison(Exception):
    """What the function raises for a bad record."""


def count(task: Task, records: Sequence[Record]) -> None:
    """Count each key, emit the total, and raise in the middle of a poison record's work."""
    seen = task.store("seen")
    for record in records:
        assert record.key is not None
        total = int(seen.get(record.key) or 0) + 1
        seen.put(record.key, b"%d" % total)
        if record.value == b"poison":
            raise Poison(f"offset {record.offset}")
        task.emit("out", record.key, b"%d" % total)


def count_columns(task: Task, records: Sequence[Record]) -> None:
    """As ``count``, but read everything first, so that the record at work is no hint."""
    rows = list(records)
    seen = task.store("seen")
    for record in reversed(rows):
        if record.value == b"poison":
            raise Poison
    for record in rows:
        assert record.key is not None
        total = int(seen.get(record.key) or 0) + 1
        seen.put(record.key, b"%d" % total)
        task.emit("out", record.key, b"%d" % total, timestamp_ms=1)


class Bench:
    """One running task, fed as the processing loop feeds it; ``batch`` is how many records a call gets at most."""

    def __init__(self, stores: RocksTaskStores, function: Callable[..., None], on_error: OnError, batch: int) -> None:
        config = Config(**{**_fields(CONFIG), "max_poll_records": batch})
        self.functions = Functions([function], config, [on_error], now_ms=lambda: 0)
        self.functions.connect(self, lambda: None)  # type: ignore[arg-type]
        times = {SOURCE: PartitionTime("")}
        self.workspace = TaskWorkspace(TASK, SHAPE, {"out": "out"}, stores, AtWork(0), times)
        self.running = Running(self.workspace, InputOffsets({SOURCE: 0}), times)
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def feed(self, records: Sequence[Record]) -> None:
        done = 0
        while done < len(records):
            portion = self.functions.portion(self.running, records, done)
            assert portion > 0
            done += self.functions.work(self.running, SOURCE, records[done : done + portion])

    def outputs(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        return [(row[1], row[2]) for row in self.workspace.unsent() if row[0] == topic]

    def totals(self) -> dict[bytes, bytes]:
        return dict(self.workspace.task.store("seen").range())


def _fields(config: Config) -> dict[str, Any]:
    return {
        "application_id": config.application_id,
        "bootstrap_servers": config.bootstrap_servers,
        "errors_dead_letter_queue_topic_name": config.errors_dead_letter_queue_topic_name,
    }


def records_of(poison: Sequence[bool]) -> list[Record]:
    values = [b"poison" if bad else b"good" for bad in poison]
    return [Record("in", 0, n, 7, b"k%d" % (n % 3), value) for n, value in enumerate(values)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocksTaskStores]:
    stores = open_task_stores(Path(tmp_path_factory.mktemp("bad")) / "store", ["seen"], timestamped=frozenset())
    yield stores
    stores.close()


@pytest.mark.parametrize("function", [count, count_columns])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(poison=st.lists(st.booleans(), max_size=60), batch=st.integers(1, 40))
def test_the_guilty_alone_are_set_aside_and_the_others_count_once(
    stores: RocksTaskStores, function: Callable[..., None], poison: list[bool], batch: int
) -> None:
    """The slow twin: the same records without the poison, one by one."""
    records = records_of(poison)
    bench, twin = Bench(stores, function, "dead_letter", batch), Bench(stores, function, "fail", 1)
    bench.feed(records)
    twin.feed([record for record in records if record.value == b"good"])
    assert bench.totals() == twin.totals()
    assert bench.outputs("out") == twin.outputs("out")
    assert bench.outputs("dead") == [(record.key, b"poison") for record in records if record.value == b"poison"]
    assert bench.functions.bad_records.dropped() == ({TASK: sum(poison)} if any(poison) else {})
    assert bench.running.offsets.done_to() == {SOURCE: len(records)}
    assert bench.running.pieces.sizes == []
    assert bench.running.grown_bytes() == 0, "all that was written has been counted"


def test_a_skipped_record_leaves_no_dead_letter(stores: RocksTaskStores) -> None:
    bench = Bench(stores, count, "skip", 10)
    bench.feed(records_of([False, True, False]))
    assert bench.outputs("dead") == []
    assert len(bench.outputs("out")) == 2


def test_a_cause_is_reported_once(stores: RocksTaskStores) -> None:
    bench = Bench(stores, count, "dead_letter", 10)
    bench.feed(records_of([True] * 20))
    assert bench.events == [
        RecordSetAsideEvent(
            task="0_0",
            partition="in-0",
            offset=0,
            response="dead_letter",
            reason=f"{__name__}.Poison: offset 0",
        )
    ]


def test_a_function_decides_for_each_record(stores: RocksTaskStores) -> None:
    asked: list[int] = []

    def decide(record: Record, error: Exception) -> str:
        assert isinstance(error, Poison)
        asked.append(record.offset)
        return "skip" if record.offset < 3 else "dead_letter"

    bench = Bench(stores, count, decide, 10)
    bench.feed(records_of([True, False, False, True]))
    assert asked == [0, 3]
    assert bench.outputs("dead") == [(b"k0", b"poison")]


def test_fail_ends_the_work_at_the_guilty_record(stores: RocksTaskStores) -> None:
    bench = Bench(stores, count, lambda _record, _error: "fail", 10)
    with pytest.raises(Poison) as raised:
        bench.feed(records_of([False, False, True, False]))
    assert raised.value.__notes__ == ["task 0_0, in-0 at offset 2 (batch of 1 record)"]
    assert [type(event) for event in bench.events] == [FunctionFailedEvent]
    assert bench.running.offsets.done_to() == {SOURCE: 2}
    assert len(bench.outputs("out")) == 2


@pytest.mark.parametrize(
    "error", [StateError("disk"), ConfigError("no such topic"), MemoryError(), KeyboardInterrupt()]
)
def test_what_is_no_fault_of_a_record_sets_none_aside(stores: RocksTaskStores, error: BaseException) -> None:
    def fail(_task: Task, _records: Sequence[Record]) -> None:
        raise error

    bench = Bench(stores, fail, "skip", 10)
    with pytest.raises(type(error)):
        bench.feed(records_of([False, False]))
    assert bench.functions.bad_records.dropped() == {}


@pytest.mark.parametrize("answered", ["ignore", ["skip"], None])
def test_an_answer_that_cannot_be_followed_is_an_error(stores: RocksTaskStores, answered: Any) -> None:
    bench = Bench(stores, count, lambda _record, _error: answered, 10)
    says = re.escape(f"answered {answered!r}: must be 'fail', 'skip', 'dead_letter'")
    with pytest.raises(ConfigError, match=says):
        bench.feed(records_of([True]))


def test_a_dead_letter_does_not_become_one_again(stores: RocksTaskStores) -> None:
    bench = Bench(stores, count, lambda *_: "dead_letter", 10)
    letter = Record("dead", 0, 0, 0, b"k", b"poison")
    with pytest.raises(ConfigError, match="a record of the dead-letter topic dead: the letter would come back"):
        bench.functions.bad_records.response(TASK, letter, Poison())


def test_a_dead_letter_needs_a_topic() -> None:
    config = Config(application_id="app", bootstrap_servers="localhost:1")
    with pytest.raises(ConfigError, match="errors_dead_letter_queue_topic_name: missing"):
        Functions([count], config, ["dead_letter"])


@pytest.mark.parametrize("wrong", ["ignore", ["skip"], {"skip": True}])
def test_a_wrong_on_error_is_refused(wrong: Any) -> None:
    says = re.escape(f"on_error = {wrong!r}: must be 'fail', 'skip', 'dead_letter', or a function")
    with pytest.raises(ConfigError, match=says):
        Subtopology(count, sources=["in"], on_error=wrong)


async def waits(_record: Record, _error: Exception) -> str:
    return "skip"


@pytest.mark.parametrize("wrong", [lambda _record: "skip", waits])
def test_a_function_that_could_not_answer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"on_error = \S*(<lambda>|waits).*: must be a function \(record, error\)"):
        Subtopology(count, sources=["in"], on_error=wrong)


# --- outputs that the brokers refuse ------------------------------------------------------------------


def copy_values(task: Task, records: Sequence[Record]) -> None:
    """Count each key, and emit the value as it is."""
    seen = task.store("seen")
    for record in records:
        assert record.key is not None
        seen.put(record.key, b"%d" % (int(seen.get(record.key) or 0) + 1))
        task.emit("out", record.key, record.value)


def too_large(key: bytes, size_bytes: int, **changed: Any) -> RecordRefused:
    facts = {"absent": False, "too_large": True, "size_bytes": size_bytes, **changed}
    return RecordRefused("too large", "out", 0, key, **facts)


def output(key: bytes, size_bytes: int, topic: str = "out") -> Output:
    """As ``copy_values`` emits it for a record of ``Bench``."""
    return Output(TASK, (topic, key, bytes(size_bytes - len(key)), (), None, 7))


def test_the_input_of_a_refused_output_is_set_aside_when_it_is_processed_again(stores: RocksTaskStores) -> None:
    bench = Bench(stores, copy_values, "dead_letter", 10)
    bench.functions.bad_records.bytes_max_of = lambda _topic: 1_000
    records = [Record("in", 0, n, 7, b"k%d" % n, bytes(2_000 if n == 3 else 9)) for n in range(8)]
    bench.feed(records)
    assert bench.functions.sets_output_aside([output(b"k3", 2_002)], too_large(b"k3", 2_002))
    again = Bench(stores, copy_values, "dead_letter", 10)
    again.functions.bad_records = bench.functions.bad_records
    again.feed(records)
    assert [key for key, _ in again.outputs("out")] == [record.key for record in records if record.offset != 3]
    assert again.outputs("dead") == [(b"k3", None)], "the letter would be too large as well"
    assert b"k3" not in again.totals(), "nothing of the record stays"
    assert again.functions.bad_records.dropped() == {TASK: 1}


@pytest.mark.parametrize(
    ("refused", "bytes_max", "on_error"),
    [
        (too_large(b"k", 900), 1_000, "skip"),  # it would fit alone: its batch was too large
        (too_large(b"k", 2_000), None, "skip"),  # the limit is unknown
        (too_large(b"k", 2_000, too_large=False), 1_000, "skip"),  # a right for the whole cluster, for example
        (too_large(b"k", 2_000, too_large=False, absent=True), 1_000, "skip"),  # the topic may be created
        (too_large(b"k", 2_000), 1_000, "fail"),
    ],
)
def test_a_refusal_that_no_record_is_guilty_of_ends_the_worker(
    stores: RocksTaskStores, refused: RecordRefused, bytes_max: int | None, on_error: OnError
) -> None:
    bench = Bench(stores, copy_values, on_error, 10)
    bench.functions.bad_records.bytes_max_of = lambda _topic: bytes_max
    assert not bench.functions.sets_output_aside([output(b"k", refused.size_bytes)], refused)
    bench.feed([Record("in", 0, 0, 7, b"k", bytes(refused.size_bytes - 1))])
    assert len(bench.outputs("out")) == 1


@pytest.mark.parametrize("kind", ["forbidden", "invalid"])
def test_the_inputs_of_outputs_that_are_not_allowed_are_set_aside(stores: RocksTaskStores, kind: str) -> None:
    """A forbidden topic takes none of the outputs, a record that is not valid is refused alone."""
    bench = Bench(stores, copy_values, "dead_letter", 10)
    records = [Record("in", 0, n, 7, b"k%d" % n, b"\x00") for n in range(8)]
    bench.feed(records)
    refused = too_large(b"k3", 3, too_large=False, **{kind: True})
    assert bench.functions.sets_output_aside([output(b"k3", 3)], refused)
    again = Bench(stores, copy_values, "dead_letter", 10)
    again.functions.bad_records = bench.functions.bad_records
    again.feed(records)
    guilty = [record.key for record in records if kind == "forbidden" or record.offset == 3]
    assert [key for key, _ in again.outputs("out")] == [record.key for record in records if record.key not in guilty]
    assert [key for key, _ in again.outputs("dead")] == guilty


def test_a_function_can_end_the_worker_where_a_right_is_missing(stores: RocksTaskStores) -> None:
    def on_error(_record: Record, error: Exception) -> str:
        return "fail" if isinstance(error, RecordRefused) and error.forbidden else "skip"

    bench = Bench(stores, copy_values, on_error, 10)
    assert bench.functions.sets_output_aside([output(b"k", 2)], too_large(b"k", 2, too_large=False, forbidden=True))
    with pytest.raises(RecordRefused):
        bench.feed([Record("in", 0, n, 7, b"k", b"v") for n in range(3)])


def test_a_refused_dead_letter_is_not_set_aside(stores: RocksTaskStores) -> None:
    bench = Bench(stores, copy_values, "dead_letter", 10)
    bench.functions.bad_records.bytes_max_of = lambda _topic: 1_000
    refused = RecordRefused("too large", "dead", 0, b"k", absent=False, too_large=True, size_bytes=2_000)
    assert not bench.functions.sets_output_aside([output(b"k", 2_000, "dead")], refused)
    assert not bench.functions.sets_output_aside([], too_large(b"k", 2_000)), "no task is known to have emitted it"
