"""Write ``requirements.lock``: every package for development and all extras, pinned with hashes, no host named.

Run through ``make lock`` when a dependency in ``pyproject.toml`` changes. Pins that still fit stay as they are; to move one,
delete its lines first. Needs pip-tools, which ``make lock`` installs beside the project.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
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


def requirements() -> list[str]:
    """What the project asks for in all its extras, without the references from one extra to another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({name for group in asked for name in group if not name.startswith(project["name"])})


def main() -> None:
    """Resolve and write the lock."""
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "--output-file", str(LOCK), "-"]
    subprocess.run(command, input="\n".join(requirements()), text=True, check=True)
    LOCK.write_text("".join(line for line in LOCK.open(encoding="utf-8") if not line.startswith("#")), encoding="utf-8")


if __name__ == "__main__":
    main()
