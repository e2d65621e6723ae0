"""Removal in two steps: a rename that takes no time, and the deletion of the bytes that may take long.

What is in the trash counts as gone: nobody reads it, and what a crash left there is deleted at the next start. Only what the
journal has as retired is deleted; anything else that is found there stays, and is named.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from itertools import count
from pathlib import Path

from kstreams_assign.state.journal import Journal, sync_folder

_log = logging.getLogger(__name__)

TRASH_FOLDER = ".trash"


class Trash:
    """One folder on the same file system as what is thrown away. Threads may share it."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self._journal = journal
        self._emptying = threading.Lock()
        self._numbering = threading.Lock()
        self._numbers = count()  # no name is given twice, whoever asks meanwhile
        self._named: set[str] = set()

    def take(self, folder: Path, why: str) -> bool:
        """Record it and move it; False if there is none or it cannot go. ``why`` is for whoever reads the journal."""
        place = self.record(folder, why)
        return place is not None and self.move(folder, place)

    def record(self, folder: Path, why: str) -> str | None:
        """Write down that ``folder`` goes, and as what; None if there is none or it cannot go. Waits for the disk.

        Followed by ``move`` or ``spare``.
        """
        if not os.path.lexists(folder):
            return None
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            _log.warning("%s cannot be moved to the trash: %s", folder, error)
            return None
        with self._numbering:
            names = (f"{folder.name}.{number}" for number in self._numbers)
            place = next(name for name in names if not os.path.lexists(self.path / name))
        return place if self._journal.retire(folder.name, place, why) else None

    def move(self, folder: Path, place: str) -> bool:
        """The rename; False if it cannot be, which is recorded too."""
        try:
            folder.rename(self.path / place)
        except OSError as error:
            self.spare(place, str(error))
            _log.warning("%s cannot be moved to the trash: %s", folder, error)
            return False
        return True

    def spare(self, place: str, why: str) -> None:
        """It does not go after all."""
        self._journal.keep(place, why)

    def empty(self) -> None:
        """Delete what was retired. What cannot be deleted is named in the log and tried again next time."""
        with self._emptying:
            here = sorted(self.path.iterdir()) if self.path.is_dir() else []
            doomed = [entry for entry in here if self._journal.is_retired(entry.name)]
            if doomed:  # the renames come first, or a power cut could bring back half a folder
                sync_folder(self.path.parent)
            for entry in doomed:
                if _delete(entry):
                    self._journal.delete(entry.name)
            for entry in here:
                if entry not in doomed and entry.name not in self._named:
                    self._named.add(entry.name)
                    _log.warning("%s stays: the journal has no record that it was retired; delete it by hand", entry)


def _delete(folder: Path) -> bool:
    try:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()
    except OSError as error:
        _log.warning("%s cannot be deleted: %s", folder, error)
        return False
    return True
