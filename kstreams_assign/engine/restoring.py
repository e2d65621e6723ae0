"""The restores of one process: who has each task's stores, what a task waits for, and why it stops.

``Restores.handle(event, now_ms)`` takes the processing loop's orders, answers to its own questions, and what
``restore.loop`` reports (``restore_events``). It returns effects (``restore_effects``), which a shell carries out in
order. Each task is one value, ``TaskEntry``. An effect that is answered at once is the last one of its task.

Three rules. Stores belong to the restore thread or to the processing loop, never to both: an order about stores that
are on their way to the loop does nothing, as the loop sees that it wants something else by now, and sends them back. A
task is handed out once its state and the newest look-up of its input positions are there. A task whose state cannot be
worked with stops (``stops``); the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import ClassVar

from kstreams_assign.engine import restore_effects as do
from kstreams_assign.engine import stops
from kstreams_assign.engine.effects import Inputs
from kstreams_assign.engine.restore_effects import Effect
from kstreams_assign.engine.restore_events import (
    Close,
    Discarded,
    DiscardFailed,
    Event,
    Offsets,
    Opened,
    OpenFailed,
    PositionsFailed,
    PositionsFound,
    Repair,
    Restore,
    Restored,
    StoresFailed,
    Tail,
    Woke,
)
from kstreams_assign.engine.stops import Stop
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId, TopologyShape
from kstreams_assign.restore.loop import Missing, Progress, Purpose, StartedOver
from kstreams_assign.restore.progress import TaskProgress

MISSING_RETRY_MS = 1_000

# --- one task -------------------------------------------------------------------------


class Place(Enum):
    """Where a task's stores are."""

    CLOSED = "closed"
    """They are not open, or the task has none."""
    RESTORER = "restorer"
    """The restorer reads changelogs into them."""
    RESTORED = "restored"
    """The task waits for its input positions alone, and the restore thread has its stores if it has any."""
    HANDED_OUT = "handed out"
    """The processing loop has the task and its stores, or they are on their way to it."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """The newest look-up of a task's input positions. ``failing_since_ms``: the task has waited for it alone since."""

    number: int
    answered: bool = False
    failing_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task, from its first order until it is closed.

    ``progress``: as last reported, while the restorer has its stores. ``offsets``: of its stores when they were last in
    the thread's hands. ``active_from``: the sum of its offsets when it became active; ``counted_to``: the sum up to
    which reading is counted.
    """

    wanted: Purpose = Purpose.ACTIVE
    inputs: Inputs = ()
    place: Place = Place.CLOSED
    look_up: LookUp | None = None
    stop: Stop | None = None
    progress: TaskProgress | None = None
    offsets: Offsets = field(default_factory=dict)
    active_from: int = 0
    counted_to: int = 0

    def reached(self, progress: TaskProgress, counted_to: int, active_from: int) -> TaskEntry:
        """Return the entry after a report of the restorer; there are many, and ``replace`` takes five times as long."""
        return TaskEntry(
            self.wanted,
            self.inputs,
            self.place,
            self.look_up,
            self.stop,
            progress,
            self.offsets,
            active_from,
            counted_to,
        )


class Restores:
    """The machine. Times are milliseconds of one clock, from the caller. Any thread may call what only looks."""

    def __init__(self, shape: TopologyShape, application_id: str, first_pause_ms: int = stops.FIRST_PAUSE_MS) -> None:
        self._shape = shape
        self._application_id = application_id
        self._first_pause_ms = first_pause_ms
        self._tasks: dict[TaskId, TaskEntry] = {}
        self._last_look_up = 0

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    # --- looking ---------------------------------------------------------------------

    def entries(self) -> dict[TaskId, TaskEntry]:
        """Return all tasks."""
        return dict(self._tasks)

    def lags(self) -> dict[TaskId, int]:
        """Return the offsets still to read of each task, as last reported; restored tasks have none."""
        known = self.entries().items()
        restored = {task: 0 for task, entry in known if entry.place is Place.RESTORED}
        return restored | {task: entry.progress.remaining for task, entry in known if entry.progress is not None}

    def progress(self) -> dict[TaskId, TaskProgress]:
        """Return the progress of each task that is restored or tailed, as last reported."""
        return {task: entry.progress for task, entry in self.entries().items() if entry.progress is not None}

    def stopped(self) -> dict[TaskId, Stop]:
        """Return the tasks that are known as stopped, also while they are tried."""
        return {t: entry.stop for t, entry in self.entries().items() if entry.stop is not None and entry.stop.reported}

    def unanswered(self) -> dict[TaskId, int]:
        """Return the tasks that wait for nothing but their input positions, and since when."""
        look_ups = {task: entry.look_up for task, entry in self.entries().items() if entry.place is Place.RESTORED}
        return {
            task: look_up.failing_since_ms
            for task, look_up in look_ups.items()
            if look_up is not None and look_up.failing_since_ms is not None
        }

    def awaits(self, task: TaskId, number: int) -> bool:
        """Return whether an answer of this look-up is still asked for."""
        look_up = self._entry(task).look_up
        return look_up is not None and look_up.number == number and not look_up.answered

    def due_ms(self) -> int | None:
        """Return when ``Woke`` has something to do; None: never."""
        known = list(self._tasks.values())
        return min((e.stop.retry_at_ms for e in known if e.stop and e.stop.retry_at_ms is not None), default=None)

    @property
    def running(self) -> bool:
        """Whether the loop works on any task."""
        return any(entry.place is Place.HANDED_OUT for entry in list(self._tasks.values()))

    @property
    def restoring(self) -> bool:
        """Whether an active task is not handed out yet."""
        return any(
            entry.place is Place.RESTORED or (entry.place is Place.RESTORER and entry.wanted is Purpose.ACTIVE)
            for entry in list(self._tasks.values())
        )

    def _entry(self, task: TaskId) -> TaskEntry:
        return self._tasks.get(task) or TaskEntry()

    def _is_stateful(self, task: TaskId) -> bool:
        return self._shape.subtopologies[task.subtopology].stateful

    # --- orders ----------------------------------------------------------------------

    def _restore(self, event: Restore, _now_ms: int) -> list[Effect]:
        return [self._want_active(event.task, event.inputs), *self._place(event.task, event.offsets)]

    def _want_active(self, task: TaskId, inputs: Inputs) -> do.LookUpPositions:
        before = self._entry(task)
        since_ms = None if before.look_up is None else before.look_up.failing_since_ms
        self._last_look_up = number = self._last_look_up + 1
        look_up = LookUp(number, failing_since_ms=since_ms)
        self._tasks[task] = replace(before, wanted=Purpose.ACTIVE, inputs=inputs, look_up=look_up)
        return do.LookUpPositions(task, number, inputs)

    def _tail(self, event: Tail, _now_ms: int) -> list[Effect]:
        before = self._entry(event.task)
        self._tasks[event.task] = replace(before, wanted=Purpose.STANDBY, look_up=None)
        return self._place(event.task, event.offsets)

    def _place(self, task: TaskId, offsets: Offsets | None) -> list[Effect]:
        """Bring a task's stores to where it is wanted. A stopped one is tried later as what it is wanted for then."""
        entry = self._tasks[task]
        if offsets is not None:
            return self._begin(task, offsets)
        match entry.place:
            case Place.RESTORER:
                return [do.Repurpose(task, entry.wanted)]
            case Place.RESTORED if entry.wanted is Purpose.STANDBY:
                return self._begin(task, entry.offsets)
            case Place.CLOSED if not stops.waits(entry.stop):
                return self._open(task)
            case Place.HANDED_OUT if not self._is_stateful(task):
                return self._open(task)  # no stores come back
            case _:
                return []

    def _open(self, task: TaskId) -> list[Effect]:
        if self._is_stateful(task):
            return [do.OpenStores(task)]
        self._tasks[task] = replace(self._tasks[task], place=Place.RESTORED)
        return self._hand_out(task)

    def _begin(self, task: TaskId, offsets: Offsets) -> list[Effect]:
        """Restore or tail a task whose stores are in the thread's hands."""
        wanted = self._tasks[task].wanted
        changelogs = self._shape.changelogs(self._application_id, task)
        store_of = {changelog: store for store, changelog in changelogs.items()}
        assert len(store_of) == len(changelogs), "two stores of one source are refused where they are declared"
        reads = bool(store_of) or wanted is Purpose.STANDBY
        at = sum(offsets.values())
        place = Place.RESTORER if reads else Place.RESTORED
        self._tasks[task] = replace(self._tasks[task], place=place, offsets=offsets, active_from=at, counted_to=at)
        begun: list[Effect] = [do.ReportOffsets(task, offsets)]
        return [*begun, do.ReadChangelogs(task, store_of, wanted)] if reads else begun + self._hand_out(task)

    def _close(self, event: Close, _now_ms: int) -> list[Effect]:
        task, place, stateful = event.task, self._entry(event.task).place, self._is_stateful(event.task)
        if place is Place.HANDED_OUT and stateful and not event.brought:
            return []
        self._tasks.pop(task, None)
        effects: list[Effect] = []
        if place is Place.RESTORER and not event.brought:
            effects.append(do.TakeFromRestorer(task))
        if event.brought or place is Place.RESTORER or (place is Place.RESTORED and stateful):
            effects += [do.ReportDormant(task), do.CloseStores(task)]
        return [*effects, do.ReportClosed(task, event.number)]

    def _repair(self, event: Repair, now_ms: int) -> list[Effect]:
        look_up = self._want_active(event.task, event.inputs)
        return [look_up, *self._fail(event.task, event.error, now_ms, in_hand=event.brought)]

    # --- input positions ----------------------------------------------------------------

    def _positions_found(self, event: PositionsFound, _now_ms: int) -> list[Effect]:
        if not self.awaits(event.task, event.number):
            return []
        self._tasks[event.task] = replace(self._tasks[event.task], look_up=LookUp(event.number, answered=True))
        return self._hand_out(event.task)

    def _positions_failed(self, event: PositionsFailed, now_ms: int) -> list[Effect]:
        """Ask again."""
        task, entry = event.task, self._entry(event.task)
        look_up = entry.look_up
        if look_up is None or not self.awaits(task, event.number):
            return []
        again = do.LookUpPositions(task, event.number, entry.inputs)
        if entry.place is not Place.RESTORED:
            return [again]
        if look_up.failing_since_ms is None:
            self._tasks[task] = replace(self._tasks[task], look_up=replace(look_up, failing_since_ms=now_ms))
        return [do.AnnounceLookUpFailed(task, event.reason), again]

    def _hand_out(self, task: TaskId) -> list[Effect]:
        """Give a task to the loop, if its state and its input positions are there."""
        entry = self._tasks[task]
        if entry.place is not Place.RESTORED or entry.look_up is None or not entry.look_up.answered:
            return []
        effects: list[Effect] = []
        restored, counted_to = 0, entry.counted_to
        if self._is_stateful(task):
            counted_to = sum(entry.offsets.values())
            effects.append(_count(task, Purpose.ACTIVE, entry, counted_to))
            restored = counted_to - entry.active_from
        self._tasks[task] = replace(entry, place=Place.HANDED_OUT, look_up=None, counted_to=counted_to)
        return [*effects, *self._resume(task), do.HandOut(task, restored)]

    # --- what the restorer reports ---------------------------------------------------------

    def _progressed(self, event: Progress, _now_ms: int) -> list[Effect]:
        task, progress = event.task, event.progress
        at = progress.position_sum
        offsets = {name: partition.position for name, partition in progress.partitions.items()}
        entry, tails = self._tasks[task], event.purpose is Purpose.STANDBY
        effects = [do.ReportOffsets(task, offsets), _count(task, event.purpose, entry, at)]
        self._tasks[task] = entry.reached(progress, at, at if tails else entry.active_from)
        return effects + self._resume(task) if tails and progress.done else effects

    def _restored(self, event: Restored, _now_ms: int) -> list[Effect]:
        self._tasks[event.task] = replace(
            self._tasks[event.task], place=Place.RESTORED, progress=None, offsets=event.offsets
        )
        return self._hand_out(event.task)

    def _missed(self, event: Missing, _now_ms: int) -> list[Effect]:
        names = ", ".join(map(str, event.changelogs))
        sources = {changelog.topic for changelog in event.changelogs} & self._shape.source_changelogs
        reason = f"its changelog {names} does not exist; " + (
            f"{', '.join(sorted(sources))} is a source topic: it must have as many partitions as the largest source of "
            "its subtopology"
            if sources
            else "create it again, or wait: the leader creates it at one of the next rebalances"
        )
        self._tasks[event.task] = replace(
            self._tasks[event.task], stop=stops.wait_for_changelog(self._tasks[event.task].stop, reason)
        )
        return [do.AnnounceStopped(event.task, reason, MISSING_RETRY_MS)]

    def _started_over(self, event: StartedOver, _now_ms: int) -> list[Effect]:
        return [do.AnnounceWiped(event.task, event.reason)]

    # --- stores that cannot be worked with ---------------------------------------------------

    def _opened(self, event: Opened, _now_ms: int) -> list[Effect]:
        return self._begin(event.task, event.offsets)

    def _open_failed(self, event: OpenFailed, now_ms: int) -> list[Effect]:
        return self._fail(event.task, event.error, now_ms, in_hand=False)

    def _stores_failed(self, event: StoresFailed, now_ms: int) -> list[Effect]:
        return self._fail(event.task, event.error, now_ms, in_hand=True)

    def _fail(self, task: TaskId, error: StateError, now_ms: int, *, in_hand: bool) -> list[Effect]:
        """Throw a damaged store away; stop a task for any other reason. ``in_hand``: its stores are open."""
        self._tasks[task] = replace(self._tasks[task], place=Place.CLOSED, progress=None)
        effects: list[Effect] = [do.ReportNothing(task)]
        if in_hand:
            effects.append(do.CloseStores(task))
        if isinstance(error, StoreDamaged):
            return [*effects, do.DiscardFolder(task, error)]
        return effects + self._stop(task, error, now_ms)

    def _discarded(self, event: Discarded, now_ms: int) -> list[Effect]:
        """Restore the task at once, once; if that fails, too, stop it for a while."""
        task, reason = event.task, str(event.cause)
        announced: list[Effect] = [do.AnnounceDiscarded(task, reason)]
        if self._tasks[task].stop is not None:
            return announced + self._stop(task, event.cause, now_ms)
        self._tasks[task] = replace(self._tasks[task], stop=Stop(reason))
        return announced + self._open(task)

    def _discard_failed(self, event: DiscardFailed, now_ms: int) -> list[Effect]:
        return self._stop(event.task, event.error, now_ms)

    def _stop(self, task: TaskId, error: StateError, now_ms: int) -> list[Effect]:
        """Try the task again after a pause. It is news once."""
        before, reason = self._tasks[task].stop, str(error)
        stop, pause_ms = stops.pause(before, reason, now_ms, self._first_pause_ms)
        self._tasks[task] = replace(self._tasks[task], stop=stop)
        known = before is not None and before.reported
        return [] if known else [do.AnnounceStopped(task, reason, pause_ms)]

    def _resume(self, task: TaskId) -> list[Effect]:
        """Forget the trouble of a task that works."""
        entry = self._tasks[task]
        if entry.stop is None:
            return []
        self._tasks[task] = replace(entry, stop=None)
        return [do.AnnounceResumed(task)] if entry.stop.reported else []

    def _woke(self, _event: Woke, now_ms: int) -> list[Effect]:
        due = [task for task, entry in self._tasks.items() if stops.is_due(entry.stop, now_ms)]
        for task in due:
            self._tasks[task] = replace(self._tasks[task], stop=stops.try_again(self._tasks[task].stop))
        return [effect for task in due for effect in self._open(task)]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Restore: _restore,
        Tail: _tail,
        Repair: _repair,
        Close: _close,
        Opened: _opened,
        OpenFailed: _open_failed,
        Discarded: _discarded,
        DiscardFailed: _discard_failed,
        PositionsFound: _positions_found,
        PositionsFailed: _positions_failed,
        Progress: _progressed,
        Restored: _restored,
        Missing: _missed,
        StartedOver: _started_over,
        StoresFailed: _stores_failed,
        Woke: _woke,
    }


def _count(task: TaskId, purpose: Purpose, entry: TaskEntry, at: int) -> Effect:
    """Count what was read since the last report; a store that starts over goes back and is counted from there."""
    return do.CountOffsets(task, purpose, max(0, at - entry.counted_to))
