"""Temporary data folders: each is held by a lock while anybody uses it, and swept away by a later start otherwise.

A process that is killed cannot remove its folder. The lock (``flock``) is passed on to the JVM, so it lasts as long as either
of the two lives, and the system drops it with the last one. Process ids would not do: containers share folders, not ids.
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
    """A new data folder in the system's place for temporary files."""
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def hold(folder: Path) -> int:
    """Mark ``folder`` as in use; returns the descriptor whose closing, in all processes that have it, ends that."""
    descriptor = os.open(folder / _LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def sweep(older_than_s: float = _OLD_S) -> list[Path]:
    """Remove the folders of brokers whose process and JVM are gone; returns them.

    Young folders stay: their owner may be about to hold them.
    """
    born_before = time.time() - older_than_s
    folders = Path(tempfile.gettempdir()).glob(f"{PREFIX}*")
    gone = [folder for folder in folders if _abandoned(folder, born_before)]
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return gone


def _abandoned(folder: Path, born_before: float) -> bool:
    try:
        if folder.stat().st_mtime > born_before:
            return False
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR)
    except OSError:  # another user's, or removed by its owner just now
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
