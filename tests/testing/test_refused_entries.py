"""``pipe_many`` writes all entries or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreams_assign import ConfigError, Record, Subtopology, Task, TopologyTestDriver


def copy(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.emit("out", record.key, record.value)


@pytest.mark.parametrize(
    ("second", "time_ms", "error"),
    [
        (("b", b"2"), 2, TypeError),
        ((b"b", "2"), 2, TypeError),
        ((b"b", b"2"), -1, ConfigError),
        ((b"b",), 2, ValueError),
    ],
)
def test_where_an_entry_is_refused_none_is_written(second: Any, time_ms: int, error: type[Exception]) -> None:
    with TopologyTestDriver([Subtopology(copy, sources=["in"], sinks=["out"])]) as driver:
        with pytest.raises(error):
            driver.pipe_many("in", [(None, b"1"), second], [1, time_ms])
        driver.pipe("in", b"c", b"3")
        assert [(record.key, record.value) for record in driver.read("out")] == [(b"c", b"3")]
