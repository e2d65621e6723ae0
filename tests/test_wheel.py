"""What users install: the wheel, in an environment of its own, out of the checkout's reach."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.installed import ROOT, build_wheel, install_wheel, run

pytestmark = pytest.mark.timeout(600)  # whichever is first builds the wheel and installs it
PURE_TESTS = ("wire", "assign", "group", "tasks", "observe")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The Python of an environment that holds the wheel and sees the locked packages."""
    return install_wheel(wheel, tmp_path_factory.mktemp("installed"))


def test_the_examples_pass_a_strict_type_checker_against_the_wheel(python):
    checked = run(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", python),
        *sorted((ROOT / "examples").glob("*.py")),
        folder=python.parent,
    )
    assert "no issues found" in checked


def test_the_wheel_holds_the_package_the_protocol_and_the_licence_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "kstreams_assign/py.typed" in names
    assert "kstreams_assign/local/jars.lock" in names
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "protocol").rglob("*") if path.is_file()}
    assert data
    assert {f"kstreams_assign/{name}" for name in data} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names} == {"kstreams_assign", "kstreams_assign-0.1.0.dist-info"}


IMPORT_ALL = """
import importlib, pkgutil, pathlib, sys, kstreams_assign
assert pathlib.Path(kstreams_assign.__file__).is_relative_to(sys.prefix), kstreams_assign.__file__
for module in pkgutil.walk_packages(kstreams_assign.__path__, "kstreams_assign."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(sum(name.startswith("kstreams_assign.") for name in sys.modules))
"""


def test_every_module_can_be_imported_from_the_wheel(python, tmp_path):
    imported = int(run(python, "-c", IMPORT_ALL, folder=tmp_path))
    inside = [
        path for path in (ROOT / "kstreams_assign").rglob("*.py") if path.name not in {"__init__.py", "__main__.py"}
    ]
    assert imported >= len(inside)


def test_the_installed_command_runs(python, tmp_path):
    assert "Usage: kstreams-assign" in run(python.with_name("kstreams-assign"), "--help", folder=tmp_path)
    assert run(python.with_name("kstreams-assign"), "--version", folder=tmp_path) == "kstreams-assign 0.1.0\n"


@pytest.mark.timeout(600)
def test_the_pure_tests_pass_against_the_wheel(python, tmp_path):
    """They are copied away first, so that nothing of the checkout can be imported beside them."""
    for name in ("tests", "protocol"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rooms = [f"tests/{room}" for room in PURE_TESTS if (tmp_path / "tests" / room).exists()]
    said = run(python, "-m", "pytest", "-q", "-m", "not broker and not java_peer", *rooms, folder=tmp_path)
    assert " passed" in said
