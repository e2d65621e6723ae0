"""Install the packages of a lock file with pip, and show how far that is.

``.venv/bin/python scripts/install_packages.py requirements-demo.lock``. Packages that are installed as locked are not
fetched again. Progress goes to standard error: on a terminal one line that changes, else a line every few seconds.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PIN = re.compile(r"^(\S+)==", re.MULTILINE)
STEP = re.compile(r"(Collecting|Requirement already satisfied:) (?P<package>[^ (]+)")
DOWNLOAD = re.compile(r" *Downloading (?:\S*/)?(?P<package>[^-/\s]+)-\S+ \((?P<size>[^)]+)\)")
EVERY_S = 3.0


class Progress:
    """The line that says which package is at work."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty()
        self._due = 0.0

    def show(self, text: str, *, now: bool = False) -> None:
        """Show ``text``; where lines stay, only every few seconds, or ``now``."""
        if self._in_place:
            print(f"\r\x1b[K  {text}", end="", file=sys.stderr, flush=True)
        elif now or time.monotonic() >= self._due:
            print(f"  {text}", file=sys.stderr, flush=True)
            self._due = time.monotonic() + EVERY_S

    def end(self) -> None:
        """Leave the line."""
        if self._in_place:
            print(file=sys.stderr)


def install(lock: Path) -> int:
    """Run pip; return its exit status. What pip prints is shown where it fails."""
    total = len(PIN.findall(lock.read_text(encoding="utf-8")))
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--require-hashes", "--requirement", str(lock)]
    output: list[str] = []
    progress = Progress()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for text in _steps(_kept(pip.stdout, output), total):
            progress.show(text, now=text.startswith("installing"))
    progress.end()
    if pip.returncode:
        print("".join(output), end="", file=sys.stderr)
    return pip.returncode


def _kept(lines: Iterator[str], output: list[str]) -> Iterator[str]:
    for line in lines:
        output.append(line)
        yield line


def _steps(lines: Iterator[str], total: int) -> Iterator[str]:
    """Yield a text for each line of pip that says what it does."""
    number = 0
    for line in lines:
        if step := STEP.match(line):
            number += 1
            yield f"{number} of {total} packages: {step['package']}"
        elif (download := DOWNLOAD.match(line)) and ".metadata" not in line:
            yield f"{number} of {total} packages: {download['package']}, {download['size']}"
        elif line.startswith("Installing collected packages"):
            yield "installing what was fetched"


if __name__ == "__main__":
    sys.exit(install(Path(sys.argv[1])))
