"""The restore thread in simulated time (``worker.restoring``): it carries out what ``engine.restoring`` decides.

``restore.loop`` restores and tails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kstreams_assign.engine import restore_effects as do
from kstreams_assign.engine.restore_events import (
    Close,
    Discarded,
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
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.restore import loop
from kstreams_assign.restore.loop import Pacing, Purpose, Restorer
from kstreams_assign.sim.disk import Reader, Stores
from kstreams_assign.sim.inbox import Inbox
from kstreams_assign.sim.scenario import APPLICATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstreams_assign.engine.effects import Inputs
    from kstreams_assign.group.values import WarmupQueue
    from kstreams_assign.model import TaskId, TopicPartition
    from kstreams_assign.sim.process import Process

UNSTABLE_MS = 100
"""Until committed offsets are asked for again that a transaction is about to change."""
QUICK_TURN_MS, BUSY_TURN_MS, QUIET_TURN_MS = 50, 1_000, 5_000
PACING = Pacing(progress_interval_ms=0, standby_ends_interval_ms=1_000, standby_budget_records=0)


class Restoring:
    """The stores that are restored or tailed. Those of a task that runs are handed out to the processing loop."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._inbox = Inbox(process)
        self._reader = Reader(self._world.logs, self._world.scenario.restored_per_s, process.disk)
        self.restorer = Restorer(self._reader, now_ms=lambda: self._world.timeline.now_ms, pacing=PACING)
        self._engine = Restores(self._world.shape, APPLICATION)
        self._stores: dict[TaskId, Stores] = {}
        """Those in the thread's own hands: not the restorer's, and not the loop's."""
        self._positions: dict[TaskId, Mapping[TopicPartition, int]] = {}
        self._turned_ms = self._world.timeline.now_ms
        self._turn_ms: int | None = None
        self._wakes_ms: int | None = None
        self._tailed = False
        """Whether the last turn saw only replicas, at their ends, and no progress to report."""

    # --- orders ---------------------------------------------------------------------------------

    def queue(self, queue: WarmupQueue | None) -> None:
        self._inbox.put(self.restorer.queue, queue.order if queue else (), queue.at_once if queue else 0)

    def restore(self, task: TaskId, stores: Stores | None, inputs: Inputs) -> None:
        self._report(task, stores)
        self._inbox.put(self._restore, task, stores, inputs)

    def repair(self, task: TaskId, stores: Stores | None, inputs: Inputs, error: StateError) -> None:
        self._inbox.put(self._repair, task, stores, inputs, error)

    def tail(self, task: TaskId, stores: Stores | None) -> None:
        self._report(task, stores)
        self._inbox.put(self._tail, task, stores)

    def close(self, task: TaskId, stores: Stores | None, number: int) -> None:
        self._inbox.put(self._close, task, stores, number)

    def _report(self, task: TaskId, stores: Stores | None) -> None:
        """Report the task as not running before the order is carried out: the next report may come first."""
        if stores is not None:
            self._process.membership.sums.restoring(task, stores.offsets())

    def _restore(self, task: TaskId, stores: Stores | None, inputs: Inputs) -> None:
        self._handle(Restore(task, inputs, self._take(task, stores)))
        if self._world.changelogs[task]:
            self._turn_now()

    def _repair(self, task: TaskId, stores: Stores | None, inputs: Inputs, error: StateError) -> None:
        self._take(task, stores)
        self._handle(Repair(task, inputs, error, brought=stores is not None))
        self._wake_when_due()
        self._turn_now()

    def _tail(self, task: TaskId, stores: Stores | None) -> None:
        self._handle(Tail(task, self._take(task, stores)))
        self._turn_now()

    def _close(self, task: TaskId, stores: Stores | None, number: int) -> None:
        self._take(task, stores)
        self._handle(Close(task, number, brought=stores is not None))

    def _take(self, task: TaskId, stores: Stores | None) -> Mapping[TopicPartition, int] | None:
        """Take the stores that an order brings, and return their offsets; None: it brings none."""
        if stores is None:
            return None
        self._stores[task] = stores
        return stores.offsets()

    # --- effects --------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        """Let the engine decide, and carry out what it says."""
        for effect in self._engine.handle(event, self._world.timeline.now_ms):
            self._carry_out(effect)

    def _wake_when_due(self) -> None:
        """Try stopped tasks again when their pauses end."""
        due_ms = self._engine.due_ms()
        if due_ms is not None and due_ms != self._wakes_ms:
            self._wakes_ms = due_ms
            self._process.run.later(max(0, due_ms - self._world.timeline.now_ms), self._wake, due_ms)

    def _wake(self, due_ms: int) -> None:
        if due_ms == self._wakes_ms:
            self._wakes_ms = None
            self._handle(Woke())
            self._wake_when_due()
            self._turn_now()

    def _carry_out(self, effect: do.Effect) -> None:  # noqa: C901, PLR0912 - a case for each effect
        sums = self._process.membership.sums
        match effect:
            case do.ReportOffsets(task, offsets):  # most effects are of the first two kinds
                sums.restoring(task, offsets)
            case do.CountOffsets():
                pass  # nothing here but the engine looks at it
            case do.OpenStores(task):
                self._open(task)
            case do.ReadChangelogs(task, store_of, purpose):
                if not self._is_reading:  # the time in which there was nothing to read is not kept
                    self._turned_ms = self._world.timeline.now_ms
                self.restorer.add(task, self._stores.pop(task), store_of, purpose)
            case do.Repurpose(task, purpose):
                change = self.restorer.promote if purpose is Purpose.ACTIVE else self.restorer.demote
                change(task)
            case do.TakeFromRestorer(task):
                self._stores[task] = self.restorer.remove(task)  # type: ignore[assignment]
            case do.CloseStores(task):
                self._stores.pop(task).close()
            case do.LookUpPositions(task, number, inputs):
                self._look_up(task, number, inputs)
            case do.HandOut(task):
                self._process.loop.restored(task, self._stores.pop(task, None), self._positions.pop(task))
            case do.ReportClosed(task, number):
                self._tailed = False
                self._process.loop.closed(task, number)
            case do.ReportDormant(task):
                sums.dormant(task, dict(self._stores[task].offsets()))
            case do.ReportNothing(task):
                sums.forget(task)
            case do.DiscardFolder(task, cause):
                self._process.disk.discard(task)
                self._handle(Discarded(task, cause))
            case do.AnnounceDiscarded(task):
                self._world.log("discarded", self._process, task)
            case do.AnnounceStopped(task):
                self._world.log("stopped", self._process, task)
            case do.AnnounceResumed(task):
                self._world.log("resumed", self._process, task)
            case do.AnnounceLookUpFailed():
                pass  # nothing here but the engine looks at it
            case do.AnnounceWiped():
                raise AssertionError(effect)  # no changelog is created again here
            case _:
                assert_never(effect)

    def _open(self, task: TaskId) -> None:
        try:
            stores = Stores(self._process.disk, task)
        except StoreDamaged as error:
            self._handle(OpenFailed(task, error))
            self._wake_when_due()
        else:
            self._handle(Opened(task, self._take(task, stores) or {}))

    def _look_up(self, task: TaskId, number: int, inputs: Inputs) -> None:
        """Ask for committed offsets."""

        def found(positions: dict[TopicPartition, int] | None) -> None:
            if positions is None:
                self._process.run.later(UNSTABLE_MS, failed)
                return
            if self._engine.awaits(task, number):
                self._positions[task] = positions
            self._handle(PositionsFound(task, number))

        def failed() -> None:
            self._handle(PositionsFailed(task, number, "no answer"))

        self._world.network.ask(self._process.run, lambda: self._world.committed(inputs), found, failed)

    # --- turns ----------------------------------------------------------------------------------

    def _turn_now(self) -> None:
        self._tailed = False
        self._turn_within(0)

    def _turn_within(self, ms: int) -> None:
        """Schedule the next turn, in ``ms`` at most."""
        due_ms = self._world.timeline.now_ms + ms
        if self._turn_ms is None or due_ms < self._turn_ms:
            self._turn_ms = due_ms
            self._process.run.later(ms, self._turn, due_ms)

    def _turn(self, due_ms: int) -> None:
        if due_ms != self._turn_ms:
            return
        now_ms = self._world.timeline.now_ms
        self._turn_ms = None
        self._reader.passed_ms, self._turned_ms = min(now_ms - self._turned_ms, QUIET_TURN_MS), now_ms
        if self._tailed and not self._is_reading:
            self._turn_within(QUIET_TURN_MS)
            return
        events = self.restorer.step(0.0)
        for event in events:
            self._hear(event)
        if tasks := self.restorer.tasks:
            left_ms = self._reader.left_ms()
            again_ms = QUIET_TURN_MS if left_ms is None else min(max(left_ms, QUICK_TURN_MS), QUIET_TURN_MS)
            restoring = Purpose.ACTIVE in tasks.values()
            self._turn_within(min(again_ms, BUSY_TURN_MS) if restoring else again_ms)
            # with a queue it matters when ends were looked up
            self._tailed = not (events or restoring or self._world.scenario.warmup_queue or left_ms is not None)

    def _hear(self, event: loop.Event) -> None:
        match event:
            case loop.Restored(task, stores):
                assert isinstance(stores, Stores)
                self._handle(Restored(task, self._take(task, stores) or {}))
            case loop.Progress() | loop.Missing() | loop.StartedOver():
                self._handle(event)
            case loop.Damaged(task, stores, error):
                assert isinstance(stores, Stores)
                self._take(task, stores)
                self._handle(StoresFailed(task, error))
                self._wake_when_due()
            case _:
                assert_never(event)

    @property
    def _is_reading(self) -> bool:
        return self._reader.left_ms() is not None

    @property
    def behind(self) -> bool:
        """Whether a store here is not at the end of its changelog, or a task is stopped.

        A replica that waits, as an active task is restored first, is in no reader.
        """
        folders, readable = self._process.disk.folders, self._world.logs.readable
        return bool(self._engine.stopped()) or any(
            folders[task].get(partition, 0) < readable[partition]
            for task in self.restorer.tasks
            for partition in self._world.changelogs[task].values()
        )
