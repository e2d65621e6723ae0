"""Runs a piece of work on copies of a state directory and kills it at each call that touches the disk, one after the
other.

    python -m tests.state.crashing WORK TEMPLATE OUT

Each copy is left as the crash left it: ``OUT/<number of the call>`` died before the call, ``OUT/<number>-half`` in the
middle of a write. ``OUT/chain`` is one copy on which the work died again and again, each time one call later. The calls
are printed, in order. It is a program of its own because it forks, which a process with threads should not.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from kstreams_assign.model import TaskId
from kstreams_assign.state import journal
from kstreams_assign.state.cleaner import wipe_old
from kstreams_assign.state.cleaning import Selection, clean
from kstreams_assign.state.directory import StateDirectory

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
MAX_AGE_MS = 7 * DAY_MS
CALLS = ("open", "write", "pwrite", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir")
DIED, CHAIN_MAX = 77, 400


class Disk:
    """Counts the calls and, at one of them, ends the process without any farewell."""

    def __init__(self, die_at: int | None, *, half: bool) -> None:
        self.die_at, self.half = die_at, half
        self.calls: list[str] = []
        self.paused = False

    def watch(self) -> None:
        for name in CALLS:
            call = getattr(os, name) if name != "fsync" else lambda _file: None  # no power cut here, and it takes long
            setattr(os, name, self._watched(name, call))
        io.open = self._watched("io.open", io.open)

    def _watched(self, name: str, call: Callable) -> Callable:
        def watched(*args, **named):
            if not self.paused:
                if len(self.calls) == self.die_at:
                    if self.half:
                        file, text, *rest = args
                        call(file, text[: len(text) // 2], *rest)
                    os._exit(DIED)
                self.calls.append(name)
            return call(*args, **named)

        return watched


def make_folder(path: Path, text: str) -> None:
    """A task's state: two files, so that it can be there by half."""
    (path / "store").mkdir(parents=True, exist_ok=True)
    (path / "store" / "data").write_text(text)
    (path / "offsets").write_text(text)


def work_as_a_worker(root: Path, disk: Disk) -> None:
    """Live as a process: wipe, empty, own, retire, discard, start again, until the journal exceeds its limit."""
    journal.SIZE_MAX_BYTES = 900
    directory = StateDirectory(root, "app", clock_ms=lambda: 0, wall_ms=lambda: NOW_MS)
    wipe_old(directory, MAX_AGE_MS)
    directory.heartbeat()
    directory.trash.empty()
    for partition in (0, 1, 4):
        directory.lock_task(TaskId(0, partition))
    directory.release_task(TaskId(0, 1))
    directory.retire(TaskId(0, 1), 0)
    directory.trash.empty()
    directory.discard(TaskId(0, 4), "damaged, as a test has it")
    disk.paused = True
    make_folder(directory.task_path(TaskId(0, 4)), "new")
    disk.paused = False
    directory.trash.empty()
    directory.release_task(TaskId(0, 4))
    directory.heartbeat()


def work_as_clean(root: Path, _disk: Disk) -> None:
    """``kstreams-assign clean --older-than 7d``."""
    clean(root, "app", Selection(older_than_ms=MAX_AGE_MS), lambda: NOW_MS)


def work_under_a_name(root: Path, _disk: Disk) -> None:
    """A start that gives the process another id."""
    StateDirectory(root, "app", clock_ms=lambda: 0, wall_ms=lambda: NOW_MS, process_name="pod-0")


WORKS: dict[str, Callable[[Path, Disk], None]] = {
    "worker": work_as_a_worker,
    "clean": work_as_clean,
    "name": work_under_a_name,
}


def run(work: str, root: Path, die_at: int | None, *, half: bool = False) -> list[str] | None:
    """The calls it made; None if it died where it was to die. Anything else ends the program."""
    reports, tell = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            disk = Disk(die_at, half=half)
            write = os.write
            disk.watch()
            WORKS[work](root, disk)
            write(tell, " ".join(disk.calls).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(tell)
    with os.fdopen(reports) as file:
        calls = file.read().split()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == DIED:
        return None
    if status:
        raise SystemExit(f"{work} failed on {root}, to die at {die_at}")
    return calls


def main(work: str, template: Path, out: Path) -> None:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(template, out / name, symlinks=True))

    calls = run(work, copy("whole"), None) or []
    for number, name in enumerate(calls):
        run(work, copy(str(number)), number)
        if name in ("write", "pwrite"):
            run(work, copy(f"{number}-half"), number, half=True)
    chain = copy("chain")
    next(number for number in count() if run(work, chain, number) is not None or number > CHAIN_MAX)
    print(" ".join(calls))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
