"""The restore thread in simulated time (``worker.restoring``): ``restore.loop`` restores and tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Pacing, Progress, Purpose, Restored, Restorer
from kstreams_assign.sim.disk import Reader, Stores
from kstreams_assign.sim.inbox import Inbox

if TYPE_CHECKING:
    from kstreams_assign.engine.effects import Inputs
    from kstreams_assign.group.values import WarmupQueue
    from kstreams_assign.sim.process import Process

QUICK_TURN_MS, BUSY_TURN_MS, QUIET_TURN_MS = 50, 1_000, 5_000
PACING = Pacing(progress_interval_ms=0, standby_ends_interval_ms=1_000, standby_budget_records=0)


class Restoring:
    """The stores that are restored or tailed. Those of a task that runs are handed out to the processing loop."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._inbox = Inbox(process)
        self._reader = Reader(self._world.logs, self._world.scenario.restored_per_s)
        self.restorer = Restorer(self._reader, now_ms=lambda: self._world.timeline.now_ms, pacing=PACING)
        self._restored: dict[TaskId, Stores | None] = {}
        self._positions: dict[TaskId, dict[TopicPartition, int]] = {}
        self._handed_out: set[TaskId] = set()
        self._look_ups: dict[TaskId, int] = {}
        self._last_look_up = 0
        self._turned_ms = self._world.timeline.now_ms
        self._turn_ms: int | None = None
        self._tailed = False
        """Whether the last turn saw only replicas, at their ends, and no progress to report."""

    # --- orders ---------------------------------------------------------------------------------

    def queue(self, queue: WarmupQueue | None) -> None:
        self._inbox.put(self.restorer.queue, queue.order if queue else (), queue.at_once if queue else 0)

    def restore(self, task: TaskId, stores: Stores | None, inputs: Inputs) -> None:
        self._report(task, stores)
        self._inbox.put(self._restore, task, stores, inputs)

    def tail(self, task: TaskId, stores: Stores | None) -> None:
        self._report(task, stores)
        self._inbox.put(self._tail, task, stores)

    def close(self, task: TaskId, stores: Stores | None, number: int) -> None:
        self._inbox.put(self._close, task, stores, number)

    def _report(self, task: TaskId, stores: Stores | None) -> None:
        """Report the task as not running before the order is carried out: the next report may come first."""
        if stores is not None:
            self._process.membership.sums.restoring(task, stores.offsets())

    # --- carried out. Stores that are on their way to the loop come back with another order -------------

    def _restore(self, task: TaskId, stores: Stores | None, inputs: Inputs) -> None:
        self._look_up(task, inputs)
        if not self._world.changelogs[task]:
            self._restored[task] = None
        elif stores is not None or not self._goes_on(task, Purpose.ACTIVE):
            self._begin(task, stores, Purpose.ACTIVE)

    def _tail(self, task: TaskId, stores: Stores | None) -> None:
        self._look_ups.pop(task, None)
        if stores is None and task in self._restored:
            stores = self._restored.pop(task)
        if stores is not None or not self._goes_on(task, Purpose.STANDBY):
            self._begin(task, stores, Purpose.STANDBY)

    def _goes_on(self, task: TaskId, purpose: Purpose) -> bool:
        self._tailed = False
        self._turn_within(0)
        change = self.restorer.promote if purpose is Purpose.ACTIVE else self.restorer.demote
        return task in self._handed_out or task in self._restored or change(task)

    def _begin(self, task: TaskId, stores: Stores | None, purpose: Purpose) -> None:
        self._handed_out.discard(task)
        self._tailed = False
        stores = stores or Stores(self._process.disk, task)
        self._process.membership.sums.restoring(task, stores.offsets())
        if not self.behind:  # the time in which there was nothing to read is not kept
            self._turned_ms = self._world.timeline.now_ms
        changelogs = self._world.changelogs[task]
        self.restorer.add(task, stores, {partition: store for store, partition in changelogs.items()}, purpose)
        self._turn_within(0)

    def _close(self, task: TaskId, stores: Stores | None, number: int) -> None:
        """Keep the stores' offsets."""
        if stores is None and task in self._handed_out:
            return
        self._tailed = False
        self._handed_out.discard(task)
        self._look_ups.pop(task, None)
        stores = stores or self._restored.pop(task, None) or self.restorer.remove(task)  # type: ignore[assignment]
        if stores is not None:
            self._process.membership.sums.dormant(task, dict(stores.offsets()))
        self._process.loop.closed(task, number)

    # --- input positions ------------------------------------------------------------------------

    def _look_up(self, task: TaskId, inputs: Inputs) -> None:
        """Ask for committed offsets until there is an answer."""
        self._last_look_up += 1
        number = self._look_ups[task] = self._last_look_up
        self._positions.pop(task, None)

        def keep(positions: dict[TopicPartition, int]) -> None:
            if self._look_ups.get(task) == number:
                self._positions[task] = positions
                self._hand_out(task)

        def committed() -> dict[TopicPartition, int]:
            return {partition: self._world.logs.committed.get(partition, 0) for partition in inputs}

        def ask() -> None:
            self._world.network.ask(self._process.run, committed, keep, ask)

        ask()

    def _hand_out(self, task: TaskId) -> None:
        """Give the loop a task whose state and input positions are here."""
        if task in self._restored and task in self._positions:
            del self._look_ups[task]
            stores = self._restored.pop(task)
            if stores is not None:
                self._handed_out.add(task)
            self._process.loop.restored(task, stores, self._positions.pop(task))

    # --- turns ----------------------------------------------------------------------------------

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
        if self._tailed and not self.behind:
            self._turn_within(QUIET_TURN_MS)
            return
        events = self.restorer.step(0.0)
        for event in events:
            if isinstance(event, Progress):
                positions = {p: at.position for p, at in event.progress.partitions.items()}
                self._process.membership.sums.restoring(event.task, positions)
            elif isinstance(event, Restored) and isinstance(event.stores, Stores):
                self._restored[event.task] = event.stores
                self._hand_out(event.task)
        if tasks := self.restorer.tasks:
            left_ms = self._reader.left_ms()
            again_ms = QUIET_TURN_MS if left_ms is None else min(max(left_ms, QUICK_TURN_MS), QUIET_TURN_MS)
            restoring = Purpose.ACTIVE in tasks.values()
            self._turn_within(min(again_ms, BUSY_TURN_MS) if restoring else again_ms)
            # with a queue it matters when ends were looked up
            self._tailed = not (events or restoring or self._world.scenario.warmup_queue or left_ms is not None)

    @property
    def behind(self) -> bool:
        """Whether a changelog that is read here is not at its end."""
        return self._reader.left_ms() is not None
