"""The processing loop and the restore thread in simulated time (``worker.processing``, ``worker.restoring``).

``tasks.lifecycle`` says what each task has to do, ``restore.loop`` restores and tails. Orders are carried out in the
order they were given, each a little later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Pacing, Progress, Purpose, Restored, Restorer
from kstreams_assign.sim.committing import Commits, Running, Share
from kstreams_assign.sim.disk import Reader, Stores
from kstreams_assign.tasks.lifecycle import Step, TaskEvent, TaskState, changes, move

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process

SLOWEST_ORDER_MS = 20
REST_MS = 1_000
QUICK_TURN_MS, BUSY_TURN_MS, QUIET_TURN_MS = 50, 1_000, 5_000
PACING = Pacing(progress_interval_ms=0, standby_ends_interval_ms=1_000, standby_budget_records=0)


@dataclass(slots=True)
class Held:
    """A task in this process. ``stores`` is set while the loop has them, not the restorer."""

    state: TaskState
    inputs: tuple[TopicPartition, ...] = ()
    stores: Stores | None = None
    order: int = 0
    """The number of its last order, to recognise answers to older orders."""


class Loop:
    """The tasks of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self.held: dict[TaskId, Held] = {}
        self.running: dict[TaskId, Running] = {}
        self.commits = Commits(process)
        self.commits.connect(self.running)
        self._reader = Reader(self._world.logs, self._world.scenario.restored_per_s)
        pacing = PACING
        self.restorer = Restorer(self._reader, now_ms=lambda: self._world.timeline.now_ms, pacing=pacing)
        self._closing: set[TaskId] = set()
        self._releasing: set[TaskId] | None = None
        self._generation: int | None = None
        self._restored: dict[TaskId, Stores] = {}
        self._positions: dict[TaskId, dict[TopicPartition, int]] = {}
        self._order_ms = self._turned_ms = self._world.timeline.now_ms
        self._turn_ms: int | None = None
        self._tailed = False
        """Whether the last turn saw only replicas, at their ends, and no progress to report."""
        self._orders = 0
        self.ended: Callable[[], None] | None = None

    # --- orders ------------------------------------------------------------------------------

    def _order(self, call: Callable[[], None]) -> None:
        now_ms = self._world.timeline.now_ms
        self._order_ms = max(self._order_ms, now_ms + self._world.rng.randint(0, SLOWEST_ORDER_MS))
        self._process.run.later(self._order_ms - now_ms, call)

    def commit_now(self) -> None:
        self._order(self.commits.before_join)

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self._order(lambda: self._adopt(generation, adopted))

    def drop_all(self) -> None:
        self._order(self._drop_all)

    def stop(self, ended: Callable[[], None]) -> None:
        """Commit, close everything, then call."""
        self._order(lambda: self._stop(ended))

    # --- assignments, as in worker.processing ---------------------------------------------------

    def _adopt(self, generation: int, adopted: Adopted) -> None:
        copies = adopted.standby | adopted.warmup
        todo = changes({t: h.state for t, h in self.held.items()}, adopted.active.keys(), copies)
        self._generation = generation
        self.commits.resume()
        self._process.disk.locked.update(todo.arriving)
        queue = adopted.queue
        self.restorer.queue(queue.order if queue else (), queue.at_once if queue else 0)
        for task, event in todo.arriving.items():
            self.held.setdefault(task, Held(TaskState.CLOSED)).inputs = adopted.active.get(task, ())
            self._move(task, event)
        self._world.watch.locked(self._process, generation)
        at_work = self._at_work(todo.leaving)
        for task in at_work:
            self._stop_input(task)
        if at_work:
            self.commits.then(lambda: self._let_go(todo.leaving))
        else:
            self._let_go(todo.leaving)

    def _let_go(self, leaving: Mapping[TaskId, TaskEvent]) -> None:
        at_work = self._at_work(leaving)
        for task, event in leaving.items():
            self._move(task, event)
        self._releasing = at_work & self._closing
        self._report_released()

    def _at_work(self, tasks: Iterable[TaskId]) -> set[TaskId]:
        return {task for task in tasks if task in self.running}

    def _report_released(self) -> None:
        if self._releasing is not None and not self._releasing & self._closing:
            self._releasing = None
            self._process.membership.handle(machine.TasksReleased(self._generation))

    def _move(self, task: TaskId, event: TaskEvent) -> None:
        held = self.held[task]
        held.state, steps = move(held.state, event)
        for step in steps:
            self._do(step, task, held)

    def _do(self, step: Step, task: TaskId, held: Held) -> None:
        if step in (Step.COMMIT, Step.DISCARD_WRITES):
            self._stop_input(task)
            self.running.pop(task, None)
            self._world.watch.stopped(self._process, task)
        elif step is Step.RESTORE:
            self._give(task, held, Purpose.ACTIVE)
            self._look_up_positions(task, held)
        elif step is Step.TAIL:
            self._positions.pop(task, None)
            self._give(task, held, Purpose.STANDBY)
        elif step is Step.CLOSE:
            self._closing.add(task)
            del self.held[task]
            self._order(lambda: self._close(task, held.stores))

    def failed(self, tasks: Iterable[TaskId]) -> None:
        """A commit of these failed: they forget what it held, rest, and are then restored (``worker.setbacks``)."""
        for task in tasks:
            held = self.held.get(task)
            if held is not None and held.state is TaskState.RUNNING:
                held.state, _ = move(held.state, TaskEvent.FAILED)
                self._stop_input(task)
                del self.running[task]
                self._world.watch.stopped(self._process, task)
                self._process.run.later(REST_MS, self._rested, task, held)

    def _rested(self, task: TaskId, held: Held) -> None:
        if self.held.get(task) is held and held.state is TaskState.RESTORING:
            self._do(Step.RESTORE, task, held)

    def _stop_input(self, task: TaskId) -> None:
        if task in self.running:
            self.running[task].stopped = True

    def resume(self, task: TaskId) -> None:
        """Process a stopped task again that is still owned."""
        running = self.running[task]
        if running.stopped:
            running.stopped, running.since_ms = False, self._world.timeline.now_ms
            self._world.watch.runs(self._process, task, running.at)

    def _drop_all(self) -> None:
        self.commits.abandon()
        for task in list(self.held):
            self._move(task, TaskEvent.LOST)
        self.running.clear()
        self._releasing = None
        self.give_up()

    def give_up(self) -> None:
        """End a pending stop: nothing can be committed any more."""
        if self.ended is not None:
            self.ended()

    def _stop(self, ended: Callable[[], None]) -> None:
        def over() -> None:
            self.ended = None
            for task in list(self.held):
                self._move(task, TaskEvent.TAKEN_AWAY)
            self._order(ended)

        self.ended = over
        for task in self.running:
            self._stop_input(task)
        self.commits.then(over)

    # --- restoring, as in worker.restoring --------------------------------------------------------

    def _give(self, task: TaskId, held: Held, purpose: Purpose) -> None:
        """Hand the stores to the restorer; update the offset sums before, as the next report may come first."""
        stores, held.stores = held.stores, None
        if stores is not None:
            self._process.membership.sums.restoring(task, stores.offsets())
        if self._world.changelogs[task]:
            self._order(lambda: self._given(task, held, stores, purpose))

    def _given(self, task: TaskId, held: Held, stores: Stores | None, purpose: Purpose) -> None:
        """Carry out the order, unless the task was closed and opened again meanwhile."""
        if self.held.get(task) is not held:
            return
        self._tailed = False
        stores = stores or self._restored.pop(task, None)
        if task in self.restorer.tasks:
            self.restorer.promote(task) if purpose is Purpose.ACTIVE else self.restorer.demote(task)
        else:
            stores = stores or Stores(self._process.disk, task)
            self._process.membership.sums.restoring(task, stores.offsets())
            changelogs = self._world.changelogs[task]
            if not self.behind:  # the time in which there was nothing to read is not kept
                self._turned_ms = self._world.timeline.now_ms
            self.restorer.add(task, stores, {partition: store for store, partition in changelogs.items()}, purpose)
        self._turn_within(0)

    def _look_up_positions(self, task: TaskId, held: Held) -> None:
        """Ask for committed offsets until there is an answer."""
        self._orders += 1
        number = held.order = self._orders
        self._positions.pop(task, None)

        def set_positions(positions: dict[TopicPartition, int]) -> None:
            if held.order == number and self.held.get(task) is held:
                self._positions[task] = positions
                self._begin_if_ready(task)

        def committed() -> dict[TopicPartition, int]:
            return {partition: self._world.logs.committed.get(partition, 0) for partition in held.inputs}

        def again() -> None:
            self._world.network.ask(self._process.run, committed, set_positions, again)

        again()

    def _turn_within(self, ms: int) -> None:
        """Schedule the restore thread's next turn, in ``ms`` at most."""
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
                self._begin_if_ready(event.task)
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

    def _begin_if_ready(self, task: TaskId) -> None:
        """Run the task if its state and its input positions are there."""
        held = self.held.get(task)
        stateful = bool(self._world.changelogs[task])
        if held is None or task not in self._positions or (stateful and task not in self._restored):
            return
        if held.state is not TaskState.RESTORING:
            return
        held.state, _ = move(held.state, TaskEvent.RESTORED)
        held.stores = self._restored.pop(task, None)
        at = self._positions.pop(task)
        self.running[task] = Running(dict(at), dict(at), self._world.timeline.now_ms)
        if stateful:
            self._process.membership.sums.running(task)
        self._world.watch.runs(self._process, task, at)

    def landed(self, shares: Sequence[Share]) -> None:
        """Write to the stores what their changelogs now have."""
        for share in shares:
            held = self.held.get(share.task)
            if held is not None and held.stores is not None:
                held.stores.write({}, self._world.changelog_position(share.task))

    def _close(self, task: TaskId, stores: Stores | None) -> None:
        """Keep the stores' offsets and release the folder, unless the task was assigned again meanwhile."""
        self._tailed = False
        stores = stores or self._restored.pop(task, None) or self.restorer.remove(task)  # type: ignore[assignment]
        if stores is not None:
            self._process.membership.sums.dormant(task, dict(stores.offsets()))
        self._closing.discard(task)
        if task not in self.held:
            self._process.disk.release(task, self._world.timeline.now_ms)
        self._report_released()
