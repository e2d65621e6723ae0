"""A function that changes the headers of its records changes them for one call: the next call gets their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstreams_assign import Record, Subtopology, Task, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES

OWN: tuple[tuple[str, bytes | None], ...] = (("id", b"7"),)
HOP = ("hop", b"1")


def hop(task: Task, records: Sequence[Record]) -> None:
    """Add a header, as Java's processors do, and pass the record on."""
    for record in records:
        if record.headers is not None:
            record.headers.append(HOP)
        if record.value == b"bad":
            raise ValueError("bad")
        task.emit("out", record.key, record.value)


def hop_all(task: Task, records: Sequence[Record]) -> None:
    """As ``hop``, but change all headers before anything else."""
    rows = list(records)
    for record in rows:
        if record.headers is not None:
            record.headers.clear()
            record.headers.extend((*OWN, HOP))
    if any(record.value == b"bad" for record in rows):
        raise ValueError("bad")
    for record in rows:
        task.emit("out", record.key, record.value, headers=record.headers)


@pytest.mark.parametrize("function", [hop, hop_all])
@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_records_that_are_worked_on_again_have_their_own_headers(
    function: Callable[[Task, Sequence[Record]], None], on_error: Any
) -> None:
    topology = [Subtopology(function, sources=["in"], sinks=["out", "dead"], on_error=on_error)]
    settings = {"errors_dead_letter_queue_topic_name": "dead"}
    with TopologyTestDriver(topology, auto_commit=False, **settings) as driver:
        driver.pause()
        for value in (b"a", b"b", b"bad", b"c"):
            driver.pipe("in", b"k", value, headers=OWN)
        driver.resume()
        driver.commit()
        assert [(record.value, record.headers) for record in driver.read("out")] == [
            (value, [*OWN, HOP]) for value in (b"a", b"b", b"c")
        ]
        letters = driver.read("dead")
    assert [HOP in (letter.headers or ()) for letter in letters] == [False] * (on_error == "dead_letter")
    assert all((letter.headers or ())[0] == OWN[0] for letter in letters)


def test_on_error_gets_the_record_with_its_own_headers() -> None:
    seen: list[object] = []

    def on_error(record: Record, _error: Exception) -> str:
        seen.append(list(record.headers or ()))
        return "skip"

    with TopologyTestDriver([Subtopology(hop, sources=["in"], sinks=["out"], on_error=on_error)]) as driver:
        driver.pipe("in", b"k", b"bad", headers=OWN)
    assert seen == [[*OWN]]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_that_are_read_again_after_a_failed_commit_have_their_own_headers(guarantee: str) -> None:
    topology = [Subtopology(hop, sources=["in"], sinks=["out"])]
    with TopologyTestDriver(topology, processing_guarantee=guarantee) as driver:
        driver.fail_next_commit()
        driver.pipe("in", b"k", b"v", headers=OWN)
        outputs = {tuple(record.headers or ()) for record in driver.read("out")}
    assert outputs == {(*OWN, HOP)}


def test_the_outputs_that_a_test_reads_are_not_changed_by_the_functions_behind_them() -> None:
    def copy(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.emit("between", record.key, record.value)

    topology = [
        Subtopology(copy, sources=["in"], sinks=["between"]),
        Subtopology(hop, sources=["between"], sinks=["out"]),
    ]
    with TopologyTestDriver(topology) as driver:
        driver.pipe("in", b"k", b"v", headers=OWN)
        assert [record.headers for record in driver.read("between")] == [[*OWN]]
        assert [record.headers for record in driver.read("out")] == [[*OWN, HOP]]
