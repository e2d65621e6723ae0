"""``docs/how-to/timers.md``: a timer by stream time fires before the record that passes it, however large the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Batch, Record, Serde, StateError, Subtopology, Task, Timer, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.worker.processing import Processor
from tests.samples import examples

IDLE_MS = 30
TOUCHES = [(b"ann", b"1", 100), (b"bob", b"2", 200), (b"ann", b"3", 300), (b"bob", b"4", 400), (b"eve", b"5", 900)]
CLOSED = [(b"ann", b"1", 130), (b"bob", b"2", 230), (b"ann", b"3", 330), (b"bob", b"4", 430)]
LATE = [(b"ann", b"1", 0), (b"bob", b"2", 100), (b"ann", b"3", 10), (b"eve", b"4", 500)]


def touch(task: Task, records: Sequence[Record]) -> None:
    """Keep the newest value of each key, and set its timer; a value that is no number raises."""
    for record in records:
        assert record.key is not None
        task.store("newest").put(record.key, b"%d" % int(record.value or b""))
        task.timers.set(record.key, record.timestamp_ms + IDLE_MS)


def touch_typed(task: Task, records: Batch) -> None:
    for record, (key, value) in zip(records, records.pairs(key=str, value=bytes), strict=True):
        assert key is not None
        task.store("newest").put(key.encode(), value)
        task.timers.set(key.encode(), record.timestamp_ms + IDLE_MS)


def touch_columns(task: Task, records: Batch) -> None:
    """Touch each record of a batch whose columns are read first."""
    for key, value, time_ms in zip(
        records.keys_as(bytes), records.values_as(bytes), records.timestamps_ms(), strict=True
    ):
        assert key is not None
        task.store("newest").put(key, value)
        task.timers.set(key, time_ms + IDLE_MS)


def checked(task: Task, records: Sequence[Record]) -> None:
    """Touch each record of a batch that was read to its end, but make the call of a passed timer first."""
    newest_ms = task.current_stream_time_ms() or 0
    for record in list(records):
        assert record.key is not None
        newest_ms = max(newest_ms, record.timestamp_ms)
        at_ms = task.timers.get(record.key)
        if at_ms is not None and at_ms <= newest_ms:
            close(task, record.key, at_ms)
            task.timers.cancel(record.key)
        touch(task, [record])


def close(task: Task, key: bytes, at_ms: int) -> None:
    task.emit("closed", key, task.store("newest").get(key), timestamp_ms=at_ms, headers=())


def remind(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        close(task, timer.key, timer.at_ms)


def driver_of(process: object = touch, batch_size: int = 1_000, **settings: str) -> TopologyTestDriver:
    subtopology = Subtopology(
        process,  # type: ignore[arg-type]
        sources=["in"],
        stores=["newest"],
        sinks=["closed"],
        timers=remind,
        on_error="skip",
    )
    return TopologyTestDriver([subtopology], max_poll_records=batch_size, **settings)


def closed(
    process: object, batch_size: int, first: int = 0, records: Sequence[tuple[bytes, bytes, int]] = TOUCHES
) -> list[tuple[bytes | None, bytes | None, int]]:
    """Return what timers wrote, with the ``first`` records in a batch of their own."""
    with driver_of(process, batch_size) as driver:
        for touches in (records[:first], records[first:]):
            driver.pipe_many("in", [(key, value) for key, value, _ in touches], [time_ms for _, _, time_ms in touches])
        return [(record.key, record.value, record.timestamp_ms) for record in driver.read("closed")]


@pytest.mark.parametrize("batch_size", [1, 2, 1_000])
@pytest.mark.parametrize("process", [touch, touch_typed])
def test_a_timer_fires_before_the_record_that_passes_it(process: object, batch_size: int) -> None:
    assert closed(process, batch_size) == CLOSED


def test_a_function_that_knows_its_whole_batch_gets_no_record_that_passes_an_earlier_timer() -> None:
    assert closed(touch_columns, 1_000, first=1)[0] == CLOSED[0]


def test_a_timer_fires_behind_a_batch_that_the_function_knows_whole() -> None:
    """So a record of the batch may replace it before that."""
    assert closed(touch_columns, 1_000) == [(b"ann", b"3", 330), (b"bob", b"4", 430)]


@pytest.mark.parametrize("batch_size", [1, 2, 1_000])
def test_a_function_that_reads_ahead_and_checks_first_misses_no_call(batch_size: int) -> None:
    assert sorted(closed(checked, batch_size)) == sorted(CLOSED)
    late = [(b"ann", b"1", 30), (b"ann", b"3", 40), (b"bob", b"2", 130)]
    assert sorted(closed(checked, batch_size, records=LATE)) == late


LOOKS: dict[str, Callable[[Batch], object]] = {
    "len": len,
    "a column": lambda records: records.timestamps_ms(),
    "keys": lambda records: records.keys_as(bytes),
    "values": lambda records: records.values_as(bytes),
    "a slice": lambda records: records[:1],
    "an index ahead": lambda records: records[1],
    "an index from the end": lambda records: records[-1],
    "backwards": lambda records: next(reversed(records)),
    "to the end": list,
}
"""After these a function knows more of its batch than the record at work."""
GLANCES: dict[str, Callable[[Batch], object]] = {
    "bool": bool,
    "the first": lambda records: records[0],
    "begun": lambda records: next(iter(records)),
    "pairs": lambda records: records.pairs(key=bytes, value=bytes),
    "repr": repr,
}


@pytest.mark.parametrize(
    ("look", "is_cut"), [*zip(LOOKS.values(), repeat(False)), *zip(GLANCES.values(), repeat(True))]
)
def test_a_batch_keeps_the_length_that_its_function_knows(look: Callable[[Batch], object], is_cut: bool) -> None:
    lengths: list[int] = []

    def process(task: Task, records: Batch) -> None:
        look(records)
        touch(task, records)
        lengths.append(len(records))

    assert len(closed(process, 1_000)) == (4 if is_cut else 2)
    assert lengths == ([1] * 5 if is_cut else [5])


def test_what_was_read_before_a_timer_was_set_is_not_taken_back() -> None:
    lengths: list[int] = []

    def process(task: Task, records: Batch) -> None:
        first, second = iter(records), iter(records)
        next(second), next(second)
        touch(task, [next(first)])  # passed by the second record
        assert [record.key for record in first] == [b"bob"]
        assert not [*second]
        assert [record.key for record in records] == [b"ann", b"bob"]
        lengths.append(len(records))

    with driver_of(process) as driver:
        driver.pipe_many("in", [(key, value) for key, value, _ in TOUCHES[:3]], [100, 200, 300])
        assert lengths[:1] == [2]
        assert [record.timestamp_ms for record in driver.read("closed")] == [130]


@pytest.mark.parametrize("batch_size", [1, 1_000])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_record_that_is_set_aside_moves_stream_time(batch_size: int, guarantee: str) -> None:
    with driver_of(batch_size=batch_size, processing_guarantee=guarantee) as driver:
        driver.pipe_many("in", [(b"ann", b"1"), (b"bob", b"no number"), (b"eve", b"3")], [100, 9_000, 110])
        assert [(record.key, record.timestamp_ms) for record in driver.read("closed")] == [(b"ann", 130), (b"eve", 140)]


@pytest.mark.parametrize("undone", [b"cancel", b"replace"])
@pytest.mark.parametrize("batch_size", [1, 1_000])
def test_a_timer_fires_though_a_call_that_was_undone_had_deleted_it(undone: bytes, batch_size: int) -> None:
    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            if record.value == b"cancel":
                task.timers.cancel(record.key)
                raise ValueError(record.value)
            touch(task, [record._replace(value=b"0") if record.value == b"replace" else record])
            if record.value == b"replace":
                raise ValueError(record.value)

    with driver_of(process, batch_size) as driver:
        driver.pipe_many("in", [(b"ann", b"1"), (b"ann", undone), (b"bob", b"2")], [100, 110, 300])
        assert [(record.key, record.value, record.timestamp_ms) for record in driver.read("closed")] == CLOSED[:1]


def test_a_record_that_is_processed_again_meets_the_same_timers() -> None:
    """The function raises at a record behind one whose timer has ended the batch."""
    with driver_of() as driver:
        records = [(b"ann", b"1"), (b"bob", b"2"), (b"ann", b"no number"), (b"ann", b"4"), (b"eve", b"5")]
        driver.pipe_many("in", records, [100, 140, 150, 160, 300])
        assert [(record.key, record.value) for record in driver.read("closed")] == [
            (b"ann", b"1"),
            (b"bob", b"2"),
            (b"ann", b"4"),
        ]


# --- what else has its turn between a timer and the record that passes it -------------------------


def driver_of_timers(
    process: Callable[[Task, Batch], None], timers: Callable[[Task, Sequence[Timer]], None], **options: Any
) -> TopologyTestDriver:
    settings = {key: options.pop(key) for key in ("processing_guarantee", "buffered_records_max") if key in options}
    sources = options.pop("sources", ["in"])
    return TopologyTestDriver(
        [Subtopology(process, sources=sources, stores=["kept"], sinks=["out", "late"], timers=timers, **options)],
        **settings,
    )


@pytest.mark.parametrize("call_ms", [5, 40])
def test_house_is_kept_while_timers_fire_before_each_record(call_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_ms: list[int] = []
    keep_house = Processor.keep_house

    def noted(self: Processor) -> None:
        kept_ms.append(driver._clock.passed_ms)
        keep_house(self)

    def process(task: Task, records: Batch) -> None:
        for record in records:
            driver._clock.advance(40)
            task.timers.set(b"k", record.timestamp_ms + 1)

    def fire(_task: Task, _due: Sequence[Timer]) -> None:
        driver._clock.advance(call_ms)

    with driver_of_timers(process, fire) as driver:
        monkeypatch.setattr(Processor, "keep_house", noted)
        driver.pipe_many("in", [(b"k", b"")] * 100, range(100))
    assert max(later - earlier for earlier, later in pairwise([0, *kept_ms])) < 800, (
        "a batch of 16 records without timers"
    )


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_task_whose_store_fails_in_a_timers_call_gets_no_further_records(guarantee: str) -> None:
    story: list[object] = []

    def process(task: Task, records: Batch) -> None:
        for record in records:
            story.append(record.timestamp_ms)
            task.timers.set(b"k", 50)

    def fire(_task: Task, _due: Sequence[Timer]) -> None:
        story.append("timer")
        if story.count("timer") == 1:
            raise StateError("the disk fails")

    with driver_of_timers(process, fire, processing_guarantee=guarantee) as driver:
        driver.pipe_many("in", [(b"k", b"")] * 4, [0, 100, 10, 20])
    assert story[:4] == [0, "timer", 0, "timer"]


def test_a_task_that_a_timers_call_pauses_gets_no_further_records() -> None:
    worked: list[int] = []

    def process(task: Task, records: Batch) -> None:
        for record in records:
            worked.append(record.timestamp_ms)
            if record.timestamp_ms == 0:
                task.timers.set(b"k", 50)

    def fire(task: Task, _due: Sequence[Timer]) -> None:
        driver.pause(task.id)

    with driver_of_timers(process, fire) as driver:
        driver.pipe_many("in", [(b"k", b"")] * 3, [0, 100, 110])
        assert worked == [0]
        driver.resume()
        assert worked == [0, 100, 110]


def test_the_time_by_which_a_timer_has_fired_is_committed_with_it() -> None:
    """The record that passes it fails, and then one of another topic comes first, which is late by that time."""
    tried: list[int] = []

    def count(task: Task, records: Batch) -> None:
        for record in records:
            if record.timestamp_ms == 150:
                tried.append(150)
                if len(tried) == 1:
                    driver.fail_next_commit()
                    driver._broker.append(("b", b"k", b"", (), 0, 20), by_topology=False)
            if (task.current_stream_time_ms() or 0) >= 100:
                task.emit("late", record.key, record.value)
            else:
                task.timers.set(b"hour", 100)

    def report(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            task.emit("out", timer.key, b"%d" % (task.current_stream_time_ms() or 0))

    options = {"processing_guarantee": "exactly_once_v2", "buffered_records_max": 1, "sources": ["a", "b"]}
    with driver_of_timers(count, report, **options) as driver:
        driver.pipe("a", b"k", b"", 10)
        driver.pipe("a", b"k", b"", 150)
        assert tried == [150, 150]
        assert [record.value for record in driver.read("out")] == [b"150"]
        assert [record.timestamp_ms for record in driver.read("late")] == [20, 150]


@pytest.mark.parametrize("sets_timers", [False, True])
def test_a_punctuator_by_stream_time_sees_the_record_that_made_it_due(sets_timers: bool) -> None:
    story: list[object] = []

    def setup(task: Task) -> None:
        task.every(100, lambda _, time_ms: story.append(("punctuator", time_ms)))

    def process(task: Task, records: Batch) -> None:
        for record in records:
            story.append(record.timestamp_ms)
            if sets_timers:
                task.timers.set(b"k", record.timestamp_ms + 30)

    def fire(task: Task, _due: Sequence[Timer]) -> None:
        story.append(("timer", task.current_stream_time_ms()))

    with driver_of_timers(process, fire, init=setup) as driver:
        for time_ms in (1000, 1050, 1150):
            driver.pipe("in", b"k", b"", time_ms)
    timers = [("timer", 1050), ("timer", 1150)] if sets_timers else []
    assert [each for each in story if each not in timers] == [
        1000,
        ("punctuator", 1000),
        1050,
        1150,
        ("punctuator", 1150),
    ]
    assert [each for each in story if each in timers] == timers


def test_a_timer_that_sets_itself_again_by_the_present_time_passes_over_a_gap() -> None:
    calls: list[int | None] = []

    def process(task: Task, records: Batch) -> None:
        for record in records:
            if record.timestamp_ms == 0:
                task.timers.set(b"k", 1)

    def fire(task: Task, due: Sequence[Timer]) -> None:
        calls.append(task.current_stream_time_ms())
        for timer in due:
            task.timers.set(timer.key, (task.current_stream_time_ms() or 0) + 1)

    with driver_of_timers(process, fire) as driver:
        driver.pipe_many("in", [(b"k", b"")] * 3, [0, 10**15, 10**15])
    assert calls == [10**15]


def test_a_batch_that_is_decoded_whole_is_not_decoded_again_for_each_record_that_passes_a_timer() -> None:
    decoded: list[bytes] = []

    def read(data: bytes) -> bytes:
        decoded.append(data)
        return data

    serde = Serde("counted", bytes, read)

    def process(task: Task, records: Batch) -> None:
        for record, _ in zip(records, records.pairs(key=bytes, value=serde), strict=True):
            if record.timestamp_ms >= DENSE:
                task.timers.set(b"k", record.timestamp_ms + 1)

    def ignore(_task: Task, _due: Sequence[Timer]) -> None: ...

    with driver_of_timers(process, ignore) as driver:
        dense, sparse = range(DENSE), range(DENSE, DENSE + 400, 2)
        driver.pipe_many("in", [(b"k", b"")] * (len(dense) + len(sparse)), [*dense, *sparse])
    assert len(decoded) < len(dense) + 4 * len(sparse)


DENSE = 3_000

# --- against a loop that takes one record after the other ---------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c"]),
        st.sampled_from(["set", "cancel", "get"]),
        st.integers(-20, 60),
        st.integers(0, 200),
    ),
    max_size=30,
)
"""Of each record: its key, what its function does with the key's timer, for how far from its time, and the time."""


def play(steps: Sequence[tuple[bytes, str, int, int]], timers_max: int) -> list[bytes]:
    """Return what is written by a loop that fires what is due before each record, and behind the last."""
    timers: dict[bytes, int] = {}
    written: list[bytes] = []
    now_ms = -1

    def fire() -> None:
        while due := sorted((at_ms, key) for key, at_ms in timers.items() if at_ms <= now_ms)[:timers_max]:
            for _, key in due:
                del timers[key]
            for at_ms, key in due:
                written.append(b"%s fired %d" % (key, at_ms))
                if at_ms % 7 == 0:
                    timers[key] = at_ms + 5

    for key, what, offset, time_ms in steps:
        fire()
        now_ms = max(now_ms, time_ms)
        fire()
        if what == "set":
            timers[key] = max(0, time_ms + offset)
        elif what == "cancel":
            timers.pop(key, None)
        written.append(b"%s %d" % (key, timers.get(key, -1)))
    fire()
    return written


def obey(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        assert record.key is not None
        assert record.value is not None
        what, _, offset = record.value.partition(b" ")
        if what == b"set":
            task.timers.set(record.key, max(0, record.timestamp_ms + int(offset)))
        elif what == b"cancel":
            task.timers.cancel(record.key)
        at_ms = task.timers.get(record.key)
        task.emit("out", None, b"%s %d" % (record.key, -1 if at_ms is None else at_ms))


def fired(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        task.emit("out", None, b"%s fired %d" % (timer.key, timer.at_ms))
        if timer.at_ms % 7 == 0:
            task.timers.set(timer.key, timer.at_ms + 5)


@settings(max_examples=examples(100), deadline=None)
@given(STEPS, st.integers(1, 12))
def test_batches_of_any_size_do_what_one_record_after_the_other_does(
    steps: list[tuple[bytes, str, int, int]], batch_size: int
) -> None:
    topology = [Subtopology(obey, sources=["in"], sinks=["out"], timers=fired)]
    with TopologyTestDriver(topology, max_poll_records=batch_size) as driver:
        driver.pipe_many(
            "in",
            [(key, b"%s %d" % (what.encode(), offset)) for key, what, offset, _ in steps],
            [time_ms for _, _, _, time_ms in steps],
        )
        assert [record.value for record in driver.read("out")] == play(steps, batch_size)
