"""Temporary data folders: a lock protects each while it is in use; a later start deletes those without a holder.

A killed process cannot delete its folder. The JVM inherits the lock (``flock``), so it lasts until both have ended.
Process ids would not do: containers share folders, not ids.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "kstreams-assign-broker-"
_LOCK_NAME = "held.lock"
_OLD_S = 3600.0


def fresh_folder() -> Path:
    """Create a data folder in the system's folder for temporary files."""
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def hold(folder: Path) -> int:
    """Mark ``folder`` as in use until all processes have closed the returned descriptor."""
    descriptor = os.open(folder / _LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def sweep(older_than_s: float = _OLD_S) -> list[Path]:
    """Delete the folders of brokers whose process and JVM have ended; return them.

    Young folders stay: their owner may be about to lock them.
    """
    born_before = time.time() - older_than_s
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
    abandoned = [folder for folder in folders if _abandoned(folder, born_before)]
    for folder in abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return abandoned


def _abandoned(folder: Path, born_before: float) -> bool:
    try:
        if folder.stat().st_mtime > born_before:
            return False
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR)
    except OSError:  # another user's, or just deleted by its owner
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
