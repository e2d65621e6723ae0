"""Who holds a state directory: a lock that ends with its process, and the line in it for those it keeps out.

What must not be here: what the directory holds.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from pathlib import Path
from typing import IO, Any, NamedTuple

from kstreams_assign.errors import StateDirectoryLocked
from kstreams_assign.state.forking import open_here

LOCK_FILE = ".lock"
LOOKS_MAX = 10_000
"""So often it is tried again where somebody else holds a lock for an instant, or has not written yet."""


class Holder(NamedTuple):
    """The process that has a directory now, as it wrote itself down; None where that cannot be read."""

    pid: int | None
    host: str | None

    def __str__(self) -> str:
        return f"process {self.pid or 'unknown'} on host {self.host or 'unknown'}"


def take_lock(folder: Path) -> IO[bytes]:
    """Lock the directory for as long as the file is open.

    So the lock ends with the process, however that dies, and not with its children. The file is never deleted: two
    processes could then lock two files of one name. Raises ``StateDirectoryLocked`` naming the holder, ``OSError``
    where files cannot be made or locked.
    """
    path = folder / LOCK_FILE
    file = open_here(lambda: path.open("a+b", buffering=0))
    try:
        taken = _lock(file)
    except OSError:
        file.close()
        raise
    if not taken:
        file.close()
        raise StateDirectoryLocked(
            f"the state directory {folder} belongs to {_read_holder(path)}; give each process its own state_dir"
        )
    file.truncate(0)
    file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
    return file


def _lock(file: IO[bytes]) -> bool:
    """False if a process has it. Whoever only looks (``holder``) shares the lock for an instant, and is waited for."""
    for _ in range(LOOKS_MAX):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _may_share(file):
                return False
            os.sched_yield()
        else:
            return True
    return False


def _may_share(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def holder(folder: Path) -> Holder | None:
    """Who has the directory now; None if nobody has. Changes nothing. Raises ``FileNotFoundError`` if nobody ever had."""
    path = folder / LOCK_FILE
    try:
        with open_here(lambda: path.open("rb", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        return _read_holder(path)


def read_json(path: Path) -> dict[str, Any]:
    """Empty for a file that is missing, torn or something else."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_holder(path: Path) -> Holder:
    """Whoever has just taken the lock has not written itself down yet, and is waited for."""
    for _ in range(LOOKS_MAX):
        found = read_json(path)
        if "pid" in found:
            break
        os.sched_yield()
    pid, host = found.get("pid"), found.get("host")
    return Holder(pid if isinstance(pid, int) else None, host if isinstance(host, str) else None)
