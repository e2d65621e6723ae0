"""Tasks are paused and resumed in ``TopologyTestDriver``: the loop of a worker, with a broker in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstreams_assign import ConfigError, Event, Record, Subtopology, Task, TaskId, TaskNotLocal, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import TaskPausedEvent, TaskResumedEvent
from kstreams_assign.model import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITIONS = 2


def count(task: Task, records: Sequence[Record]) -> None:
    counts = task.store("counts")
    for record in records:
        assert record.key is not None
        total = int(counts.get(record.key) or 0) + 1
        counts.put(record.key, b"%d" % total)
        task.emit("out", record.key, b"%d" % total)


def drive(
    process: Callable[[Task, Sequence[Record]], None] = count,
    guarantee: str = "at_least_once",
    on_event: Callable[[Event], None] | None = None,
    **arguments: Any,
) -> TopologyTestDriver:
    topology = [Subtopology(process, sources=["in"], stores=["counts"], sinks=["out"])]
    return TopologyTestDriver(
        topology,
        partitions={"in": PARTITIONS},
        now_ms=NOW_MS,
        on_event=on_event,
        processing_guarantee=guarantee,
        **arguments,
    )


def outputs(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.read("out")]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_of_a_paused_task_wait_and_come_once_it_is_resumed(guarantee: str) -> None:
    with drive(guarantee=guarantee) as driver:
        driver.pipe("in", b"a", b"", partition=0)
        assert driver.pause("0_0") == (TaskId(0, 0),)
        assert driver.paused() == {TaskId(0, 0): NOW_MS}
        driver.pipe("in", b"a", b"", partition=0)
        driver.pipe("in", b"b", b"", partition=1)
        assert outputs(driver) == [(b"a", b"1"), (b"b", b"1")]
        assert driver.resume(0) == (TaskId(0, 0), TaskId(0, 1))
        assert driver.paused() == {}
        assert outputs(driver) == [(b"a", b"2")]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_pause_is_committed_with_a_position_that_was_never_committed(guarantee: str) -> None:
    with drive(guarantee=guarantee) as driver:
        driver.pause()
        positions = driver._broker.positions([TopicPartition("in", 0)])  # the only look into the commit
        assert positions[TopicPartition("in", 0)].offset == 0
        assert positions[TopicPartition("in", 0)].metadata != ""


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_pause_survives_the_failure_of_its_commit(guarantee: str) -> None:
    """The task is restored from the commit before, which has no mark, and is paused again before its first record."""
    with drive(guarantee=guarantee, auto_commit=False) as driver:
        driver.pipe("in", b"a", b"", partition=0)
        driver.fail_next_commit()
        assert driver.pause("0_0") == (TaskId(0, 0),)
        assert driver.store("counts", 0).get(b"a") is None
        driver.resume("0_0")
        driver.commit()
        assert driver.store("counts", 0).get(b"a") == b"1"


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_failed_commit_of_other_work_leaves_a_task_paused(guarantee: str) -> None:
    with drive(guarantee=guarantee) as driver:
        driver.pause("0_0")
        driver.fail_next_commit()
        driver.pipe("in", b"b", b"", partition=1)
        driver.pipe("in", b"a", b"", partition=0)
        assert list(driver.paused()) == [TaskId(0, 0)]
        assert (b"a", b"1") not in outputs(driver)
        driver.resume()
        assert outputs(driver) == [(b"a", b"1")]


def test_a_function_pauses_its_own_task_and_gets_no_other_record() -> None:
    seen: list[int] = []

    def careful(task: Task, records: Sequence[Record]) -> None:
        seen.extend(record.offset for record in records)
        if len(seen) == 1:
            assert driver.pause(str(task.id)) == ()

    with drive(careful, max_poll_records=1) as driver:
        driver.pipe_many("in", [(b"a", b"")] * 3)
        assert seen == [0]
        assert len(driver.paused()) == 1
        driver.resume()
        assert seen == [0, 1, 2]


def test_events_name_what_is_paused_and_resumed_once_each() -> None:
    events: list[Event] = []
    with drive(on_event=events.append) as driver:
        driver.pause("0_1")
        driver.advance(5)
        driver.pause("0_1")
        driver.resume()
        driver.resume()
    paused = [event for event in events if isinstance(event, TaskPausedEvent)]
    resumed = [event for event in events if isinstance(event, TaskResumedEvent)]
    assert [(event.task, event.since_ms) for event in paused] == [("0_1", NOW_MS)]
    assert [event.task for event in resumed] == ["0_1"]


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        ("0_7", TaskNotLocal, "task 0_7 does not run in this process; active: unknown"),
        ("3", ConfigError, "subtopology = 3: must be from 0 to 0, as the topology numbers them"),
        (-1, ConfigError, "subtopology = -1: must be from 0 to 0"),
        ("one", ConfigError, "'one' is not a task id"),
        (1.5, ConfigError, "1.5: must be a task such as '0_1', or the number of a subtopology"),
    ],
)
def test_what_cannot_be_paused_is_refused(which: object, error: type[Exception], message: str) -> None:
    with drive() as driver:
        with pytest.raises(error, match=message.replace("(", r"\(")):
            driver.pause(which)  # type: ignore[arg-type]
        driver.pipe("in", b"a", b"", partition=0)
        assert outputs(driver) == [(b"a", b"1")]
