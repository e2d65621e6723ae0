"""The public names: one table, seen alike by Python, by type checkers and by editors, each with a docstring."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import kstreams_assign
from kstreams_assign import errors

ROOT = Path(__file__).parent.parent
NAMES = kstreams_assign.__all__
CLASSES = [name for name in NAMES if inspect.isclass(getattr(kstreams_assign, name))]


def test_every_name_is_what_its_module_defines() -> None:
    for name, module in kstreams_assign._MODULES.items():
        assert getattr(kstreams_assign, name) is getattr(sys.modules[module], name)


def test_dir_lists_the_public_names_and_nothing_else_of_ours() -> None:
    assert set(dir(kstreams_assign)) == {*NAMES, "__version__"}
    assert len(set(NAMES)) == len(NAMES)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Wroker'"):
        kstreams_assign.Wroker  # noqa: B018


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(inspect.getsource(kstreams_assign))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names if alias.asname == alias.name}
    assert seen == kstreams_assign._MODULES


def test_every_error_is_public() -> None:
    defined = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert defined <= set(NAMES)


def test_a_program_that_imports_one_name_loads_no_client_library() -> None:
    code = "import sys, kstreams_assign; kstreams_assign.ConfigError; print([m for m in CLIENTS if m in sys.modules])"
    clients = ["kafka", "confluent_kafka", "rocksdict", "msgpack"]
    loaded = subprocess.run(
        [sys.executable, "-c", code.replace("CLIENTS", repr(clients))], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_a_type_checker_accepts_every_name_and_knows_the_fields_of_an_event(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"from kstreams_assign import {', '.join(NAMES)}\n"
        "from kstreams_assign.events import AssignedEvent\n"
        "def on_event(event: Event) -> None:\n"
        "    match event:\n"
        "        case AssignedEvent(generation=generation):\n"
        "            reveal_type(generation)\n"
        "            event.generatoin\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    notes = [line.partition(": ")[2] for line in checked.stdout.splitlines()[:-1]]
    assert notes[0] == 'note: Revealed type is "int"', checked.stdout
    assert notes[1].startswith('error: "AssignedEvent" has no attribute "generatoin"'), checked.stdout
    assert all("generat" in note for note in notes[1:]), checked.stdout


def described() -> list[tuple[str, object]]:
    """Public classes, and their own public methods and properties."""
    members: list[tuple[str, object]] = []
    for name in CLASSES:
        kind = getattr(kstreams_assign, name)
        members.append((name, kind))
        for attribute, value in inspect.getmembers_static(kind):
            owner = next((base for base in kind.__mro__ if attribute in vars(base)), object)
            callable_ = inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
            blocking = name == "AsyncSidecarClient" and hasattr(
                kstreams_assign.SidecarClient, attribute
            )  # described there
            ours = owner.__module__.startswith("kstreams_assign") and not attribute.startswith("_")
            if callable_ and ours and not blocking:
                members.append((f"{name}.{attribute}", getattr(value, "__func__", value)))
    return members


@pytest.mark.parametrize(("name", "value"), described())
def test_a_docstring_begins_with_one_plain_sentence(name: str, value: object) -> None:
    first = (inspect.getdoc(value) or "").partition("\n")[0]
    assert first.endswith("."), name
    assert len(first) <= 116, name
    assert "(" not in first.partition(" ")[0], f"{name}: the signature, not a sentence"
