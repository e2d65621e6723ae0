"""The folders of global tables, ``global/<name>`` in the state directory (Kafka: ``StateDirectory.globalStateDir``).

They belong to the process that has the state directory; there is no lock for each. What a folder holds does not belong
here.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kstreams_assign.errors import StateError
from kstreams_assign.state.directory import last_written_ms
from kstreams_assign.state.trash import Trash

GLOBAL_FOLDER = "global"


class GlobalFolders:
    """The folders of the tables in an application's directory."""

    def __init__(self, directory: Path, trash: Trash) -> None:
        self._path = directory / GLOBAL_FOLDER
        self._trash = trash

    def path_of(self, table: str) -> Path:
        """Return the folder of a table, which may not exist."""
        return self._path / table

    def discard(self, table: str, why: str) -> None:
        """Move the folder of a table, whose database is closed, to the trash. Raises ``StateError`` if it stays."""
        path = self.path_of(table)
        try:
            moved = self._trash.take(path, why)
        except OSError as error:
            raise StateError(
                f"the folder {path.absolute()} cannot be moved away: {error}; delete it by hand"
            ) from error
        if not moved and path.exists():
            raise StateError(f"the folder {path.absolute()} cannot be moved away; delete it by hand")

    def retire(self, tables: Collection[str], max_age_ms: int, now_ms: int) -> None:
        """Move the folders of tables that are not declared, or not written for too long, to the trash.

        A topic loses deletions after ``delete.retention.ms``, so an older table would keep deleted keys. ``max_age_ms``
        -1: at any age (``state_cleanup_dir_max_age_ms``).
        """
        for folder in sorted(self._path.iterdir()) if self._path.is_dir() else ():
            if folder.name not in tables:
                self._trash.take(folder, "no global table of that name is declared")
            elif 0 <= max_age_ms < (age_ms := now_ms - last_written_ms(folder)):
                self._trash.take(
                    folder,
                    f"not written for {age_ms:,} ms before the start; state_cleanup_dir_max_age_ms = {max_age_ms}",
                )
