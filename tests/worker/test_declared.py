"""What a program declares is checked when it is declared, before there is a broker or a record."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kstreams_assign import (
    Config,
    ConfigError,
    GroupMember,
    Process,
    Record,
    Store,
    Subtopology,
    SubtopologyShape,
    Task,
    Worker,
)


def count(_task: Task, _records: Sequence[Record]) -> None:
    """Do nothing."""


def config(tmp_path: Path) -> Config:
    return Config(application_id="app", bootstrap_servers="localhost:1", state_dir=str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("first", "second", "topic"),
    [
        (Subtopology(count, sources=["in"]), Subtopology(count, sources=["in"]), "in"),
        (Subtopology(count, sources=["in", "out"]), Subtopology(count, sources=["in"]), "in"),
        (
            Subtopology(count, repartition_sources=["words"]),
            Subtopology(count, repartition_sources=["words"]),
            "app-words-repartition",
        ),
    ],
)
def test_two_subtopologies_that_read_one_topic_are_refused(
    tmp_path: Path, first: Subtopology, second: Subtopology, topic: str
) -> None:
    with pytest.raises(ConfigError, match=f"topic {topic} is read by subtopologies 0 and 1; a topic has one reader"):
        Worker(config(tmp_path), [first, second])
    assert not (tmp_path / "state").exists()


def test_two_shapes_of_a_group_member_that_read_one_topic_are_refused(tmp_path: Path) -> None:
    shape = SubtopologyShape(("in",))
    with pytest.raises(ConfigError, match="topic in is read by subtopologies 0 and 1; a topic has one reader"):
        GroupMember(config(tmp_path), [shape, shape], uuid4())


def takes_one(_task: Task) -> None:
    """Do nothing."""


async def waits(_task: Task, _records: Sequence[Record]) -> None:
    """Do nothing."""


def yields(_task: Task, _records: Sequence[Record]) -> Any:
    yield


class Waiting:
    """Is called as a function that waits."""

    async def __call__(self, _task: Task, _records: Sequence[Record]) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return "Waiting()"


class Yielding:
    """Is called as a generator function."""

    def __call__(self, _task: Task, _records: Sequence[Record]) -> Any:
        yield

    def __repr__(self) -> str:
        return "Yielding()"


@wraps(waits)
def runs_to_its_end(task: Task, records: Sequence[Record]) -> None:
    asyncio.run(waits(task, records))


@wraps(takes_one)
def is_given_more(task: Task, _records: Sequence[Record]) -> None:
    takes_one(task)


class Counter:
    """Has a method to be used as a function."""

    def count(self, _task: Task, _records: Sequence[Record]) -> None:
        """Do nothing."""

    __call__ = count


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"process": None}, "process = None: must be a function (task, records)"),
        ({"process": "count"}, "process = 'count': must be a function (task, records)"),
        ({"process": takes_one}, "process = takes_one(_task: 'Task') -> 'None': must be a function (task, records)"),
        ({"process": waits}, "process = waits: must be a function (task, records) without await and yield"),
        ({"process": yields}, "process = yields: must be a function (task, records) without await and yield"),
        ({"process": Waiting()}, "process = Waiting(): must be a function (task, records) without await and yield"),
        ({"process": Yielding()}, "process = Yielding(): must be a function (task, records) without await and yield"),
        ({"process": count, "store": ["s"]}, "Subtopology: store: no such setting; did you mean stores?"),
        ({"process": count, "stores": "s"}, "stores = 's': must be a list of stores; write ['s']"),
        ({"process": count, "stores": [7]}, "stores: 7: must be a name, or a Store(...)"),
        ({"process": count, "sinks": "out"}, "sinks = 'out': must be a list of topics; write ['out']"),
    ],
)
def test_a_subtopology_that_cannot_work_is_refused_where_it_is_declared(arguments: Any, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Subtopology(sources=["in"], **arguments)
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    "process",
    [count, lambda *_: None, partial(count), Counter(), Counter().count, max, runs_to_its_end, is_given_more],
    ids=lambda each: repr(each)[:20],
)
def test_whatever_takes_a_task_and_records_is_a_function(process: Any) -> None:
    assert Subtopology(process, sources=["in"]).process is process


@pytest.mark.parametrize(
    ("settings", "topology", "text"),
    [
        ({"application_id": "app"}, [], "config is a dict: write Config(**settings)"),
        (None, [], "config is a NoneType: must be a Config; write Worker(Config(...), [...])"),
        (Config("app", "localhost:1"), [count], "topology[0] is a function: must be a Subtopology; write Subtopology("),
        (Config("app", "localhost:1"), count, "topology is a function: must be a list of Subtopology"),
    ],
)
def test_a_worker_that_is_made_of_something_else_is_refused_with_the_fix(
    settings: Any, topology: Any, text: str
) -> None:
    with pytest.raises(TypeError, match="^" + re.escape(text)):
        Worker(settings, topology)


@pytest.mark.parametrize("declaration", [Subtopology, Store])
def test_help_names_each_field(declaration: Any) -> None:
    text = inspect.getdoc(declaration) or ""
    assert [each.name for each in fields(declaration) if f"- ``{each.name}``: " not in text] == []


def test_help_shows_what_a_function_takes() -> None:
    for each in (Subtopology, Worker):
        assert "def count(task: Task, records: Sequence[Record]) -> None:" in (inspect.getdoc(each) or "")
    assert "takes a task and its next records" in (inspect.getdoc(Process) or "")
    assert "kstreams_assign.reference.settings()" in (inspect.getdoc(Config) or "")
