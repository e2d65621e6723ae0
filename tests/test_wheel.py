"""What users install: the wheel, in an environment of its own, out of the checkout's reach.

The environment shares the locked packages by a path entry; that entry's own ``.pth`` files, the checkout's among them,
are not read. So ``kstreams_assign`` can only come from the wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.timeout(600)  # whichever is first builds the wheel and installs it
PURE_TESTS = ("wire", "assign", "group", "tasks", "observe")


def run(*command: str | Path, folder: Path) -> str:
    brief = os.environ | {"HYPOTHESIS_PROFILE": "brief"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=850, check=False, env=brief)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The Python of an environment that holds the wheel and sees the locked packages."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, folder=home)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=home).strip()
    Path(site, "locked.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


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


@pytest.mark.timeout(900)
def test_the_pure_tests_pass_against_the_wheel(python, tmp_path):
    """They are copied away first, so that nothing of the checkout can be imported beside them."""
    for name in ("tests", "protocol"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rooms = [f"tests/{room}" for room in PURE_TESTS if (tmp_path / "tests" / room).exists()]
    said = run(python, "-m", "pytest", "-q", "-m", "not broker and not java_peer", *rooms, folder=tmp_path)
    assert " passed" in said
