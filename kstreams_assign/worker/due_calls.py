"""Makes the calls of the user's code that no record causes: ``init``, punctuators, and keyed timers that are due.

Each call is sealed when it returns, as a batch of records is. One that raises is undone and passed over where
``on_error`` of the subtopology says so; of a batch of timers only the guilty timer is. What must not live here: when
something is due (``timing``), what ``on_error`` means for records (``bad_records``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.config import Config
from kstreams_assign.errors import StateError
from kstreams_assign.events import EventListener, FunctionFailedEvent
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.batch_size import Amount, BatchSize
from kstreams_assign.tasks.dead_letters import failure_of
from kstreams_assign.tasks.punctuation import Punctuation
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.timers import Timer
from kstreams_assign.topology.flows import TimersClock
from kstreams_assign.worker.bad_records import BadRecords, cause_of
from kstreams_assign.worker.on_error import Response
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task import FireTimers, Init
from kstreams_assign.worker.timing import DueTimers, at_time
from kstreams_assign.worker.user_functions import refuse_unrun


class TimedFunctions(NamedTuple):
    """The functions of a subtopology that no record causes to run."""

    init: Init | None = None
    timers: FireTimers | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to make: ``what`` names it in errors, ``input`` stands for the input record.

    ``at_work`` returns the index of the timer at work. ``alone``: an error is the fault of one timer or punctuator.
    """

    what: str
    work: Callable[[], object]
    input: Record
    at_work: Callable[[], int] = lambda: 0
    alone: bool = True
    is_init: bool = False


class DueCalls:
    """The calls of one process; ``functions`` is by subtopology."""

    def __init__(
        self,
        functions: Sequence[TimedFunctions],
        bad_records: BadRecords,
        config: Config,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._functions = functions
        self._bad_records = bad_records
        self._now_ms = now_ms
        self._batches = [
            BatchSize(config.max_poll_records, config.batch_bytes_max, config.max_poll_interval_ms) for _ in functions
        ]
        self._running: dict[TaskId, Running] = {}
        self.emit: EventListener = _nothing
        self.punctuated_total = 0

    def begins(self, running: Running) -> Callable[[], None] | None:
        """A task runs; return the call of its ``init``, if there is one."""
        self._running[running.task.id] = running
        init = self._functions[running.task.id.subtopology].init
        return None if init is None else lambda: self._init(running, init)

    def ends(self, task: TaskId) -> None:
        """A task gets no more calls."""
        self._running.pop(task, None)

    def due(self) -> list[Running]:
        """Return the tasks that have something due, those first whose turn was longest ago.

        It is asked in every turn, and most tasks have nothing to wait for.
        """
        return [running for running in self._waiting() if running.timing.is_due()]

    def wait_ms(self) -> int | None:
        """Return for how long nothing is due unless records arrive; None: for ever."""
        waits = (running.timing.wait_ms() for running in self._waiting())
        return min((wait_ms for wait_ms in waits if wait_ms is not None), default=None)

    def _waiting(self) -> Iterator[Running]:
        """Yield the tasks that may have something due; a paused task waits until it is resumed (KIP-834)."""
        return (running for running in self._running.values() if running.timing.active and not running.paused)

    def calls(self, running: Running) -> Iterator[Callable[[int], Amount]]:
        """Yield the calls that are due: of each punctuator, and of one batch of timers.

        Each is given how many timers it may take, and returns what it did. Go on when the call was made.
        """
        task = running.task.id
        if self._running.get(task) is not running:
            return  # a call for another task has ended this one
        self._running[task] = self._running.pop(task)  # the others come first next time
        for punctuation, clock, now_ms in running.timing.punctuations():
            yield lambda _, due=(punctuation, clock, now_ms): self._punctuate(running, *due)  # type: ignore[misc]
        yield lambda timers_max: self._fire(running, timers_max)

    def _init(self, running: Running, init: Init) -> None:
        if self._running.get(running.task.id) is running:
            running.workspace.at_work.record = at_time(running.timing.wall_ms())
            call = _Call("init", lambda: init(running.task), running.workspace.at_work.record, is_init=True)
            self._make(running, call, 0)

    def _punctuate(self, running: Running, punctuation: Punctuation, clock: TimersClock, now_ms: int) -> Amount:
        running.workspace.at_work.record = at_time(now_ms)
        if clock == "stream":
            running.timing.look_back(punctuation.since_ms)
        what = f"punctuator every {punctuation.interval_ms} ms of {clock} time"
        call = _Call(what, lambda: punctuation.call(running.task, now_ms), running.workspace.at_work.record)
        done = self._make(running, call, 1)
        self.punctuated_total += 1
        return done

    def _fire(self, running: Running, timers_max: int) -> Amount:
        """Call the function with a batch of timers that are due, and delete them; none if it has to be smaller."""
        subtopology, timing = running.task.id.subtopology, running.timing
        function, batch = self._functions[subtopology].timers, self._batches[subtopology]
        if timers_max or function is None:
            timing.calls_made()  # else a commit comes first, and the timers are still before further records
        timers = timing.take(timing.pieces.next_records(min(timers_max, batch.records)))
        if not timers or function is None:
            return Amount()
        due = DueTimers(timers, running.workspace.at_work, lambda timer: timing.look_back(timing.since_ms(timer)))
        call = _Call(
            f"timers, {len(timers)} due",
            lambda: function(running.task, due),
            _as_record(timers[0]),
            lambda: due.chosen,
            alone=len(due) == 1,
        )
        done = self._make(running, call, len(timers), timers)
        if done.records:
            timing.pieces.pass_over(len(timers))
            batch.learn(done)
        return done

    def _make(self, running: Running, call: _Call, number: int, timers: Sequence[Timer] = ()) -> Amount:
        """Make a call, delete the timers that it was made for, and seal what was written."""
        began_ms, task = self._now_ms(), running.task.id
        if self._bad_records.sets_aside(task):
            running.workspace.save()
        try:
            if not self._run(running, call, timers):
                return Amount()
        except (StateError, KeyboardInterrupt, SystemExit):
            raise  # of a store, whose task is restored, or an end that was asked for
        except BaseException as error:
            self._report(task, call.what, len(timers), error)
            raise
        running.timing.look_ahead()
        if timers:
            running.timing.done(timers)
            running.timers_fired()
        if running.workspace.holds_work():
            running.seal({})
        return Amount(number, running.grown_bytes(), self._now_ms() - began_ms)

    def _run(self, running: Running, call: _Call, timers: Sequence[Timer]) -> bool:
        """Run the user's code; return False if it has to be called with fewer timers.

        Raises its error, or that of ``on_error`` with it as the context.
        """
        try:
            returned = call.work()
            if returned is not None:
                refuse_unrun(call.what, returned)
            self._bad_records.refuse_outputs(running.workspace.emitted_since_savepoint())
        except BaseException as error:
            if not self._goes_on(running, call, len(timers), error):
                raise
            if call.alone and timers:
                running.timing.timer_queue.take_again(timers)
            return call.alone
        return True

    def _goes_on(self, running: Running, call: _Call, number: int, error: BaseException) -> bool:
        """Undo a call that raised: split a batch of timers, or pass over what was alone."""
        task = running.task.id
        if call.is_init or not isinstance(error, Exception) or not self._bad_records.survives(task, error):
            return False
        running.workspace.undo()
        if not call.alone:
            running.timing.timer_queue.forget()
            running.timing.pieces.split(number, call.at_work())
            return True
        response = self._bad_records.response(task, call.input, error)
        if response is Response.FAIL:
            return False
        if call.input.key is None:
            response = Response.SKIP  # a punctuator has no key or value that a dead letter could keep
        rows = self._bad_records.set_aside(task, call.input, failure_of(error), response, cause_of(error), call.what)
        running.workspace.emit_rows(rows)
        return True

    def _report(self, task: TaskId, what: str, number: int, error: BaseException) -> None:
        error.add_note(f"task {task}, {what}")
        reason = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
        self.emit(
            FunctionFailedEvent(task=str(task), partition="", offset=-1, records=number, reason=reason, call=what)
        )


def _as_record(timer: Timer) -> Record:
    """Return a timer as ``on_error`` and a dead letter get it: no topic, its key, and its name as the value."""
    return Record("", -1, -1, timer.at_ms, timer.key, timer.name.encode() or None)


def _nothing(_event: object) -> None:
    """No loop is connected."""
