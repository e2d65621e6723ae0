"""Write ``requirements.lock`` and ``requirements-demo.lock``: pins with hashes, no host named.

The first has every package for development and all extras, the second those of them that ``make demo`` needs. Run
through ``make lock`` when a dependency in ``pyproject.toml`` changes. Pins that still fit stay as they are; to move
one, delete its lines first. A package that does not support the lowest Python is refused: the Python that runs this
may be newer. Needs pip-tools, which ``make lock`` installs beside the project.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
DEMO_LOCK = ROOT / "requirements-demo.lock"
LOWEST_PYTHON = "3.11.2"
"""The oldest Python that the project supports: Debian 12's."""
OPTIONS = (
    "--quiet",
    "--generate-hashes",
    "--allow-unsafe",
    "--strip-extras",
    "--no-annotate",
    "--no-header",
    "--no-emit-options",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
)
BLOCK = re.compile(r"^(?P<name>\S+)==(?:.*\\\n)+.*\n", re.MULTILINE)


def requirements(extras: Iterable[str] | None = None) -> list[str]:
    """Return what the project and some of its extras ask for, and what builds it; None: all extras.

    References from one extra to another are left out.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    optional = project["optional-dependencies"]
    groups = [project["dependencies"], settings["build-system"]["requires"], *map(optional.get, extras or optional)]
    return sorted({name for group in groups for name in group if not name.startswith(project["name"])})


def resolve(wanted: Iterable[str], lock: Path) -> str:
    """Return the lock of ``wanted``; pins that ``lock`` has already are kept. ``lock`` is written."""
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "--output-file", str(lock), "-"]
    subprocess.run(command, input="\n".join(wanted), text=True, check=True)
    return "".join(line for line in lock.open(encoding="utf-8") if not line.startswith("#"))


def read_pip_report(report: Mapping[str, Any]) -> dict[str, str]:
    """Return each package of pip's installation report as NAME==VERSION, with its ``Requires-Python``."""
    packages = [install["metadata"] for install in report["install"]]
    return {f"{package['name']}=={package['version']}": package.get("requires_python") or "" for package in packages}


def find_unsupported(requires_python: Mapping[str, str], python: str = LOWEST_PYTHON) -> list[str]:
    """Return a line for each package that does not support ``python``."""
    return [
        f"{package} needs Python {needed}"
        for package, needed in sorted(requires_python.items())
        if not SpecifierSet(needed).contains(python)
    ]


def refuse_unsupported(lock: Path) -> None:
    """End the program if a locked package does not support ``LOWEST_PYTHON``."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        asked = ("--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--report", str(report), "-r", str(lock))
        subprocess.run([sys.executable, "-m", "pip", "install", *asked], check=True)
        unsupported = find_unsupported(read_pip_report(json.loads(report.read_text(encoding="utf-8"))))
    if unsupported:
        sys.exit(
            f"{lock.name}: {'; '.join(unsupported)}, but the project supports Python {LOWEST_PYTHON}: limit the "
            f"package in pyproject.toml, delete its lines in {lock.name}, and lock again"
        )


def main() -> None:
    """Resolve and write both locks."""
    whole = resolve(requirements(), LOCK)
    LOCK.write_text(whole, encoding="utf-8")
    refuse_unsupported(LOCK)
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder, "demo.lock")
        pinned.write_text(whole, encoding="utf-8")
        names = {block["name"] for block in BLOCK.finditer(resolve(requirements(["local"]), pinned))}
    demo = [block[0] for block in BLOCK.finditer(whole) if block["name"] in names]
    if len(demo) < len(names):
        sys.exit(f"requirements.lock lacks packages of the demo: {sorted(names)}")
    DEMO_LOCK.write_text("".join(demo), encoding="utf-8")


if __name__ == "__main__":
    main()
