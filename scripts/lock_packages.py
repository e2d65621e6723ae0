"""Write ``requirements.lock`` and ``requirements-demo.lock``: pins with hashes, no host named.

The first has every package for development and all extras, the second those of them that ``make demo`` needs. Run
through ``make lock`` when a dependency in ``pyproject.toml`` changes. Pins that still fit stay as they are; to move
one, delete its lines first. Needs pip-tools, which ``make lock`` installs beside the project.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
DEMO_LOCK = ROOT / "requirements-demo.lock"
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


def main() -> None:
    """Resolve and write both locks."""
    whole = resolve(requirements(), LOCK)
    LOCK.write_text(whole, encoding="utf-8")
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
