"""The tables from which the documentation's reference is generated are complete."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import kstreams_assign
from kstreams_assign import errors, reference
from kstreams_assign.adapters.confluent.faults import FAULTS
from kstreams_assign.adapters.kafka_python.faults import _ERRORS
from kstreams_assign.config import Config


def test_every_setting_has_a_description_and_what_is_allowed():
    settings = {setting.key: setting for setting in reference.settings()}
    assert list(settings) == [each.name for each in fields(Config)]
    for setting in settings.values():
        assert setting.description.endswith("."), setting
        assert setting.allowed, setting
        assert setting.unit or not setting.key.endswith("_ms"), setting


def test_a_setting_is_described_by_its_default_its_unit_and_its_name_in_kafka():
    settings = {setting.key: setting for setting in reference.settings()}
    lag = settings["acceptable_recovery_lag"]
    assert (lag.default, lag.allowed, lag.unit, lag.kafka) == (
        "10000",
        "a whole number >= 0",
        "offsets",
        "acceptable.recovery.lag",
    )
    assert settings["application_id"].default == "required"
    assert settings["assignor"].allowed.startswith("least_movement, high_availability")
    assert settings["process_name"].kafka == ""


def test_every_error_says_what_happened_and_what_the_application_can_do():
    described = {each.name: each for each in reference.errors()}
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert described.keys() == defined
    assert [name for name in defined if name not in errors.__doc__] == []
    for each in described.values():
        assert each.meaning.endswith("."), each
        assert each.remedy.endswith("."), each
    assert described["RecordRefused"].base == "DeliveryFailed"


def test_every_error_comes_out_of_a_call_or_is_said_to_come_out_of_none():
    raised = {name for errors_of_call in reference.RAISED_BY.values() for name in errors_of_call}
    base_classes = {"KStreamsAssignError", "SidecarError"}
    assert raised.isdisjoint(reference.NOT_RAISED)
    assert raised | reference.NOT_RAISED.keys() | base_classes == {each.name for each in reference.errors()}


def public_calls() -> dict[str, str]:
    """Return every public function, class that is no error, and public method, with their docstrings."""
    docstrings = {}
    for name in kstreams_assign.__all__:
        kind = getattr(kstreams_assign, name)
        if inspect.isfunction(kind):
            docstrings[name] = inspect.getdoc(kind) or ""
        if not inspect.isclass(kind) or issubclass(kind, Exception):
            continue
        docstrings[name] = inspect.getdoc(kind) or ""
        for method, value in inspect.getmembers(kind, callable):
            if not method.startswith("_"):
                docstrings[f"{name}.{method}"] = inspect.getdoc(value) or ""
    return docstrings


def test_the_errors_that_a_docstring_names_are_those_of_the_table():
    names = {each.name for each in reference.errors()}
    docstrings = public_calls()
    assert reference.RAISED_BY.keys() <= docstrings.keys()
    for call, docstring in docstrings.items():
        described = re.findall(r"Raises? (.*?)\.(?:\s|$)", docstring, re.DOTALL)
        named = {name for text in described for name in re.findall(r"``(\w+)``", text)} & names
        entry = call if call in reference.RAISED_BY else call.partition(".")[0]  # a class stands for its methods
        missing = named - reference.RAISED_BY.get(entry, {}).keys()
        assert not missing, (call, missing)


def test_the_docstring_of_run_names_every_error_of_the_table():
    named = re.findall(r"``(\w+)``", inspect.getdoc(kstreams_assign.Worker.run) or "")
    assert reference.RAISED_BY["Worker.run"].keys() <= {*named}


ROOMS_OF_A_WORKER = ("adapters", "group", "restore", "state", "tasks", "topology", "worker")
HANDLED = {
    "CommitDeferred": "a worker commits again after the rebalance",
    "CommitRefused": "a worker drops the work",
    "InvalidTaskId": "TaskId.parse",
    "PartitionsAbsent": "a worker commits again, and then drops the offsets",
}


def test_every_error_that_the_code_of_a_worker_raises_is_in_the_table_of_its_calls():
    """A new error has to be placed: among those of a call, or among those that come out of none."""
    package = Path(kstreams_assign.__file__).parent
    names = {each.name for each in reference.errors()}
    raised = {
        node.exc.func.id
        for room in ROOMS_OF_A_WORKER
        for file in (package / room).rglob("*.py")
        if "sidecar" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    } & names
    raised |= {kind.__name__ for kind in [*FAULTS.values(), *_ERRORS.values()]}
    calls = ("Worker", "Worker.run", "Worker.locate", "Worker.read", "Worker.query", "Worker.pause")
    placed = {name for call in calls for name in reference.RAISED_BY[call]}
    assert len(raised) > 12
    assert raised - placed - reference.NOT_RAISED.keys() - HANDLED.keys() == set()
