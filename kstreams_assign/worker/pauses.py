"""Paused tasks, as the processing loop has them: which they are, and what is still to be committed of it.

A paused task stays a running task: it is assigned, its stores are open, and what was done of it is committed. Its
inputs are only not read. The mark of a pause goes beside the offsets of all its inputs into the next commit, which
begins at once (``tasks.pausing``); the task's next owner finds it there. Until the commit has succeeded the wish is
kept here, so that a commit that fails, or a restore that is under way, does not lose it.

What must not live here: when a commit begins (``engine.tasks``). Used on the loop's thread, but for ``paused``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple, Protocol

from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, TaskNotLocal
from kstreams_assign.events import TaskPausedEvent, TaskResumedEvent
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Labour
from kstreams_assign.worker.running import Running

RETRY_MS = 500
"""How long after a commit the next one may begin for a mark that it did not commit."""

ENDS_EVERY_MS = 5_000
ENDS_TIMEOUT_S = 1.0

ACTIVE = frozenset({TaskState.RUNNING, TaskState.RESTORING})

Target = TaskId | int | None
"""A task, a subtopology by its number, or None: everything."""

Tasks = tuple[TaskId, ...]


def target_of(which: TaskId | str | int | None) -> Target:
    """Return what a caller names: a task (``0_1``), a subtopology (``0``), or None. Raises ``ConfigError``."""
    if which is None or isinstance(which, TaskId) or type(which) is int:
        return which
    if isinstance(which, str):
        try:
            return int(which) if which.isdecimal() and which.isascii() else TaskId.parse(which)
        except ValueError as cause:  # a number of thousands of digits
            raise ConfigError(
                f"{which[:40]!r}: must be a task such as '0_1', or the number of a subtopology"
            ) from cause
    raise ConfigError(f"{which!r}: must be a task such as '0_1', or the number of a subtopology")


def not_running() -> TaskNotLocal:
    """Return the error of a worker that has no loop to ask: before ``run``, and from its end on."""
    return TaskNotLocal("the worker is not running")


class Inputs(Protocol):
    """What a pause needs of the client that reads input."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None: ...

    def remove(self, partitions: Iterable[TopicPartition]) -> None: ...


class _Request(NamedTuple):
    tasks: frozenset[TaskId]
    paused: bool
    answer: Future[Tasks]


class Pauses:
    """The pauses of one process.

    ``running`` and ``task_of`` are the loop's: its running tasks, and the task of each input partition that is read.
    ``states`` returns the state of each task.
    """

    def __init__(
        self,
        labour: Labour,
        inputs: Inputs,
        running: Mapping[TaskId, Running],
        task_of: MutableMapping[TopicPartition, TaskId],
        states: Callable[[], Mapping[TaskId, TaskState]],
        subtopologies: int,
        log: EventLog,
        clocks: Clocks,
    ) -> None:
        self._labour = labour
        self._inputs = inputs
        self._running = running
        self._task_of = task_of
        self._states = states
        self._subtopologies = subtopologies
        self._log = log
        self._clocks = clocks
        self._wishes: dict[TaskId, bool] = {}
        """What was asked for and is not committed yet."""
        self._requests: list[_Request] = []
        self._uncommitted: set[TaskId] = set()
        """Running tasks whose mark is to be committed."""
        self._in_commit: frozenset[TaskId] = frozenset()
        self._leaving: set[TaskId] = set()
        self._paused: dict[TaskId, Running] = {}
        self._next_commit_ms = 0
        self._stopped = False
        self.paused: Mapping[TaskId, int] = {}
        """Paused task -> since when, in milliseconds since 1970. Replaced, never changed, so any thread may look."""
        self.inputs: Sequence[TopicPartition] = ()
        """The input partitions of paused tasks. Replaced, as ``paused``."""
        self.end_offsets: Mapping[TopicPartition, int] = {}
        """End offsets of inputs that are not read, as they were looked up last."""
        self.where: Callable[[TaskId], str | None] = lambda _task: None
        """Return the endpoint of the process where a task runs; None: it is not known."""

    # --- what is asked for -----------------------------------------------------------

    def ask(self, target: Target, answer: Future[Tasks], *, paused: bool) -> None:
        """Pause or resume; ``answer`` gets the tasks once that is committed.

        It gets ``ConfigError`` for a subtopology that does not exist, and ``TaskNotLocal`` for a task that is not
        active here, or leaves before the commit, and once nothing will be committed any more.
        """
        if self._stopped:
            answer.set_exception(not_running())
            return
        try:
            tasks = self._targets(target)
        except (ConfigError, TaskNotLocal) as error:
            answer.set_exception(error)
            return
        self._refuse_opposite(tasks, paused=paused)
        self._wishes.update(dict.fromkeys(tasks, paused))
        self._requests.append(_Request(tasks, paused, answer))
        for task in sorted(tasks & self._running.keys()):
            self._change(self._running[task], paused=paused)
        self._answer_committed()

    def _targets(self, target: Target) -> frozenset[TaskId]:
        active = frozenset(task for task, state in self._states().items() if state in ACTIVE)
        if target is None:
            return active
        number = target if isinstance(target, int) else target.subtopology
        if not 0 <= number < self._subtopologies:
            raise ConfigError(
                f"subtopology = {number}: must be from 0 to {self._subtopologies - 1}, as the topology numbers them"
            )
        if isinstance(target, int):
            return frozenset(task for task in active if task.subtopology == target)
        if target not in active:
            raise TaskNotLocal(f"task {target} does not run in this process; active: {self._place(target)}")
        return frozenset({target})

    def _place(self, task: TaskId) -> str:
        return self.where(task) or "unknown"

    def _refuse_opposite(self, tasks: frozenset[TaskId], *, paused: bool) -> None:
        """Answer earlier requests that ask for the opposite: they will not be carried out."""
        opposite = "resumed" if not paused else "paused"
        for request in [each for each in self._requests if each.paused != paused and each.tasks & tasks]:
            names = ", ".join(map(str, sorted(request.tasks & tasks)))
            self._fail(request, f"task {names} was {opposite} by a later request")

    # --- what the loop reports ---------------------------------------------------------

    def begins(self, running: Running) -> None:
        """A task runs from now on: read its inputs, unless it is paused."""
        task = running.task.id
        running.mark_pause(PauseMark.merged(time.pause_mark for time in running.times.values()))
        if running.paused:
            self._report(running)
        else:
            self._read(running)
        if (wish := self._wishes.get(task)) is not None:
            self._change(running, paused=wish)
            self._answer_committed()

    def input_ends(self, task: TaskId) -> None:
        """A task is to leave: its inputs are not read again."""
        self._leaving.add(task)

    def ends(self, task: TaskId) -> None:
        """A task runs no longer. Its wish stays: it may be restored here."""
        self._leaving.discard(task)
        self._uncommitted.discard(task)
        self._in_commit -= {task}
        if self._paused.pop(task, None):
            self._show()

    @property
    def want_commit(self) -> bool:
        """Return whether a commit should begin at once for a mark."""
        return bool(self._uncommitted) and self._clocks.monotonic_ms() >= self._next_commit_ms

    def commit_begins(self) -> None:
        """Everything that was done has been taken, the marks as well."""
        if self._uncommitted:
            self._in_commit = frozenset(self._uncommitted)
            self._next_commit_ms = self._clocks.monotonic_ms() + RETRY_MS

    def commit_ends(self, end: CommitEnd) -> None:
        """The commit is over; the tasks that failed in it have ended. A deferred mark goes with the next commit."""
        committed, self._in_commit = self._in_commit, frozenset()
        if not committed or end is not CommitEnd.DONE:
            return
        self._uncommitted -= committed
        for task in committed:
            self._wishes.pop(task, None)
        self._answer_committed()

    def turn(self) -> None:
        """Give up the wishes of tasks that have left this process."""
        if not self._wishes:
            return
        states = self._states()
        for task in [each for each in self._wishes if states.get(each) not in ACTIVE]:
            del self._wishes[task]
            for request in [each for each in self._requests if task in each.tasks]:
                change = "pause" if request.paused else "end of its pause"
                self._fail(
                    request,
                    f"task {task} has left this process before the {change} was committed; active: {self._place(task)}",
                )

    def stops(self) -> None:
        """Nothing will be committed any more."""
        self._stopped = True
        for request in list(self._requests):
            self._fail(request, "the worker ends, and has not committed this")

    # --- carrying out ------------------------------------------------------------------

    def _change(self, running: Running, *, paused: bool) -> None:
        task = running.task.id
        mark = running.pause_mark.changed(self._clocks.wall_ms(), paused=paused)
        if mark == running.pause_mark:
            if task not in self._uncommitted:
                self._wishes.pop(task, None)
            return
        running.mark_pause(mark)
        running.offsets.defer(running.offsets.done_to())
        self._uncommitted.add(task)
        self._in_commit -= {task}  # a commit on its way has the mark before
        self._next_commit_ms = 0
        if paused:
            partitions = running.offsets.positions.keys()
            for partition in partitions:
                self._task_of.pop(partition, None)
            self._inputs.remove(partitions)
            self._labour.holds(task)
        elif task not in self._leaving:
            self._read(running)
        self._report(running)

    def _read(self, running: Running) -> None:
        positions = self._labour.next_offsets(running)
        self._task_of.update(dict.fromkeys(positions, running.task.id))
        self._inputs.add(positions)

    def _report(self, running: Running) -> None:
        task, since_ms = running.task.id, running.pause_mark.since_ms
        if since_ms is None:
            self._paused.pop(task, None)
            self._log.emit(TaskResumedEvent(task=str(task)))
        else:
            self._paused[task] = running
            self._log.emit(TaskPausedEvent(task=str(task), since_ms=since_ms))
        self._show()

    def _show(self) -> None:
        self.paused = {task: running.pause_mark.paused_ms for task, running in sorted(self._paused.items())}
        self.inputs = [partition for running in self._paused.values() for partition in running.offsets.positions]

    def _answer_committed(self) -> None:
        for request in [each for each in self._requests if not each.tasks & self._wishes.keys()]:
            self._requests.remove(request)
            request.answer.set_result(tuple(sorted(request.tasks)))

    def _fail(self, request: _Request, text: str) -> None:
        self._requests.remove(request)
        request.answer.set_exception(TaskNotLocal(text))


class EndOffsets(Protocol):
    """The brokers' answer. Raises ``BrokerError``."""

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...


class PausedEnds:
    """Look up the ends of paused inputs now and then, as no fetch brings them. Used by one thread."""

    def __init__(self, pauses: Pauses, brokers: EndOffsets, now_ms: Callable[[], int]) -> None:
        self._pauses = pauses
        self._brokers = brokers
        self._now_ms = now_ms
        self._looked_ms: int | None = None

    def turn(self) -> None:
        """Look them up when it is time."""
        inputs, now_ms = self._pauses.inputs, self._now_ms()
        if not inputs:
            self._looked_ms = None
        elif self._looked_ms is None or now_ms - self._looked_ms >= ENDS_EVERY_MS:
            self._looked_ms = now_ms
            with suppress(BrokerError):  # the lag stays as it was
                self._pauses.end_offsets = self._brokers.end_offsets(inputs, ENDS_TIMEOUT_S)


class Loop(Protocol):
    """The loop's front."""

    def pause(self, target: Target, answer: Future[Tasks], *, paused: bool) -> None: ...

    @property
    def is_this_thread(self) -> bool: ...


def change_pauses(loop: Loop | None, which: TaskId | str | int | None, *, paused: bool, timeout_s: float) -> Tasks:
    """Pause or resume, wait for the commit, and return the tasks. On the loop's own thread nothing is waited for.

    Raises ``ConfigError``, ``TaskNotLocal``, and ``BrokerUnavailable`` where the commit takes longer.
    """
    target, answer = target_of(which), Future[Tasks]()
    if loop is None:
        raise not_running()
    loop.pause(target, answer, paused=paused)
    if loop.is_this_thread and not answer.done():
        return ()
    try:
        return answer.result(timeout_s)
    except TimeoutError as late:
        verb = "paused" if paused else "resumed"
        raise BrokerUnavailable(
            f"not committed in {timeout_s:.1f} s: running tasks are {verb} here, and this worker goes on trying to "
            "commit it; tasks that are being restored follow"
        ) from late
