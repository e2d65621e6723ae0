"""Calls by stream time read what was there when they were due, however many records came in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Record, Store, Subtopology, Task, Timer, TopologyTestDriver
from kstreams_assign.model import TaskId
from tests.samples import examples

WINDOW_MS, TTL_MS = 100, 400
GUARANTEES = ["at_least_once", "exactly_once_v2"]
Piped = Sequence[tuple[bytes, int]]
"""Keys and times of records."""


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def count(task: Task, records: Sequence[Record]) -> None:
    """Count each key's records in a window of time; a timer closes the window."""
    windows = task.store("windows")
    for record in records:
        begins_ms = record.timestamp_ms - record.timestamp_ms % WINDOW_MS
        window = (record.key or b"") + b"@%d" % begins_ms
        windows.put(window, b"%d" % (int(windows.get(window) or 0) + 1))
        task.timers.set(window, begins_ms + WINDOW_MS)


def close(task: Task, due: Sequence[Timer]) -> None:
    windows = task.store("windows")
    for timer in due:
        task.emit("closed", timer.key, windows.get(timer.key))


def driver_of(
    process: Callable[[Task, Sequence[Record]], None] = count,
    timers: Callable[[Task, Sequence[Timer]], None] | None = close,
    init: Callable[[Task], None] | None = None,
    **options: object,
) -> TopologyTestDriver:
    subtopology = Subtopology(
        process,
        sources=["in"],
        stores=[Store("windows", ttl_ms=TTL_MS)],
        sinks=["closed"],
        timers=timers,
        init=init,
        on_error="skip",
    )
    return TopologyTestDriver([subtopology], now_ms=0, **options)  # type: ignore[arg-type]


def pipe(driver: TopologyTestDriver, records: Piped) -> None:
    driver.pipe_many("in", [(key, b"") for key, _ in records], [time_ms for _, time_ms in records])


def read(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.read("closed")]


def closed(records: Piped, **options: object) -> list[tuple[bytes | None, bytes | None]]:
    with driver_of(**options) as driver:  # type: ignore[arg-type]
        pipe(driver, records)
        return read(driver)


def on_disk(driver: TopologyTestDriver) -> set[bytes]:
    return {key for key, _ in driver._stores[TaskId(0, 0)].range("windows")}


@pytest.mark.parametrize("max_poll_records", [1, 3, 2000])
def test_no_window_expires_before_its_timer_fires(guarantee: str, max_poll_records: int) -> None:
    backlog = [(b"a", n * WINDOW_MS) for n in range(50)] + [(b"b", 100 * WINDOW_MS)]
    options = {"processing_guarantee": guarantee, "max_poll_records": max_poll_records}
    assert closed(backlog, **options) == [(b"a@%d" % (n * WINDOW_MS), b"1") for n in range(50)]


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 3 * TTL_MS)), min_size=1, max_size=20),
    guarantee=st.sampled_from(GUARANTEES),
    records_max=st.integers(2, 7),
)
def test_what_timers_find_does_not_depend_on_the_size_of_batches(
    steps: list[tuple[bytes, int]], guarantee: str, records_max: int
) -> None:
    time_ms, records = 0, []
    for key, step_ms in steps:
        time_ms += step_ms
        records.append((key, time_ms))
    each = closed(records, processing_guarantee=guarantee, max_poll_records=1)
    assert closed(records, processing_guarantee=guarantee, max_poll_records=records_max) == each
    assert closed(records, processing_guarantee=guarantee) == each


@pytest.mark.parametrize("max_poll_records", [1, 2000])
def test_a_timer_for_a_past_time_does_not_see_what_had_expired_when_it_was_set(max_poll_records: int) -> None:
    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            if record.key == b"late":
                task.timers.set(b"old", record.timestamp_ms)
            else:
                task.store("windows").put(record.key or b"", b"v")

    records = [(b"old", 0), (b"new", TTL_MS - 1), (b"late", 10)]
    assert closed(records, process=process, max_poll_records=max_poll_records) == [(b"old", b"v")]
    records = [(b"old", 0), (b"new", TTL_MS), (b"late", 10)]
    assert closed(records, process=process, max_poll_records=max_poll_records) == [(b"old", None)]
    records = [(b"old", 0), (b"new", TTL_MS), (b"late", 10), (b"newest", 3 * TTL_MS)]
    assert closed(records, process=process, max_poll_records=max_poll_records) == [(b"old", None)]


def test_commits_delete_no_entry_before_the_timers_that_are_due_have_fired(guarantee: str) -> None:
    kept: list[set[bytes]] = []

    def note(task: Task, due: Sequence[Timer]) -> None:
        kept.append(on_disk(driver))
        close(task, due)

    windows = [b"%d@0" % n for n in range(3)]
    with driver_of(timers=note, processing_guarantee=guarantee, buffered_records_max=1) as driver:
        pipe(driver, [(b"%d" % n, 0) for n in range(3)] + [(b"b", 100 * WINDOW_MS)])
        assert read(driver) == [(window, b"1") for window in windows]
        assert kept == [{*windows}] * 3, "each call fills a commit"
        driver.commit()
        assert on_disk(driver) == {b"b@10000"}


def test_a_timers_call_that_fails_and_is_made_again_in_parts_finds_the_same(guarantee: str) -> None:
    calls: list[int] = []

    def fail_for_the_second(task: Task, due: Sequence[Timer]) -> None:
        calls.append(len(due))
        for timer in due:
            if timer.key == b"c@0":
                raise ValueError(timer.key)
            close(task, [timer])

    backlog = [(b"a", 0), (b"c", 0), (b"d", 0), (b"b", 100 * WINDOW_MS)]
    found = closed(backlog, timers=fail_for_the_second, processing_guarantee=guarantee)
    assert found == [(b"a@0", b"1"), (b"d@0", b"1")]
    assert calls == [3, 1, 1, 1]


def test_more_timers_than_a_call_takes_find_their_windows(guarantee: str) -> None:
    backlog = [(b"%03d" % n, 0) for n in range(20)] + [(b"b", 100 * WINDOW_MS)]
    with driver_of(processing_guarantee=guarantee, max_poll_records=30, buffered_records_max=4) as driver:
        pipe(driver, backlog)
        assert read(driver) == [(b"%03d@0" % n, b"1") for n in range(20)]
        driver.commit()
        assert on_disk(driver) == {b"b@10000"}


@pytest.mark.parametrize("max_poll_records", [1, 2000])
def test_a_punctuator_sees_what_was_there_when_it_was_due(guarantee: str, max_poll_records: int) -> None:
    def put(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.store("windows").put(record.key or b"", b"v")

    def setup(task: Task) -> None:
        task.every(WINDOW_MS, lambda task, _time_ms: flush(task))

    def flush(task: Task) -> None:
        windows = task.store("windows")
        for key, value in list(windows.range()):
            task.emit("closed", key, value)
            windows.delete(key)

    options = {"processing_guarantee": guarantee, "max_poll_records": max_poll_records}
    with driver_of(put, timers=None, init=setup, **options) as driver:
        pipe(driver, [(b"a", 10), (b"b", 20 * WINDOW_MS)])
        assert read(driver) == [(b"a", b"v"), (b"b", b"v")]
        pipe(driver, [(b"c", 20 * WINDOW_MS + 1), (b"d", 40 * WINDOW_MS), (b"e", 60 * WINDOW_MS)])
        assert read(driver) == [(b"c", b"v"), (b"d", b"v"), (b"e", b"v")]


def test_a_punctuator_does_not_see_what_had_expired_when_it_was_scheduled() -> None:
    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.store("windows").put(record.key or b"", b"v")
            if record.key == b"b":
                task.every(WINDOW_MS, lambda task, _time_ms: show(task))

    def show(task: Task) -> None:
        for key, value in task.store("windows").range():
            task.emit("closed", key, value)

    with driver_of(process, timers=None) as driver:
        pipe(driver, [(b"a", 0), (b"b", TTL_MS), (b"c", 3 * TTL_MS)])
        assert read(driver) == [(b"b", b"v"), (b"c", b"v")]


def test_what_a_timer_writes_has_its_time_and_later_timers_see_it_until_it_expires(guarantee: str) -> None:
    def chain(task: Task, due: Sequence[Timer]) -> None:
        windows = task.store("windows")
        for timer in due:
            task.emit("closed", timer.key, windows.get(b"mark"))
            if timer.key == b"a@0":
                windows.put(b"mark", b"%d" % timer.at_ms)

    backlog = [(b"a", n * WINDOW_MS) for n in (0, 3, 4, 50)]
    for max_poll_records in (1, 2000):
        options = {"processing_guarantee": guarantee, "max_poll_records": max_poll_records}
        assert closed(backlog, timers=chain, **options) == [(b"a@0", None), (b"a@300", b"100"), (b"a@400", None)]


def test_after_the_call_the_store_is_that_of_the_stream_time_again() -> None:
    with driver_of() as driver:
        pipe(driver, [(b"a", 0)])
        pipe(driver, [(b"b", TTL_MS)])
        assert read(driver) == [(b"a@0", b"1")]
        assert b"a@0" in on_disk(driver), "its tombstone may follow a little later"
        assert dict(driver.store("windows").range()) == {b"b@400": b"1"}
