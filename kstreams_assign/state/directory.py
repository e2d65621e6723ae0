"""The folders of one application on one machine, and who owns them.

::

    <root>/<application_id>/
        .lock          held by one process (flock); holds its pid and host for those it keeps out
        process        the process id, kept across restarts, so that the group's sort order stays (JSON)
        0_1/           the state of one task
        .trash/        folders on their way out

Ownership of a task's folder is within the process and kept in memory; so is the time of its release, from which the
cleaner's grace counts. (Kafka counts from the folder's modification time, which a store that is only read never moves.)
What must not be here: when to clean (``state.cleaner``), what a folder holds.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from kstreams_assign.errors import ConfigError, InvalidTaskId, StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.trash import Trash

_log = logging.getLogger(__name__)

_PROCESS_FILE_VERSION = 1


class StateDirectory:
    """One process's state directory. Several members and threads of the process share one object.

    ``clock_ms`` is monotonic. Raises ``StateDirectoryLocked`` when another process has it, ``StateError`` when it
    cannot be made or locked, ``ConfigError`` for an application id that is no folder name.
    """

    def __init__(self, root: Path, application_id: str, *, clock_ms: Callable[[], int]) -> None:
        self.path = root / _folder_name(application_id)
        self._clock_ms = clock_ms
        self._guard = threading.Lock()
        self._locked: set[TaskId] = set()
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock_file = _take_lock(self.path / ".lock")
            self._process_id = _kept_process_id(self.path / "process")
        except OSError as error:
            raise StateError(f"the state directory {self.path} cannot be used: {error}") from error
        self._trash = Trash(self.path / ".trash")
        self._released_at_ms = dict.fromkeys(self.tasks_on_disk(), clock_ms())

    @property
    def process_id(self) -> uuid.UUID:
        """The same after a restart (Kafka: ``kafka-streams-process-metadata``)."""
        return self._process_id

    @property
    def trash(self) -> Trash:
        """Where folders go first when they are removed."""
        return self._trash

    def task_path(self, task: TaskId) -> Path:
        """Where the task's state is, or would be."""
        return self.path / str(task)

    def tasks_on_disk(self) -> list[TaskId]:
        """Tasks that have a folder, locked or not, in order."""
        found = [task for entry in self.path.iterdir() if (task := _task_of(entry)) and entry.is_dir()]
        return sorted(found, key=task_order)

    def lock_task(self, task: TaskId) -> Path:
        """Become the one owner of the task's folder and get its path. The folder may not exist yet.

        Raises ``StateError`` if somebody in this process owns it already.
        """
        with self._guard:
            if task in self._locked:
                raise StateError(f"task {task} is in use already in this process; release it first")
            self._locked.add(task)
        return self.task_path(task)

    def release_task(self, task: TaskId) -> None:
        """The folder's stores are closed; its grace begins now. Raises ``StateError`` if it is not locked."""
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so it cannot be released")
            self._locked.remove(task)
            self._released_at_ms[task] = self._clock_ms()

    def idle_tasks(self, grace_ms: int) -> list[TaskId]:
        """Tasks on disk that nobody owns, released (or found at the start) at least ``grace_ms`` ago."""
        with self._guard:
            return [task for task in self.tasks_on_disk() if self._is_idle(task, grace_ms)]

    def retire(self, task: TaskId, grace_ms: int) -> bool:
        """Move the folder of an idle task to the trash; False if it is not idle (any more).

        One rename, at one instant with respect to ``lock_task``. The bytes go with ``trash.empty``.
        """
        with self._guard:
            if not self._is_idle(task, grace_ms):
                return False
            self._released_at_ms.pop(task, None)
            return self._trash.take(self.task_path(task))

    def discard(self, task: TaskId) -> None:
        """Throw away the folder of a task that the caller has locked, with its stores closed: it is damaged.

        The task stays locked and can begin anew. Raises ``StateError`` if it is not locked or the folder won't move.
        """
        with self._guard:
            if task not in self._locked:
                raise StateError(f"task {task} is not locked, so its folder cannot be discarded")
            gone = self._trash.take(self.task_path(task))
        if not gone and self.task_path(task).exists():
            raise StateError(f"the folder {self.task_path(task)} cannot be moved away; delete it by hand")
        self._trash.empty()

    def close(self) -> None:
        """Let another process have the directory."""
        if self._locked:
            names = ", ".join(map(str, sorted(self._locked)))
            _log.warning("the state directory %s is closed while tasks are in use: %s", self.path, names)
        self._lock_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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


def _take_lock(path: Path) -> IO[bytes]:
    """Lock it for as long as the file is open, so the lock ends with the process however that dies.

    The file is never deleted: two processes could then lock two files of one name.
    """
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_json(path)
        file.close()
        raise StateDirectoryLocked(
            f"the state directory {path.parent} belongs to process {holder.get('pid', 'unknown')} on host "
            f"{holder.get('host', 'unknown')}; give each process its own state_dir"
        ) from None
    except OSError:
        file.close()
        raise
    file.truncate(0)
    file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
    file.flush()
    return file


def holder_of(root: Path, application_id: str) -> int | None:
    """The pid of the process on this host that has the state directory now; None if nobody has.

    Raises ``ConfigError`` for a directory that is not there, and for a holder on another host.
    """
    path = root / _folder_name(application_id) / ".lock"
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except FileNotFoundError as cause:
        raise ConfigError(f"state_dir = {str(root)!r}: no process of {application_id!r} has worked there") from cause
    except BlockingIOError:
        holder = _read_json(path)
    if holder.get("host") != platform.node() or not isinstance(holder.get("pid"), int):
        raise ConfigError(
            f"the state directory {path.parent} belongs to a process on host {holder.get('host', 'unknown')}"
        )
    return int(holder["pid"])


def _kept_process_id(path: Path) -> uuid.UUID:
    """Read it, or draw one and keep it. Later versions only add fields, so any version is read."""
    try:
        return uuid.UUID(_read_json(path)["process_id"])
    except (KeyError, ValueError, TypeError, AttributeError):
        if path.exists():
            _log.warning("%s cannot be read; this process gets a new id and may be given other tasks", path)
    process_id = uuid.uuid4()
    _write_durably(path, json.dumps({"version": _PROCESS_FILE_VERSION, "process_id": str(process_id)}))
    return process_id


def _read_json(path: Path) -> dict[str, Any]:
    """Empty for a file that is missing, torn or something else."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_durably(path: Path, text: str) -> None:
    """Whole or not at all, also when the machine stops."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
