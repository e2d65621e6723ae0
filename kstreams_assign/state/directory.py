"""The folders of one application on one machine, and who owns them.

::

    <root>/<application_id>/
        .lock          held by one process (flock); holds its pid and host for those it keeps out (``state.lock``)
        process        the process id, kept across restarts, so that the group's sort order stays (``state.identity``)
        members        the members of the group that this directory's processes were, for their successor (``state.members``)
        journal        what was taken, let go and removed, when and why; alive: when that was last so (``state.journal``)
        0_1/           the state of one task
        .trash/        folders on their way out (``state.trash``)

Ownership of a task's folder is within the process and kept in memory; so is the time of its release, from which the
cleaner's grace counts. (Kafka counts from the folder's modification time, which a store that is only read never moves.)
That grace begins anew with the process: while none ran, the group could not give the task back. The age of a folder does not: it
counts from the journal's stamps, over restarts. What must not be here: when to clean (``state.cleaner``), what a folder holds.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

from kstreams_assign.errors import ConfigError, InvalidTaskId, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.identity import Identity, identify, keep
from kstreams_assign.state.journal import Journal, wall_clock_ms
from kstreams_assign.state.lock import LOCK_FILE, holder, take_lock
from kstreams_assign.state.trash import TRASH_FOLDER, Trash

_log = logging.getLogger(__name__)


class StateDirectory:
    """One process's state directory. Several members and threads of the process share one object.

    ``clock_ms`` is monotonic; ``wall_ms`` only stamps what has to outlive the process. The process id stands for ``process_name``
    if there is one. Raises ``StateDirectoryLocked`` when another process has it, ``StateError`` when it cannot be made or
    locked, ``ConfigError`` for an application id that is no folder name.
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
        self.path = root / _folder_name(application_id)
        self._clock_ms = clock_ms
        self._process_name = process_name
        self._guard = threading.Lock()
        self._locked: set[TaskId] = set()
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock_file = take_lock(self.path)
            try:
                self._journal = Journal(self.path, wall_ms)
                self._identity = self._identify(application_id, process_name)
                replay(self._journal, self.path, self._identity.process_id, "a worker")
            except OSError:
                self._lock_file.close()
                raise
        except OSError as error:
            raise StateError(f"the state directory {self.path} cannot be used: {error}") from error
        self._trash = Trash(self.path / TRASH_FOLDER, self._journal)
        self._released_at_ms = dict.fromkeys(self.tasks_on_disk(), clock_ms())

    def _identify(self, application_id: str, process_name: str | None) -> Identity:
        known, tasks_here = self._journal.process_id, len(self.tasks_on_disk())
        return identify(self.path, application_id, process_name, last_known=known, tasks_here=tasks_here)

    @property
    def process_id(self) -> uuid.UUID:
        """The same after a restart (Kafka: ``kafka-streams-process-metadata``)."""
        return self._identity.process_id

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know of the process id: it is another one than before."""
        return self._identity.warnings

    @property
    def trash(self) -> Trash:
        """Where folders go first when they are removed."""
        return self._trash

    def task_path(self, task: TaskId) -> Path:
        """Where the task's state is, or would be."""
        return self.path / str(task)

    def has_folder(self, task: TaskId) -> bool:
        """Whether there is a folder, of a task that is locked or not. Raises ``OSError`` where the disk does not tell."""
        return self.task_path(task).is_dir()

    def tasks_on_disk(self) -> list[TaskId]:
        """Tasks that have a folder, locked or not, in order."""
        return tasks_in(self.path)

    def lock_task(self, task: TaskId) -> Path:
        """Become the one owner of the task's folder and get its path. The folder may not exist yet.

        Raises ``StateError`` if somebody in this process owns it already.
        """
        with self._guard:
            if task in self._locked:
                raise StateError(f"task {task} is in use already in this process; release it first")
            self._locked.add(task)
            self._journal.own(str(task))
        return self.task_path(task)

    def release_task(self, task: TaskId) -> None:
        """The folder's stores are closed; its grace begins now. Raises ``StateError`` if it is not locked."""
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so it cannot be released")
            self._locked.remove(task)
            self._released_at_ms[task] = self._clock_ms()
            self._journal.release(str(task))

    def idle_tasks(self, grace_ms: int) -> list[TaskId]:
        """Tasks on disk that nobody owns, released (or found at the start) at least ``grace_ms`` ago."""
        with self._guard:
            return [task for task in self.tasks_on_disk() if self._is_idle(task, grace_ms)]

    def retire(self, task: TaskId, grace_ms: int) -> bool:
        """Move the folder of an idle task to the trash; False if it is not idle (any more).

        One rename, at one instant with respect to ``lock_task``, which never waits for the record that comes before it. The
        bytes go with ``trash.empty``.
        """
        with self._guard:
            if not self._is_idle(task, grace_ms):
                return False
            idle_ms = self._clock_ms() - self._released_at_ms[task]
        why = f"not owned for {idle_ms:,} ms; state_cleanup_delay_ms = {grace_ms}"
        return self._remove(task, why, lambda: self._is_idle(task, grace_ms))

    def age_ms(self, task: TaskId) -> int:
        """How long ago the task's state was last at work, whoever owned it then; counts over restarts and a crash."""
        return self._journal.idle_ms(str(task))

    def retire_old(self, task: TaskId, max_age_ms: int) -> bool:
        """As ``retire``, for the start: what counts is the age, and there has been no grace yet."""
        age_ms = self.age_ms(task)
        if age_ms <= max_age_ms:
            return False
        why = f"at the start it was not at work for {age_ms:,} ms; state_cleanup_dir_max_age_ms = {max_age_ms}"
        return self._remove(task, why, lambda: task not in self._locked)

    def heartbeat(self) -> None:
        """This process is at work: what it owns is as old as this if it dies without a word. Call it every few seconds."""
        self._journal.heartbeat()

    def secure(self) -> bool:
        """Whether it was deleted under this process; then it is made anew and locked, before another takes it.

        What is open goes on as it is. Call it every few seconds. Raises ``StateDirectoryLocked`` when another process was
        quicker, ``StateError`` where it cannot be made.
        """
        try:
            if self._is_ours():
                return False
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            lock_file = take_lock(self.path)
            self._lock_file.close()
            self._lock_file = lock_file
            keep(self.path, self.process_id, self._process_name)
        except OSError as error:
            raise StateError(f"the state directory {self.path} cannot be used: {error}") from error
        self._journal.renew()
        _log.warning("the state directory %s was deleted under this process, and is made anew", self.path)
        return True

    def _is_ours(self) -> bool:
        try:
            there = (self.path / LOCK_FILE).stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._lock_file.fileno()))

    def discard(self, task: TaskId, why: str = "its store is damaged") -> None:
        """Throw away the folder of a task that the caller has locked, with its stores closed: it is damaged.

        One rename: the bytes go with ``trash.empty``. ``why`` goes into the journal. The task stays locked and can begin anew. Raises
        ``StateError`` if it is not locked or the folder won't move.
        """
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so its folder cannot be discarded")
        gone = self._trash.take(self.task_path(task), why)
        if not gone and self.task_path(task).exists():
            raise StateError(f"the folder {self.task_path(task)} cannot be moved away; delete it by hand")

    def close(self) -> None:
        """Let another process have the directory."""
        if self._locked:
            names = ", ".join(map(str, sorted(self._locked)))
            _log.warning("the state directory %s is closed while tasks are in use: %s", self.path, names)
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
                self._trash.spare(place, "somebody took it meanwhile")
                return False
            self._released_at_ms.pop(task, None)
            return self._trash.move(path, place)

    def _is_idle(self, task: TaskId, grace_ms: int) -> bool:
        released_at_ms = self._released_at_ms.setdefault(task, self._clock_ms())
        return task not in self._locked and self._clock_ms() - released_at_ms >= grace_ms


def task_order(task: TaskId) -> tuple[str, int, int]:
    """A sort key that also holds for tasks of several named topologies."""
    return task.topology or "", task.subtopology, task.partition


def _folder_name(application_id: str) -> str:
    if not application_id or application_id in {".", ".."} or "/" in application_id or "\0" in application_id:
        raise ConfigError(
            f"application_id {application_id!r} cannot name a folder; allowed: letters, digits, '.', '_', '-'"
        )
    return application_id


def _task_of(entry: Path) -> TaskId | None:
    """Only the exact spelling counts: ``00_1`` is somebody else's folder."""
    try:
        task = TaskId.parse(entry.name)
    except InvalidTaskId:
        return None
    return task if str(task) == entry.name else None


def tasks_in(folder: Path) -> list[TaskId]:
    """The tasks that have a folder in an application's directory, in order."""
    found = [task for entry in folder.iterdir() if (task := _task_of(entry)) and entry.is_dir()]
    return sorted(found, key=task_order)


def application_folder(root: Path, application_id: str) -> Path:
    """Where an application's state is. Raises ``ConfigError`` for an application id that is no folder name."""
    return root / _folder_name(application_id)


def replay(journal: Journal, folder: Path, process_id: uuid.UUID | None, who: str) -> None:
    """Tell the journal what there is now; from then on it is the directory's. ``who`` opens it, for people."""
    trash = folder / TRASH_FOLDER
    names = map(str, tasks_in(folder))
    there = {name: 0 if journal.knows(name) else last_written_ms(folder / name) for name in names}
    journal.start(process_id, there, {entry.name for entry in trash.iterdir()} if trash.is_dir() else (), who)


def last_written_ms(folder: Path) -> int:
    """When a file below the folder was last written: a stand-in for folders that no journal knows."""
    times = [entry.lstat().st_mtime for entry in (folder, *folder.rglob("*"))]
    return round(max(times) * 1000)


def holder_of(root: Path, application_id: str) -> int | None:
    """The pid of the process on this host that has the state directory now; None if nobody has.

    Raises ``ConfigError`` for a directory that is not there, and for a holder on another host.
    """
    path = root / _folder_name(application_id)
    try:
        found = holder(path)
    except FileNotFoundError as cause:
        raise ConfigError(f"state_dir = {str(root)!r}: no process of {application_id!r} has worked there") from cause
    if found is None:
        return None
    if found.host != platform.node() or found.pid is None:
        raise ConfigError(f"the state directory {path} belongs to a process on host {found.host or 'unknown'}")
    return found.pid
