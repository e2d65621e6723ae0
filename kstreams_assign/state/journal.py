"""The state directory's journal: which folders were used, released and removed, when and why. One JSON object a line.

Two files::

    journal     the lines (``state.journal_lines`` adds them up); rewritten at each start and when it has grown
    alive       the time of the process' last heartbeat, for tasks that a crash left without a release

A line about a removal is on the disk before the folder moves. Other lines survive the process but maybe not a power
cut; then a folder counts as older than it is, and at worst is restored. The decision which folder may be removed does
not belong here.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from uuid import UUID

from kstreams_assign.state.failures import RepeatedFailures
from kstreams_assign.state.journal_lines import JournalContents, Line, from_iso, iso, read_line, replay_lines

JOURNAL_FILE = "journal"
ALIVE_FILE = "alive"
SIZE_MAX_BYTES = 64 * 1024
"""The journal is rewritten when it exceeds this size, or twice its size after the last rewrite if that is more."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def wall_clock_ms() -> int:
    """Return the machine's time in milliseconds since 1970, for stamps that outlive the process."""
    return time.time_ns() // 1_000_000


def read_journal(folder: Path) -> JournalContents:
    """Read the journal of a directory; empty contents if there is none. Changes nothing. Raises ``OSError``."""
    try:
        text = (folder / JOURNAL_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    return replay_lines(line for line in map(read_line, text.splitlines()) if line is not None)


def read_alive_ms(folder: Path) -> int | None:
    """Return the time of the last heartbeat in a directory; None if unknown. Raises ``OSError``."""
    try:
        return from_iso((folder / ALIVE_FILE).read_text(encoding="utf-8", errors="replace").strip())
    except (FileNotFoundError, ValueError):
        return None


class Journal:
    """The journal of a directory that this process has locked. Threads may share it. The constructor only reads."""

    def __init__(self, folder: Path, wall_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._wall_ms = wall_ms
        self._guard = threading.Lock()
        self._alive_ms = read_alive_ms(folder)
        self._contents = read_journal(folder)
        self._file: int | None = None
        self._alive_file: int | None = None
        self._size = 0
        self._size_max = SIZE_MAX_BYTES
        self._behind = True
        self._failures = RepeatedFailures()

    @property
    def process_id(self) -> UUID | None:
        """The id of the last process that opened the directory; None if the journal does not have it."""
        return self._contents.process_id

    def knows(self, task: str) -> bool:
        """Return whether a line says when the folder was last used."""
        return task in self._contents.used

    def start(self, process_id: UUID | None, folders: Mapping[str, int], trash: Collection[str], why: str) -> None:
        """Settle what the last process did not finish (``JournalContents.reopened``), and rewrite the journal."""
        with self._guard:
            self._contents = self._contents.reopened(folders, trash, self._alive_ms)
            opener = str(process_id or self._contents.process_id or "")
            self._contents.add(Line(self._wall_ms(), "open", why=why, process_id=opener))
            self._catch_up()

    def own(self, task: str) -> None:
        """Record that the folder is in use from now on."""
        self._write_line(Line(self._wall_ms(), "own", task))

    def release(self, task: str) -> None:
        """Record that the folder is closed."""
        self._write_line(Line(self._wall_ms(), "release", task))

    def retire(self, task: str, place: str, why: str) -> bool:
        """Record, on the disk, that the folder is about to move to the trash as ``place``. False: it must stay.

        On a full disk the move is allowed without a record, as nothing else makes room. If the process dies before the
        bytes are deleted, the folder stays in the trash, and a warning names it.
        """
        line = Line(self._wall_ms(), "retire", task, place, why)
        try:
            with self._guard:
                self._contents.add(line)
                file = os.dup(self._append(line))
            try:
                os.fsync(file)  # outside the guard, so that locking a task does not wait for the disk
            finally:
                os.close(file)
        except OSError as error:
            with self._guard:
                self._note_failure(error)
                if error.errno not in _FULL:
                    self._contents.trashed.pop(place, None)
            return error.errno in _FULL
        return True

    def keep(self, place: str, why: str) -> None:
        """Record that the folder was not moved."""
        self._write_line(Line(self._wall_ms(), "keep", self._task_of(place), place, why))

    def delete(self, place: str) -> None:
        """Record that its bytes are deleted."""
        self._write_line(Line(self._wall_ms(), "delete", self._task_of(place), place))

    def is_retired(self, place: str) -> bool:
        """Return whether this entry of the trash was retired, so that its bytes may be deleted."""
        with self._guard:
            return place in self._contents.trashed

    def idle_ms(self, task: str) -> int:
        """Return for how long the folder has not been used, across restarts; 0 if unknown."""
        with self._guard:
            at_ms = self._contents.last_used_ms(task, self._alive_ms)
        return 0 if at_ms is None else max(0, self._wall_ms() - at_ms)

    def heartbeat(self) -> None:
        """Record that this process is alive: one small write in place, which needs no room on the disk."""
        with self._guard:
            if self._behind:
                self._catch_up()
            if self._behind:  # the journal on the disk still relies on the old time
                return
            now_ms, path = self._wall_ms(), self._folder / ALIVE_FILE
            try:
                if self._alive_file is None:
                    self._alive_file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o640)
                os.pwrite(self._alive_file, f"{iso(now_ms)}\n".encode(), 0)
            except OSError as error:
                self._failures.add(path, "cannot be written, the next heartbeat tries again", error)
            else:
                self._failures.end(path)
                self._alive_ms = now_ms

    def renew(self) -> None:
        """Write to new files from now on: the directory was deleted and created again."""
        self.close()
        with self._guard:
            self._behind = True

    def close(self) -> None:
        with self._guard:
            for file in (self._file, self._alive_file):
                if file is not None:
                    os.close(file)
            self._file = self._alive_file = None

    def _task_of(self, place: str) -> str:
        retired = self._contents.trashed.get(place)
        return retired.task if retired else ""

    def _write_line(self, line: Line) -> None:
        with self._guard:
            self._contents.add(line)
            try:
                self._append(line)
            except OSError as error:
                self._note_failure(error)

    def _append(self, line: Line) -> int:
        """Append the line and return the file; rewrite the file if it is behind or too large. Raises ``OSError``."""
        text = line.to_text().encode()
        if self._behind or self._file is None or self._size + len(text) > self._size_max:
            return self._rewrite()
        _write(self._file, text)
        self._size += len(text)
        return self._file

    def _catch_up(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            self._note_failure(error)

    def _rewrite(self) -> int:
        """Replace the file atomically, also if the machine stops, and return the new one. Raises ``OSError``."""
        lines = self._contents.lines(lambda task: (self._folder / task).is_dir())
        text = "".join(line.to_text() for line in lines).encode()
        path, draft = self._folder / JOURNAL_FILE, self._folder / f"{JOURNAL_FILE}.draft"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o640)
        try:
            _write(file, text)
            os.fsync(file)
            draft.replace(path)
            sync_folder(self._folder)
        except OSError:
            os.close(file)
            draft.unlink(missing_ok=True)
            raise
        if self._file is not None:
            os.close(self._file)
        self._failures.end(path)
        self._file, self._size, self._behind = file, len(text), False
        self._size_max = max(SIZE_MAX_BYTES, 2 * self._size)
        return file

    def _note_failure(self, error: OSError) -> None:
        """Rewrite the file with the next line, as the last line may be torn."""
        self._failures.add(self._folder / JOURNAL_FILE, "cannot be written, the next line tries again", error)
        self._behind = True


def sync_folder(folder: Path) -> None:
    """Flush the renames in a folder to the disk. Raises ``OSError``."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]
