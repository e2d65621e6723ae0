"""Dead letters are counted once their commit is done, so the count is that of the letters to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreams_assign import Record, Subtopology, Task, TaskId, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES


def refuse_bad(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        if record.value == b"bad":
            raise ValueError("bad")
        task.emit("good", record.key, record.value)
        task.emit("dead", record.key, b"no letter")


def driver_of(on_error: Any = "dead_letter", **settings: Any) -> TopologyTestDriver:
    topology = [Subtopology(refuse_bad, sources=["in"], sinks=["good", "dead"], on_error=on_error)]
    return TopologyTestDriver(topology, errors_dead_letter_queue_topic_name="dead", **settings)


def counted(driver: TopologyTestDriver) -> dict[TaskId, int]:
    return driver._loop.commits.dead_letters()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_letters_of_a_commit_that_fails_are_counted_with_the_one_that_succeeds(guarantee: str) -> None:
    with driver_of(processing_guarantee=guarantee, auto_commit=False, partitions={"in": 2}) as driver:
        for value in (b"bad", b"5", b"bad"):
            driver.pipe("in", b"k", value, partition=1)
        assert counted(driver) == {}
        driver.fail_next_commit()
        driver.commit()
        assert counted(driver) == {}
        driver.commit()
        assert counted(driver) == {TaskId(0, 1): 2}
        driver.commit()
        assert counted(driver) == {TaskId(0, 1): 2}


def test_a_record_that_is_skipped_leaves_no_letter_to_count() -> None:
    with driver_of("skip") as driver:
        driver.pipe("in", b"k", b"bad")
        assert counted(driver) == {}


def test_what_the_function_emits_to_the_topic_is_no_letter() -> None:
    with driver_of() as driver:
        driver.pipe("in", b"k", b"5")
        assert (len(driver.read("dead")), counted(driver)) == (1, {})
