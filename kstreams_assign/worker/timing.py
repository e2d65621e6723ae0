"""What a task has to do at times: its punctuators, and its keyed timers as the user's code sees them.

A keyed timer by stream time comes before the record that passes it: the batch ends there, by the timers that were
set before it (``records_before``) and by those that it sets (``batch.TimedBatch``). The record may move the clock far
beyond the time of a call. So the call reads a store whose entries expire by stream time as of the time since when it is
due (``look_back``).

What must not live here: who makes the calls that are due (``due_calls``, ``sidecar``), how timers are kept
(``tasks.timers``), what is deleted when (``expiring``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.buffer import WriteBuffer
from kstreams_assign.tasks.pieces import Pieces
from kstreams_assign.tasks.punctuation import Punctuation, PunctuationQueue
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.timers import NAME_BYTES_MAX, TIME_MAX, TakenTimers, Timer, TimerQueue
from kstreams_assign.tasks.times import StreamTime
from kstreams_assign.topology.flows import CLOCKS, KeyedTimers, TimersClock
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.given import MILLISECONDS, Place
from kstreams_assign.worker.views import KeyValueStore

RECORDS_MAX = 1 << 30
"""More than a batch has."""


class TimerEntries(KeyValueStore):
    """The store of the timers, for ``TimerQueue``."""

    __slots__ = ()

    def delete_last(self, key: bytes) -> None:
        """Delete a key; at least once the changelog gets the tombstone after all that is committed with it."""
        self._writes.delete_last(key, self._at_work.record.timestamp_ms)


class Timers:
    """Set and cancel the keyed timers of a task (``task.timers``); the subtopology declares them with ``timers``.

    A timer is kept in a store with a changelog, so it survives crashes and moves with its task. It is deleted in the
    commit that has the effects of its call. A key has one timer of each ``name``; names have at most 255 bytes.
    """

    __slots__ = ("_place", "_queue", "_stream")

    def __init__(self, queue: TimerQueue, place: Place, stream: StreamTime | None) -> None:
        self._queue = queue
        self._place = place
        self._stream = stream

    def set(self, key: bytes, at_ms: int, name: str = "") -> None:
        """Set a timer, in place of an earlier one of the key and name.

        It is due when its clock reaches ``at_ms`` (milliseconds since 1970); at once if that is past. By stream time,
        the batch of records ends before the record with that time, if the function reads one after the other. Raises
        ``TypeError`` and ``ValueError`` for another key, time or name.
        """
        self._check(key, name)
        timer, stream = Timer(key, self._place.number("at_ms", at_ms, MILLISECONDS), name), self._stream
        if stream is None:
            self._queue.set(timer)
        else:
            self._queue.set(timer, stream.now_ms)
            stream.set_timer(at_ms)

    def cancel(self, key: bytes, name: str = "") -> bool:
        """Delete a timer; return whether there was one that had not fired yet."""
        self._check(key, name)
        return self._queue.cancel(key, name)

    def get(self, key: bytes, name: str = "") -> int | None:
        """Return for when a timer is set, in milliseconds since 1970; None if there is none."""
        self._check(key, name)
        return self._queue.get(key, name)

    def _check(self, key: bytes, name: str) -> None:
        if type(key) is not bytes:
            self._place.check("key", (key,))
        if name != "" and len(self._place.text("name", name).encode()) > NAME_BYTES_MAX:
            self._place.refuse_value("name", name, f"at most {NAME_BYTES_MAX} bytes in UTF-8")


class DueTimers(Sequence[Timer]):
    """Hold timers that are due, in the order of their times; a slice is a plain list.

    The timer that was read last is at work, ``chosen`` is its index: what is written or emitted has its time.
    ``look_back`` is called with it, for what is read. The first one is at work from the beginning.

    An iteration fires one timer after the other, and passes over those that were withdrawn before. Who reads by an
    index or a slice chooses by itself: then all have fired.
    """

    __slots__ = ("_at_work", "_look_back", "_timers", "chosen")

    def __init__(self, timers: TakenTimers, at_work: AtWork, look_back: Callable[[Timer], None]) -> None:
        self._timers = timers
        self._timers.fired = 0
        self._at_work = at_work
        self._look_back = look_back
        self._choose(0, timers[0])

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[Timer]:
        withdrawn = self._timers.withdrawn
        for index, timer in enumerate(self._timers):
            if withdrawn and timer in withdrawn:
                continue
            self._choose(index, timer)
            yield timer

    @overload
    def __getitem__(self, index: int) -> Timer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Timer]: ...
    def __getitem__(self, index: int | slice) -> Timer | Sequence[Timer]:
        timers = self._timers
        timers.fired = len(timers)
        if isinstance(index, slice):
            return timers[index]
        self._choose(index % len(timers), timers[index])
        return timers[index]

    def _choose(self, index: int, timer: Timer) -> None:
        self.chosen = index
        if index >= self._timers.fired:
            self._timers.fired = index + 1
        self._at_work.record = at_time(timer.at_ms)
        self._look_back(timer)

    def __repr__(self) -> str:
        return f"DueTimers({self._timers!r})"


def at_time(time_ms: int) -> Record:
    """Return what is at work while no record is: what is written or emitted has this time and no headers."""
    return Record("", -1, -1, time_ms, None, None)


class Timing:
    """The clocks, punctuators and timers of one running task. ``active``: something may ever be due.

    ``by_stream``: it has keyed timers by stream time. ``stream``: the task's stream time, also that by which entries
    expire.
    """

    def __init__(
        self,
        task: TaskId,
        declared: KeyedTimers | None,
        stores: TaskStores | None,
        buffer: WriteBuffer,
        at_work: AtWork,
        stream: StreamTime,
        wall_ms: Callable[[], int],
    ) -> None:
        self._task = task
        self.stream = stream
        self.by_stream = declared is not None and declared.clock == "stream"
        self.wall_ms = wall_ms
        self.active = declared is not None
        self.declared = declared
        self.records_max = RECORDS_MAX
        """So many records come at once at most; it is smaller after a batch that ended before a timer."""
        self.ahead_in: TopicPartition | None = None
        """The input of the record of ``stream.ahead_ms``."""
        self.pieces = Pieces()
        """The sizes of the next batches of timers, after one in which the function raised."""
        self._punctuations: Mapping[TimersClock, PunctuationQueue] = {
            "stream": PunctuationQueue(),
            "wall": PunctuationQueue(),
        }
        self._queue: TimerQueue | None = None
        self._rang = False
        """What was due by the wall clock was called since the last records."""
        self._fired = 0
        self._timers: Timers | None = None
        if declared is not None and stores is not None:
            place = Place(task, "timers", at_work)
            self._queue = TimerQueue(TimerEntries(declared.store, stores, buffer, at_work, task))
            self._timers = Timers(self._queue, place, stream if self.by_stream else None)

    @property
    def timers(self) -> Timers:
        """Return the keyed timers. Raises ``ConfigError`` for a subtopology that declares none."""
        if self._timers is None:
            raise ConfigError(
                f"timers: subtopology {self._task.subtopology} declares none; write Subtopology(..., timers=function)"
            )
        return self._timers

    @property
    def timer_queue(self) -> TimerQueue:
        """Return what keeps the timers, for a subtopology that declares them."""
        assert self._queue is not None, "no timers are declared"
        return self._queue

    def every(self, interval_ms: int, call: Callable[..., None], clock: TimersClock) -> Punctuation:
        """Schedule a punctuator: by stream time as soon as there is any, by the wall clock after an interval."""
        if isinstance(interval_ms, bool) or not isinstance(interval_ms, int) or interval_ms < 1:
            raise ConfigError(f"every: interval_ms = {interval_ms!r}: must be a whole number >= 1, milliseconds")
        queue = self._punctuations.get(clock)
        if queue is None:
            raise ConfigError(f"every: clock = {clock!r}: must be {CLOCKS}")
        self.active = True
        if clock == "stream":
            return queue.schedule(0, interval_ms, call, self.stream.now_ms)
        return queue.schedule(self.wall_ms() + interval_ms, interval_ms, call)

    def save(self) -> None:
        """Set a savepoint for what ``every`` schedules and what is cancelled, in place of an earlier one."""
        for queue in self._punctuations.values():
            queue.save()

    def undo(self) -> None:
        """End the savepoint; undo what was scheduled and cancelled since then."""
        for queue in self._punctuations.values():
            queue.undo()
        if self._queue is not None:
            self._queue.undo()

    # --- as of when a call reads -------------------------------------------------------

    def since_ms(self, timer: Timer) -> int:
        """Return since which stream time a timer that was taken is due; ``TIME_MAX`` for one by the wall clock."""
        return self.timer_queue.since_ms(timer) if self.by_stream else TIME_MAX

    def look_back(self, since_ms: int) -> None:
        """Read as of this stream time, for a call that is due since then; until ``look_ahead``."""
        self.stream.look_back(since_ms)

    def look_ahead(self) -> None:
        """Read as of the stream time again."""
        self.stream.begin_batch()

    def first_stream_ms(self) -> int | None:
        """Return a time before which no call by stream time is left to make."""
        due_ms = self._punctuations["stream"].due_ms()
        timers_ms = self._queue.first_ms() if self._queue is not None and self.by_stream else None
        return min((at_ms for at_ms in (due_ms, timers_ms) if at_ms is not None), default=None)

    # --- what is due -------------------------------------------------------------------

    def stream_ms(self) -> int | None:
        """Return the stream time; None before the first record."""
        return None if self.stream.done_ms < 0 else self.stream.done_ms

    def call_ms(self) -> int | None:
        """Return the stream time in a call that no record causes; None before any record.

        In a timer's it is that of the record that comes next, so one that sets itself again passes over a gap.
        """
        return None if self.stream.reached_ms < 0 else self.stream.reached_ms

    def _now_ms(self, clock: TimersClock) -> int:
        """Return the time by which punctuators are due; the stream's is -1 before the first record."""
        return self.wall_ms() if clock == "wall" else self.stream.done_ms

    def _timers_now_ms(self, clock: TimersClock) -> int:
        """Return the time by which timers are due: the stream's also counts the record that comes behind them."""
        return self.wall_ms() if clock == "wall" else self.stream.reached_ms

    def is_due(self) -> bool:
        """Return whether a punctuator or a timer is due, or may be (it may have been cancelled)."""
        return self._is_due("wall") or self._is_due("stream")

    def comes_first(self) -> bool:
        """Return whether something that is due comes before further records.

        By the wall clock once only: a call that takes longer than its interval is always due.
        """
        return self._is_due("stream") or (not self._rang and self._is_due("wall"))

    def calls_made(self) -> None:
        """Note that what was due has had its calls: each punctuator, and a batch of timers."""
        self._rang = True

    def records_come(self) -> None:
        """Note that the task gets records."""
        self._rang = False

    def records_before(self, records: Sequence[Record], done: int, most: int) -> int:
        """Return how many of the records behind the first ``done`` come before a timer by stream time, at most so many.

        If that is none, the timers that the next record passes are due.
        """
        most = min(most, self.records_max)
        due_ms = self._timers_due_ms("stream")
        if due_ms is None:
            return most
        for index in range(done, done + most):
            if records[index].timestamp_ms >= due_ms:
                if index == done:
                    self._come(records[index])
                return index - done
        return most

    def _come(self, record: Record) -> None:
        if record.timestamp_ms > self.stream.ahead_ms:
            self.stream.ahead_ms = record.timestamp_ms
            self.ahead_in = TopicPartition(record.topic, record.partition)

    def learn(self, records: int, given: int) -> None:
        """Make the next batches smaller after one that ended early: a function may have decoded all of it."""
        self.records_max = 2 * given if given < records else min(2 * self.records_max, RECORDS_MAX)

    def _is_due(self, clock: TimersClock) -> bool:
        due_ms, timers_ms = self._punctuations[clock].due_ms(), self._timers_due_ms(clock)
        return (due_ms is not None and due_ms <= self._now_ms(clock)) or (
            timers_ms is not None and timers_ms <= self._timers_now_ms(clock)
        )

    def wait_ms(self) -> int | None:
        """Return for how long nothing is due unless records arrive; None: for ever."""
        if self._is_due("stream"):
            return 0
        due_ms = (self._punctuations["wall"].due_ms(), self._timers_due_ms("wall"))
        wait_ms = min((at_ms for at_ms in due_ms if at_ms is not None), default=None)
        return None if wait_ms is None else max(0, wait_ms - self.wall_ms())

    def _timers_due_ms(self, clock: TimersClock) -> int | None:
        if self._queue is None or self.declared is None or self.declared.clock != clock:
            return None
        return self._queue.due_ms()

    def punctuations(self) -> Iterator[tuple[Punctuation, TimersClock, int]]:
        """Yield the punctuators that are due, with the clock and its time; go on when the call was made."""
        for clock, queue in self._punctuations.items():
            now_ms = self._now_ms(clock)
            while now_ms >= 0 and (punctuation := queue.take(now_ms)) is not None:
                yield punctuation, clock, now_ms
                queue.put_back(punctuation, now_ms)

    def done(self, timers: Sequence[Timer]) -> None:
        """Delete timers whose call has succeeded."""
        self._fired += self.timer_queue.done(timers)

    def take_fired(self) -> int:
        """Return how many timers were done since this was asked last: a commit has their effects."""
        fired, self._fired = self._fired, 0
        return fired

    def take(self, timers_max: int) -> TakenTimers:
        """Take the next timers that are due, at most so many."""
        if self._queue is None or self.declared is None or timers_max < 1:
            return TakenTimers()
        now_ms = self._timers_now_ms(self.declared.clock)
        return TakenTimers() if now_ms < 0 else self._queue.take(now_ms, timers_max)
