"""An error of the user's function says at which record it was raised."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kstreams_assign import Config, Record, StateError, Task, TaskId, TopicPartition
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
