"""An error of the user's function, or of ``on_error``, says at which record or call it was raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstreams_assign import (
    Config,
    ConfigError,
    Record,
    StateError,
    Subtopology,
    Task,
    TaskId,
    Timer,
    TopicPartition,
    TopologyTestDriver,
)
from kstreams_assign.events import Event, FunctionFailedEvent
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.labour import Functions, error_text
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

SOURCE = TopicPartition("in", 0)
RECORDS = [Record("in", 0, offset, 0, None, b"%d" % offset) for offset in (5, 6, 7)]


class Loop:
    """Keeps what is reported to it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def work(error: BaseException, records: Sequence[Record]) -> list[Event]:
    """Have a function raise at offset 6; return the events."""

    def fail(_task: Task, batch: Sequence[Record]) -> None:
        for record in batch:
            if record.offset == 6:
                raise error

    functions = Functions([fail], Config(application_id="app", bootstrap_servers="localhost:1"))
    loop = Loop()
    functions.connect(loop, lambda: None)  # type: ignore[arg-type]
    times = {SOURCE: PartitionTime("")}
    workspace = TaskWorkspace(TaskId(0, 0), SubtopologyShape(("in",)), {}, None, AtWork(0), times)
    running = Running(workspace, InputOffsets({}), times)
    with pytest.raises(type(error)) as raised:
        functions.work(running, SOURCE, records)
    assert raised.value is error
    assert not running.sealed
    return loop.events


def test_an_error_names_the_record_at_work() -> None:
    error = KeyError("x")
    events = work(error, RECORDS)
    assert error.__notes__ == ["task 0_0, in-0 at offset 6 (batch of 3 records)"]
    assert events == [FunctionFailedEvent(task="0_0", partition="in-0", offset=6, records=3, reason="KeyError: 'x'")]


def test_a_store_that_cannot_be_read_is_no_error_of_the_function() -> None:
    error = StateError("no space")
    assert work(error, RECORDS) == []
    assert not hasattr(error, "__notes__")


def test_an_interrupt_is_no_error_of_the_function() -> None:
    assert work(KeyboardInterrupt(), RECORDS) == []


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    assert error_text(ValueError()) == "ValueError"
    assert error_text(ValueError("two\nlines")) == "ValueError: two lines"


# --- on_error raises, or its answer cannot be followed -------------------------------------


def raise_lookup_error(_record: Record, _error: Exception) -> str:
    raise LookupError("no answer")


def interrupt(_record: Record, _error: Exception) -> str:
    raise KeyboardInterrupt


def fail_at(value: bytes | None) -> None:
    if value == b"bad":
        raise ValueError("bad")


def process(_task: Task, records: Sequence[Record]) -> None:
    for record in records:
        fail_at(record.value)


def set_timers(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.timers.set(record.value or b"", 0)


def fire(_task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        fail_at(timer.key)


def schedule(task: Task) -> None:
    task.every(10, lambda _task, _time_ms: fail_at(b"bad"))


def ignore(_task: Task, _records: Sequence[Record]) -> None:
    """The punctuator fails."""


TIMERS, PUNCTUATOR = "timers, 1 due", "punctuator every 10 ms of stream time"


@pytest.mark.parametrize(
    ("on_error", "error_type", "reason"),
    [
        (raise_lookup_error, LookupError, "LookupError: no answer"),
        (lambda _record, _error: None, ConfigError, "ConfigError: on_error of subtopology 0 answered None"),
        (lambda _record, _error: "dead_letter", ConfigError, "ConfigError: errors_dead_letter_queue_topic_name"),
    ],
    ids=["raises", "answers None", "answers dead_letter without a topic"],
)
@pytest.mark.parametrize(
    ("functions", "values", "place", "note"),
    [
        ({"process": process}, [b"bad"], ("in-0", 0, 1, ""), "in-0 at offset 0 (batch of 1 record)"),
        ({"process": process}, [b"", b"bad", b""], ("in-0", 1, 1, ""), "in-0 at offset 1 (batch of 1 record)"),
        ({"process": set_timers, "timers": fire}, [b"", b"bad", b""], ("", -1, 1, TIMERS), TIMERS),
        ({"process": ignore, "init": schedule}, [b""], ("", -1, 0, PUNCTUATOR), PUNCTUATOR),
    ],
    ids=["record", "batch", "timer", "punctuator"],
)
def test_an_error_of_on_error_is_reported_as_one_of_the_function(
    functions: dict[str, Any],
    values: Sequence[bytes],
    place: tuple[str, int, int, str],
    note: str,
    on_error: Callable[[Record, Exception], Any],
    error_type: type[Exception],
    reason: str,
) -> None:
    events: list[Event] = []
    topology = [Subtopology(**functions, sources=["in"], on_error=on_error)]
    with (
        pytest.raises(error_type) as raised,
        TopologyTestDriver(topology, max_poll_records=100, on_event=events.append) as driver,
    ):
        driver.pipe_many("in", [(b"k", value) for value in values])
    [event] = [event for event in events if isinstance(event, FunctionFailedEvent)]
    assert (event.task, event.partition, event.offset, event.records, event.call) == ("0_0", *place)
    assert event.reason.startswith(reason)
    assert raised.value.__notes__ == [f"task 0_0, {note}"]
    assert repr(raised.value.__context__) == "ValueError('bad')"


def test_an_interrupt_of_on_error_is_no_error_of_the_function() -> None:
    events: list[Event] = []
    topology = [Subtopology(process, sources=["in"], on_error=interrupt)]
    with (
        pytest.raises(KeyboardInterrupt) as raised,
        TopologyTestDriver(topology, on_event=events.append) as driver,
    ):
        driver.pipe("in", b"k", b"bad")
    assert not hasattr(raised.value, "__notes__")
    assert not any(isinstance(event, FunctionFailedEvent) for event in events)
