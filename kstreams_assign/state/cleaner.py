"""Removes the folders of tasks that this process has not owned for a while, without breaking a promise to the leader.

A run holds KIP-441's mutex and only renames; bytes are deleted after it, when nobody waits. What must not be here: a
thread or a timer of its own (the worker calls ``run``, and says on which thread bytes are deleted).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kstreams_assign.errors import StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex

_log = logging.getLogger(__name__)


class Cleaner:
    """``state_cleanup_delay_ms``: how long after its release a folder stays (Kafka: ``state.cleanup.delay.ms``).

    A folder that somebody else deleted is not offered to the leader any more, from the next run on.

    ``made_anew`` is called when the directory was deleted under this process and is there again; ``empty_trash`` deletes what
    was retired, or has it done soon: by default at once, where it is asked for.
    """

    def __init__(
        self,
        directory: StateDirectory,
        mutex: ReportMutex,
        sums: OffsetSums,
        *,
        state_cleanup_delay_ms: int,
        made_anew: Callable[[], None] = lambda: None,
        empty_trash: Callable[[], None] | None = None,
    ) -> None:
        self._directory = directory
        self._mutex = mutex
        self._sums = sums
        self._delay_ms = state_cleanup_delay_ms
        self._made_anew = made_anew
        self._empty_trash = empty_trash or directory.trash.empty
        self._trouble = ""

    def empty_trash(self) -> None:
        """At start: what a crash left half removed."""
        self._directory.heartbeat()
        self._empty_trash()

    def run(self) -> list[TaskId] | None:
        """Retire what may go, then delete its bytes. Tasks that went; ``None`` if a rebalance is under way.

        What is in the trash already (``StateDirectory.discard``) is deleted also then, as it was promised to nobody. Also stamps
        that this process is at work, and makes the directory anew if it was deleted, so call it every few seconds. A disk that
        cannot be worked with is named in the log, and it is tried again with the next call. Raises ``StateDirectoryLocked`` when
        another process has taken the place of a directory that was deleted.
        """
        try:
            gone = self._run()
        except StateDirectoryLocked:
            raise
        except (OSError, StateError) as error:
            if str(error) != self._trouble:
                _log.warning("nothing is cleaned: %s", error)
            self._trouble = str(error)
            return []
        self._trouble = ""
        return gone

    def _run(self) -> list[TaskId] | None:
        if self._directory.secure():
            self._made_anew()
        self._directory.heartbeat()
        gone = self._retire_idle() if self._mutex.try_clean() else None
        self._empty_trash()
        return gone

    def _retire_idle(self) -> list[TaskId]:
        try:
            self._sums.forget_gone(self._directory.has_folder)
            return [task for task in self._directory.idle_tasks(self._delay_ms) if self._retire(task)]
        finally:
            self._mutex.end_clean()

    def _retire(self, task: TaskId) -> bool:
        retired = self._directory.retire(task, self._delay_ms)
        if retired:
            self._sums.forget(task)
            _log.info("removed the state of task %s, not owned for %d ms", task, self._delay_ms)
        return retired


def wipe_old(directory: StateDirectory, max_age_ms: int) -> list[TaskId]:
    """At start, before anything is reported: retire what was at work more than ``max_age_ms`` ago; -1: nothing.

    Kafka's ``state.cleanup.dir.max.age.ms`` (KIP-1259): changelogs forget deletions after ``delete.retention.ms``, so older
    state would keep what was deleted. The age is the journal's, so it counts over restarts and a crash. The bytes go with
    ``Cleaner.empty_trash``.
    """
    old = [task for task in directory.idle_tasks(0) if 0 <= max_age_ms < directory.age_ms(task)]
    wiped = [task for task in old if directory.retire_old(task, max_age_ms)]
    for task in wiped:
        _log.info("removed the state of task %s at start, older than %d ms", task, max_age_ms)
    return wiped
