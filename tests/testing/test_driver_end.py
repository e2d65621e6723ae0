"""After the end the driver shows what it would show before: the last commit, without what has expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreams_assign import GlobalTable, Record, Store, Subtopology, Task, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES

NOW_MS = 100_000


def keep(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        assert record.key is not None
        task.timestamped_store("kept").put(record.key, record.value)


def copy(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.emit("out", record.key, record.value)


@pytest.mark.parametrize("clock", ["wall", "stream"])
def test_what_has_expired_stays_away_after_the_end(clock: Any) -> None:
    """An entry is deleted a while after it has expired, so the store may have it still."""
    store = Store("kept", timestamped=True, ttl_ms=3_200, ttl_clock=clock)
    with TopologyTestDriver([Subtopology(keep, sources=["in"], stores=[store])], now_ms=NOW_MS) as driver:
        opened = driver.store("kept")
        driver.pipe("in", b"old", b"1", NOW_MS - 90)
        driver.advance(3_150)
        driver.pipe("in", b"new", b"2", NOW_MS + 3_150)
        assert (opened.get(b"old"), opened.get(b"new")) == (None, b"2")
    for view in (opened, driver.store("kept")):
        assert list(view.range()) == [(b"new", b"2")]
        assert view.get(b"old") is None


def test_a_store_that_is_opened_after_the_end_hides_what_has_expired() -> None:
    store = Store("kept", timestamped=True, ttl_ms=3_200, ttl_clock="wall")
    with TopologyTestDriver([Subtopology(keep, sources=["in"], stores=[store])], now_ms=NOW_MS) as driver:
        driver.pipe("in", b"old", b"1", NOW_MS - 90)
        driver.advance(3_150)
    assert list(driver.store("kept").range()) == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_global_tables_have_what_the_end_commits(guarantee: str) -> None:
    topology, tables = [Subtopology(copy, sources=["in"], sinks=["out"])], [GlobalTable("table", topic="out")]
    with TopologyTestDriver(
        topology, global_tables=tables, auto_commit=False, processing_guarantee=guarantee
    ) as driver:
        driver.pipe("in", b"ann", b"1")
    assert driver.global_table("table").get(b"ann") == b"1"
