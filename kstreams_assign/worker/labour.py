"""Who works on the records of the running tasks, as the processing loop sees it.

What lives here: ``Labour`` (what the loop asks and tells), and ``Functions``, the labour of a program that brings its
own code. The other labour is an application behind a socket (``sidecar.request_handler``). What must not: commits,
input, the group. Everything here runs on the loop's thread.

The idea: work that is *sealed* may be committed. Functions seal each batch when they return; an application seals by a
request, and loses what it has not sealed when its session ends. A batch in which a function raised may be undone and
worked on in smaller pieces, until the guilty records are alone and set aside (``tasks.pieces``, ``bad_records``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.config import Config
from kstreams_assign.errors import RecordRefused, StateError
from kstreams_assign.events import BatchLimitedEvent, Event, FunctionFailedEvent, TaskStatus
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.batch_size import Amount, BatchSize, CommitSize
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.dead_letters import failure_of
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.record import Headers, Record
from kstreams_assign.worker.bad_records import BadRecords, cause_of
from kstreams_assign.worker.batch import Batch
from kstreams_assign.worker.due_calls import DueCalls, TimedFunctions
from kstreams_assign.worker.on_error import OnError, Response
from kstreams_assign.worker.refused_outputs import Output
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task import Process
from kstreams_assign.worker.user_functions import refuse_unrun

KeptHeaders = Sequence[tuple[Headers, Sequence[tuple[str, bytes | None]]]]
"""Headers of records as the function gets them, and as they were before the call: it may change a list."""
REPORT_INTERVAL_MS = 10_000
TURN_MS = 50
"""How long the user's code may work before everything else gets its turn."""


def error_text(error: BaseException) -> str:
    """Return type and message of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())


def reported_lag(state: TaskState, lag: int | None) -> int | None:
    """Return the lag to report. A replica that was just assigned has an unknown lag: it is not yet caught up."""
    return 0 if lag is None and state is TaskState.RUNNING else lag


class Facts(NamedTuple):
    """The state of this member. ``tasks``: task id -> its state; a lag may be unknown."""

    generation: int | None
    tasks: Mapping[str, TaskStatus]


class Loop(Protocol):
    """What labour may ask of the loop."""

    def order(self, work: Callable[[], None]) -> None:
        """Have something done on the loop's thread; from any thread."""
        ...

    def emit(self, event: Event) -> None:
        """Report an event; from any thread."""
        ...

    def rewind(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions again, from there."""
        ...

    @property
    def paused(self) -> Mapping[TaskId, int]:
        """The paused tasks, and since when, in milliseconds since 1970."""
        ...

    def pause(self, target: TaskId | int | None, answer: Future[tuple[TaskId, ...]], *, paused: bool) -> None:
        """Pause or resume a task, a subtopology, or everything (``pauses``); from any thread."""
        ...

    def broken(self, task: TaskId, error: StateError) -> None:
        """The store of a running task could not be read outside ``work``, which just lets that error through."""
        ...

    def call(self, running: Running, work: Callable[[], None]) -> None:
        """Have the user's code run for a task, outside ``work`` and on the loop's thread."""
        ...


class Labour:
    """What the loop asks of the code that works, and reports to it. Reports may be ignored, as they are here."""

    bad_records: BadRecords

    def connect(self, loop: Loop, facts: Callable[[], Facts]) -> None:
        """Get to know the loop, before it runs. ``facts`` may be asked from any thread."""

    def appetite(self) -> int:
        """How many records they would take now."""
        raise NotImplementedError

    def portion(self, running: Running, records: Sequence[Record], done: int) -> int:  # noqa: ARG002  # see Functions
        """How many records of a task to work on at once, behind the first ``done``; 0: something has to come first."""
        return len(records) - done

    def work(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> int:
        """The next records of a partition, oldest first, at least one; return how many are done.

        None is done where they have to be worked on in smaller pieces: ``portion`` says how many come first.
        """
        raise NotImplementedError

    def call_due(self, only: Running | None = None) -> None:
        """Make the calls that are due without a record, of all tasks or of one, as far as they may be made now.

        The rest is due next time.
        """

    def wait_ms(self) -> int | None:
        """For how long at most the loop may wait until it asks ``call_due`` again; None: as long as it likes."""
        return None

    def wants_commit(self) -> bool:
        """Whether something sealed should be committed before the interval is over."""
        return False

    def sets_output_aside(self, outputs: Sequence[Output], refused: RecordRefused) -> bool:  # noqa: ARG002  # see Functions
        """Whether a refused output is set aside, or its input is, when its task processes its input again.

        ``outputs`` may be what is refused.
        """
        return False

    def refuses_write(self, task: TaskId, store: str, refused: RecordRefused) -> bool:  # noqa: ARG002  # see the sidecar
        """Whether a value that is too large for its changelog is not written again; otherwise the worker ends."""
        return False

    @property
    def punctuated_total(self) -> int:
        """How often punctuators were called; from any thread."""
        return 0

    def turn(self) -> None:
        """The loop has been round once."""

    def begins(self, running: Running) -> None:
        """A task runs."""

    def ends(self, task: TaskId) -> None:
        """A task gets no more records; what is sealed of it may still be committed. May be called more than once."""

    def holds(self, task: TaskId) -> None:
        """A task is paused: forget its records that wait here and that no session has seen."""

    def next_offsets(self, running: Running) -> Mapping[TopicPartition, int]:
        """Where to read on when the pause of a task ends: behind the records that were seen."""
        return running.offsets.done_to()

    def commit_begins(self) -> None:
        """Everything sealed has been taken."""

    def commit_ends(self, end: CommitEnd) -> None:
        """The commit that began last is over."""

    def failed(self, tasks: Sequence[TaskId], reason: str) -> None:
        """The last commit of these did not succeed. ``ends`` was called; they start again from the commit before."""

    def assigned(self, generation: int, adopted: Adopted) -> None:
        """The member has adopted an assignment; ``ends`` was called for the tasks that leave."""

    def dropped(self, reason: str) -> None:
        """All tasks are gone without a commit: the group went on without this member."""

    def stops(self) -> None:
        """The worker ends; nothing will be committed any more."""


class Functions(Labour):
    """The user's functions, by subtopology: called with every batch, and done with it when they return."""

    def __init__(
        self,
        functions: Sequence[Process],
        config: Config,
        on_error: Sequence[OnError] | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        timed: Sequence[TimedFunctions] | None = None,
    ) -> None:
        self._now_ms = now_ms
        self._functions = functions
        self.bad_records = BadRecords(on_error or ["fail"] * len(functions), config, now_ms)
        self._due_calls = DueCalls(timed or [TimedFunctions()] * len(functions), self.bad_records, config, now_ms)
        self._poll_records_max = config.max_poll_records
        self._batches = [
            BatchSize(config.max_poll_records, config.batch_bytes_max, config.max_poll_interval_ms) for _ in functions
        ]
        self._commit = CommitSize(config.buffered_records_max, config.memory.output_buffer_max_bytes)
        self._waiting, self._in_commit = Amount(), Amount()
        self._reported_ms: int | None = None

    def connect(self, loop: Loop, facts: Callable[[], Facts]) -> None:  # noqa: ARG002  # the facts are for sessions
        self._loop = loop
        self.bad_records.emit = self._due_calls.emit = loop.emit

    def appetite(self) -> int:
        return min(self._poll_records_max, self._left)

    def portion(self, running: Running, records: Sequence[Record], done: int) -> int:
        timing = running.timing
        if timing.active and timing.comes_first():
            return 0
        wanted = running.pieces.next_records(len(records) - done)
        most = min(wanted, self._batches[running.task.id.subtopology].records, self._left)
        return timing.records_before(records, done, most) if timing.active else most

    @property
    def _left(self) -> int:
        return self._commit.left(self._waiting + self._in_commit)

    def wants_commit(self) -> bool:
        """As soon as nothing more can be worked on before it."""
        return self._waiting.records > 0 and self._left == 0

    def work(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> int:
        began_ms, timing = self._now_ms(), running.timing
        timing.records_come()
        headers: KeptHeaders = ()
        if self.bad_records.sets_aside(running.task.id):
            running.workspace.save()
            headers = [(each.headers, tuple(each.headers)) for each in records if each.headers is not None]
        batch = running.workspace.batch(records)
        try:
            if not self._process(running, records, batch, headers):
                return 0
        except (StateError, KeyboardInterrupt, SystemExit):
            raise  # of a store, whose task is restored, or an end that was asked for
        except BaseException as error:
            self._report_error(running, partition, records, error)
            raise
        if timing.by_stream:
            timing.learn(len(records), len(batch.given))
        records = batch.given
        running.pieces.pass_over(len(records))
        running.saw(partition, records)
        running.seal({partition: records[-1].offset + 1})
        done = Amount(len(records), running.grown_bytes(), self._now_ms() - began_ms)
        self._waiting += done
        size = self._batches[running.task.id.subtopology]
        self._report(size.learn(done), size.records)
        return len(records)

    def begins(self, running: Running) -> None:
        init = self._due_calls.begins(running)
        if init is not None:  # as an order, before the first records are read
            self._loop.order(lambda: self._loop.call(running, init))

    def ends(self, task: TaskId) -> None:
        self._due_calls.ends(task)

    def call_due(self, only: Running | None = None) -> None:
        ends_ms = self._now_ms() + TURN_MS
        for running in self._due_calls.due() if only is None else [only]:
            for make in self._due_calls.calls(running):
                self._loop.call(running, lambda make=make: self._make(make))  # type: ignore[misc]
            if self._now_ms() >= ends_ms:
                return

    def _make(self, make: Callable[[int], Amount]) -> None:
        self._waiting += make(self._left)

    def wait_ms(self) -> int | None:
        return self._due_calls.wait_ms() if self._left else None

    @property
    def punctuated_total(self) -> int:
        return self._due_calls.punctuated_total

    def _process(self, running: Running, records: Sequence[Record], batch: Batch, headers: KeptHeaders) -> bool:
        """Call the function with ``records`` as a batch; return False if they have to come in smaller pieces.

        Raises the error of the function, or that of ``on_error`` with it as the context.
        """
        subtopology = running.task.id.subtopology
        try:
            returned: object = self._functions[subtopology](running.task, batch)
            if returned is not None:
                refuse_unrun(f"process of subtopology {subtopology}", returned)
            self.bad_records.refuse_outputs(running.workspace.emitted_since_savepoint())
        except BaseException as error:
            if not self._goes_on(running, records, headers, error):
                raise
            return len(records) == 1
        return True

    def _goes_on(self, running: Running, records: Sequence[Record], headers: KeptHeaders, error: BaseException) -> bool:
        """Undo a batch in which the function raised, and split it; set a record aside that is alone."""
        task = running.task.id
        if not isinstance(error, Exception) or not self.bad_records.survives(task, error):
            return False
        at_work = running.workspace.at_work.record
        running.workspace.undo()
        for changed, before in headers:
            changed[:] = before
        if len(records) > 1:
            index = next((index for index, record in enumerate(records) if record is at_work), 0)
            running.pieces.split(len(records), index)
            return True
        response = self.bad_records.response(task, records[0], error)
        if response is Response.FAIL:
            return False
        rows = self.bad_records.set_aside(task, records[0], failure_of(error), response, cause_of(error))
        running.workspace.emit_rows(rows)
        return True

    def sets_output_aside(self, outputs: Sequence[Output], refused: RecordRefused) -> bool:
        return self.bad_records.remember_refusal(outputs, refused)

    def commit_begins(self) -> None:
        self._in_commit, self._waiting = self._waiting, Amount()

    def commit_ends(self, end: CommitEnd) -> None:
        tried, self._in_commit = self._in_commit, Amount()
        if end is CommitEnd.DONE:
            self._commit.grow(tried)
        elif end is CommitEnd.FAILED and tried.records:
            self._commit.shrink(tried)
            limit = f"a commit of {tried.records} records that wrote {tried.written_bytes:,} bytes failed"
            self._report(limit, self._commit.records)

    def dropped(self, reason: str) -> None:  # noqa: ARG002  # tells more than is needed here
        self._waiting = self._in_commit = Amount()

    def _report_error(
        self, running: Running, partition: TopicPartition, records: Sequence[Record], error: BaseException
    ) -> None:
        """Report an error of the user's function or ``on_error``; add the task and the record at work as a note."""
        task, offset = str(running.task.id), running.workspace.at_work.record.offset
        count = f"{len(records)} record{'' if len(records) == 1 else 's'}"
        error.add_note(f"task {task}, {partition} at offset {offset} (batch of {count})")
        self._loop.emit(
            FunctionFailedEvent(
                task=task,
                partition=str(partition),
                offset=offset,
                records=len(records),
                reason=error_text(error),
            )
        )

    def _report(self, limit: str | None, records: int) -> None:
        """Say which limit was met, now and then: a function of changing speed meets one often."""
        now_ms = self._now_ms()
        if limit is not None and (self._reported_ms is None or now_ms - self._reported_ms >= REPORT_INTERVAL_MS):
            self._reported_ms = now_ms
            self._loop.emit(BatchLimitedEvent(limit=limit, records=records))
