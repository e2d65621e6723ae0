"""The state directory's journal: what was taken, let go and removed, when and why. One JSON object a line, for people too.

Two files::

    journal     the lines (``state.book`` says what they come to); written anew at each start and when it has grown
    alive       the time at which the process was last seen at work, for the tasks that a crash left without a release

A line about a removal is on the disk before the folder moves. The others survive the process but maybe not a power cut; then
a folder counts as older than it is, and at worst is restored. What must not be here: which folder may go.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from uuid import UUID

from kstreams_assign.state.book import Book, Line, book_of, from_iso, iso, read_line

_log = logging.getLogger(__name__)

JOURNAL_FILE = "journal"
ALIVE_FILE = "alive"
SIZE_MAX_BYTES = 64 * 1024
"""From this size on it is written anew, or from twice what it then has if that is more."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def wall_clock_ms() -> int:
    """The machine's time, for stamps that outlive the process: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def read_book(folder: Path) -> Book:
    """What the journal of a directory says; empty where there is none. Changes nothing. Raises ``OSError``."""
    try:
        text = (folder / JOURNAL_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        text = ""
    return book_of(line for line in map(read_line, text.splitlines()) if line is not None)


def read_alive_ms(folder: Path) -> int | None:
    """When a process was last seen at work in a directory; None if nobody knows. Raises ``OSError``."""
    try:
        return from_iso((folder / ALIVE_FILE).read_text(encoding="utf-8", errors="replace").strip())
    except (FileNotFoundError, ValueError):
        return None


class Journal:
    """The journal of a directory that this process holds. Threads may share it. Making one only reads."""

    def __init__(self, folder: Path, wall_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._wall_ms = wall_ms
        self._guard = threading.Lock()
        self._alive_ms = read_alive_ms(folder)
        self._book = read_book(folder)
        self._file: int | None = None
        self._alive_file: int | None = None
        self._size = 0
        self._size_max = SIZE_MAX_BYTES
        self._behind = True

    @property
    def process_id(self) -> UUID | None:
        """Of the last process that opened the directory, if its journal tells."""
        return self._book.process_id

    def knows(self, task: str) -> bool:
        """Whether it tells when the folder was last at work."""
        return task in self._book.used

    def start(self, process_id: UUID | None, folders: Mapping[str, int], trash: Collection[str], why: str) -> None:
        """Replay: settle what the last process left unsaid (``Book.as_found``), and write the journal anew."""
        with self._guard:
            self._book = self._book.as_found(folders, trash, self._alive_ms)
            told = str(process_id or self._book.process_id or "")
            self._book.add(Line(self._wall_ms(), "open", why=why, process_id=told))
            self._catch_up()

    def own(self, task: str) -> None:
        """The folder is at work from now on."""
        self._tell(Line(self._wall_ms(), "own", task))

    def release(self, task: str) -> None:
        """It is closed."""
        self._tell(Line(self._wall_ms(), "release", task))

    def retire(self, task: str, place: str, why: str) -> bool:
        """The folder is about to go to the trash, as ``place``; on the disk when this returns. False: it has to stay.

        On a full disk it may go unrecorded, as nothing else makes room: if the process dies before the bytes are
        deleted, what is in the trash stays there and is named.
        """
        line = Line(self._wall_ms(), "retire", task, place, why)
        try:
            with self._guard:
                self._book.add(line)
                file = os.dup(self._append(line))
            try:
                os.fsync(file)  # outside the guard: whoever takes a folder does not wait for it
            finally:
                os.close(file)
        except OSError as error:
            with self._guard:
                self._failed(error)
                if error.errno not in _FULL:
                    self._book.trashed.pop(place, None)
            return error.errno in _FULL
        return True

    def keep(self, place: str, why: str) -> None:
        """It could not be moved."""
        self._tell(Line(self._wall_ms(), "keep", self._task_of(place), place, why))

    def delete(self, place: str) -> None:
        """Its bytes are gone."""
        self._tell(Line(self._wall_ms(), "delete", self._task_of(place), place))

    def is_retired(self, place: str) -> bool:
        """Whether this entry of the trash was retired, so that its bytes may go."""
        with self._guard:
            return place in self._book.trashed

    def idle_ms(self, task: str) -> int:
        """For how long the folder has not been at work, over restarts; 0 where nobody knows."""
        with self._guard:
            at_ms = self._book.last_used_ms(task, self._alive_ms)
        return 0 if at_ms is None else max(0, self._wall_ms() - at_ms)

    def heartbeat(self) -> None:
        """This process is at work. Costs one small write in place, and no room on the disk."""
        with self._guard:
            if self._behind:
                self._catch_up()
            if self._behind:  # the journal still counts on the old time
                return
            now_ms = self._wall_ms()
            try:
                if self._alive_file is None:
                    self._alive_file = os.open(self._folder / ALIVE_FILE, os.O_WRONLY | os.O_CREAT, 0o640)
                os.pwrite(self._alive_file, f"{iso(now_ms)}\n".encode(), 0)
            except OSError as error:
                _log.warning("%s cannot be written: %s", self._folder / ALIVE_FILE, error)
            else:
                self._alive_ms = now_ms

    def renew(self) -> None:
        """The directory was made anew: what is written from now on goes into new files."""
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
        retired = self._book.trashed.get(place)
        return retired.task if retired else ""

    def _tell(self, line: Line) -> None:
        with self._guard:
            self._book.add(line)
            try:
                self._append(line)
            except OSError as error:
                self._failed(error)

    def _append(self, line: Line) -> int:
        """The file. Where that is behind, or long, the line goes with the whole: it is in the book. Raises ``OSError``."""
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
            self._failed(error)

    def _rewrite(self) -> int:
        """The new file. Whole or not at all, also when the machine stops. Raises ``OSError``."""
        lines = self._book.lines(lambda task: (self._folder / task).is_dir())
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
        self._file, self._size, self._behind = file, len(text), False
        self._size_max = max(SIZE_MAX_BYTES, 2 * self._size)
        return file

    def _failed(self, error: OSError) -> None:
        """Nothing is appended behind a line that may be torn: the next line writes the whole anew."""
        if not self._behind or self._file is None:
            _log.warning("%s cannot be written: %s; it is tried again", self._folder / JOURNAL_FILE, error)
        self._behind = True


def sync_folder(folder: Path) -> None:
    """What was renamed in it reaches the disk. Raises ``OSError``."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(file: int, text: bytes) -> None:
    while text:
        text = text[os.write(file, text) :]
