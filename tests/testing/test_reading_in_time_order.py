"""A task that reads several topics works on the oldest record first, unless its subtopology says that it need not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreams_assign import ConfigError, Record, Subtopology, Task, TopologyTestDriver
from kstreams_assign.topology.flows import bind_flows

ARRIVED = [("prices", 10), ("prices", 30), ("purchases", 20), ("purchases", 40)]


def do_nothing(_task: Task, _records: Sequence[Record]) -> None: ...


def seen_after_a_pause(**arguments: Any) -> list[tuple[str, int]]:
    """Return topics and times as they come where all of them wait."""
    seen: list[tuple[str, int]] = []

    def look(_task: Task, records: Sequence[Record]) -> None:
        seen.extend((record.topic, record.timestamp_ms) for record in records)

    with TopologyTestDriver([Subtopology(look, sources=["purchases", "prices"], **arguments)]) as driver:
        driver.pause()
        for topic, at_ms in ARRIVED:
            driver.pipe(topic, b"k", b"v", timestamp_ms=at_ms)
        assert seen == []
        driver.resume()
    return seen


def test_the_oldest_record_of_all_comes_first() -> None:
    assert seen_after_a_pause() == [("prices", 10), ("purchases", 20), ("prices", 30), ("purchases", 40)]


def test_without_the_order_records_come_as_they_arrive() -> None:
    seen = seen_after_a_pause(in_time_order=False)
    assert sorted(seen) == sorted(ARRIVED)
    assert seen in (ARRIVED, [*ARRIVED[2:], *ARRIVED[:2]])


def test_internal_topics_do_not_change_it() -> None:
    flow = Subtopology(do_nothing, sources=["in"], repartition_sources=["again"], in_time_order=False).flow
    assert [each.in_time_order for each in bind_flows([flow], "app")] == [False]


def test_a_value_that_is_no_boolean_is_refused() -> None:
    with pytest.raises(ConfigError, match="in_time_order = 'no': must be true or false"):
        Subtopology(do_nothing, sources=["in"], in_time_order="no")  # type: ignore[arg-type]
