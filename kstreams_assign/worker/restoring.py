"""The restore thread: opens, restores, tails and closes stores, so that the processing loop never waits for a disk.

A task's stores belong either to this thread or to the processing loop, never to both: orders bring them here, ``ready``
takes them there. Orders are carried out in the order they were given. A task whose state cannot be worked with stops
(``stops``); the others go on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.errors import BrokerUnavailable, StateError, StoreDamaged
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Event, Missing, Progress, Purpose, Restored, Restorer, StartedOver
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.times import Position
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.lookup import Value
from kstreams_assign.worker.meters import Totals
from kstreams_assign.worker.stops import Stop, Stops

STEP_S = 0.01
COPY_REST, ACTIVE_REST = 1.0, 0.5
"""How long the thread rests while tasks run here, as a share of its work: replicas can wait for active tasks."""
QUIET_S = 0.05
"""How often copies are looked after that have nothing to read. Orders do not wait for it."""
QUIET_AFTER_S = 0.2
MISSING_RETRY_MS = 1_000

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
        self._shape = shape
        self._application_id = application_id
        self._restorer = restorer
        self._open_stores = open_stores
        self._positions = positions
        self._directory = directory
        self._sums = sums
        self._log = log
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._look_ups = ThreadPoolExecutor(1, "kstreams-positions")
        self._inputs: dict[TaskId, Sequence[TopicPartition]] = {}
        self._found: dict[TaskId, Future[Mapping[TopicPartition, Position]]] = {}
        self._began_at: dict[TaskId, int] = {}
        self._wanted: dict[TaskId, Purpose] = {}
        self._waiting: dict[TaskId, TaskStores | None] = {}
        self._handed_out: set[TaskId] = set()
        self._running: set[TaskId] = set()
        """Those without stores, too: a restore here takes processor time from them."""
        self._progress: dict[TaskId, TaskProgress] = {}
        self._unanswered: Mapping[TaskId, int] = {}
        self._stops = Stops()
        self._stopping = threading.Event()
        self._applied_total, self._news_at_s = 0, time.monotonic()
        self.restored: Totals[TaskId] = Totals()
        self.updated: Totals[TaskId] = Totals()
        self._counted_to: dict[TaskId, int] = {}
        self.receiver: Receiver

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        """Bring an active task to the end of its changelogs, then hand it over through ``ready``."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._restore(task, stores, inputs))

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], error: StateError
    ) -> None:
        """As ``restore``, for stores that cannot be worked with as they are."""
        self._sums.forget(task)
        self._orders.put(lambda: self._failed(task, stores, inputs, error))

    def tail(self, task: TaskId, stores: TaskStores | None) -> None:
        """Keep a standby or warm-up up to date."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._tail(task, stores))

    def peek(self, task: TaskId, store: str, key: bytes, found: Future[Value | None]) -> None:
        """What a copy here holds of a key; None if there is none. It may be behind."""
        self._orders.put(lambda: self._peek(task, store, key, found))

    def _peek(self, task: TaskId, store: str, key: bytes, found: Future[Value | None]) -> None:
        stores = self._restorer.stores_of(task)
        try:
            found.set_result(None if stores is None else (stores.get(store, key),))
        except StateError as error:
            found.set_result(None)
            self._trouble(task, self._restorer.remove(task), error)

    def queue(self, queue: WarmupQueue | None) -> None:
        """Restore warm-ups in this order and no more of them at a time, from now on; None: all at once."""
        self._orders.put(lambda: self._restorer.queue(queue.order if queue else (), queue.at_once if queue else 0))

    def close(self, task: TaskId, stores: TaskStores | None, number: int) -> None:
        """Stop reading, close the stores, remember how far they were, and report ``closed`` with this number."""
        self._orders.put(lambda: self._close(task, stores, number))

    def _no_longer_running(self, task: TaskId, stores: TaskStores | None) -> None:
        """Report the task before the order is carried out: the next JoinGroup may leave first."""
        if stores is not None:
            self._sums.restoring(task, stores.offsets())

    def lags(self) -> dict[TaskId, int]:
        """Offsets still to read of each task that is here, as last reported; those that are to run soon have none."""
        restored = dict.fromkeys(list(self._waiting), 0)
        return restored | {task: progress.remaining for task, progress in self.progress().items()}

    def progress(self) -> dict[TaskId, TaskProgress]:
        """How far each task is that is here, as last reported: restored or tailed, not those that run."""
        return dict(self._progress)

    def stopped(self) -> dict[TaskId, Stop]:
        """The tasks that cannot work here, and why."""
        return self._stops.stopped()

    def unanswered(self) -> dict[TaskId, int]:
        """The tasks that wait for nothing but their input positions: task -> waiting since (monotonic ms)."""
        return dict(self._unanswered)

    def stop(self) -> None:
        """End ``run`` once all orders given before are done and every store here is closed."""
        self._stopping.set()

    def settle(self) -> None:
        """Carry out what was ordered after ``run`` had ended: stores that came back late are closed, too."""
        while not self._orders.empty():
            self._orders.get_nowait()()

    def run(self) -> None:
        """Until ``stop``."""
        rest_s = 0.0
        while not (self._stopping.is_set() and self._orders.empty()):
            self._take_orders(rest_s)
            for task in self._stops.due(monotonic_ms()):
                self._begin(task, None, self._wanted[task])
            began_s = time.thread_time()
            for event in self._restorer.step(0.0 if rest_s else STEP_S):
                self._heard(event)
            self._hand_over_waiting()
            rest_s = self._rest_s(time.thread_time() - began_s)
        for task in list(self._restorer.tasks):
            self._close(task, None, 0)
        self._look_ups.shutdown(cancel_futures=True)

    def _rest_s(self, worked_s: float) -> float:
        """Return the rest: replicas work half of the time, active tasks two thirds, and almost none without records.

        Counted is processor time: what a step waits for, a running task does not miss.
        """
        news = self._restorer.applied_total != self._applied_total
        self._applied_total = self._restorer.applied_total
        busy = Purpose.ACTIVE in self._restorer.tasks.values() or self._waiting
        now_s = time.monotonic()
        if busy or news:
            self._news_at_s = now_s
            return worked_s * (ACTIVE_REST if busy else COPY_REST) if self._running else 0.0
        return QUIET_S if now_s - self._news_at_s > QUIET_AFTER_S else 0.0

    def _take_orders(self, rest_s: float) -> None:
        """Carry out what was ordered; rest that long where nothing was."""
        try:
            order = self._orders.get(timeout=rest_s) if rest_s else self._orders.get_nowait()
            while True:
                order()
                order = self._orders.get_nowait()
        except queue.Empty:
            return

    # --- orders -----------------------------------------------------------------
    # Without stores an order is about what is here; if the stores are on their way to the loop, the loop will see that
    # it wants something else now and send them back.

    def _restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        self._inputs[task], self._wanted[task] = inputs, Purpose.ACTIVE
        self._running.discard(task)
        self._found[task] = self._look_ups.submit(self._positions, inputs)
        if stores is None and (
            task in self._handed_out or task in self._waiting or self._goes_on(task, Purpose.ACTIVE)
        ):
            return
        if self._shape.subtopologies[task.subtopology].stateful:
            self._begin(task, stores, Purpose.ACTIVE)
        else:
            self._waiting[task] = None

    def _tail(self, task: TaskId, stores: TaskStores | None) -> None:
        self._wanted[task] = Purpose.STANDBY
        self._running.discard(task)
        self._answered(task)
        if stores is None and (task in self._handed_out or self._goes_on(task, Purpose.STANDBY)):
            return
        self._begin(task, stores or self._waiting.pop(task, None), Purpose.STANDBY)

    def _goes_on(self, task: TaskId, purpose: Purpose) -> bool:
        """It is being restored, or it is stopped; then it is tried again as what it is wanted for now."""
        change = self._restorer.promote if purpose is Purpose.ACTIVE else self._restorer.demote
        return self._stops.waits(task) or change(task)

    def _failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], error: StateError
    ) -> None:
        self._inputs[task], self._wanted[task] = inputs, Purpose.ACTIVE
        self._found[task] = self._look_ups.submit(self._positions, inputs)
        self._handed_out.discard(task)
        self._running.discard(task)
        self._trouble(task, stores, error)

    def _close(self, task: TaskId, stores: TaskStores | None, number: int) -> None:
        if stores is None and task in self._handed_out:
            return
        self._handed_out.discard(task)
        stores = stores or self._waiting.pop(task, None) or self._restorer.remove(task)
        if stores is not None:
            self._sums.dormant(task, dict(stores.offsets()))
            stores.close()
        self._progress.pop(task, None)
        self._running.discard(task)
        self._answered(task)
        self._stops.over(task)
        self.receiver.closed(task, number)

    def _begin(self, task: TaskId, stores: TaskStores | None, purpose: Purpose) -> None:
        self._handed_out.discard(task)
        try:
            stores = stores or self._open_stores(task)
        except StateError as error:
            self._trouble(task, None, error)
            return
        self._began_at[task] = self._counted_to[task] = sum(stores.offsets().values())
        changelogs = self._shape.changelogs(self._application_id, task)
        self._sums.restoring(task, stores.offsets())
        if changelogs or purpose is Purpose.STANDBY:
            self._restorer.add(task, stores, {partition: store for store, partition in changelogs.items()}, purpose)
        else:
            self._waiting[task] = stores

    # --- a store that cannot be worked with -----------------------------------------

    def _trouble(self, task: TaskId, stores: TaskStores | None, error: StateError) -> None:
        """Delete a damaged store and restore it at once, once; if that fails too, stop the task for a while."""
        self._sums.forget(task)
        self._progress.pop(task, None)
        if stores is not None:
            stores.close()
        left = self._discard(task, error) if isinstance(error, StoreDamaged) else error
        if left is None and self._stops.start_over(task, error):
            self._begin(task, None, self._wanted[task])
        else:
            self._stop_task(task, str(left or error))

    def _stop_task(self, task: TaskId, reason: str) -> None:
        pause_ms, news = self._stops.pause(task, reason, monotonic_ms())
        if news:
            self._tell_stopped(task, reason, pause_ms)

    def _tell_stopped(self, task: TaskId, reason: str, retry_ms: int) -> None:
        self._log.emit("task_stopped", task=str(task), reason=reason, retry_ms=retry_ms)

    def _works(self, task: TaskId) -> None:
        if self._stops.over(task):
            self._log.emit("task_resumed", task=str(task))

    def _discard(self, task: TaskId, cause: StateError) -> StateError | None:
        """Why the folder could not be thrown away; None if it is gone."""
        try:
            self._directory.discard(task, str(cause))
        except StateError as error:
            return error
        except OSError as error:
            return StateError(
                f"{cause}; and its folder {self._directory.task_path(task)} cannot be moved away: {error}"
            )
        self._log.emit("store_discarded", task=str(task), reason=str(cause))
        return None

    # --- what the restorer says ---------------------------------------------------

    def _heard(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._sums.restoring(event.task, {p: at.position for p, at in event.progress.partitions.items()})
            self._progress[event.task] = event.progress
            self._count(event.task, event.purpose, event.progress.position_sum)
            if event.purpose is Purpose.STANDBY:
                self._began_at[event.task] = event.progress.position_sum
            if event.purpose is Purpose.STANDBY and event.progress.done:
                self._works(event.task)
        elif isinstance(event, Restored):
            self._progress.pop(event.task, None)
            self._waiting[event.task] = event.stores
        elif isinstance(event, Missing):
            self._miss(event)
        elif isinstance(event, StartedOver):
            self._log.emit("store_wiped", task=str(event.task), reason=event.reason)
        else:
            self._trouble(event.task, event.stores, event.error)

    def _count(self, task: TaskId, purpose: Purpose, position_sum: int) -> None:
        """Add what was read since the last report; a store that starts over goes back and is counted from there."""
        totals = self.restored if purpose is Purpose.ACTIVE else self.updated
        totals.add(task, max(0, position_sum - self._counted_to.get(task, position_sum)))
        self._counted_to[task] = position_sum

    def _miss(self, event: Missing) -> None:
        names = ", ".join(map(str, event.changelogs))
        reason = (
            f"its changelog {names} does not exist; create it again, or wait: the leader creates it at one of the next "
            "rebalances"
        )
        self._stops.missing(event.task, reason)
        self._tell_stopped(event.task, reason, MISSING_RETRY_MS)

    def _hand_over_waiting(self) -> None:
        """Give tasks whose state and input positions are known to the loop. Failed look-ups are tried again."""
        for task in [task for task in self._waiting if self._found[task].done()]:
            try:
                positions = self._found[task].result()
            except BrokerUnavailable as cause:
                self._log.emit("lookup_failed", what="input positions", reason=str(cause))
                self._unanswered = {task: monotonic_ms(), **self._unanswered}
                self._found[task] = self._look_ups.submit(self._positions, self._inputs[task])
                continue
            self._answered(task)
            self._hand_over(task, self._waiting.pop(task), positions)

    def _answered(self, task: TaskId) -> None:
        """Or the question was given up."""
        self._unanswered = {other: since for other, since in self._unanswered.items() if other != task}

    def _hand_over(self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, Position]) -> None:
        restored = 0
        self._running.add(task)
        if stores is not None:
            self._handed_out.add(task)
            position_sum = sum(stores.offsets().values())
            self._count(task, Purpose.ACTIVE, position_sum)
            restored = position_sum - self._began_at[task]
        self._works(task)
        self.receiver.ready(task, stores, positions, restored)
