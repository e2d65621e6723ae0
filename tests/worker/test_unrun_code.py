"""A call that returns a coroutine or a generator has run no code: the worker ends, and no record is lost."""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from kstreams_assign import ConfigError, Record, Subtopology, Task, TopologyTestDriver
from kstreams_assign.events import Event, FunctionFailedEvent


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


@traced
async def awaits(*_: object) -> None:
    """Do nothing."""


@traced
def yields(*_: object) -> Iterator[None]:
    yield


@traced
async def yields_and_awaits(*_: object) -> AsyncIterator[None]:
    yield


class Awaits:
    async def __call__(self, *_: object) -> None:
        """Do nothing."""


def set_timer(task: Task, _records: Sequence[Record]) -> None:
    task.timers.set(b"k", 0)


def ignore(_task: Task, _records: Sequence[Record]) -> None:
    """Something else is called."""


UNRUN = [
    (awaits, "a coroutine (awaits)"),
    (yields, "a generator (yields)"),
    (yields_and_awaits, "an asynchronous generator (yields_and_awaits)"),
    (lambda task, _records: awaits(task), "a coroutine (awaits)"),
    (functools.partial(Awaits()), "a coroutine (Awaits.__call__)"),
]


@pytest.mark.parametrize("on_error", ["fail", "skip", "dead_letter", lambda _record, _error: "skip"])
@pytest.mark.parametrize(("function", "returned"), UNRUN)
def test_a_function_whose_code_did_not_run_ends_the_worker(function: Any, returned: str, on_error: Any) -> None:
    events: list[Event] = []
    topology = [Subtopology(function, sources=["in"], sinks=["dead"], on_error=on_error)]
    settings = {"errors_dead_letter_queue_topic_name": "dead"}
    with (
        pytest.raises(ConfigError) as raised,
        TopologyTestDriver(topology, on_event=events.append, **settings) as driver,
    ):
        driver.pipe("in", b"k", b"v")
    required = "must be a function without await and yield; its code did not run"
    assert str(raised.value) == f"process of subtopology 0 returned {returned}: {required}"
    assert raised.value.__notes__ == ["task 0_0, in-0 at offset 0 (batch of 1 record)"]
    assert driver.read("dead") == []
    [event] = [event for event in events if isinstance(event, FunctionFailedEvent)]
    assert event.reason == f"ConfigError: {raised.value}"


@pytest.mark.parametrize(
    ("functions", "call"),
    [
        ({"process": ignore, "init": awaits}, "init"),
        ({"process": set_timer, "timers": awaits}, "timers, 1 due"),
        (
            {"process": ignore, "init": lambda task: task.every(10, awaits) and None},
            "punctuator every 10 ms of stream time",
        ),
    ],
    ids=["init", "timers", "punctuator"],
)
def test_so_does_a_call_that_no_record_causes(functions: dict[str, Any], call: str) -> None:
    topology = [Subtopology(**functions, sources=["in"], on_error="skip")]
    with pytest.raises(ConfigError) as raised, TopologyTestDriver(topology) as driver:
        driver.pipe("in", b"k", b"v")
    assert str(raised.value).startswith(f"{call} returned a coroutine (awaits): must be a function without await")
    assert raised.value.__notes__ == [f"task 0_0, {call}"]


def test_a_coroutine_is_closed_so_no_warning_follows() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        topology = [Subtopology(awaits, sources=["in"])]
        with pytest.raises(ConfigError), TopologyTestDriver(topology) as driver:
            driver.pipe("in", b"k", b"v")
        gc.collect()
    assert [str(each.message) for each in caught] == []


def test_what_else_a_function_returns_is_ignored() -> None:
    def forward(task: Task, records: Sequence[Record]) -> int:
        for record in records:
            task.emit("out", record.key, record.value)
        return len(records)

    process: Any = forward
    with TopologyTestDriver([Subtopology(process, sources=["in"], sinks=["out"])]) as driver:
        driver.pipe("in", b"k", b"v")
    assert [record.value for record in driver.read("out")] == [b"v"]
