"""Cleaning by hand, while no process works in the directory: what is there, what would go and why, and the removal.

The process id and the lock stay, so that whoever starts next is the same member (as KIP-1283 has it for
``KafkaStreams.cleanUp``). What must not be here: the command's words (``worker.clean``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kstreams_assign.errors import ConfigError, StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.book import Book, iso
from kstreams_assign.state.directory import application_folder, last_written_ms, replay, tasks_in
from kstreams_assign.state.identity import FILE as PROCESS_FILE
from kstreams_assign.state.journal import ALIVE_FILE, JOURNAL_FILE, Journal, read_alive_ms, read_book
from kstreams_assign.state.lock import LOCK_FILE, holder, take_lock
from kstreams_assign.state.members import FILE as MEMBERS_FILE
from kstreams_assign.state.trash import TRASH_FOLDER, Trash

OURS = frozenset({LOCK_FILE, PROCESS_FILE, MEMBERS_FILE, JOURNAL_FILE, ALIVE_FILE, TRASH_FOLDER})
DRAFTS = frozenset(f"{file}.draft" for file in (PROCESS_FILE, MEMBERS_FILE, JOURNAL_FILE))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to go: tasks that were last at work at least ``older_than_ms`` ago; of these ``tasks`` alone, if any are named.

    ``unlogged`` tells the stores of a task that have no changelog: nothing can restore them, so such a task has to be named.
    """

    tasks: Collection[TaskId] = ()
    older_than_ms: int = 0
    unlogged: Callable[[TaskId], Sequence[str]] = field(default=lambda _task: ())


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of the directory. ``idle_ms``: how long ago it was last at work; None for what is no task's folder.

    ``failed``: it had to go, and is still there.
    """

    name: str
    task: TaskId | None
    size_bytes: int
    idle_ms: int | None
    goes: bool
    why: str
    failed: bool = False


def survey(root: Path, application_id: str, wanted: Wanted, now_ms: int) -> list[Found]:
    """What is there, and what would go. Changes nothing.

    Raises ``ConfigError`` where there is no such directory, ``StateDirectoryLocked`` while a process has it, ``StateError``
    for a named task without state, or what cannot be read.
    """
    folder = application_folder(root, application_id)
    try:
        _refuse_held(folder, root, application_id)
        return _survey(folder, wanted, now_ms)
    except OSError as error:
        raise StateError(f"the state directory {folder} cannot be read: {error}") from error


def clean(root: Path, application_id: str, wanted: Wanted, wall_ms: Callable[[], int]) -> list[Found]:
    """Remove what ``survey`` says goes, recorded in the journal. What could not be removed is told as staying, with the reason.

    The directory is locked meanwhile. Raises as ``survey`` does, before anything is removed.
    """
    folder = application_folder(root, application_id)
    try:
        _refuse_held(folder, root, application_id)
        with take_lock(folder), closing(Journal(folder, wall_ms)) as journal:
            found = _survey(folder, wanted, wall_ms())
            replay(journal, folder, None, "kstreams-assign clean")
            trash = Trash(folder / TRASH_FOLDER, journal)
            for one in found:
                if one.goes and one.task is not None:
                    trash.take(folder / one.name, f"kstreams-assign clean: {one.why}")
            trash.empty()
            return [_as_it_went(folder, one) for one in found]
    except OSError as error:
        raise StateError(f"the state directory {folder} cannot be cleaned: {error}") from error


def _as_it_went(folder: Path, one: Found) -> Found:
    left = one.goes and os.path.lexists(folder / one.name)
    return replace(one, goes=False, failed=True, why="it cannot be moved or deleted: see the log") if left else one


def _refuse_held(folder: Path, root: Path, application_id: str) -> None:
    if not folder.is_dir():
        raise ConfigError(f"state_dir = {str(root)!r}: no process of {application_id!r} has worked there")
    try:
        found = holder(folder)
    except FileNotFoundError:
        return
    if found is not None:
        raise StateDirectoryLocked(
            f"the state directory {folder} belongs to {found}; stop that first. While it works it removes by itself what it "
            "has not owned for state_cleanup_delay_ms"
        )


def _survey(folder: Path, wanted: Wanted, now_ms: int) -> list[Found]:
    book, alive_ms, tasks = read_book(folder), read_alive_ms(folder), tasks_in(folder)
    if missing := [str(task) for task in wanted.tasks if task not in tasks]:
        raise StateError(
            f"no state of task {', '.join(missing)} in {folder}; there is {', '.join(map(str, tasks)) or 'none'}"
        )
    trash = folder / TRASH_FOLDER
    names = {*map(str, tasks), *OURS, *DRAFTS}
    return [
        *(_task(folder, task, book, alive_ms, wanted, now_ms) for task in tasks),
        *(_in_trash(entry, book, now_ms) for entry in (sorted(trash.iterdir()) if trash.is_dir() else ())),
        *(_stranger(entry) for entry in sorted(folder.iterdir()) if entry.name not in names),
    ]


def _task(folder: Path, task: TaskId, book: Book, alive_ms: int | None, wanted: Wanted, now_ms: int) -> Found:
    path = folder / str(task)
    used_ms = book.last_used_ms(path.name, alive_ms)
    idle_ms = max(0, now_ms - (last_written_ms(path) if used_ms is None else used_ms))
    stays = _reason_to_stay(task, idle_ms, wanted)
    why = stays or f"last at work {iso(now_ms - idle_ms)}"
    return Found(path.name, task, _size_bytes(path), idle_ms, not stays, why)


def _reason_to_stay(task: TaskId, idle_ms: int, wanted: Wanted) -> str | None:
    if wanted.tasks and task not in wanted.tasks:
        return "not one of the tasks named"
    if idle_ms < wanted.older_than_ms:
        return "at work more lately than the age asked for"
    if not wanted.tasks and (stores := wanted.unlogged(task)):
        return f"nothing can restore {', '.join(stores)}, which has no changelog; name the task to remove it"
    return None


def _in_trash(entry: Path, book: Book, now_ms: int) -> Found:
    line = book.trashed.get(entry.name)
    why = (
        "no record that it was retired; delete it by hand" if line is None else f"retired {iso(line.at_ms)}: {line.why}"
    )
    idle_ms = None if line is None else max(0, now_ms - line.at_ms)
    return Found(f"{TRASH_FOLDER}/{entry.name}", None, _size_bytes(entry), idle_ms, line is not None, why)


def _stranger(entry: Path) -> Found:
    return Found(entry.name, None, _size_bytes(entry), None, goes=False, why="no task's folder; it is never touched")


def _size_bytes(path: Path) -> int:
    """Of all files below; links count as themselves."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum((Path(where) / name).lstat().st_size for where, _, names in os.walk(path) for name in names)
