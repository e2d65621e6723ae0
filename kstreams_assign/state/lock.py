"""The lock of a state directory: it ends with its process, and names that process for others.

The content of the directory does not belong here.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from pathlib import Path
from typing import IO, Any, NamedTuple

from kstreams_assign.errors import StateDirectoryLocked
from kstreams_assign.state.forking import open_unshared

LOCK_FILE = ".lock"
ATTEMPTS_MAX = 10_000
"""Attempts while another process holds the lock for an instant, or has not yet written its pid."""


class Holder(NamedTuple):
    """The process that has the directory now, as its lock file says; None for what cannot be read."""

    pid: int | None
    host: str | None

    def __str__(self) -> str:
        return f"process {self.pid or 'unknown'} on host {self.host or 'unknown'}"


def take_lock(folder: Path, setting: str = "state_dir") -> IO[bytes]:
    """Lock the directory for as long as the file is open.

    So the lock ends with the process, however it dies, and not with its children. The file is never deleted: two
    processes could then lock two files of the same name. Raises ``StateDirectoryLocked`` naming the holder and the
    ``setting`` to change, ``OSError`` if a file cannot be created or locked.
    """
    path = folder / LOCK_FILE
    file = open_unshared(lambda: path.open("a+b", buffering=0))
    try:
        taken = _lock(file)
        if taken:
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
    except OSError:
        file.close()
        raise
    if not taken:
        file.close()
        raise StateDirectoryLocked(
            f"the directory {folder.absolute()} is in use by {_read_holder(path)}; stop that process, or give this one "
            f"another {setting}"
        )
    return file


def _lock(file: IO[bytes]) -> bool:
    """Return False if a process has it.

    Wait for a process that only looks (``holder``): it shares the lock for an instant.
    """
    for _ in range(ATTEMPTS_MAX):
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
    """Return the process that has the directory; None if it is free.

    Raises ``FileNotFoundError`` if it was never used.
    """
    path = folder / LOCK_FILE
    try:
        with open_unshared(lambda: path.open("rb", buffering=0)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        return _read_holder(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty for a file that is missing, torn or not an object."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _read_holder(path: Path) -> Holder:
    """Read the holder; wait for a process that has the lock and has not yet written its pid."""
    for _ in range(ATTEMPTS_MAX):
        content = read_json(path)
        if "pid" in content:
            break
        os.sched_yield()
    pid, host = content.get("pid"), content.get("host")
    return Holder(pid if isinstance(pid, int) else None, host if isinstance(host, str) else None)
