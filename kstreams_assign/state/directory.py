"""The folders of one application on one machine, and who owns them.

::

    <root>/<application_id>/
        .lock          locked by one process (flock); names its pid and host for other processes (``state.lock``)
        process        the process id, kept across restarts, so that the group's sort order stays (``state.identity``)
        members        the group members of this directory's processes, for the next process (``state.members``)
        journal        which folders were used, released and removed, when and why; alive: heartbeat (``state.journal``)
        requests/      what commands ask of the process (``state.requests``)
        0_1/           the state of one task
        .trash/        folders to be deleted (``state.trash``)

Ownership of a task's folder is within the process and kept in memory; so is the time of its release, from which the
cleaner's delay counts. (Kafka counts from the folder's modification time, which a store that is only read never
changes.) The delay starts again with each process: while no process ran, the group could not give the task back. A
folder's age does not start again: it counts from the journal's times. When to clean (``state.cleaner``) and what a
folder holds do not belong here.
"""

from __future__ import annotations

import glob
import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Self

from kstreams_assign.errors import ConfigError, InvalidTaskId, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.identity import Identity, identify, keep
from kstreams_assign.state.journal import Journal, wall_clock_ms
from kstreams_assign.state.lock import LOCK_FILE, holder, take_lock
from kstreams_assign.state.trash import TRASH_FOLDER, Trash

_log = logging.getLogger(__name__)

JAVA_STATE = (
    "kafka-streams-process-metadata",
    *(f"[0-9]*_[0-9]*/{name}" for name in (".checkpoint", ".lock", "rocksdb")),
)
"""What only Java has in an application's folder and in those of its tasks (Kafka: ``StateDirectory``).

Old releases have a lock in each task's folder in place of the process file, and under exactly once no checkpoint while
a task runs.
"""


class StateDirectory:
    """One process's state directory. Several members and threads of the process share one object.

    ``clock_ms`` is monotonic; ``wall_ms`` is for the journal. The process id is derived from ``process_name`` if there
    is one. Raises ``StateDirectoryLocked`` if another process has the directory, ``StateError`` if it cannot be created
    or locked, or has state of a Java application, ``ConfigError`` as ``application_folder`` does.
    """

    def __init__(
        self,
        root: Path,
        application_id: str,
        *,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int] = wall_clock_ms,
        process_name: str | None = None,
    ) -> None:
        self.path = application_folder(root, application_id)
        self._clock_ms = clock_ms
        self._process_name = process_name
        self._guard = threading.Lock()
        self._locked: set[TaskId] = set()
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            refuse_java(self.path)
            self._lock_file = take_lock(self.path)
            try:
                self._journal = Journal(self.path, wall_ms)
                self._identity = self._identify(application_id, process_name)
                replay(self._journal, self.path, self._identity.process_id, "a worker")
            except OSError:
                self._lock_file.close()
                raise
        except OSError as error:
            raise StateError(
                f"the state directory {self.path.absolute()} cannot be used: {error}; check state_dir, its owner and "
                "the disk"
            ) from error
        self._trash = Trash(self.path / TRASH_FOLDER, self._journal)
        self._released_at_ms = dict.fromkeys(self.tasks_on_disk(), clock_ms())

    def _identify(self, application_id: str, process_name: str | None) -> Identity:
        known, tasks_on_disk = self._journal.process_id, len(self.tasks_on_disk())
        return identify(self.path, application_id, process_name, last_known=known, tasks_on_disk=tasks_on_disk)

    @property
    def process_id(self) -> uuid.UUID:
        """The same after a restart (Kafka: ``kafka-streams-process-metadata``)."""
        return self._identity.process_id

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator: the process id has changed."""
        return self._identity.warnings

    @property
    def trash(self) -> Trash:
        """The folder that removed folders move to first."""
        return self._trash

    def task_path(self, task: TaskId) -> Path:
        """Return the path of the task's folder, which may not exist."""
        return self.path / str(task)

    def has_folder(self, task: TaskId) -> bool:
        """Return whether the task has a folder, locked or not. Raises ``OSError`` if the disk fails."""
        return self.task_path(task).is_dir()

    def tasks_on_disk(self) -> list[TaskId]:
        """Return the tasks that have a folder, locked or not, in order."""
        return tasks_in(self.path)

    def lock_task(self, task: TaskId) -> Path:
        """Become the only owner of the task's folder and return its path. The folder may not exist yet.

        Raises ``StateError`` if the task is locked already in this process.
        """
        with self._guard:
            if task in self._locked:
                raise StateError(f"task {task} is in use already in this process; release it first")
            self._locked.add(task)
            self._journal.own(str(task))
        return self.task_path(task)

    def release_task(self, task: TaskId) -> None:
        """Unlock the folder, with its stores closed; the cleanup delay starts now.

        Raises ``StateError`` if not locked.
        """
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so it cannot be released")
            self._locked.remove(task)
            self._released_at_ms[task] = self._clock_ms()
            self._journal.release(str(task))

    def idle_tasks(self, grace_ms: int) -> list[TaskId]:
        """Return unlocked tasks on disk that were released, or seen at the start, at least ``grace_ms`` ago."""
        with self._guard:
            return [task for task in self.tasks_on_disk() if self._is_idle(task, grace_ms)]

    def retire(self, task: TaskId, grace_ms: int) -> bool:
        """Move the folder of an idle task to the trash; False if it is no longer idle.

        One rename, atomic with respect to ``lock_task``, which never waits for the journal. ``trash.empty`` deletes the
        bytes.
        """
        with self._guard:
            if not self._is_idle(task, grace_ms):
                return False
            idle_ms = self._clock_ms() - self._released_at_ms[task]
        why = f"not owned for {idle_ms:,} ms; state_cleanup_delay_ms = {grace_ms}"
        return self._remove(task, why, lambda: self._is_idle(task, grace_ms))

    def age_ms(self, task: TaskId) -> int:
        """Return the time since any process used the task's state; restarts and crashes do not reset it."""
        return self._journal.idle_ms(str(task))

    def retire_old(self, task: TaskId, max_age_ms: int) -> bool:
        """As ``retire``, at start: by age, as no cleanup delay has passed yet."""
        age_ms = self.age_ms(task)
        if age_ms <= max_age_ms:
            return False
        why = f"not used for {age_ms:,} ms before the start; state_cleanup_dir_max_age_ms = {max_age_ms}"
        return self._remove(task, why, lambda: task not in self._locked)

    def heartbeat(self) -> None:
        """Record that this process is alive; after a crash its tasks are as old as this. Call it every few seconds."""
        self._journal.heartbeat()

    def secure(self) -> bool:
        """Create and lock the directory again if it was deleted under this process; return whether it was.

        Open stores go on. Call it every few seconds. Raises ``StateDirectoryLocked`` if another process took the path
        first, ``StateError`` if it cannot be created or a Java application has begun to use it; the next call then
        tries again.
        """
        try:
            refuse_java(self.path)
            if self._is_ours():
                return False
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            lock_file = take_lock(self.path)
            try:
                keep(self.path, self.process_id, self._process_name)
                self._journal.renew()
            except OSError:
                lock_file.close()
                raise
        except OSError as error:
            raise StateError(
                f"the state directory {self.path.absolute()} cannot be used: {error}; check state_dir, its owner and "
                "the disk"
            ) from error
        self._lock_file.close()
        self._lock_file = lock_file  # last, so that the next call repeats what failed before it
        _log.warning("the state directory %s was deleted while in use, and is created again", self.path.absolute())
        return True

    def _is_ours(self) -> bool:
        try:
            there = (self.path / LOCK_FILE).stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._lock_file.fileno()))

    def discard(self, task: TaskId, why: str = "its store is damaged") -> None:
        """Remove the damaged folder of a task that the caller has locked, with its stores closed.

        One rename: ``trash.empty`` deletes the bytes. ``why`` goes into the journal. The task stays locked and can
        start with an empty folder. Raises ``StateError`` if it is not locked or the folder cannot be moved.
        """
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so its folder cannot be discarded")
        moved = self._trash.take(self.task_path(task), why)
        if not moved and self.task_path(task).exists():
            raise StateError(f"the folder {self.task_path(task).absolute()} cannot be moved away; delete it by hand")

    def close(self) -> None:
        """Unlock the directory for other processes."""
        if self._locked:
            names = ", ".join(map(str, sorted(self._locked)))
            _log.warning("the state directory %s is closed while tasks are in use: %s", self.path.absolute(), names)
        self._journal.close()
        self._lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _remove(self, task: TaskId, why: str, may_go: Callable[[], bool]) -> bool:
        path = self.task_path(task)
        place = self._trash.record(path, why)
        if place is None:
            return False
        with self._guard:
            if not may_go():
                self._trash.spare(place, "it was locked meanwhile")
                return False
            self._released_at_ms.pop(task, None)
            return self._trash.move(path, place)

    def _is_idle(self, task: TaskId, grace_ms: int) -> bool:
        released_at_ms = self._released_at_ms.setdefault(task, self._clock_ms())
        return task not in self._locked and self._clock_ms() - released_at_ms >= grace_ms


def task_order(task: TaskId) -> tuple[str, int, int]:
    """Return a sort key that also orders tasks of several named topologies."""
    return task.topology or "", task.subtopology, task.partition


def _folder_name(application_id: str) -> str:
    if not application_id or application_id in {".", ".."} or "/" in application_id or "\0" in application_id:
        raise ConfigError(
            f"application_id = {application_id!r}: cannot be a folder's name; use only letters, digits, '.', '_' and "
            "'-'"
        )
    return application_id


def _task_of(entry: Path) -> TaskId | None:
    """Return the task of a folder; only the exact spelling counts: ``00_1`` is not a task's folder."""
    try:
        task = TaskId.parse(entry.name)
    except InvalidTaskId:
        return None
    return task if str(task) == entry.name else None


def tasks_in(folder: Path) -> list[TaskId]:
    """Return the tasks that have a folder in an application's directory, in order."""
    tasks = [task for entry in folder.iterdir() if (task := _task_of(entry)) and entry.is_dir()]
    return sorted(tasks, key=task_order)


def refuse_java(folder: Path) -> None:
    """Raise ``StateError`` if an application's directory has state of Kafka Streams in Java.

    Java locks the same file by another kind of lock, so neither sees the other, and each deletes the other's tasks.
    """
    for file in chain.from_iterable(map(folder.glob, JAVA_STATE)):
        raise StateError(
            f"the state directory {folder.absolute()} has state of a Java application ({file.relative_to(folder)}); "
            "choose another state_dir"
        )


def application_folder(root: Path, application_id: str) -> Path:
    """Return an application's directory.

    Raises ``ConfigError`` for an application id that cannot be a folder's name, and for a path that is not UTF-8, which
    RocksDB cannot open.
    """
    folder = root / _folder_name(application_id)
    try:
        str(folder).encode()
    except UnicodeEncodeError as cause:
        raise ConfigError(f"the state directory {str(folder)!r}: it must be UTF-8; choose another state_dir") from cause
    return folder


def replay(journal: Journal, folder: Path, process_id: uuid.UUID | None, opener: str) -> None:
    """Start the journal with the folders that exist now. ``opener``: the program that opens it, for people."""
    trash = folder / TRASH_FOLDER
    names = map(str, tasks_in(folder))
    there = {name: 0 if journal.knows(name) else last_written_ms(folder / name) for name in names}
    journal.start(process_id, there, {entry.name for entry in trash.iterdir()} if trash.is_dir() else (), opener)


def last_written_ms(folder: Path) -> int:
    """Return when a file below the folder was last written: the age of folders that the journal does not mention."""
    times = [entry.lstat().st_mtime for entry in (folder, *folder.rglob("*"))]
    return round(max(times) * 1000)


def roots_of_processes(root: Path, application_id: str) -> list[Path]:
    """Return ``root``, and its numbered folders if supervised processes of the application have used them.

    ``root`` itself is left out where only those have been used. Raises ``ConfigError`` where this user may not look.
    """
    folder = _folder_name(application_id)
    with _looking_as_another_user(root):
        numbered = [path.parent.parent for path in root.glob(f"[0-9]*/{glob.escape(folder)}/{LOCK_FILE}")]
        return [*([] if numbered and not (root / folder).exists() else [root]), *sorted(numbered)]


@contextmanager
def _looking_as_another_user(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as cause:
        raise ConfigError(
            f"{path.absolute()}: this user may not look into it ({cause.strerror}); run this command as the user of "
            "the worker"
        ) from cause


def holder_of(root: Path, application_id: str) -> int | None:
    """Return the pid of the process on this host that has the state directory; None if it is free.

    Raises ``ConfigError`` for a directory that does not exist, for one that this user may not read, and for a holder
    on another host.
    """
    path = application_folder(root, application_id)
    try:
        with _looking_as_another_user(path):
            other = holder(path)
    except FileNotFoundError as cause:
        raise ConfigError(
            f"state_dir = {str(root)!r}: {path.absolute()} does not exist, so no process of {application_id!r} has "
            "used it; check state_dir and application_id"
        ) from cause
    if other is None:
        return None
    if other.host != platform.node() or other.pid is None:
        raise ConfigError(
            f"the state directory {path.absolute()} is in use by a process on host {other.host or 'unknown'}; run this "
            f"command there"
        )
    return other.pid
