"""Removal in two steps: a rename that takes no time, and the deletion of the bytes that may take long.

What is in the trash counts as gone: nobody reads it, and what a crash left there is deleted at the next start.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from itertools import count
from pathlib import Path

_log = logging.getLogger(__name__)


class Trash:
    """One folder on the same file system as what is thrown away. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._emptying = threading.Lock()

    def take(self, folder: Path) -> bool:
        """Rename ``folder`` into the trash; False if there is none or it cannot be moved. One caller at a time."""
        self.path.mkdir(exist_ok=True)
        places = (self.path / f"{folder.name}.{number}" for number in count())
        place = next(place for place in places if not place.exists())
        try:
            folder.rename(place)
        except FileNotFoundError:
            return False
        except OSError as error:
            _log.warning("%s cannot be moved to the trash: %s", folder, error)
            return False
        return True

    def empty(self) -> None:
        """Delete what is in the trash. What cannot be deleted is named in the log and tried again next time."""
        with self._emptying:
            doomed = sorted(self.path.iterdir()) if self.path.exists() else []
            if doomed:
                _sync(self.path.parent)
            for folder in doomed:
                _delete(folder)


def _sync(folder: Path) -> None:
    """The renames reach the disk before the first byte goes, or a power cut could bring back half a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete(folder: Path) -> None:
    try:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()
    except OSError as error:
        _log.warning("%s cannot be deleted: %s", folder, error)
