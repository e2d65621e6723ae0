"""The restore thread: opens, restores, tails and closes stores, so that the processing loop never waits for a disk.

A task's stores belong either to this thread or to the processing loop, never to both: orders bring them here, ``ready``
takes them there. Orders are carried out in the order they were given.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from kstreams_assign.errors import BrokerUnavailable, StateError, StoreDamaged
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Damaged, Event, Progress, Purpose, Restored, Restorer
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.lookup import Value

STEP_S = 0.01

Positions = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
"""Where input is to be read from: committed offsets, else the reset policy's. Raises ``BrokerUnavailable``."""


class Receiver(Protocol):
    """Who gets the stores of a task that may run, and hears of those that are closed."""

    def ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, int], restored: int
    ) -> None:
        """``restored`` is how many changelog offsets were read since the task became active."""
        ...

    def closed(self, task: TaskId) -> None: ...


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
        self._found: dict[TaskId, Future[Mapping[TopicPartition, int]]] = {}
        self._began_at: dict[TaskId, int] = {}
        self._wanted: dict[TaskId, Purpose] = {}
        self._waiting: dict[TaskId, TaskStores | None] = {}
        self._handed_out: set[TaskId] = set()
        self._progress: dict[TaskId, TaskProgress] = {}
        self._stopping = threading.Event()
        self.receiver: Receiver

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        """Bring an active task to the end of its changelogs, then hand it over through ``ready``."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._restore(task, stores, inputs))

    def tail(self, task: TaskId, stores: TaskStores | None) -> None:
        """Keep a standby or warm-up up to date."""
        self._no_longer_running(task, stores)
        self._orders.put(lambda: self._tail(task, stores))

    def peek(self, task: TaskId, store: str, key: bytes, found: Future[Value | None]) -> None:
        """What a copy here holds of a key; None if there is none. It may be behind."""
        self._orders.put(lambda: found.set_result(self._peek(task, store, key)))

    def _peek(self, task: TaskId, store: str, key: bytes) -> Value | None:
        stores = self._restorer.stores_of(task)
        return None if stores is None else (stores.get(store, key),)

    def queue(self, queue: WarmupQueue | None) -> None:
        """Restore warm-ups in this order and no more of them at a time, from now on; None: all at once."""
        self._orders.put(lambda: self._restorer.queue(queue.order if queue else (), queue.at_once if queue else 0))

    def close(self, task: TaskId, stores: TaskStores | None) -> None:
        """Stop reading, close the stores, remember how far they were, and say ``closed``."""
        self._orders.put(lambda: self._close(task, stores))

    def _no_longer_running(self, task: TaskId, stores: TaskStores | None) -> None:
        """Tell so before the order is carried out: the next JoinGroup may leave first, and what runs counts as owned."""
        if stores is not None:
            self._sums.restoring(task, stores.offsets())

    def lags(self) -> dict[TaskId, int]:
        """Offsets still to read of each task that is here, as last told."""
        return {task: progress.remaining for task, progress in self.progress().items()}

    def progress(self) -> dict[TaskId, TaskProgress]:
        """How far each task is that is here, as last told: restored or tailed, not those that run."""
        return dict(self._progress)

    def stop(self) -> None:
        """End ``run`` once all orders given before are done and every store here is closed."""
        self._stopping.set()

    def run(self) -> None:
        """Until ``stop``. Raises ``StateError`` for a disk that cannot be worked with."""
        rest_s = 0.0
        while not (self._stopping.is_set() and self._orders.empty()):
            self._take_orders(rest_s)
            began = time.monotonic()
            for event in self._restorer.step(STEP_S):
                self._heard(event)
            self._hand_over_waiting()
            rest_s = self._rest_s(time.monotonic() - began)
        for task in list(self._restorer.tasks):
            self._close(task, None)
        self._look_ups.shutdown(cancel_futures=True)

    def _rest_s(self, worked_s: float) -> float:
        """Copies are restored for half of the time at most while tasks run here, so that those are not starved."""
        busy = Purpose.ACTIVE in self._restorer.tasks.values() or self._waiting
        if not self._restorer.tasks and not busy:
            return STEP_S
        return 0.0 if busy or not self._handed_out or worked_s < STEP_S * 2 else worked_s

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
        self._found[task] = self._look_ups.submit(self._positions, inputs)
        if stores is None and (task in self._handed_out or task in self._waiting or self._restorer.promote(task)):
            return
        if self._shape.subtopologies[task.subtopology].stateful:
            self._begin(task, stores, Purpose.ACTIVE)
        else:
            self._waiting[task] = None

    def _tail(self, task: TaskId, stores: TaskStores | None) -> None:
        self._wanted[task] = Purpose.STANDBY
        if stores is None and (task in self._handed_out or self._restorer.demote(task)):
            return
        self._begin(task, stores or self._waiting.pop(task, None), Purpose.STANDBY)

    def _close(self, task: TaskId, stores: TaskStores | None) -> None:
        if stores is None and task in self._handed_out:
            return
        self._handed_out.discard(task)
        stores = stores or self._waiting.pop(task, None) or self._restorer.remove(task)
        if stores is not None:
            self._sums.dormant(task, dict(stores.offsets()))
            stores.close()
        self._progress.pop(task, None)
        self.receiver.closed(task)

    def _begin(self, task: TaskId, stores: TaskStores | None, purpose: Purpose) -> None:
        self._handed_out.discard(task)
        stores = stores or self._opened(task)
        self._began_at[task] = sum(stores.offsets().values())
        changelogs = self._shape.changelogs(self._application_id, task)
        self._sums.restoring(task, stores.offsets())
        if changelogs or purpose is Purpose.STANDBY:
            self._restorer.add(task, stores, {partition: store for store, partition in changelogs.items()}, purpose)
        else:
            self._waiting[task] = stores

    def _opened(self, task: TaskId) -> TaskStores:
        try:
            return self._open_stores(task)
        except StoreDamaged as cause:
            self._discard(task, cause)
            return self._open_stores(task)

    def _discard(self, task: TaskId, cause: StateError) -> None:
        self._log.emit("store_discarded", task=str(task), reason=str(cause))
        self._sums.forget(task)
        self._directory.discard(task)

    # --- what the restorer says ---------------------------------------------------

    def _heard(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._sums.restoring(event.task, {p: at.position for p, at in event.progress.partitions.items()})
            self._progress[event.task] = event.progress
            if event.purpose is Purpose.STANDBY:
                self._began_at[event.task] = event.progress.position_sum
        elif isinstance(event, Restored):
            self._progress.pop(event.task, None)
            self._waiting[event.task] = event.stores
        else:
            self._mend(event)

    def _mend(self, event: Damaged) -> None:
        """A damaged store is thrown away and restored anew; anything else (a full disk) is not ours to mend."""
        event.stores.close()
        if not isinstance(event.error, StoreDamaged):
            raise event.error
        self._discard(event.task, event.error)
        self._begin(event.task, None, self._wanted[event.task])

    def _hand_over_waiting(self) -> None:
        """Give tasks whose state and input positions are known to the loop. Failed look-ups are tried again."""
        for task in [task for task in self._waiting if self._found[task].done()]:
            try:
                positions = self._found[task].result()
            except BrokerUnavailable as cause:
                self._log.emit("lookup_failed", what="input positions", reason=str(cause))
                self._found[task] = self._look_ups.submit(self._positions, self._inputs[task])
                continue
            self._hand_over(task, self._waiting.pop(task), positions)

    def _hand_over(self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, int]) -> None:
        restored = 0
        if stores is not None:
            self._handed_out.add(task)
            restored = sum(stores.offsets().values()) - self._began_at[task]
        self.receiver.ready(task, stores, positions, restored)
