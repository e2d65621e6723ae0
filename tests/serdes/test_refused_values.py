"""A dataclass is written as JSON only if it can be read again."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from kstreams_assign import Batch, Serdes, Subtopology, Task, TopologyTestDriver


@dataclass
class Line:
    article: str
    price: float


@dataclass
class Place:
    city: str


@dataclass
class Sums:
    count: int
    total: float = 0.0
    name: str = ""
    known: bool = True
    mean: float | None = None
    sums: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    last: Line | None = None
    lines: dict[str, list[Line]] = field(default_factory=dict)


@dataclass
class Means:
    mean: float | None
    means: list[float | None]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("sums_of", "named"),
    [
        (lambda number: Sums(1, number), "total: {}"),
        (lambda number: Sums(1, sums=[1.0, number]), "sums: {}"),
        (lambda number: Sums(1, last=Line("a", number)), "last: price: {}"),
        (lambda number: Sums(1, lines={"a": [Line("a", 1.0), Line("b", number)]}), "lines: price: {}"),
    ],
)
def test_a_float_that_json_does_not_have_is_refused(
    sums_of: Callable[[float], Sums], named: str, number: float
) -> None:
    with pytest.raises(ValueError, match=named.format(number) + ": JSON has no such number"):
        Serdes.dataclass(Sums).serialize(sums_of(number))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_float_that_json_does_not_have_is_none_where_none_is_allowed(number: float) -> None:
    serde = Serdes.dataclass(Means)
    assert serde.deserialize(serde.serialize(Means(number, [1.0, number]))) == Means(None, [1.0, None])


@pytest.mark.parametrize(
    ("given_sums", "named"),
    [
        (Sums(1.5), "count: must be int, not 1.5"),  # type: ignore[arg-type]
        (Sums(True), "count: must be int, not True"),
        (Sums(None), "count: must be int, not None"),  # type: ignore[arg-type]
        (Sums(1, None), "total: must be a number, not None"),  # type: ignore[arg-type]
        (Sums(1, True), "total: must be a number, not True"),
        (Sums(1, name=5), "name: must be str, not 5"),  # type: ignore[arg-type]
        (Sums(1, known=1), "known: must be bool, not 1"),  # type: ignore[arg-type]
        (Sums(1, mean="1"), "mean: must be a number, not '1'"),  # type: ignore[arg-type]
        (Sums(1, sums=[None]), "sums: must be a number, not None"),  # type: ignore[list-item]
        (Sums(1, sums=5), "sums: must be list, not 5"),  # type: ignore[arg-type]
        (Sums(1, counts={"a": 1.5}), "counts: must be int, not 1.5"),  # type: ignore[dict-item]
        (Sums(1, counts=[]), "counts: must be dict"),  # type: ignore[arg-type]
        (Sums(1, counts=OrderedDict[str, Any](a=None)), "counts: must be int, not None"),
        (Sums(1, last=Line("a", None)), "last: price: must be a number, not None"),  # type: ignore[arg-type]
        (Sums(1, last=Place("a")), "last: article: missing"),  # type: ignore[arg-type]
        (Sums(1, lines={"a": [None]}), "lines: must be an object, for Line"),  # type: ignore[list-item]
    ],
)
def test_what_could_not_be_read_again_is_not_written(given_sums: Sums, named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        Serdes.dataclass(Sums).serialize(given_sums)


class Color(StrEnum):
    RED = "red"


def test_what_is_read_again_as_an_equal_value_may_be_of_another_type() -> None:
    serde = Serdes.dataclass(Sums)
    given_sums = Sums(1, 5, Color.RED, sums=(1.5, 2), counts=OrderedDict(a=1))  # type: ignore[arg-type]
    assert serde.deserialize(serde.serialize(given_sums)) == Sums(1, 5.0, "red", sums=[1.5, 2.0], counts={"a": 1})
    of_dicts = Sums(1, last={"article": "a", "price": 2})  # type: ignore[arg-type]
    assert serde.deserialize(serde.serialize(of_dicts)) == Sums(1, last=Line("a", 2.0))


def add_up(task: Task, records: Batch) -> None:
    sums = task.store("sums", key=str, value=Sums)
    for key, number in records.pairs(key=str, value=float):
        assert key is not None
        assert number is not None
        before = sums.get(key) or Sums(0)
        sums.put(key, Sums(before.count + 1, before.total + number))


def test_the_record_that_brings_such_a_value_is_set_aside_and_later_ones_are_not() -> None:
    topology = [Subtopology(add_up, sources=["in"], stores=["sums"], on_error="dead_letter")]
    with TopologyTestDriver(topology, errors_dead_letter_queue_topic_name="dead") as driver:
        numbers = driver.input_topic("in", key=str, value=float)
        for number in (1.5, math.nan, 2.0, math.inf):
            numbers.pipe("sensor", number)
        assert driver.store("sums", key=str, value=Sums).get("sensor") == Sums(2, 3.5)
        errors = [dict(record.headers or ())["__streams.errors.message"] or b"" for record in driver.read("dead")]
        assert [error.rpartition(b"ValueError: ")[2] for error in errors] == [
            b"total: nan: JSON has no such number",
            b"total: inf: JSON has no such number",
        ]
