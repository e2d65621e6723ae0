"""Clean a state directory by hand, while no process uses it: list its entries, say what would be removed, remove it.

The process id and the lock file stay, so the next process keeps its id (as KIP-1283 has it for
``KafkaStreams.cleanUp``). The command's output does not belong here (``sidecar.clean``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kstreams_assign.errors import ConfigError, StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import application_folder, last_written_ms, refuse_java, replay, tasks_in
from kstreams_assign.state.global_folders import GLOBAL_FOLDER
from kstreams_assign.state.identity import FILE as PROCESS_FILE
from kstreams_assign.state.journal import ALIVE_FILE, JOURNAL_FILE, Journal, read_alive_ms, read_journal
from kstreams_assign.state.journal_lines import JournalContents, iso
from kstreams_assign.state.lock import LOCK_FILE, holder, take_lock
from kstreams_assign.state.members import FILE as MEMBERS_FILE
from kstreams_assign.state.requests import REQUESTS_FOLDER
from kstreams_assign.state.trash import TRASH_FOLDER, Trash

OURS = frozenset({LOCK_FILE, PROCESS_FILE, MEMBERS_FILE, JOURNAL_FILE, ALIVE_FILE, TRASH_FOLDER, REQUESTS_FOLDER})
DRAFTS = frozenset(f"{file}.draft" for file in (PROCESS_FILE, MEMBERS_FILE, JOURNAL_FILE))


@dataclass(frozen=True, slots=True)
class Selection:
    """What to remove: what was last used at least ``older_than_ms`` ago; if ``tasks`` are named, only these.

    ``unrestorable`` returns why the state in a task's folder could not be restored; such a task must be named.
    """

    tasks: Collection[TaskId] = ()
    older_than_ms: int = 0
    unrestorable: Callable[[Path], str | None] = field(default=lambda _path: None)


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An entry of the directory. ``idle_ms``: the time since it was last used; None for one that is no state.

    ``goes``: it is removed, or would be. ``failed``: its removal failed.
    """

    name: str
    task: TaskId | None
    size_bytes: int
    idle_ms: int | None
    goes: bool
    why: str
    failed: bool = False


def survey(root: Path, application_id: str, selection: Selection, now_ms: int) -> list[StateEntry]:
    """List the entries and whether each would be removed. Changes nothing.

    Raises ``ConfigError`` if there is no such directory, ``StateDirectoryLocked`` while a process uses it,
    ``StateError`` for a named task without state, for state of a Java application, or for files that cannot be read.
    """
    folder = application_folder(root, application_id)
    try:
        _refuse_unusable(folder, root, application_id)
        return _survey(folder, selection, now_ms)
    except OSError as error:
        raise StateError(f"the state directory {folder.absolute()} cannot be read: {error}") from error


def clean(root: Path, application_id: str, selection: Selection, wall_ms: Callable[[], int]) -> list[StateEntry]:
    """Remove the entries that ``survey`` selects, and record it in the journal.

    An entry that could not be removed is returned as ``failed``. The directory is locked meanwhile. Raises as
    ``survey`` does, before anything is removed.
    """
    folder = application_folder(root, application_id)
    try:
        _refuse_unusable(folder, root, application_id)
        with take_lock(folder), closing(Journal(folder, wall_ms)) as journal:
            entries = _survey(folder, selection, wall_ms())
            replay(journal, folder, None, "kstreams-assign clean")
            trash = Trash(folder / TRASH_FOLDER, journal)
            for entry in entries:
                if entry.goes and not entry.name.startswith(f"{TRASH_FOLDER}/"):
                    trash.take(folder / entry.name, f"kstreams-assign clean: {entry.why}")
            trash.empty()
            return [_with_outcome(folder, entry) for entry in entries]
    except OSError as error:
        raise StateError(f"the state directory {folder.absolute()} cannot be cleaned: {error}") from error


def _with_outcome(folder: Path, entry: StateEntry) -> StateEntry:
    left = entry.goes and os.path.lexists(folder / entry.name)
    return replace(entry, goes=False, failed=True, why="it cannot be moved or deleted; see the log") if left else entry


def _refuse_unusable(folder: Path, root: Path, application_id: str) -> None:
    if not folder.is_dir():
        raise ConfigError(
            f"state_dir = {str(root)!r}: {folder.absolute()} does not exist, so no process of {application_id!r} has "
            "used it; check state_dir and application_id"
        )
    refuse_java(folder)
    try:
        other_process = holder(folder)
    except FileNotFoundError:
        return
    if other_process is not None:
        raise StateDirectoryLocked(
            f"the state directory {folder.absolute()} is in use by {other_process}; stop that process first. A running "
            f"process itself removes tasks that it has not owned for state_cleanup_delay_ms"
        )


def _survey(folder: Path, selection: Selection, now_ms: int) -> list[StateEntry]:
    contents, alive_ms, tasks = read_journal(folder), read_alive_ms(folder), tasks_in(folder)
    if missing := [str(task) for task in selection.tasks if task not in tasks]:
        raise StateError(
            f"no state of task {', '.join(missing)} in {folder.absolute()}; tasks there: "
            f"{', '.join(map(str, tasks)) or 'none'}"
        )
    names = {*map(str, tasks), *OURS, *DRAFTS, GLOBAL_FOLDER}
    return [
        *(_task(folder, task, contents, alive_ms, selection, now_ms) for task in tasks),
        *(_global_table(entry, selection, now_ms) for entry in _entries(folder / GLOBAL_FOLDER)),
        *(_in_trash(entry, contents, now_ms) for entry in _entries(folder / TRASH_FOLDER)),
        *(_stranger(entry) for entry in sorted(folder.iterdir()) if entry.name not in names),
    ]


def _task(
    folder: Path, task: TaskId, contents: JournalContents, alive_ms: int | None, selection: Selection, now_ms: int
) -> StateEntry:
    path = folder / str(task)
    used_ms = contents.last_used_ms(path.name, alive_ms)
    idle_ms = max(0, now_ms - (last_written_ms(path) if used_ms is None else used_ms))
    stays = _reason_to_stay(task, idle_ms, selection)
    if stays is None and not selection.tasks and (loss := selection.unrestorable(path)):
        stays = f"{loss}; name the task to remove it"
    why = stays or f"last used {iso(now_ms - idle_ms)}"
    return StateEntry(path.name, task, _size_bytes(path), idle_ms, not stays, why)


def _global_table(path: Path, selection: Selection, now_ms: int) -> StateEntry:
    """A worker builds it again from its topic."""
    idle_ms = max(0, now_ms - last_written_ms(path))
    stays = _reason_to_stay(None, idle_ms, selection)
    why = stays or f"global table, last written {iso(now_ms - idle_ms)}"
    return StateEntry(f"{GLOBAL_FOLDER}/{path.name}", None, _size_bytes(path), idle_ms, not stays, why)


def _reason_to_stay(task: TaskId | None, idle_ms: int, selection: Selection) -> str | None:
    if selection.tasks and task not in selection.tasks:
        return "not among the named tasks"
    if idle_ms < selection.older_than_ms:
        return "used more recently than the requested age"
    return None


def _in_trash(entry: Path, contents: JournalContents, now_ms: int) -> StateEntry:
    line = contents.trashed.get(entry.name)
    why = (
        "the journal has no record of it; delete it by hand"
        if line is None
        else f"retired {iso(line.at_ms)}: {line.why}"
    )
    idle_ms = None if line is None else max(0, now_ms - line.at_ms)
    return StateEntry(f"{TRASH_FOLDER}/{entry.name}", None, _size_bytes(entry), idle_ms, line is not None, why)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _stranger(entry: Path) -> StateEntry:
    return StateEntry(
        entry.name, None, _size_bytes(entry), None, goes=False, why="not a task's folder; it is never removed"
    )


def _size_bytes(path: Path) -> int:
    """Return the size of all files below ``path``; links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum((Path(directory) / name).lstat().st_size for directory, _, names in os.walk(path) for name in names)
