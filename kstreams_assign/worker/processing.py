"""The processing loop: one thread that owns every task of this process.

It takes orders from an inbox (adopt an assignment, commit now, drop everything, a task is ready, stop), reads input,
gives it to the code that works on it (``labour``), and commits what is done. It never waits for state: the restore
thread opens, restores and closes stores, and the two threads hand a task's stores to each other. It never waits for the
group either: commits are held from the promise to join until the assignment arrives, and work goes on meanwhile.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.adapters.confluent import InputConsumer, RecordProducer
from kstreams_assign.config import Config
from kstreams_assign.errors import OffsetOutOfRange, StateError
from kstreams_assign.group import member as group_member
from kstreams_assign.group.values import Adopted, WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.lifecycle import Step, TaskEvent, TaskState, changes, move
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime, Position
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.input_progress import InputProgress, measured
from kstreams_assign.worker.labour import Labour, Running
from kstreams_assign.worker.lookup import Value
from kstreams_assign.worker.meters import TaskTopic, Totals
from kstreams_assign.worker.purging import Purging
from kstreams_assign.worker.setbacks import Setbacks
from kstreams_assign.worker.task_workspace import TaskWorkspace
from kstreams_assign.worker.turns import CommitTurns, Group, Held

POLL_S = 0.01
BUSY_POLL_S = 0.002
TURN_MS = 50
"""How long records may be worked on before everything else gets its turn."""
LAGS_EVERY_MS = 1_000


class Restoring(Protocol):
    """What the loop asks of the restore thread. Answers come back through ``ready``, ``closed`` and ``damaged``."""

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None: ...

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], error: StateError
    ) -> None: ...

    def tail(self, task: TaskId, stores: TaskStores | None) -> None: ...

    def close(self, task: TaskId, stores: TaskStores | None) -> None: ...

    def queue(self, queue: WarmupQueue | None) -> None: ...


class Processor:
    """The loop's state. Every method but ``run`` may be called from any thread: it only leaves an order."""

    def __init__(
        self,
        config: Config,
        flows: Sequence[Flow],
        shape: TopologyShape,
        labour: Labour,
        inputs: InputConsumer,
        producer: RecordProducer,
        directory: StateDirectory,
        sums: OffsetSums,
        purging: Purging,
        log: EventLog,
    ) -> None:
        self._config = config
        self._flows = flows
        self._shape = shape
        self._labour = labour
        self._inputs = inputs
        self._producer = producer
        self._directory = directory
        self._sums = sums
        self._purging = purging
        self._log = log
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._held: dict[TaskId, Held] = {}
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._locked: set[TaskId] = set()
        self._closing: set[TaskId] = set()
        self._releasing: set[TaskId] | None = None
        self._generation: int | None = None
        self._setbacks = Setbacks(monotonic_ms)
        self._running, self._ended_by_error = True, False
        self.records_total = 0
        self.records_consumed: Totals[TaskTopic] = Totals()
        self.inputs_done: Mapping[TopicPartition, InputProgress] = {}
        self._measured_ms = 0
        self.turned_ms = monotonic_ms()
        self.restoring: Restoring

    def connect(self, group: Group, restoring: Restoring, lose: Callable[[Mapping[TopicPartition, int]], None]) -> None:
        """Get to know the other two threads' fronts, before ``run``. ``lose`` is given input offsets that are gone."""
        self.group, self.restoring, self._lose = group, restoring, lose
        timeout_s = self._config.session_timeout_ms / 3000
        committer = Committer(self._producer, group, timeout_s, self._log)
        self._commits = CommitTurns(
            self._config, self._shape, self._labour, committer, group, self._held, self, self._purging.committed
        )

    # --- orders, from other threads -------------------------------------------

    def order(self, work: Callable[[], None]) -> None:
        """Have something done by the loop's thread, between two turns or at once where it waits."""
        self._inbox.put(work)

    def peek(self, task: TaskId, store: str, key: bytes, found: Future[Value | None]) -> None:
        """What a running task's store holds of a key; None if the task does not run here."""
        self._inbox.put(lambda: found.set_result(self._peek(task, store, key)))

    def _peek(self, task: TaskId, store: str, key: bytes) -> Value | None:
        held = self._held.get(task)
        if held is None or held.running is None or held.stores is None:
            return None
        try:
            return (held.stores.get(store, key),)
        except StateError as error:
            self.broken(task, error)
            return None

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self._inbox.put(lambda: self._adopt(generation, adopted))

    def drop_all(self, reason: str) -> None:
        self._inbox.put(lambda: self._drop_all(reason))

    def commit_now(self) -> None:
        self._inbox.put(self._commits.before_join)

    def ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, Position], restored: int
    ) -> None:
        self._inbox.put(lambda: self._ready(task, stores, positions, restored))

    def closed(self, task: TaskId) -> None:
        self._inbox.put(lambda: self._closed(task))

    def stop(self) -> None:
        self._inbox.put(self._stop)

    # --- the loop -------------------------------------------------------------

    def run(self) -> None:
        """Process until ``stop``. Raise errors of the user's code and of the state; nothing is committed then."""
        self._commits.start()
        try:
            while self._running:
                self._turn()
        except BaseException:
            self._ended_by_error = True
            raise

    def _turn(self) -> None:
        self._take_orders()
        self._process()
        self._keep_house()

    def _keep_house(self) -> None:
        self.turned_ms = monotonic_ms()
        self._restore_rested()
        self._commits.turn()
        self._purging.turn()
        self._labour.turn()
        self._measure_inputs()

    def _measure_inputs(self) -> None:
        """Now and then, as any thread may ask; replaced, never changed."""
        if self.turned_ms - self._measured_ms < LAGS_EVERY_MS:
            return
        self._measured_ms = self.turned_ms
        done_to = [
            (task, *at) for task, held in self._held.items() if held.running for at in held.running.done_to().items()
        ]
        self.inputs_done = measured(self.inputs_done, done_to, self._inputs.ends(), self.turned_ms)

    def _take_orders(self) -> None:
        """Carry out what has been ordered; wait a moment for an order where there is nothing else to do."""
        try:
            order = self._inbox.get(timeout=self._patience_s) if self._idle else self._inbox.get_nowait()
            while True:
                order()
                order = self._inbox.get_nowait()
        except queue.Empty:
            return

    @property
    def _idle(self) -> bool:
        """There is nothing to read, or no task takes more records now."""
        return not self._task_of or not self._labour.appetite()

    @property
    def _patience_s(self) -> float:
        """How long to wait for news; shorter while a commit is on its way."""
        return BUSY_POLL_S if self._commits.near else POLL_S

    def _process(self) -> None:
        if self._idle or not self._running:
            return
        try:
            polled = self._inputs.poll(self._labour.appetite(), self._patience_s)
        except OffsetOutOfRange as cause:
            self._log.emit("input_out_of_range", reason=str(cause), reset=self._config.auto_offset_reset)
            self._lose_input(cause.positions)
            return
        for partition, records in polled.items():
            task_id = self._task_of.get(partition)
            if task_id is not None:
                self._feed(task_id, partition, records)

    def _lose_input(self, positions: Mapping[TopicPartition, int]) -> None:
        """The tasks begin again where ``auto_offset_reset`` says, once what they have done is committed."""
        self._lose(positions)
        reason = "the brokers no longer hold its input"
        for task in {self._task_of[partition] for partition in positions if partition in self._task_of}:
            self._commits.then(partial(self._begin_anew, task, self._held[task].inputs, reason))

    def _feed(self, task_id: TaskId, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Have records worked on in as many calls as it takes. The rest is read again where the task stops."""
        running = self._held[task_id].running
        if running is None:
            return
        if running.fresh:
            running.fresh = False
            self._log.emit("first_record", task=str(task_id), offset=records[0].offset, partition=str(partition))
        done = 0
        while done < len(records) and self._may_work(task_id, running):
            portion = records[done : done + self._labour.portion(running, len(records) - done)]
            try:
                with self._commits.calling():
                    self._labour.work(running, partition, portion)
            except StateError as error:
                self.broken(task_id, error)
                return
            done += len(portion)
            self.records_total += len(portion)
            self.records_consumed.add((task_id, partition.topic), len(portion))

    def _may_work(self, task_id: TaskId, running: Running) -> bool:
        """Keep house after a long call, and while a commit has to come first. False: the task has stopped."""
        while (held := self._held.get(task_id)) is not None and held.running is running:
            if self._labour.portion(running, 1) and monotonic_ms() - self.turned_ms < TURN_MS:
                return True
            self._keep_house()
            self._take_orders()
        return False

    def emit(self, event: str, **facts: object) -> None:
        self._log.emit(event, **facts)

    def rewind(self, positions: Mapping[TopicPartition, int]) -> None:
        """The labour's wish: read these again from there. On the loop's own thread."""
        self._inputs.add(positions)

    # --- assignments ----------------------------------------------------------

    def _adopt(self, generation: int, adopted: Adopted) -> None:
        """Take over an assignment. What leaves gets no more input and goes once its work is committed."""
        copies = adopted.standby | adopted.warmup
        todo = changes({t: h.state for t, h in self._held.items()}, adopted.active.keys(), copies)
        self._generation = generation
        self._commits.resume()
        self._lock(todo.arriving)
        self.restoring.queue(adopted.queue)
        for task, event in todo.arriving.items():
            self._held.setdefault(task, Held(TaskState.CLOSED)).inputs = adopted.active.get(task, ())
            self._move(task, event)
        self._log.emit(
            "adopted", generation=generation, left=[*map(str, todo.leaving)], came=[*map(str, todo.arriving)]
        )
        at_work = self._at_work(todo.leaving)
        for task in at_work:
            self._stop_input(task, self._held[task])
        self._labour.assigned(generation, adopted)
        self._change_inputs(adopted.active)
        if at_work:
            self._commits.then(lambda: self._let_go(todo.leaving))
        else:
            self._let_go(todo.leaving)

    def _change_inputs(self, active: Mapping[TaskId, tuple[TopicPartition, ...]]) -> None:
        """Note other input partitions of tasks that stay: a topic has grown, or another topic matches a pattern."""
        for task, inputs in active.items():
            held = self._held[task]
            if set(held.inputs) == set(inputs):
                continue
            if held.running is not None:
                self._commits.then(partial(self._begin_anew, task, inputs, "its input partitions have changed"))
            else:
                held.inputs = inputs
                self.restoring.restore(task, None, inputs)

    def _begin_anew(self, task: TaskId, inputs: tuple[TopicPartition, ...], reason: str) -> None:
        """Continue a running task after a commit, with its stores, from the committed offsets of these inputs."""
        held = self._held.get(task)
        if held is None or held.state not in (TaskState.RUNNING, TaskState.RESTORING):
            return
        running = held.running is not None
        if running:
            self._fall_back(task, held)
            self._labour.failed([task], reason)
        held.inputs = inputs
        if running:
            self._do(Step.RESTORE, task, held)

    def _let_go(self, leaving: Mapping[TaskId, TaskEvent]) -> None:
        at_work = self._at_work(leaving)
        self._tell_times(at_work)
        for task, event in leaving.items():
            self._move(task, event)
        self._releasing = at_work & self._closing
        self._report_released()

    def _tell_times(self, leaving: Iterable[TaskId]) -> None:
        self._commits.tell_times(running for task in leaving if (running := self._held[task].running) is not None)

    def _at_work(self, tasks: Iterable[TaskId]) -> set[TaskId]:
        return {task for task in tasks if self._held[task].running is not None}

    def _lock(self, arriving: Iterable[TaskId]) -> None:
        for task in arriving:
            if task not in self._locked:
                self._directory.lock_task(task)
                self._locked.add(task)

    def _report_released(self) -> None:
        if self._releasing is not None and not self._releasing & self._closing:
            self._releasing = None
            self.group.handle(group_member.TasksReleased(self._generation))

    def _move(self, task: TaskId, event: TaskEvent) -> None:
        """Take one row of the lifecycle table. Leaving tasks are committed together; the restore thread does OPEN."""
        held = self._held[task]
        self._setbacks.wake(task)
        held.state, steps = move(held.state, event)
        for step in steps:
            self._do(step, task, held)

    def _do(self, step: Step, task: TaskId, held: Held) -> None:
        if step in (Step.COMMIT, Step.DISCARD_WRITES):
            self._stop_input(task, held)
            held.running = None
        elif step is Step.RESTORE:
            self._hand_over(held, lambda stores: self.restoring.restore(task, stores, held.inputs))
        elif step is Step.TAIL:
            held.inputs = ()
            self._hand_over(held, lambda stores: self.restoring.tail(task, stores))
        elif step is Step.CLOSE:
            self._closing.add(task)
            self._hand_over(held, lambda stores: self.restoring.close(task, stores))
            del self._held[task]

    def _hand_over(self, held: Held, order: Callable[[TaskStores | None], None]) -> None:
        """Give a task's stores to the restore thread, once no commit on its way can read or write them."""

        def now() -> None:
            stores, held.stores = held.stores, None
            order(stores)

        self._commits.after(now)

    def failed(self, tasks: Iterable[TaskId], reason: str) -> None:
        """A commit of these failed: they forget what it held, rest, and are then restored."""
        failed = [task for task in tasks if task in self._held and self._held[task].state is TaskState.RUNNING]
        for task in failed:
            held = self._held[task]
            self._fall_back(task, held)  # it rests before it is restored
            if held.stores is not None:
                self._sums.restoring(task, held.stores.offsets())
            self._log.emit("task_failed", task=str(task), reason=reason, pause_ms=self._setbacks.rest(task))
        self._labour.failed(failed, reason)

    def broken(self, task: TaskId, error: StateError) -> None:
        """Discard the uncommitted work of a task whose store cannot be read; the store is repaired or created again."""
        held = self._held.get(task)
        if held is None or held.state is not TaskState.RUNNING:
            return
        self._fall_back(task, held)
        self._sums.forget(task)
        self._log.emit("task_failed", task=str(task), reason=str(error), pause_ms=0)
        self._labour.failed([task], str(error))
        self._hand_over(held, lambda stores: self.restoring.failed(task, stores, held.inputs, error))

    def _fall_back(self, task: TaskId, held: Held) -> None:
        """The row for FAILED, but for the restoring, whose time the caller knows."""
        held.state, steps = move(held.state, TaskEvent.FAILED)
        for step in steps:
            if step is not Step.RESTORE:
                self._do(step, task, held)

    def well(self, tasks: Iterable[TaskId]) -> None:
        self._setbacks.well(tasks)

    def _restore_rested(self) -> None:
        for task in self._setbacks.rested():
            self._do(Step.RESTORE, task, self._held[task])

    def _stop_input(self, task: TaskId, held: Held) -> None:
        self._labour.ends(task)
        self._inputs.remove(held.inputs)
        for partition in held.inputs:
            self._task_of.pop(partition, None)

    def _ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, Position], restored: int
    ) -> None:
        """The restore thread gives an active task's stores back: it may run."""
        held = self._held.get(task)
        if held is None:  # taken away meanwhile
            self.restoring.close(task, stores)
            return
        if task in self._closing:  # handed over before it was taken away: another process may have worked since
            self.restoring.close(task, stores)
            if held.state is TaskState.TAILING:
                self.restoring.tail(task, None)
            else:
                self.restoring.restore(task, None, held.inputs)
            return
        if held.state is TaskState.TAILING:  # made a copy meanwhile
            self.restoring.tail(task, stores)
            return
        if not positions.keys() >= set(held.inputs):  # other inputs meanwhile
            self.restoring.restore(task, stores, held.inputs)
            return
        held.state, _ = move(held.state, TaskEvent.RESTORED)
        flow = self._flows[task.subtopology]
        held.stores = stores
        at = {partition: positions[partition].offset for partition in held.inputs}
        times = {partition: PartitionTime(positions[partition].metadata) for partition in held.inputs}
        at_work = AtWork(wall_ms())
        held.running = Running(TaskWorkspace(task, flow.shape, flow.sinks, stores, at_work, times), at, times)
        self._task_of.update(dict.fromkeys(held.inputs, task))
        if self._shape.changelogs(self._config.application_id, task):
            self._sums.running(task)
        self._inputs.add(at)
        offsets = {str(p): position.offset for p, position in positions.items()}
        self._log.emit("running", task=str(task), positions=offsets, restored=restored)
        self._labour.begins(held.running)

    def _closed(self, task: TaskId) -> None:
        self._closing.discard(task)
        if task not in self._held and task in self._locked:
            self._locked.discard(task)
            self._directory.release_task(task)
        self._report_released()

    def _drop_all(self, reason: str) -> None:
        """Nothing of what runs may be written any more; copies are kept on disk and closed too."""
        self._commits.abandon()
        for task in list(self._held):
            self._move(task, TaskEvent.LOST)
        self._releasing = None
        self._labour.dropped(reason)
        self._log.emit("lost", reason=reason)

    def _stop(self) -> None:
        """Commit what may be committed, send all stores to be closed, and end the loop."""
        if self._ended_by_error:
            self._commits.abandon()
        else:
            self._commits.finish()
            self._tell_times(self._held)
        self._labour.stops()
        self._commits.close()
        for task in list(self._held):
            self._move(task, TaskEvent.TAKEN_AWAY)
        self._running = False

    def settle(self) -> None:
        """Carry out what is left to do once the loop has ended, by its own will or by an error."""
        while not self._inbox.empty():
            self._inbox.get_nowait()()

    @property
    def commits(self) -> CommitTurns:
        """For their totals, from any thread."""
        return self._commits

    def states(self) -> dict[TaskId, TaskState]:
        """Each task's state, for status. A copy, so any thread may look."""
        return {task: held.state for task, held in list(self._held.items())}
