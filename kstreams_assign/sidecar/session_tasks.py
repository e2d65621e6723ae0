"""The running tasks as a session sees them: what it polled, what it wrote, what it may commit.

What lives here: a ``SessionTask`` for each task, and the rules of commit and rollback over all of them. What must not:
sockets, requests that wait. Used on the processing loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sidecar.messages import refused
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.timers import TIME_MAX, Timer
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.timing import at_time


class Unreadable(Exception):
    """The store of a task could not be read; ``cause`` says why."""

    def __init__(self, task: TaskId, cause: StateError) -> None:
        super().__init__(task, cause)
        self.task, self.cause = task, cause


@dataclass(slots=True)
class SessionTask:
    """One running task. ``polled``: next offsets of what the session has polled since it last sealed.

    ``rejected``: by partition and offset, the dead letters of rejected records; each leaves with the commit of its
    offset. ``timers``: those that it has polled and that are not done, the earliest of them due since ``since_ms`` of
    stream time: until they are done, the session reads as of then. ``count``: how many records and timers it has
    polled since it last sealed. ``passed_over``: by partition and the offset before it, where a record ends that the
    session does not get. ``began``: ``begins_total`` once it had begun. ``stale``: the task left and returned
    while the session was open. Until a poll that was sent after that is answered, what the session writes may depend on
    records from before.
    """

    running: Running
    began: int
    stale: bool
    polled: dict[TopicPartition, int] = field(default_factory=dict)
    count: int = 0
    timers: list[Timer] = field(default_factory=list)
    since_ms: int = TIME_MAX
    rejected: dict[tuple[TopicPartition, int], Sequence[Row]] = field(default_factory=dict)
    passed_over: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)

    @property
    def wrote(self) -> bool:
        """Return whether something was written that is not sealed."""
        return self.running.workspace.holds_work() and not self.running.sealed

    def reject(self, record: Record, set_aside: Callable[[], Sequence[Row]]) -> None:
        """Set a record aside; nothing if it is already."""
        at = TopicPartition(record.topic, record.partition), record.offset
        if at not in self.rejected:
            self.rejected[at] = set_aside()

    def take_timers(self, timers_max: int) -> list[Timer]:
        """Take timers that are due; none of a paused task. Raises ``StateError``."""
        timing = self.running.timing
        timers = [] if self.running.paused else timing.take(timers_max)
        if timers:
            self.timers += timers
            self.count += len(timers)
            self.since_ms = min(self.since_ms, *map(timing.since_ms, timers))
            self.running.workspace.at_work.record = at_time(timers[-1].at_ms)
            timing.look_back(self.since_ms)
        return timers

    def forget_timers(self) -> None:
        """The session holds no timers that are not done."""
        self.timers, self.since_ms = [], TIME_MAX
        self.running.timing.look_ahead()

    def undo(self) -> None:
        """Take back what was written since the last savepoint, timers included; those that were polled stay so."""
        self.running.workspace.undo()
        self.running.workspace.save()
        if self.running.timing.declared is not None:
            self.running.timing.timer_queue.forget()
            self.running.timing.timer_queue.take_again(self.timers)
        self.running.timing.look_back(self.since_ms)

    def end_timers(self) -> None:
        """Delete the timers that were polled. Raises ``StateError``."""
        if self.timers:
            self.running.timing.done(self.timers)
            self.forget_timers()

    def seal(self, offsets: Mapping[TopicPartition, int] | None) -> bool:
        """Put what was written, these offsets, and the dead letters of records before them into the next commit.

        Of ``offsets`` those of its own partitions count; None: of all that was polled. Return whether there was
        something.
        """
        positions = self.running.offsets.positions
        chosen = self._pass_over(
            self.polled if offsets is None else {p: offset for p, offset in offsets.items() if p in positions}
        )
        for partition, offset in sorted(self.rejected):
            if offset < chosen.get(partition, -1):
                self.running.workspace.emit_rows(self.rejected.pop((partition, offset)))
        sealed = bool(chosen) or self.wrote
        if sealed:
            self.running.seal(chosen)
        self.polled = {p: at for p, at in self.polled.items() if chosen.get(p, -1) < at}
        self.count = 0
        return sealed

    def _pass_over(self, chosen: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return these offsets, each behind the records next to it that the session does not get and cannot name."""
        if not self.passed_over:
            return chosen
        moved, done = dict(chosen), self.running.offsets.done_to()
        for partition in {partition for partition, _ in self.passed_over}:
            at = moved.get(partition, done[partition])
            while (partition, at) in self.passed_over:
                at = moved[partition] = self.passed_over[partition, at]
        self.passed_over = {(p, at): end for (p, at), end in self.passed_over.items() if end > moved.get(p, -1)}
        return moved


class SessionTasks:
    """All running tasks, by id. ``sets_aside``: whether records of a task may be rejected, so writes may be undone."""

    def __init__(self, sets_aside: Callable[[TaskId], bool]) -> None:
        self._sets_aside = sets_aside
        self._tasks: dict[TaskId, SessionTask] = {}
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._seen: set[TaskId] = set()
        self.restoring: frozenset[TaskId] = frozenset()
        self.begins_total = 0
        """How many times a task has begun; may be read from any thread."""

    def begins(self, running: Running) -> None:
        task = running.task.id
        self.begins_total += 1
        self._tasks[task] = SessionTask(running, self.begins_total, stale=task in self._seen)
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
        return any(
            session_task.polled or session_task.timers or session_task.wrote for session_task in self._tasks.values()
        )

    @property
    def polled_count(self) -> int:
        """Return how many records and timers of the running tasks the session has polled since it last sealed."""
        return sum(session_task.count for session_task in self._tasks.values())

    def to_read(self, task: TaskId) -> SessionTask:
        """Raises ``SidecarRefused`` for a task that does not run here."""
        session_task = self._tasks.get(task)
        if session_task is None and task in self.restoring:
            raise refused("task_restoring", f"task {task} is restored here and does not run yet")
        if session_task is None:
            raise refused("task_migrated", f"task {task} does not run in this process")
        return session_task

    def to_write(self, task: TaskId) -> SessionTask:
        """Raises ``SidecarRefused``, also for a task that left and returned since the session sent its last poll."""
        session_task = self.to_read(task)
        if session_task.stale:
            raise refused("task_migrated", f"task {task} was revoked and assigned again; poll its records again")
        return session_task

    def to_reject(self, task: TaskId, record: Record) -> SessionTask:
        """Raises ``SidecarRefused``, also for a record that the session has not polled, or has committed."""
        session_task = self.to_write(task)
        partition = TopicPartition(record.topic, record.partition)
        if self._task_of.get(partition) != task:
            raise refused("bad_offset", f"{partition} is no input of task {task}")
        least = session_task.running.offsets.done_to()[partition]
        most = session_task.polled.get(partition, least)
        if not least <= record.offset < most:
            text = (
                f"{partition} = {record.offset}: must be a polled record that is not committed, {least} to {most - 1}"
            )
            raise refused("bad_offset", text)
        return session_task

    def commit_begins(self) -> None:
        """What is written from now on goes into the commit after it."""
        for task, session_task in self._tasks.items():
            if self._sets_aside(task):
                session_task.running.workspace.save()

    def polled(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Note records that the session has polled.

        What it writes has the time of the last of them, unless the request has a time.
        """
        self._see(running, partition, records)
        if self._sets_aside(running.task.id):
            running.workspace.save()
        running.workspace.at_work.record = records[-1]

    def pass_over(
        self, running: Running, partition: TopicPartition, record: Record, set_aside: Callable[[], Sequence[Row]]
    ) -> None:
        """Set a record aside that the session does not get; it counts as polled."""
        before = partition, self.next_offsets(running)[partition]
        self._tasks[running.task.id].passed_over[before] = record.offset + 1
        self._see(running, partition, [record]).reject(record, set_aside)

    def _see(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> SessionTask:
        session_task = self._tasks[running.task.id]
        session_task.polled[partition] = records[-1].offset + 1
        session_task.count += len(records)
        running.saw(partition, records)
        running.timing.look_back(session_task.since_ms)
        return session_task

    def take_timers(self, task: TaskId, timers_max: int) -> list[Timer]:
        """Take timers of a task that are due, for the session; none of a paused task. Raises ``StateError``."""
        return self._tasks[task].take_timers(timers_max)

    def stream_times_ms(self) -> dict[str, int]:
        """Return the stream time of each task that has had a record."""
        times = {str(task): session_task.running.timing.stream_ms() for task, session_task in self._tasks.items()}
        return {task: time_ms for task, time_ms in times.items() if time_ms is not None}

    def next_offsets(self, running: Running) -> dict[TopicPartition, int]:
        """Return where the records begin that the session has not polled."""
        session_task = self._tasks.get(running.task.id)
        return {**running.offsets.done_to(), **(session_task.polled if session_task else {})}

    def returned_since(self, begins: int) -> bool:
        """Return whether a task left, and returned after the first ``begins`` begins."""
        return any(session_task.stale and session_task.began > begins for session_task in self._tasks.values())

    def poll_answered(self, begins: int) -> None:
        """The session knows which tasks had returned when it sent its poll, after the first ``begins`` begins."""
        for session_task in self._tasks.values():
            if session_task.began <= begins:
                session_task.stale = False

    def seal(self, offsets: Mapping[TopicPartition, int] | None, *, timers: bool) -> frozenset[TaskId]:
        """Put everything written and these offsets (None: of all that was polled) into the next commit.

        Return the tasks that have something in it. With ``timers`` those that were polled are done. Seals nothing where
        it raises: ``SidecarRefused`` for an offset that cannot be committed, ``Unreadable`` for timers of a store that
        cannot be read.
        """
        if offsets is not None:
            offsets = {partition: self._checked(partition, offset) for partition, offset in offsets.items()}
        for task, session_task in self._tasks.items() if timers else ():
            try:
                session_task.end_timers()
            except StateError as error:
                raise Unreadable(task, error) from error
        return frozenset(task for task, session_task in self._tasks.items() if session_task.seal(offsets))

    def _checked(self, partition: TopicPartition, offset: int) -> int:
        """Return an offset as it is committed. Raises ``SidecarRefused`` for one that cannot be."""
        task = self._task_of.get(partition)
        if task is None:
            raise refused("task_migrated", f"{partition} is not read by this process")
        session_task = self.to_write(task)
        offsets = session_task.running.offsets
        least, lifted = offsets.positions[partition], offsets.lift(partition, offset)
        most = session_task.polled.get(partition, least)
        if lifted < least or offset > most:
            raise refused("bad_offset", f"{partition} = {offset}: must be from {least} to {most}")
        return lifted

    def roll_back(self, read: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Drop all that is not sealed; return where to read the polled partitions again, and those in ``read``."""
        positions: dict[TopicPartition, int] = {}
        for session_task in self._tasks.values():
            sealed = session_task.running.sealed
            if not sealed:
                session_task.running.workspace.roll_back()
            at = {**session_task.running.offsets.positions, **session_task.running.offsets.handled}
            positions |= {p: offset for p, offset in at.items() if p in session_task.polled or p in read}
            session_task.running.roll_back(at)
            session_task.polled, session_task.stale = {}, False
            session_task.count, session_task.rejected, session_task.passed_over = 0, {}, {}
            if session_task.running.timing.declared is not None:
                session_task.forget_timers()
                session_task.running.timing.timer_queue.forget()
        self._seen = set(self._tasks)
        return positions
