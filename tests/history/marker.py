"""A text that stands for a secret, and where it may be found."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

SECRET = "marker-of-a-secret"  # not one


def files_with_it(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def command_lines(processes: Iterable[psutil.Process]) -> set[str]:
    """The command lines of processes and of all that they have started, now."""
    seen = set()
    for process in processes:
        with suppress(psutil.Error):
            for each in (process, *process.children(recursive=True)):
                seen.add(" ".join(each.cmdline()))
    return seen
