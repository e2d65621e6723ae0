"""The cleaner: removes folders of tasks that this process has not owned for a while, but none that it reported.

A run holds KIP-441's mutex and only renames; bytes are deleted after it, when no thread waits. A thread or a timer does
not belong here: the worker calls ``run`` and chooses the thread that deletes bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kstreams_assign.errors import StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.failures import RepeatedFailures
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex

_log = logging.getLogger(__name__)


class Cleaner:
    """``state_cleanup_delay_ms``: how long a folder stays after its release (Kafka: ``state.cleanup.delay.ms``).

    A folder that another program deleted is no longer reported to the leader, from the next run on.

    ``on_recreated`` is called when the directory was deleted under this process and was created again. ``empty_trash``
    deletes retired folders, or schedules that; by default it deletes them on the calling thread.
    """

    def __init__(
        self,
        directory: StateDirectory,
        mutex: ReportMutex,
        sums: OffsetSums,
        *,
        state_cleanup_delay_ms: int,
        on_recreated: Callable[[], None] = lambda: None,
        empty_trash: Callable[[], None] | None = None,
    ) -> None:
        self._directory = directory
        self._mutex = mutex
        self._sums = sums
        self._delay_ms = state_cleanup_delay_ms
        self._on_recreated = on_recreated
        self._empty_trash = empty_trash or directory.trash.empty
        self._failures = RepeatedFailures()

    def empty_trash(self) -> None:
        """Delete, at start, folders whose removal a crash interrupted."""
        self._directory.heartbeat()
        self._empty_trash()

    def run(self) -> list[TaskId] | None:
        """Retire idle folders, then delete their bytes. Return the tasks; ``None`` if a rebalance is under way.

        Folders in the trash (``StateDirectory.discard``) are deleted in either case: they were never reported. Also
        writes the heartbeat, and creates the directory again if it was deleted, so call this every few seconds. A disk
        error is logged once, and the next call tries again. Raises ``StateDirectoryLocked`` if the directory was
        deleted and another process now uses its path.
        """
        try:
            retired = self._run()
        except StateDirectoryLocked:
            raise
        except (OSError, StateError) as error:
            self._failures.add(self._directory.path, "is not cleaned, the next run tries again", error)
            return []
        self._failures.end(self._directory.path)
        return retired

    def _run(self) -> list[TaskId] | None:
        if self._directory.secure():
            self._on_recreated()
        self._directory.heartbeat()
        retired = self._retire_idle() if self._mutex.try_clean() else None
        self._empty_trash()
        return retired

    def _retire_idle(self) -> list[TaskId]:
        try:
            self._sums.forget_missing(self._directory.has_folder)
            return [task for task in self._directory.idle_tasks(self._delay_ms) if self._retire(task)]
        finally:
            self._mutex.end_clean()

    def _retire(self, task: TaskId) -> bool:
        retired = self._directory.retire(task, self._delay_ms)
        if retired:
            self._sums.forget(task)
            _log.info("removed the state of task %s: not owned for %d ms", task, self._delay_ms)
        return retired


def wipe_old(directory: StateDirectory, max_age_ms: int) -> list[TaskId]:
    """Retire, at start and before any report, the state last used more than ``max_age_ms`` ago; -1 retires nothing.

    Kafka's ``state.cleanup.dir.max.age.ms`` (KIP-1259): changelogs lose deletions after ``delete.retention.ms``, so
    older state would keep deleted keys. The journal has the age, so restarts and crashes do not reset it.
    ``Cleaner.empty_trash`` deletes the bytes.
    """
    old = [task for task in directory.idle_tasks(0) if 0 <= max_age_ms < directory.age_ms(task)]
    wiped = [task for task in old if directory.retire_old(task, max_age_ms)]
    for task in wiped:
        _log.info("removed the state of task %s at start, older than %d ms", task, max_age_ms)
    return wiped
