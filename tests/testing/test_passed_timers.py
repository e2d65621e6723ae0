"""``docs/how-to/timers.md``: timers by stream time that a batch of records has passed before they fire."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kstreams_assign import Record, Subtopology, Task, Timer, TopologyTestDriver

IDLE_MS = 30
TOUCHES = [(b"ann", b"1", 100), (b"bob", b"2", 200), (b"ann", b"3", 300), (b"bob", b"4", 400)]


def touch(task: Task, records: Sequence[Record]) -> None:
    """Keep the newest value of each key, and set its timer; a value that is no number raises."""
    for record in records:
        assert record.key is not None
        task.store("newest").put(record.key, b"%d" % int(record.value or b""))
        task.timers.set(record.key, record.timestamp_ms + IDLE_MS)


def checked(task: Task, records: Sequence[Record]) -> None:
    """Touch each record, but make the call of a passed timer first."""
    for record in records:
        assert record.key is not None
        at_ms, now_ms = task.timers.get(record.key), task.current_stream_time_ms()
        if at_ms is not None and now_ms is not None and at_ms <= now_ms:
            close(task, record.key, at_ms)
            task.timers.cancel(record.key)
        touch(task, [record])


def close(task: Task, key: bytes, at_ms: int) -> None:
    task.emit("closed", key, task.store("newest").get(key), timestamp_ms=at_ms, headers=())


def remind(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        close(task, timer.key, timer.at_ms)


def driver_of(process: object = touch, batch_size: int = 1_000) -> TopologyTestDriver:
    subtopology = Subtopology(
        process,  # type: ignore[arg-type]
        sources=["in"],
        stores=["newest"],
        sinks=["closed"],
        timers=remind,
        on_error="skip",
    )
    return TopologyTestDriver([subtopology], max_poll_records=batch_size)


def closed(process: object, batch_size: int) -> list[tuple[bytes | None, bytes | None, int]]:
    with driver_of(process, batch_size) as driver:
        driver.pipe_many("in", [(key, value) for key, value, _ in TOUCHES], [time_ms for _, _, time_ms in TOUCHES])
        return sorted((record.key or b"", record.value, record.timestamp_ms) for record in driver.read("closed"))


def test_a_timer_that_the_batch_has_passed_is_replaced_without_a_call() -> None:
    assert closed(touch, batch_size=1) == [(b"ann", b"1", 130), (b"ann", b"3", 330), (b"bob", b"2", 230)]
    assert closed(touch, batch_size=1_000) == [(b"ann", b"3", 330)]


@pytest.mark.parametrize("batch_size", [1, 2, 1_000])
def test_a_function_that_checks_first_misses_no_call(batch_size: int) -> None:
    assert closed(checked, batch_size) == [(b"ann", b"1", 130), (b"ann", b"3", 330), (b"bob", b"2", 230)]


@pytest.mark.parametrize("batch_size", [1, 1_000])
def test_a_record_that_is_set_aside_moves_stream_time(batch_size: int) -> None:
    with driver_of(checked, batch_size) as driver:
        driver.pipe_many("in", [(b"ann", b"1"), (b"bob", b"no number"), (b"eve", b"3")], [100, 9_000, 110])
        assert [(record.key, record.timestamp_ms) for record in driver.read("closed")] == [(b"ann", 130), (b"eve", 140)]
