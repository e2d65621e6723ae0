"""When recurring calls are due: the punctuators of one task on one clock. Pure: times come from the caller.

Kafka: ``PunctuationQueue`` and ``PunctuationSchedule``. A call that is due is made once, however many intervals have
passed, and is next due at the first later multiple of its interval. What a call of the user's code schedules and
cancels can be undone with what it wrote. What must not live here: clocks, what is called.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Punctuation:
    """A recurring call, as ``Task.every`` returns it (Kafka: ``Cancellable``)."""

    __slots__ = ("_call", "_cancelled", "_due_ms", "_interval_ms", "_on_cancel", "_scheduled_ms")

    def __init__(
        self,
        due_ms: int,
        interval_ms: int,
        call: Callable[..., None],
        on_cancel: Callable[[Punctuation], None],
        scheduled_ms: int = 0,
    ) -> None:
        self._due_ms = due_ms
        self._scheduled_ms = scheduled_ms
        self._interval_ms = interval_ms
        self._call = call
        self._cancelled = False
        self._on_cancel = on_cancel

    def cancel(self) -> None:
        """Make no further call, also from within the call; nothing happens the second time."""
        if not self._cancelled:
            self._cancelled = True
            self._on_cancel(self)

    def undo_cancel(self) -> None:
        """Go on: the call that cancelled it has failed, and what it did is undone."""
        self._cancelled = False

    @property
    def interval_ms(self) -> int:
        """Return the time between two calls, in milliseconds."""
        return self._interval_ms

    @property
    def call(self) -> Callable[..., None]:
        """Return what is called."""
        return self._call

    @property
    def cancelled(self) -> bool:
        """Whether no further call is made."""
        return self._cancelled

    @property
    def due_ms(self) -> int:
        """Return when it is due next, in milliseconds of its clock."""
        return self._due_ms

    @property
    def since_ms(self) -> int:
        """Return since when it is due: not before it was scheduled."""
        return max(self._due_ms, self._scheduled_ms)

    def pass_over(self, now_ms: int) -> None:
        """Be due at the first multiple of the interval after ``now_ms``; missed ones are not made up for."""
        missed = max(0, now_ms - self._due_ms) // self._interval_ms
        self._due_ms += (missed + 1) * self._interval_ms


class PunctuationQueue:
    """The punctuations of a task on one clock; those that are due together come in the order of their schedules."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Punctuation]] = []
        self._numbers = count()
        self._saved = False
        self._scheduled: list[Punctuation] = []
        self._cancelled: list[Punctuation] = []
        """What was scheduled, and what was cancelled, since the savepoint."""

    def schedule(self, due_ms: int, interval_ms: int, call: Callable[..., None], now_ms: int = 0) -> Punctuation:
        """Add a call that is first due at ``due_ms``, at ``now_ms`` if that is past."""
        punctuation = Punctuation(due_ms, interval_ms, call, self._note_cancelled, now_ms)
        if self._saved:
            self._scheduled.append(punctuation)
        self._push(punctuation)
        return punctuation

    def _note_cancelled(self, punctuation: Punctuation) -> None:
        if self._saved:
            self._cancelled.append(punctuation)

    def save(self) -> None:
        """Set a savepoint, in place of an earlier one."""
        self._saved = True
        if self._scheduled or self._cancelled:
            self._scheduled, self._cancelled = [], []

    def undo(self) -> None:
        """End the savepoint; what was cancelled since then goes on, and what was scheduled is cancelled.

        Nothing may have been taken since the savepoint but the call at work.
        """
        scheduled, cancelled = self._scheduled, self._cancelled
        self._saved, self._scheduled, self._cancelled = False, [], []
        for punctuation in cancelled:
            punctuation.undo_cancel()
        for punctuation in scheduled:
            punctuation.cancel()

    def due_ms(self) -> int | None:
        """Return when the next call is due; None if none is scheduled."""
        while self._queue and self._queue[0][-1].cancelled:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self, now_ms: int) -> Punctuation | None:
        """Remove the next call that is due and return it: make it, then ``put_back``. None if none is due."""
        due_ms = self.due_ms()
        return None if due_ms is None or due_ms > now_ms else heappop(self._queue)[-1]

    def put_back(self, punctuation: Punctuation, now_ms: int) -> None:
        """Schedule a call that was made at ``now_ms`` for its next time, unless it was cancelled."""
        if not punctuation.cancelled:
            punctuation.pass_over(now_ms)
            self._push(punctuation)

    def _push(self, punctuation: Punctuation) -> None:
        heappush(self._queue, (punctuation.due_ms, next(self._numbers), punctuation))
