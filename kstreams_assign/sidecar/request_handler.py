"""Carries out an application's requests, as the processing loop's labour and on its thread.

What lives here: orders that wait (a poll for records, a commit for its end), and the events for the session. What each
op does to a task is in ``ops``, the rules of commit and rollback in ``session_tasks``. What must not: sockets, bytes.

The idea: the loop never waits for the application. Records are read only while a poll waits for them, work is committed
only when the application says so, and between a commit's request and its beginning nothing else is carried out, so that
what is sealed stays as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.errors import RecordRefused, SidecarRefused, StateError, TaskNotLocal
from kstreams_assign.events import SessionBeganEvent, SessionEndedEvent
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sidecar.messages import EVENTS, Request, refused
from kstreams_assign.sidecar.ops import LARGE_REPLIES, Limits, Ops
from kstreams_assign.sidecar.outputs import SessionOutputs
from kstreams_assign.sidecar.poll import (
    TIMER_BYTES_MAX,
    TIMERS_MAX,
    Batch,
    DueTimer,
    as_columns,
    as_records,
    as_timers,
    first_bytes,
    room_bytes,
    split,
)
from kstreams_assign.sidecar.query_requests import Port, QueryRequests
from kstreams_assign.sidecar.session import error_reply
from kstreams_assign.sidecar.session_tasks import SessionTasks, Unreadable
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.dead_letters import Failure, failure_of
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.framing import Message
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.labour import Facts, Labour, Loop
from kstreams_assign.worker.refused_outputs import Output
from kstreams_assign.worker.running import Running


class _Order:
    """A request that waits for its answer. ``begins``: how many times a task had begun when it arrived.

    Of a commit, ``tasks`` have something in it, and ``failed`` says why it is not committed for some of them.
    """

    def __init__(self, port: Port, request: Request, begins: int) -> None:
        self.port = port
        self.request = request
        self.begins = begins
        self.tasks: frozenset[TaskId] = frozenset()
        self.failed: str | None = None
        self.deadline_ms = monotonic_ms() + request.fields.get("timeout_ms", 0)

    def answer(self, ok: object) -> None:
        self.port.answer(self.request.id, {"id": self.request.id, "ok": ok})

    def refuse(self, error: SidecarRefused) -> None:
        self.port.answer(self.request.id, error_reply(self.request.id, error))


class RequestHandler(Labour):
    """``open``, ``submit``, ``go_on`` and ``leave``, from any thread, only leave an order for the loop.

    ``when_ready`` is called once there is a loop to leave orders for, ``drain`` when the application wants the worker
    to leave.
    """

    def __init__(self, limits: Limits, bad_records: BadRecords, *, exactly_once: bool = False) -> None:
        self.bad_records = bad_records
        self.when_ready: Callable[[], None] = _nothing
        self.drain: Callable[[], None] = _nothing
        self.restart: Callable[[], None] = _nothing
        self.queries = QueryRequests()
        self._limits = limits
        self._exactly_once = exactly_once
        self._session_tasks = SessionTasks(bad_records.sets_aside)
        self._outputs = SessionOutputs(
            bad_records, limits.record_bytes_max, limits.partition_counts, exactly_once=exactly_once
        )
        self._ops = Ops(self._session_tasks, limits, self._outputs)
        self._port: Port | None = None
        self._orders: deque[_Order] = deque()
        self._polls: deque[_Order] = deque()
        self._backlog: deque[Batch] = deque()
        self._sealed: _Order | None = None
        self._committing: list[_Order] = []
        self._closing: list[_Order] = []
        self._assignment: Message | None = None
        self._stopped = False
        self._loop: Loop
        self._facts: Callable[[], Facts]
        self._later: Mapping[str, Callable[[_Order], None]] = {
            "poll": self._polls.append,
            "commit": self._commit,
            "reject": lambda order: order.answer(self._reject(order.request.fields)),
            "close": self._close,
            "drain": self._drain,
            "restart": self._restart,
            "pause": lambda order: self._change_pauses(order, paused=True),
            "resume": lambda order: self._change_pauses(order, paused=False),
            "paused": lambda order: order.answer({str(task): since for task, since in self._loop.paused.items()}),
            "tasks": lambda order: order.answer(self._tasks()),
            "lag": lambda order: order.answer(_known_lags(self._facts())),
        }

    def connect(self, loop: Loop, facts: Callable[[], Facts]) -> None:
        self._loop, self._facts = loop, facts
        self.bad_records.emit = loop.emit
        self.when_ready()

    # --- the session's side, from any thread --------------------------------------------

    def open(self, port: Port) -> None:
        """A session begins; the one before has left."""
        self._loop.order(lambda: self._open(port))

    def submit(self, port: Port, request: Request) -> None:
        if request.op in QueryRequests.OPS:  # they wait for others, or for the loop itself
            self.queries.submit(port, request)
            return
        order = _Order(port, request, self._session_tasks.begins_total)
        self._loop.order(lambda: self._take(order))

    def go_on(self) -> None:
        """The session's port is full no more; polls are served in the next turn."""
        self._loop.order(self._carry_out)

    def leave(self, port: Port) -> None:
        """A session is over: what it did not commit is dropped, and its input is read again."""
        self._loop.order(lambda: self._roll_back(port))

    # --- called by the loop --------------------------------------------------------------

    def appetite(self) -> int:
        if not self._polls or self._backlog:
            return 0
        wanted = int(self._polls[0].request.fields["max_records"])
        return max(0, min(wanted, self._limits.records_max - self._session_tasks.polled_count))

    def work(self, running: Running, partition: TopicPartition, records: Sequence[Record]) -> int:
        self._backlog.append(Batch(running, partition, records))
        return len(records)

    def turn(self) -> None:
        self._carry_out()
        self._serve_polls()

    def wants_commit(self) -> bool:
        return self._sealed is not None

    def commit_begins(self) -> None:
        if self._sealed is not None:
            self._committing.append(self._sealed)
            self._sealed = None
            self._session_tasks.commit_begins()

    def commit_ends(self, end: CommitEnd) -> None:
        """Offsets that a rebalance deferred go with the next commit, so their answer waits for it."""
        failure = self._outputs.take_failure()
        if end is CommitEnd.DEFERRED:
            return
        committing, self._committing = self._committing, []
        if end is CommitEnd.DONE:
            generation = self._facts().generation
            for order in committing:
                if order.failed is None:
                    order.answer(generation)
                else:
                    order.refuse(refused("commit_failed", order.failed))
        elif failure is not None:
            _refuse_all(committing, failure.code, failure.text)
        else:
            _refuse_all(committing, "commit_failed", f"the commit ended as {end.value}; go on from the last one")
        self._finish_closing()

    def sets_output_aside(self, outputs: Sequence[Output], refused: RecordRefused) -> bool:
        return self._outputs.refuse_output(outputs, refused)

    def refuses_write(self, task: TaskId, store: str, refused: RecordRefused) -> bool:
        return self._outputs.refuse_write(task, store, refused)

    def begins(self, running: Running) -> None:
        self._session_tasks.begins(running)
        self._push("restored", task=str(running.task.id))

    def ends(self, task: TaskId) -> None:
        self._session_tasks.ends(task)
        self.holds(task)

    def next_offsets(self, running: Running) -> Mapping[TopicPartition, int]:
        return self._session_tasks.next_offsets(running)

    def holds(self, task: TaskId) -> None:
        self._backlog = deque(batch for batch in self._backlog if batch.running.task.id != task)

    def failed(self, tasks: Sequence[TaskId], reason: str) -> None:
        """Let the commits fail that hold something of these tasks.

        Exactly once, a commit under way holds all of its tasks or none, and its end says which. At least once, its
        offsets leave out a task whose store could not be written.
        """
        committing = [] if self._exactly_once else self._committing
        for order in [*committing, *([self._sealed] if self._sealed else [])]:
            if not order.tasks.isdisjoint(tasks):
                order.failed = f"{', '.join(map(str, tasks))} went back to the commit before: {reason}"
        self._push("lost", tasks=[*map(str, tasks)], reason=reason)

    def assigned(self, generation: int, adopted: Adopted) -> None:
        before = set(self._assignment["active"]) if self._assignment else set()
        self._session_tasks.restoring = frozenset(adopted.active)
        self._assignment = {
            "generation": generation,
            "active": [*map(str, sorted(adopted.active))],
            "standby": [*map(str, sorted(adopted.standby))],
            "warmup": [*map(str, sorted(adopted.warmup))],
        }
        if revoked := sorted(before - set(self._assignment["active"])):
            self._push("revoked", tasks=revoked)
        self._push("assigned", **self._assignment)

    def dropped(self, reason: str) -> None:
        tasks = self._assignment["active"] if self._assignment else []
        self._assignment, self._session_tasks.restoring = None, frozenset()
        self._backlog.clear()
        failed = [*self._committing, *([self._sealed] if self._sealed else [])]
        self._committing, self._sealed = [], None
        self._ops.forget_sizes()
        self._outputs.take_failure()
        self._push("lost", tasks=tasks, reason=reason)
        _refuse_all(failed, "commit_failed", reason)
        self._finish_closing()

    def stops(self) -> None:
        self._stopped = True
        self.queries.stop()
        if self._port is not None:
            self._report_end()
        waiting = [*self._committing, *([self._sealed] if self._sealed else []), *self._orders, *self._polls]
        self._committing, self._sealed = [], None
        self._orders.clear()
        self._polls.clear()
        _refuse_all(waiting, "closing", "the worker ends")
        self._finish_closing()

    # --- on the loop's thread --------------------------------------------------------------

    def _open(self, port: Port) -> None:
        self._port = port
        self._loop.emit(SessionBeganEvent())
        if self._assignment is not None:
            self._push("assigned", **self._assignment)
        for task in self._session_tasks.running():
            self._push("restored", task=str(task))

    def _push(self, event: str, **facts: object) -> None:
        assert event in EVENTS
        if self._port is not None:
            self._port.push({"event": event, **facts})

    def _take(self, order: _Order) -> None:
        if self._stopped:
            order.refuse(refused("closing", "the worker ends"))
            return
        self._orders.append(order)
        self._carry_out()

    def _carry_out(self) -> None:
        while self._orders and self._sealed is None:
            if self._orders[0].request.op in LARGE_REPLIES and self._orders[0].port.full:
                return
            order = self._orders.popleft()
            try:
                if order.request.op in self._later:
                    self._later[order.request.op](order)
                else:
                    order.answer(self._ops.do(order.request))
            except SidecarRefused as error:
                order.refuse(error)
            except StateError as error:
                self._refuse_unreadable(order, order.request.fields["task"], error)
            except Unreadable as error:
                self._refuse_unreadable(order, error.task, error.cause)

    def _refuse_unreadable(self, order: _Order, task: TaskId, cause: StateError) -> None:
        self._loop.broken(task, cause)
        order.refuse(refused("task_restoring", str(cause)))

    def _tasks(self) -> list[dict[str, Any]]:
        return [{"task": task, **asdict(status)} for task, status in sorted(self._facts().tasks.items())]

    def _commit(self, order: _Order) -> None:
        offsets, timers = order.request.fields["offsets"], order.request.fields["timers"]
        order.tasks = self._session_tasks.seal(offsets, timers=offsets is None if timers is None else timers)
        self._ops.forget_sizes()
        self._sealed = order

    def _reject(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Set a polled record aside, as the subtopology's ``on_error`` says."""
        task, record = fields["task"], Record(**fields["record"])
        session_task = self._session_tasks.to_reject(task, record)
        if not self.bad_records.sets_aside(task):
            text = f"on_error of subtopology {task.subtopology} is 'fail'; set it to 'skip' or 'dead_letter' to reject"
            raise refused("bad_request", text)
        if fields["undo"]:
            session_task.undo()
        failure = Failure(fields["exception"], fields["message"], fields["stacktrace"] or fields["exception"])
        response = self.bad_records.response(task, record, SidecarRefused("rejected", failure.text))
        session_task.reject(record, lambda: self.bad_records.set_aside(task, record, failure, response, failure.kind))
        return {"response": response.value, "undone": fields["undo"]}

    def _change_pauses(self, order: _Order, *, paused: bool) -> None:
        """Answer once it is committed; requests after it may be answered before."""
        task, subtopology = order.request.fields["task"], order.request.fields["subtopology"]
        if task is not None and subtopology is not None:
            raise refused("bad_request", "either task or subtopology, or neither for all tasks")
        answer: Future[tuple[TaskId, ...]] = Future()
        answer.add_done_callback(lambda done: _pass_on(done, order))
        self._loop.pause(subtopology if task is None else task, answer, paused=paused)

    def _drain(self, order: _Order) -> None:
        self.drain()
        order.answer(True)

    def _restart(self, order: _Order) -> None:
        self.restart()
        order.answer(True)

    def _close(self, order: _Order) -> None:
        _refuse_all(list(self._polls), "closing", "the session is ending")
        self._roll_back(order.port)
        self._closing.append(order)
        if not self._committing:
            self._finish_closing()

    def _finish_closing(self) -> None:
        closing, self._closing = self._closing, []
        for order in closing:
            order.answer(True)

    def _roll_back(self, port: Port) -> None:
        """Only for the open session: it may have left twice, by asking and by hanging up."""
        if port is not self._port:
            return
        self._report_end()
        self._orders.clear()
        self._polls.clear()
        read = {batch.partition: 0 for batch in self._backlog}
        self._backlog.clear()
        self._ops.forget_sizes()
        positions = self._session_tasks.roll_back(read)
        if positions:
            self._loop.rewind(positions)

    def _report_end(self) -> None:
        self._port = None
        on_their_way = self._sealed is not None or bool(self._committing)
        self._loop.emit(SessionEndedEvent(uncommitted=on_their_way or self._session_tasks.uncommitted))

    # --- polls -------------------------------------------------------------------------------

    def _serve_polls(self) -> None:
        while self._polls and not self._polls[0].port.full:
            order = self._polls[0]
            try:
                answer = self._serve_poll(order)
            except SidecarRefused as error:
                order.refuse(error)
            else:
                if answer is None:
                    return
                order.answer(answer)
                self._session_tasks.poll_answered(order.begins)
            self._polls.popleft()

    def _serve_poll(self, order: _Order) -> dict[str, Any] | None:
        """Return the answer to a poll; None while it waits. Raises ``SidecarRefused``.

        A poll that was sent before a task returned brings nothing, at once: the session cannot write for the task yet.
        """
        fields = order.request.fields
        if self._session_tasks.returned_since(order.begins):
            return self._make_answer(fields, [], [])
        room = room_bytes(len(self._session_tasks.running()) if fields["max_timers"] else 0)
        room_of_timers = room - self._pass_over_unfit(room)
        timers = self._take_timers(min(fields["max_timers"], TIMERS_MAX, room_of_timers // TIMER_BYTES_MAX))
        uncommitted = self._session_tasks.polled_count
        left = self._limits.records_max - uncommitted
        if timers or (self._backlog and left > 0):
            batches = self._fill(min(fields["max_records"], left), room - len(timers) * TIMER_BYTES_MAX)
            return self._make_answer(fields, batches, timers)
        if left <= 0:
            text = f"{uncommitted} polled records are not committed: commit first (buffered_records_max)"
            raise refused("uncommitted_limit", text)
        return self._make_answer(fields, [], []) if monotonic_ms() >= order.deadline_ms else None

    def _make_answer(
        self, fields: Mapping[str, Any], batches: Sequence[Batch], timers: Sequence[DueTimer]
    ) -> dict[str, Any]:
        answer = (as_columns if fields["columns"] else as_records)(batches)
        if fields["max_timers"]:
            answer |= {"timers": as_timers(timers), "stream_times_ms": self._session_tasks.stream_times_ms()}
        return answer

    def _pass_over_unfit(self, room: int) -> int:
        """Set aside the next records as long as they do not fit an answer; return the bytes of the first that does.

        Raises ``SidecarRefused`` where ``on_error`` is ``fail``; the record stays the next.
        """
        while self._backlog:
            batch = self._backlog[0]
            size = first_bytes(batch)
            if size <= room:
                return size
            self._pass_over(batch, size, room)
            self._backlog.popleft()
            if len(batch.records) > 1:
                self._backlog.appendleft(batch._replace(records=batch.records[1:]))
        return 0

    def _pass_over(self, batch: Batch, size: int, room: int) -> None:
        task, record = batch.running.task.id, batch.records[0]
        text = f"{batch.partition} at offset {record.offset}: has {size:,} bytes; an answer takes at most {room:,}"
        if not self.bad_records.sets_aside(task):
            fix = f"set on_error of subtopology {task.subtopology} to 'skip' or 'dead_letter' to go on behind it"
            raise refused("too_large", f"{text}; {fix}")
        error = refused("too_large", text)
        response = self.bad_records.response(task, record, error)
        self._session_tasks.pass_over(
            batch.running,
            batch.partition,
            record,
            lambda: self.bad_records.set_aside(task, record, failure_of(error), response, error.code),
        )

    def _take_timers(self, timers_max: int) -> list[DueTimer]:
        """Timers that are due, of all tasks; they count as polled records do."""
        due: list[DueTimer] = []
        left = min(timers_max, self._limits.records_max - self._session_tasks.polled_count)
        for task in self._session_tasks.running() if left > 0 else ():
            try:
                due += [DueTimer(task, timer) for timer in self._session_tasks.take_timers(task, left - len(due))]
            except StateError as error:
                self._loop.broken(task, error)
        return due

    def _fill(self, records_max: int, room: int) -> list[Batch]:
        """The next batches for an answer; what does not fit stays. A single record may have ``room`` bytes."""
        chosen: list[Batch] = []
        records_left, bytes_left = records_max, self._limits.polled_bytes_max
        while self._backlog and records_left > 0 and bytes_left > 0:
            fits, rest, size = split(self._backlog.popleft(), records_left, bytes_left)
            if size > (bytes_left if chosen else room):
                self._backlog.appendleft(
                    fits if rest is None else fits._replace(records=[*fits.records, *rest.records])
                )
                break
            if rest is not None:
                self._backlog.appendleft(rest)
            chosen.append(fits)
            records_left, bytes_left = records_left - len(fits.records), bytes_left - size
            self._session_tasks.polled(fits.running, fits.partition, fits.records)
        return chosen


def _known_lags(facts: Facts) -> dict[str, int]:
    """Stopped tasks and newly assigned tasks have no known lag."""
    return {task: status.lag for task, status in facts.tasks.items() if status.lag is not None}


def _nothing() -> None:
    """No callback is set."""


def _refuse_all(orders: Sequence[_Order], code: str, text: str) -> None:
    for order in orders:
        order.refuse(refused(code, text))


def _pass_on(done: Future[tuple[TaskId, ...]], order: _Order) -> None:
    error = done.exception()
    if error is None:
        order.answer([*map(str, done.result())])
    else:
        code = "task_migrated" if isinstance(error, TaskNotLocal) else "bad_request"
        order.refuse(refused(code, str(error)))
