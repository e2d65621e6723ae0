"""A worker reports no event, and no field, that ``kstreams_assign.events`` does not describe.

The syntax tree has every call of ``emit``; the tests with a broker compare the values of what is reported
(``described.refuse_undescribed``).
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import get_type_hints

import pytest

import kstreams_assign
from kstreams_assign import events, reference
from kstreams_assign.events.base import BaseEvent
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.worker.pace import LONG_MS, LongRestores, paces
from tests.worker.described import event_types, refuse_undescribed

ROOT = Path(kstreams_assign.__file__).parent
STAMPS = get_type_hints(BaseEvent).keys() | {"event"}
FIELDS = {name: get_type_hints(kind).keys() - STAMPS for name, kind in event_types().items()}
REPORTERS = ("log", "_log", "_loop")
"""What ``emit`` is called on; ``Task.emit`` sends records."""


@cache
def emit_calls() -> list[tuple[str, str, frozenset[str] | None]]:
    """File and line, event, and fields; None where the fields are a mapping."""
    calls = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "emit"
                and ast.unparse(node.func.value).rpartition(".")[2] in REPORTERS
                and isinstance(node.args[0], ast.Constant)
            ):
                names = [keyword.arg for keyword in node.keywords]
                fields = None if None in names else frozenset(name for name in names if name)
                calls.append((f"{path.relative_to(ROOT)}:{node.lineno}", node.args[0].value, fields))
    return calls


def test_every_call_reports_an_event_with_just_the_fields_that_are_described() -> None:
    wrong = [
        f"{where}: {event} with {fields and sorted(fields)}; described: {FIELDS.get(event)}"
        for where, event, fields in emit_calls()
        if event not in FIELDS or (fields is not None and fields != FIELDS[event])
    ]
    assert wrong == []


def test_every_event_that_is_described_is_reported_somewhere() -> None:
    assert {event for _, event, _ in emit_calls()} == FIELDS.keys()


def test_only_the_pace_of_long_restores_gives_its_fields_as_a_mapping() -> None:
    assert [event for _, event, fields in emit_calls() if fields is None] == ["restoring"]
    changelog = TopicPartition("changelog", 1)
    progress = {TaskId(0, 1): TaskProgress.begin({changelog: 0}, {changelog: 10_000}, 0)}
    lines = LongRestores(acceptable_lag=100)
    assert lines.line(paces(progress, 0), 0) is None
    line = lines.line(paces(progress, LONG_MS), LONG_MS)
    assert line is not None
    refuse_undescribed([{"time_ms": 1, "process_id": "p", "event": "restoring", **line}])


def test_the_reference_describes_every_event_and_every_field() -> None:
    described = {each.event: each for each in reference.events()}
    assert described.keys() == FIELDS.keys()
    for each in [*described.values(), *reference.event_values()]:
        assert each.when.endswith("."), each
        assert len({field.name for field in each.fields}) == len(each.fields)
        assert [field.name for field in each.fields if not field.description] == [], each.type
    assert {event for event in events.__all__ if event.endswith("Event")} - {"Event"} == {
        each.type for each in described.values()
    }


@pytest.mark.parametrize(
    "event",
    [
        {"event": "assigne"},
        {"event": "closed"},
        {"event": "closed", "time_ms": 1, "process_id": "p", "reason": "?"},
        {"event": "closed", "time_ms": None, "process_id": "p"},
        {"event": "closed", "time_ms": True, "process_id": "p"},
        {"event": "state_wiped", "time_ms": 1, "process_id": "p", "tasks": [1]},
    ],
)
def test_an_event_that_differs_from_its_type_is_noticed(event) -> None:
    with pytest.raises(AssertionError):
        refuse_undescribed([event])
