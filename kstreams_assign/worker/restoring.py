"""The restore thread: opens, restores, tails and closes stores, so that the processing loop never waits for a disk.

It carries out what ``engine.restoring`` decides, on real stores. A task's stores belong either to this thread or to the
processing loop, never to both: orders bring them here, ``ready`` takes them there. Orders are carried out in the order
they were given.

What must not live here: what becomes of a task's stores, when it is handed over, or when it stops; the engine decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol, assert_never

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.engine import restore_effects as do
from kstreams_assign.engine.restore_events import (
    Close,
    Discarded,
    DiscardFailed,
    Event,
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
from kstreams_assign.engine.restoring import Restores
from kstreams_assign.engine.stops import Stop
from kstreams_assign.errors import BrokerUnavailable, StateError
from kstreams_assign.events import (
    LookupFailedEvent,
    StoreDiscardedEvent,
    StoreWipedEvent,
    TaskResumedEvent,
    TaskStoppedEvent,
)
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore import loop
from kstreams_assign.restore.loop import Purpose, Restorer
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.inbox import Inbox
from kstreams_assign.worker.lookup import Reading
from kstreams_assign.worker.meters import Totals
from kstreams_assign.worker.stores_in_hand import offsets_of

STEP_S = 0.01
COPY_REST, ACTIVE_REST = 1.0, 0.5
"""How long the thread rests while tasks run here, as a share of its work: replicas can wait for active tasks."""
QUIET_S = 0.05
"""How often copies are looked after that have nothing to read. Orders do not wait for it."""
QUIET_AFTER_S = 0.2

Positions = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, Position]]
"""Where input is to be read from: committed offsets, else the reset policy's. Raises ``BrokerUnavailable``."""


class Receiver(Protocol):
    """Who gets the stores of a task that may run, and hears of those that are closed."""

    def ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, Position], restored: int
    ) -> None:
        """``restored`` is how many changelog offsets were read since the task became active."""
        ...

    def closed(self, task: TaskId, number: int) -> None: ...


def rest_s(worked_s: float, quiet_for_s: float, *, restoring: bool, news: bool, running: bool) -> float:
    """Return the rest: replicas work half of the time, active tasks two thirds, and almost none without records.

    ``restoring``: an active task is not handed out yet; ``news``: something was read; ``quiet_for_s``: since when
    neither was so; ``running``: the loop works on a task.

    A step that follows a rest does not wait for records. So there is no rest while an active task waits for them: the
    step waits instead, and ends with the first record.
    """
    if news:
        return worked_s * (ACTIVE_REST if restoring else COPY_REST) if running else 0.0
    return QUIET_S if quiet_for_s > QUIET_AFTER_S and not restoring else 0.0


class RestoreThread:
    """Every method but ``run`` may be called from any thread: it only leaves an order."""

    def __init__(
        self,
        shape: TopologyShape,
        application_id: str,
        restorer: Restorer,
        open_stores: Callable[[TaskId], TaskStores],
        positions: Positions,
        directory: StateDirectory,
        sums: OffsetSums,
        log: EventLog,
    ) -> None:
        self._engine = Restores(shape, application_id)
        self._changelogs = partial(shape.changelogs, application_id)
        self._kept_changelogs = partial(shape.kept_changelogs, application_id)
        self._restorer = restorer
        self._open_stores = open_stores
        self._positions = positions
        self._directory = directory
        self._sums = sums
        self._log = log
        self._orders = Inbox()
        self._stores: dict[TaskId, TaskStores] = {}
        """Those in this thread's own hands: not the restorer's, and not the loop's."""
        self._asking = ThreadPoolExecutor(1, "kstreams-positions")
        self._look_ups: dict[TaskId, tuple[int, Future[Mapping[TopicPartition, Position]]]] = {}
        """The newest of each task, with its number."""
        self._stopping = threading.Event()
        self._applied_total, self._news_at_s = 0, time.monotonic()
        self.restored: Totals[TaskId] = Totals()
        self.updated: Totals[TaskId] = Totals()
        self.receiver: Receiver

    # --- orders ---------------------------------------------------------------------

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        """Bring an active task to the end of its changelogs, then hand it over through ``ready``."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._handle(Restore(task, tuple(inputs), self._take(task, stores))))

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], error: StateError
    ) -> None:
        """As ``restore``, for stores that cannot be worked with as they are."""
        self._sums.forget(task)
        self._orders.put(lambda: self._repair(task, stores, tuple(inputs), error))

    def tail(self, task: TaskId, stores: TaskStores | None) -> None:
        """Keep a standby or warm-up up to date."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._handle(Tail(task, self._take(task, stores))))

    def close(self, task: TaskId, stores: TaskStores | None, number: int) -> None:
        """Stop reading, close the stores, remember how far they were, and report ``closed`` with this number."""
        self._orders.put(lambda: self._close(task, stores, number))

    def queue(self, queue: WarmupQueue | None) -> None:
        """Restore warm-ups in this order and no more of them at a time, from now on; None: all at once."""
        self._orders.put(lambda: self._restorer.queue(queue.order if queue else (), queue.at_once if queue else 0))

    def peek(self, task: TaskId, store: str, key: bytes, answer: Future[Reading | None]) -> None:
        """What a replica here holds of a key, and how far it is; None if there is none. It may be behind."""
        if not self._orders.put(lambda: self._peek(task, store, key, answer)):
            answer.set_result(None)

    def _no_longer_running(self, task: TaskId, stores: TaskStores | None) -> None:
        """Report the task before the order is carried out: the next JoinGroup may leave first."""
        if stores is not None:
            self._sums.restoring(task, self._offsets(task, stores))

    def _offsets(self, task: TaskId, stores: TaskStores) -> dict[TopicPartition, int]:
        """Return the offsets of the changelogs that the task has in this version of the application."""
        return offsets_of(stores, self._changelogs(task).values())

    # --- readers, from other threads --------------------------------------------------

    def lags(self) -> dict[TaskId, int]:
        """Offsets still to read of each task that is here, as last reported; those that are to run soon have none."""
        return self._engine.lags()

    @property
    def restored_per_s(self) -> float | None:
        """The records a second that this process restores when it is fastest; None if it has restored few."""
        return self._restorer.rate.offsets_per_s

    def progress(self) -> dict[TaskId, TaskProgress]:
        """How far each task is that is here, as last reported: restored or tailed, not those that run."""
        return self._engine.progress()

    @property
    def queued(self) -> frozenset[TaskId]:
        """The warm-ups that wait for others (``queue``)."""
        return self._restorer.queued

    def stopped(self) -> dict[TaskId, Stop]:
        """The tasks that cannot work here, and why."""
        return self._engine.stopped()

    def unanswered(self) -> dict[TaskId, int]:
        """The tasks that wait for nothing but their input positions: task -> waiting since (monotonic ms)."""
        return self._engine.unanswered()

    # --- the thread -------------------------------------------------------------------

    def stop(self) -> None:
        """End ``run`` once all orders given before are done and every store here is closed."""
        self._stopping.set()

    def settle(self) -> None:
        """Carry out what was ordered after ``run`` had ended: stores that came back late are closed, too.

        What is ordered later is not carried out, and a ``peek`` is answered at once.
        """
        self._orders.close()

    def run(self) -> None:
        """Until ``stop``."""
        rest = 0.0
        while not (self._stopping.is_set() and self._orders.empty):
            self._orders.carry_out(rest)  # it rests that long where nothing was ordered
            self._try_again()
            began_s = time.thread_time()
            for event in self._restorer.step(0.0 if rest else STEP_S):
                self._hear(event)
            self._take_answers()
            rest = self._rest_s(time.thread_time() - began_s)
        for task in list(self._restorer.tasks):
            self._close(task, None, 0)
        self._asking.shutdown(cancel_futures=True)

    def _rest_s(self, worked_s: float) -> float:
        """Count processor time: what a step waits for, a running task does not miss."""
        now_s, restoring = time.monotonic(), self._engine.restoring
        news = self._restorer.applied_total != self._applied_total
        self._applied_total = self._restorer.applied_total
        if restoring or news:
            self._news_at_s = now_s
        quiet_for_s = now_s - self._news_at_s
        return rest_s(worked_s, quiet_for_s, restoring=restoring, news=news, running=self._engine.running)

    # --- what the engine hears ----------------------------------------------------------

    def _handle(self, event: Event) -> None:
        """Let the engine decide, and carry out what it says."""
        for effect in self._engine.handle(event, monotonic_ms()):
            self._carry_out(effect)

    def _take(self, task: TaskId, stores: TaskStores | None) -> Mapping[TopicPartition, int] | None:
        """Take the stores that an order brings, and return their offsets; None: it brings none."""
        if stores is None:
            return None
        self._stores[task] = stores
        return self._offsets(task, stores)

    def _repair(
        self, task: TaskId, stores: TaskStores | None, inputs: tuple[TopicPartition, ...], error: StateError
    ) -> None:
        if stores is not None:
            self._stores[task] = stores
        self._handle(Repair(task, inputs, error, brought=stores is not None))

    def _close(self, task: TaskId, stores: TaskStores | None, number: int) -> None:
        if stores is not None:
            self._stores[task] = stores
        self._handle(Close(task, number, brought=stores is not None))

    def _peek(self, task: TaskId, store: str, key: bytes, answer: Future[Reading | None]) -> None:
        if not answer.set_running_or_notify_cancel():
            return
        stores, reading = self._restorer.stores_of(task), None
        if stores is not None:
            try:
                reading = Reading(stores.get(store, key), self._restorer.positions_of(task))
            except StateError as error:
                self._take_from_restorer(task)
                self._handle(StoresFailed(task, error))
        answer.set_result(reading)

    def _hear(self, event: loop.Event) -> None:
        match event:
            case loop.Restored(task, stores):
                self._stores[task] = stores
                self._handle(Restored(task, self._offsets(task, stores)))
            case loop.Damaged(task, stores, error):
                self._stores[task] = stores
                self._handle(StoresFailed(task, error))
            case loop.Progress() | loop.Missing() | loop.StartedOver():
                self._handle(event)
            case _:
                assert_never(event)

    def _take_answers(self) -> None:
        """Once in each turn, so that failures that come at once do not hold up the rest."""
        for task, (number, future) in list(self._look_ups.items()):
            if not (future.done() and self._engine.awaits(task, number)):
                continue
            try:
                future.result()
            except BrokerUnavailable as cause:
                self._handle(PositionsFailed(task, number, str(cause)))
            else:
                self._handle(PositionsFound(task, number))

    def _try_again(self) -> None:
        due_ms = self._engine.due_ms()
        if due_ms is not None and due_ms <= monotonic_ms():
            self._handle(Woke())

    # --- what it decides ------------------------------------------------------------------

    def _carry_out(self, effect: do.Effect) -> None:  # noqa: C901, PLR0912  # a case for each effect
        match effect:
            case do.OpenStores(task):
                self._open(task)
            case do.CloseStores(task):
                self._stores.pop(task).close()
            case do.DiscardFolder(task, cause):
                self._discard(task, cause)
            case do.ReadChangelogs(task, store_of, purpose):
                self._restorer.add(task, self._stores.pop(task), store_of, purpose)
            case do.Repurpose(task, purpose):
                change = self._restorer.promote if purpose is Purpose.ACTIVE else self._restorer.demote
                change(task)
            case do.TakeFromRestorer(task):
                self._take_from_restorer(task)
            case do.LookUpPositions(task, number, inputs):
                self._look_ups[task] = number, self._asking.submit(self._positions, inputs)
            case do.HandOut(task, restored):
                _, answer = self._look_ups.pop(task)
                self.receiver.ready(task, self._stores.pop(task, None), answer.result(), restored)
            case do.ReportClosed(task, number):
                self._look_ups.pop(task, None)
                self.receiver.closed(task, number)
            case do.ReportOffsets(task, offsets):
                self._sums.restoring(task, offsets)
            case do.ReportDormant(task):
                self._sums.dormant(task, offsets_of(self._stores[task], self._kept_changelogs(task)))
            case do.ReportNothing(task):
                self._sums.forget(task)
            case do.CountOffsets(task, purpose, offsets):
                (self.restored if purpose is Purpose.ACTIVE else self.updated).add(task, offsets)
            case do.AnnounceStopped(task, reason, retry_ms):
                self._log.emit(TaskStoppedEvent(task=str(task), reason=reason, retry_ms=retry_ms))
            case do.AnnounceResumed(task):
                self._log.emit(TaskResumedEvent(task=str(task)))
            case do.AnnounceDiscarded(task, reason):
                self._log.emit(StoreDiscardedEvent(task=str(task), reason=reason))
            case do.AnnounceWiped(task, reason):
                self._log.emit(StoreWipedEvent(task=str(task), reason=reason))
            case do.AnnounceLookUpFailed(_, reason):
                self._log.emit(LookupFailedEvent(what="input positions", reason=reason))
            case _:
                assert_never(effect)

    def _take_from_restorer(self, task: TaskId) -> None:
        if (stores := self._restorer.remove(task)) is not None:
            self._stores[task] = stores

    def _open(self, task: TaskId) -> None:
        try:
            stores = self._open_stores(task)
        except StateError as error:
            self._handle(OpenFailed(task, error))
            return
        self._stores[task] = stores
        self._handle(Opened(task, self._offsets(task, stores)))

    def _discard(self, task: TaskId, cause: StateError) -> None:
        try:
            self._directory.discard(task, str(cause))
        except StateError as error:
            self._handle(DiscardFailed(task, error))
        except OSError as error:
            path = self._directory.task_path(task)
            text = f"{cause}; and its folder {path} cannot be moved away: {error}"
            self._handle(DiscardFailed(task, StateError(text)))
        else:
            self._handle(Discarded(task, cause))
