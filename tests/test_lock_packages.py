"""The locks hold only packages that support the lowest Python of the project."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

from scripts.lock_packages import LOCK, LOWEST_PYTHON, ROOT, find_unsupported, read_pip_report, refuse_unsupported

REPORT = {
    "install": [
        {"metadata": {"name": "typer", "version": "0.29.2", "requires_python": ">=3.11"}},
        {"metadata": {"name": "soupsieve", "version": "3.0.4", "requires_python": ">=3.11.5"}},
        {"metadata": {"name": "rocksdict", "version": "0.3.29"}},
    ]
}


def test_a_package_that_needs_a_newer_python_is_named_with_what_it_needs() -> None:
    requires_python = read_pip_report(REPORT)
    assert requires_python == {"typer==0.29.2": ">=3.11", "soupsieve==3.0.4": ">=3.11.5", "rocksdict==0.3.29": ""}
    assert find_unsupported(requires_python, "3.11.2") == ["soupsieve==3.0.4 needs Python >=3.11.5"]
    assert find_unsupported(requires_python, "3.11.5") == []


@pytest.mark.parametrize("needed", ["!=3.11.2,>=3.8", "<3.11", ">=3.12", "==3.12.*"])
def test_every_form_of_a_requirement_counts(needed: str) -> None:
    assert find_unsupported({"a==1": needed}) == [f"a==1 needs Python {needed}"]


def test_a_lock_with_such_a_package_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.lock_packages.subprocess.run", lambda command, **_: write_report(command))
    with pytest.raises(SystemExit) as ended:
        refuse_unsupported(LOCK)
    text = "requirements.lock: soupsieve==3.0.4 needs Python >=3.11.5, but the project supports Python 3.11.2"
    assert str(ended.value.code).startswith(text)


def write_report(command: list[str]) -> None:
    Path(command[command.index("--report") + 1]).write_text(json.dumps(REPORT), encoding="utf-8")


def test_every_locked_package_supports_the_lowest_python() -> None:
    locked = re.findall(r"^(\S+)==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(locked) > 50
    requires = {f"{name}=={version}": distribution(name).metadata["Requires-Python"] or "" for name, version in locked}
    assert find_unsupported(requires) == []


def test_the_lowest_python_is_one_that_the_project_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert find_unsupported({"project": project["requires-python"]}, LOWEST_PYTHON) == []
