"""The running tasks as a session sees them: what it polled, what it wrote, what it may commit.

What lives here: a ``SessionTask`` for each task, and the rules of commit and rollback over all of them. What must not:
sockets, requests that wait. Used on the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sidecar.messages import refused
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.labour import Running


@dataclass(slots=True)
class SessionTask:
    """One running task. ``polled``: next offsets of what the session has polled since it last sealed.

    ``stale``: the task left and returned while the session was open. Until the next poll, what the session writes may
    depend on records from before.
    """

    running: Running
    stale: bool
    polled: dict[TopicPartition, int] = field(default_factory=dict)
    wrote: bool = False


class SessionTasks:
    """All running tasks, by id."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, SessionTask] = {}
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._seen: set[TaskId] = set()
        self.restoring: frozenset[TaskId] = frozenset()

    def begins(self, running: Running) -> None:
        task = running.task.id
        self._tasks[task] = SessionTask(running, stale=task in self._seen)
        self._task_of.update(dict.fromkeys(running.offsets.positions, task))
        self._seen.add(task)

    def ends(self, task: TaskId) -> None:
        session_task = self._tasks.pop(task, None)
        if session_task is not None:
            for partition in session_task.running.offsets.positions:
                self._task_of.pop(partition, None)

    def running(self) -> list[TaskId]:
        return list(self._tasks)

    @property
    def uncommitted(self) -> bool:
        """Return whether the session polled records or wrote something that it has not sealed."""
        return any(session_task.polled or session_task.wrote for session_task in self._tasks.values())

    def to_read(self, task: TaskId) -> SessionTask:
        """Raises ``SidecarRefused`` for a task that does not run here."""
        session_task = self._tasks.get(task)
        if session_task is None and task in self.restoring:
            raise refused("task_restoring", f"task {task} is restored here and does not run yet")
        if session_task is None:
            raise refused("task_migrated", f"task {task} does not run in this process")
        return session_task

    def to_write(self, task: TaskId) -> SessionTask:
        """Raises ``SidecarRefused``, also for a task that ran elsewhere since the session's last poll."""
        session_task = self.to_read(task)
        if session_task.stale:
            raise refused("task_migrated", f"task {task} was revoked and assigned again; poll its records again")
        session_task.wrote = True
        return session_task

    def polled(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Note records that the session has polled.

        What it writes has the time of the last of them, unless the request has a time.
        """
        self._tasks[running.task.id].polled[partition] = records[-1].offset + 1
        running.saw(partition, records)
        running.workspace.at_work.record = records[-1]

    def poll_answered(self) -> None:
        """From now on the session knows which tasks returned."""
        for session_task in self._tasks.values():
            session_task.stale = False

    def seal(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Put everything written and these offsets (None: of all that was polled) into the next commit.

        Raises ``SidecarRefused`` and seals nothing where an offset cannot be committed.
        """
        for partition, offset in (offsets or {}).items():
            self._check(partition, offset)
        for session_task in self._tasks.values():
            chosen = (
                session_task.polled
                if offsets is None
                else {p: o for p, o in offsets.items() if p in session_task.running.offsets.positions}
            )
            if chosen or session_task.wrote:
                session_task.running.seal(chosen)
            session_task.polled = {p: at for p, at in session_task.polled.items() if chosen.get(p, -1) < at}
            session_task.wrote = False

    def _check(self, partition: TopicPartition, offset: int) -> None:
        task = self._task_of.get(partition)
        if task is None:
            raise refused("task_migrated", f"{partition} is not read by this process")
        session_task = self.to_write(task)
        least = session_task.running.offsets.positions[partition]
        most = session_task.polled.get(partition, least)
        if not least <= offset <= most:
            raise refused("bad_offset", f"{partition} = {offset}: must be from {least} to {most}")

    def roll_back(self, read: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Drop all that is not sealed; return where to read the polled partitions again, and those in ``read``."""
        positions: dict[TopicPartition, int] = {}
        for session_task in self._tasks.values():
            sealed = session_task.running.sealed
            if not sealed:
                session_task.running.workspace.roll_back()
            at = {**session_task.running.offsets.positions, **session_task.running.offsets.handled}
            positions |= {p: offset for p, offset in at.items() if p in session_task.polled or p in read}
            session_task.polled, session_task.wrote, session_task.stale = {}, False, False
        self._seen = set(self._tasks)
        return positions
