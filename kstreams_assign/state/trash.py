"""Removal in two steps: a fast rename into the trash, and the deletion of the bytes, which may take long.

A folder in the trash counts as removed: it is never read, and one that a crash left there is deleted at the next start.
Only entries that the journal records as retired are deleted; a warning names any other. Of a folder that is
a link to another disk only the link is deleted: what it leads to lies outside of the state directory.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from itertools import count
from pathlib import Path

from kstreams_assign.state.failures import RepeatedFailures
from kstreams_assign.state.journal import Journal, sync_folder

_log = logging.getLogger(__name__)

TRASH_FOLDER = ".trash"
_STAYS = "cannot be moved to the trash, so it stays"


class Trash:
    """A folder on the same file system as the folders that are removed. Threads may share it."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self._journal = journal
        self._emptying = threading.Lock()
        self._numbering = threading.Lock()
        self._numbers = count()  # so no name is given twice, also to threads that ask at the same time
        self._named: set[str] = set()
        self._failures = RepeatedFailures()

    def take(self, folder: Path, why: str) -> bool:
        """Record the removal and move the folder; False if it is missing or cannot be moved.

        ``why`` is for the journal.
        """
        place = self.record(folder, why)
        return place is not None and self.move(folder, place)

    def record(self, folder: Path, why: str) -> str | None:
        """Record that ``folder`` will be moved, and return its name in the trash.

        None: it is missing or cannot be moved. Waits for the disk. Call ``move`` or ``spare`` afterwards.
        """
        if not os.path.lexists(folder):
            self._failures.end(folder)
            return None
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            self._failures.add(folder, _STAYS, error)
            return None
        with self._numbering:
            names = (f"{folder.name}.{number}" for number in self._numbers)
            place = next(name for name in names if not os.path.lexists(self.path / name))
        return place if self._journal.retire(folder.name, place, why) else None

    def move(self, folder: Path, place: str) -> bool:
        """Rename the folder into the trash; False if that fails, which the journal records."""
        try:
            target = os.path.realpath(folder) if folder.is_symlink() else None
            folder.rename(self.path / place)
        except OSError as error:
            self.spare(place, str(error))
            self._failures.add(folder, _STAYS, error)
            return False
        self._failures.end(folder)
        if target is not None:
            _log.warning(
                "%s was a link to %s: that folder stays, delete it by hand if nothing needs it",
                folder.absolute(),
                target,
            )
        return True

    def spare(self, place: str, why: str) -> None:
        """Record that the folder stays after all."""
        self._journal.keep(place, why)

    def empty(self) -> None:
        """Delete retired entries. One that cannot be deleted is logged, and the next call tries again."""
        with self._emptying:
            entries = sorted(self.path.iterdir()) if self.path.is_dir() else []
            doomed = [entry for entry in entries if self._journal.is_retired(entry.name)]
            if doomed:  # the renames come first, or a power cut could bring back half a folder
                sync_folder(self.path.parent)
            for entry in doomed:
                try:
                    _delete(entry)
                except OSError as error:
                    self._failures.add(entry, "cannot be deleted, the next run tries again", error)
                else:
                    self._failures.end(entry)
                    self._journal.delete(entry.name)
            for entry in entries:
                if entry not in doomed and entry.name not in self._named:
                    self._named.add(entry.name)
                    _log.warning("%s stays: the journal has no record of it; delete it by hand", entry.absolute())


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
