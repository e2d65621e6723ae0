"""The running tasks as a session sees them: what it polled, what it wrote, what it may still commit.

What lives here: one book a task, and the rules of commit and rollback over all of them. What must not: sockets, requests
that wait. Used on the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.labour import Running
from kstreams_assign.worker.sidecar.messages import refused


@dataclass(slots=True)
class Book:
    """One running task. ``polled``: next offsets of what the session was given since it last sealed.

    ``stale``: the task went away and came back while the session was open; until its next poll, what the session
    writes may rest on records of before.
    """

    running: Running
    stale: bool
    polled: dict[TopicPartition, int] = field(default_factory=dict)
    wrote: bool = False


class Books:
    """All running tasks, by id."""

    def __init__(self) -> None:
        self._books: dict[TaskId, Book] = {}
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._seen: set[TaskId] = set()
        self.restoring: frozenset[TaskId] = frozenset()

    def begins(self, running: Running) -> None:
        task = running.task.id
        self._books[task] = Book(running, stale=task in self._seen)
        self._task_of.update(dict.fromkeys(running.positions, task))
        self._seen.add(task)

    def ends(self, task: TaskId) -> None:
        book = self._books.pop(task, None)
        if book is not None:
            for partition in book.running.positions:
                self._task_of.pop(partition, None)

    def running(self) -> list[TaskId]:
        return list(self._books)

    def to_read(self, task: TaskId) -> Book:
        """Raises ``SidecarRefused`` for a task that does not run here."""
        book = self._books.get(task)
        if book is None and task in self.restoring:
            raise refused("task_restoring", f"task {task} is restored here, but does not run yet")
        if book is None:
            raise refused("task_migrated", f"task {task} does not run in this process")
        return book

    def to_write(self, task: TaskId) -> Book:
        """Raises ``SidecarRefused``, also for a task that has been elsewhere since the session's last poll."""
        book = self.to_read(task)
        if book.stale:
            raise refused("task_migrated", f"task {task} was taken away and came back; poll its records again")
        book.wrote = True
        return book

    def polled(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Records of a partition were given to the session; what it writes has the time of the last of them, unless it says another."""
        self._books[running.task.id].polled[partition] = records[-1].offset + 1
        running.saw(partition, records)
        running.workspace.at_work.record = records[-1]

    def poll_answered(self) -> None:
        """Whatever the session sends from now on, it sends knowing which tasks came back."""
        for book in self._books.values():
            book.stale = False

    def seal(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Everything written, and these offsets (None: of all that was polled), go into the next commit.

        Raises ``SidecarRefused`` and seals nothing where an offset cannot be committed.
        """
        for partition, offset in (offsets or {}).items():
            self._check(partition, offset)
        for book in self._books.values():
            chosen = (
                book.polled if offsets is None else {p: o for p, o in offsets.items() if p in book.running.positions}
            )
            if chosen or book.wrote:
                book.running.seal(chosen)
            book.polled = {p: at for p, at in book.polled.items() if chosen.get(p, -1) < at}
            book.wrote = False

    def _check(self, partition: TopicPartition, offset: int) -> None:
        task = self._task_of.get(partition)
        if task is None:
            raise refused("task_migrated", f"{partition} is not read by this process")
        book = self.to_write(task)
        least = book.running.positions[partition]
        most = book.polled.get(partition, least)
        if not least <= offset <= most:
            raise refused("bad_offset", f"{partition} = {offset}: must be from {least} to {most}")

    def roll_back(self, read: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Drop all that is not sealed; where to read again the partitions that were polled, or are in ``read``."""
        again: dict[TopicPartition, int] = {}
        for book in self._books.values():
            sealed = book.running.sealed
            if not sealed:
                book.running.workspace.roll_back()
            at = {**book.running.positions, **book.running.handled}
            again |= {p: offset for p, offset in at.items() if p in book.polled or p in read}
            book.polled, book.wrote, book.stale = {}, False, False
        self._seen = set(self._books)
        return again
