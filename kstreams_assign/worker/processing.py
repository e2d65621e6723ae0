"""The processing loop: one thread that owns every task that runs in this process, and carries out ``engine.tasks``.

It takes orders from an inbox (adopt an assignment, commit now, drop everything, a task is ready, stop), reads input,
gives it to the code that works on it (``labour``), and commits what is done. It never waits for state: the restore
thread opens, restores and closes stores, and the two threads hand a task's stores to each other. It never waits for the
group either: work goes on while a join is under way, and so do commits at least once.

What must not live here: when a commit begins, or what becomes of a task; the engine decides both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import assert_never

from kstreams_assign import events
from kstreams_assign.adapters.clock import MACHINE_CLOCKS, Clocks
from kstreams_assign.config import Config
from kstreams_assign.engine import effects as do
from kstreams_assign.engine.task_events import (
    Closed,
    Event,
    InputsLost,
    Restored,
    StopAsked,
    StoreFailed,
    Turned,
)
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.errors import OffsetOutOfRange, StateError
from kstreams_assign.group import member
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.commits import Commits
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.feeding import Feeding
from kstreams_assign.worker.global_views import NO_TABLES
from kstreams_assign.worker.inbox import Inbox
from kstreams_assign.worker.input_progress import InputMeter
from kstreams_assign.worker.labour import Labour
from kstreams_assign.worker.lookup import Reading
from kstreams_assign.worker.neighbours import Group, Inputs, Restoring, TaskFolders
from kstreams_assign.worker.pauses import Pauses, Target, not_running
from kstreams_assign.worker.peeks import Peeks
from kstreams_assign.worker.polled_inputs import PolledInputs
from kstreams_assign.worker.purging import Purging
from kstreams_assign.worker.record_outputs import RecordOutputs
from kstreams_assign.worker.refusals import Refusals
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.sender import Calls
from kstreams_assign.worker.starting_tasks import Arrival, running_task
from kstreams_assign.worker.stores_in_hand import StoresInHand

POLL_S = 0.01
BUSY_POLL_S = 0.002


class Processor:
    """The loop's state. Every method but ``run`` may be called from any thread: it only leaves an order."""

    def __init__(
        self,
        config: Config,
        flows: Sequence[Flow],
        shape: TopologyShape,
        labour: Labour,
        inputs: Inputs,
        producer: RecordOutputs,
        directory: TaskFolders,
        sums: OffsetSums,
        purging: Purging,
        log: EventLog,
        clocks: Clocks = MACHINE_CLOCKS,
    ) -> None:
        self._config = config
        self._clocks = clocks
        self._flows = flows
        self._shape = shape
        self._labour = labour
        self._inputs = PolledInputs(inputs, config.max_poll_records, config.batch_bytes_max, clocks.monotonic_ms)
        self._producer = producer
        self._sums = sums
        self._purging = purging
        self._log = log
        self._inbox = Inbox()
        self._engine = Tasks(config.commit_interval_ms, config.write_lease_ms, exactly_once=config.exactly_once)
        self._running: dict[TaskId, Running] = {}
        self._in_hand = StoresInHand(
            directory,
            sums,
            flows,
            config.memory.statestore_cache_max_bytes,
            lambda task: shape.changelogs(config.application_id, task).values(),
        )
        self._arrivals: dict[TaskId, Arrival] = {}
        self._task_of: dict[TopicPartition, TaskId] = {}
        self._pauses = Pauses(
            labour, self._inputs, self._running, self._task_of, self.states, len(shape.subtopologies), log, clocks
        )
        self._thread: int | None = None
        self._ended = self._ended_by_error = False
        self.feeding = Feeding(self, labour, self._running, log, clocks)
        self.input_meter = InputMeter()
        self._peeks = Peeks(self._running, self._in_hand.stores, self.broken)
        self.turned_ms = self.housed_ms = clocks.monotonic_ms()
        self.global_tables = NO_TABLES

    def connect(
        self,
        group: Group,
        restoring: Restoring,
        lose: Callable[[Mapping[TopicPartition, int]], None],
        calls: Calls | None = None,
    ) -> None:
        """Get to know the other two threads' fronts, before ``run``.

        ``lose`` is given input offsets that are gone. ``calls`` makes the calls of a commit that wait for the broker.
        """
        self.group, self._in_hand.restoring, self._lose = group, restoring, lose
        timeout_s = self._config.session_timeout_ms / 3000
        refusals = Refusals(self._labour.sets_output_aside, self._labour.refuses_write)
        self._committer = committer = Committer(self._producer, group, timeout_s, self._log, calls, refusals)
        self._commits = Commits(
            self._config, self._shape, self._labour, committer, self._purging.committed, self._report_unreadable
        )

    # --- orders, from other threads -------------------------------------------

    def order(self, work: Callable[[], None]) -> None:
        """Have something done by the loop's thread, between two turns or at once where it waits."""
        self._inbox.put(work)

    def runs(self, task: TaskId) -> bool:
        """Return whether the task runs here now. From any thread."""
        return task in self._running

    def peek(self, task: TaskId, store: str, key: bytes, answer: Future[Reading | None]) -> None:
        """What a running task's store holds of a key; None if the task does not run here.

        On the loop's thread, which may wait for the answer, it is there at once.
        """
        if self.is_this_thread:
            self._peeks.peek(task, store, key, answer, self.turned_ms)
        elif not self._inbox.put(lambda: self._peeks.peek(task, store, key, answer, self.turned_ms)):
            answer.set_result(None)

    def pause(self, target: Target, answer: Future[tuple[TaskId, ...]], *, paused: bool) -> None:
        """Pause or resume; the answer comes with the commit. On the loop's thread it is carried out at once."""
        if self.is_this_thread:
            self._pauses.ask(target, answer, paused=paused)
        elif not self._inbox.put(lambda: self._pauses.ask(target, answer, paused=paused)):
            answer.set_exception(not_running())

    @property
    def paused(self) -> Mapping[TaskId, int]:
        """The paused tasks, and since when, in milliseconds since 1970. From any thread."""
        return self._pauses.paused

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller runs on the loop's thread: inside the user's function."""
        return self._thread == threading.get_ident()

    def adopt(self, generation: int, adopted: Adopted) -> None:
        self._inbox.put(lambda: self._handle(member.Adopt(generation, adopted)))

    def drop_all(self, reason: str, then: Callable[[], None] | None = None) -> None:
        losses = self.group.losses  # this loss is counted, and the next assignment is not ordered yet
        self._inbox.put(lambda: self._drop_all(reason, losses))
        if then is not None:
            self._inbox.put(then)

    def commit_now(self) -> None:
        self._inbox.put(lambda: self._handle(member.Commit()))

    def ready(
        self, task: TaskId, stores: TaskStores | None, positions: Mapping[TopicPartition, Position], restored: int
    ) -> None:
        self._inbox.put(lambda: self._ready(task, stores, Arrival(positions, restored)))

    def closed(self, task: TaskId, number: int) -> None:
        self._inbox.put(lambda: self._handle(Closed(task, number)))

    def stop(self) -> None:
        self._inbox.put(self._stop)

    # --- the loop -------------------------------------------------------------

    def run(self) -> None:
        """Process until ``stop``. Raise errors of the user's code and of the state; nothing is committed then."""
        self._commits.start()
        try:
            while not self._ended:
                self.turn()
        finally:
            self._thread = None  # another thread may get this one's number

    def turn(self, *, wait: bool = True) -> None:
        """Go round once, for ``run`` or a caller that needs no threads; without ``wait`` no order is waited for.

        Raises as ``run``, which must not turn again then.
        """
        self._thread = threading.get_ident()
        try:
            self.take_orders(wait=wait)
            self._process()
            self.keep_house()
        except BaseException:
            self._ended_by_error = True
            raise

    def keep_house(self) -> None:
        """Do what each turn does beside the work on records."""
        self.turned_ms = self.housed_ms = self._clocks.monotonic_ms()
        self._labour.call_due()
        self._turn_commits()
        self._purge()
        self._labour.turn()
        self._pauses.turn()
        self._measure_inputs()

    def _purge(self) -> None:
        """Delete consumed records, but not once the tasks may be another member's: it may have other offsets."""
        if self.group.lease_left_s() > 0 and not self._committer.membership_lost:
            self._purging.turn()

    def _turn_commits(self) -> None:
        """Carry on the commit under way; begin the next one, and restore what failed, when the engine says so.

        Do nothing for the tasks of a lost membership: the order to drop them is in the inbox, or about to be.
        """
        if self._committer.membership_lost:
            return
        if (ended := self._commits.advance()) is not None:
            self._handle(ended)
        self._commits.settle()
        full = self._labour.wants_commit() or self._pauses.want_commit or self._commits.more_expired
        if self._engine.is_due(self.turned_ms, full=full):
            self._handle(Turned(self.group.joined(), full, self.group.lease_left_s() * 1000))

    def _measure_inputs(self) -> None:
        if self.input_meter.is_due(self.turned_ms):
            at = [(task, *at) for task, running in self._running.items() for at in running.offsets.done_to().items()]
            self.input_meter.measure(at, {**self._pauses.end_offsets, **self._inputs.ends()}, self.turned_ms)

    def take_orders(self, *, wait: bool = True) -> None:
        """Carry out what has been ordered; wait a moment for an order where there is nothing else to do."""
        self._inbox.carry_out(self._patience_s if wait and self._idle else 0.0)

    @property
    def _idle(self) -> bool:
        """There is nothing to read, or no task takes more records now."""
        return not self._task_of or not self._labour.appetite()

    @property
    def _patience_s(self) -> float:
        """How long to wait for news; shorter in a commit or while stores are read, and not past the time of a call."""
        wait_ms = self._labour.wait_ms()
        busy = self._engine.commit_is_near or self._peeks.are_recent(self.turned_ms)
        longest_s = BUSY_POLL_S if busy else POLL_S
        return longest_s if wait_ms is None else min(longest_s, wait_ms / 1000)

    def _process(self) -> None:
        if self._idle or self._ended:
            return
        try:
            for partition, records in self._inputs.poll(self._labour.appetite(), self._patience_s):
                task_id = self._task_of.get(partition)
                if task_id is not None and self._inputs.reads_on(partition):
                    self.feeding.feed(task_id, partition, records)
        except OffsetOutOfRange as cause:
            self._log.emit(events.InputOutOfRangeEvent(reason=str(cause), reset=self._config.auto_offset_reset))
            self._lose_input(cause.positions)

    def _lose_input(self, positions: Mapping[TopicPartition, int]) -> None:
        self._lose(positions)
        self._purging.forget(positions)
        self._handle(InputsLost(positions.keys()))

    def send_ahead(self, running: Running) -> None:
        """Send what a task has emitted before its commit, if that is allowed now."""
        may_leave = running.sealed and self._engine.may_send_ahead(self.group.lease_left_s() * 1000)
        if may_leave and not self._committer.membership_lost:  # in this order: a lost member may have a new lease
            self._commits.send_ahead(running)

    def calling(self) -> AbstractContextManager[None]:
        """Inside, the user's function runs."""
        return self._commits.calling()

    def emit(self, event: events.Event) -> None:
        self._log.emit(event)

    def call(self, running: Running, work: Callable[[], None]) -> None:
        """Run the user's code for a task that no record causes to run."""
        task = running.task.id
        if self._running.get(task) is not running or self._ended or self._ended_by_error:
            return
        self.feeding.call(running, work)
        self.turned_ms = self._clocks.monotonic_ms()  # max_poll_interval_ms is for one call

    def reads_on(self, partition: TopicPartition) -> bool:
        """Return whether the records that were polled are still the next ones of this partition."""
        return self._inputs.reads_on(partition)

    def rewind(self, positions: Mapping[TopicPartition, int]) -> None:
        """The labour's wish: read these again from there. On the loop's own thread.

        Those of a paused task are read when it is resumed.
        """
        self._inputs.add({partition: at for partition, at in positions.items() if partition in self._task_of})

    # --- what the engine hears --------------------------------------------------

    def _handle(self, event: Event) -> None:
        """Let the engine decide, and carry out what it says."""
        for effect in self._engine.handle(event, self._clocks.monotonic_ms()):
            self._carry_out(effect)

    def _drop_all(self, reason: str, losses: int) -> None:
        self._handle(member.DropAll(reason))
        self._committer.begin_membership(losses)

    def _ready(self, task: TaskId, stores: TaskStores | None, arrival: Arrival) -> None:
        """The restore thread gives an active task's stores back."""
        if stores is not None:
            self._in_hand.take(task, stores)
        self._arrivals[task] = arrival
        self._handle(Restored(task, arrival.positions.keys(), brought=stores is not None))
        self._arrivals.pop(task, None)  # something else is wanted of it by now

    def broken(self, task: TaskId, error: StateError) -> None:
        self._handle(StoreFailed(task, error))

    def _report_unreadable(self, task: TaskId, error: StateError) -> None:
        """Report a store that failed while a commit began, once that has begun."""
        running = self._running[task]
        self._inbox.put(lambda: self.broken(task, error) if self._running.get(task) is running else None)

    def _stop(self) -> None:
        """Commit what may be committed, send all stores to be closed, and end the loop."""
        self._handle(StopAsked(self.group.joined(), self._ended_by_error))
        while self._engine.committing:
            ended = self._commits.advance(wait=True)
            self._handle(ended or StopAsked(joined=False, failed=True))  # a broker that does not answer is given up

    # --- what it decides --------------------------------------------------------

    def _carry_out(self, effect: do.Effect) -> None:  # noqa: C901, PLR0912  # a case for each effect
        match effect:
            case (
                do.LockFolder()
                | do.ReleaseFolder()
                | do.QueueWarmups()
                | do.RestoreTask()
                | do.RepairTask()
                | do.TailTask()
                | do.CloseTask()
                | do.ReportStore()
                | do.ReportNothing()
            ):
                self._in_hand.carry_out(effect)
            case do.RunTask():
                self._run_task(effect.task, effect.inputs)
            case do.StopInput():
                self._stop_input(effect.task, effect.inputs)
            case do.StopTask():
                self._stop_input(effect.task, effect.inputs)
                del self._running[effect.task]
                self._pauses.ends(effect.task)
                self._purging.forget(effect.inputs)
            case do.DiscardWork():
                self._commits.discard_work()
                self._labour.failed(effect.tasks, effect.reason)
            case do.BeginCommit():
                self._begin_commit()
            case do.AbandonCommit():
                self._commits.abandon()
            case do.FinishCommit():
                self._commits.finish(effect.end, self._running)
                self._pauses.commit_ends(effect.end)
            case do.CommitTimes():
                self._commits.tell_times(self._running[task] for task in effect.tasks)
            case do.TellMember():
                self.group.handle(effect.event)
            case do.AnnounceAdoption() | do.AnnounceFailure() | do.AnnounceLoss():
                self._announce(effect)
            case do.StopWork():
                self._commits.discard_work()
                self._labour.stops()
                self._pauses.stops()
                self._commits.close()
            case do.EndLoop():
                self._ended = True
            case _:
                assert_never(effect)

    def _begin_commit(self) -> None:
        for partition, passed in self._inputs.passed().items():
            if (task := self._task_of.get(partition)) is not None:
                self._running[task].offsets.pass_over(partition, passed)
        self._pauses.commit_begins()
        if (ended := self._commits.begin(self._running, self._in_hand.stores)) is not None:
            self._handle(ended)

    def _announce(self, effect: do.AnnounceAdoption | do.AnnounceFailure | do.AnnounceLoss) -> None:
        match effect:
            case do.AnnounceAdoption(generation, adopted):
                left, came = tuple(map(str, effect.left)), tuple(map(str, effect.came))
                self._log.emit(events.AdoptedEvent(generation=generation, left=left, came=came))
                self._labour.assigned(generation, adopted)
            case do.AnnounceFailure(task, reason, pause_ms):
                self._log.emit(events.TaskFailedEvent(task=str(task), reason=reason, pause_ms=pause_ms))
            case do.AnnounceLoss(reason):
                self._labour.dropped(reason)
                self._log.emit(events.LostEvent(reason=reason))
            case _:
                assert_never(effect)

    def _stop_input(self, task: TaskId, inputs: do.Inputs) -> None:
        self._labour.ends(task)
        self._pauses.input_ends(task)
        self._inputs.remove(inputs)
        self._inputs.remove_order(inputs)
        for partition in inputs:
            self._task_of.pop(partition, None)

    def _run_task(self, task: TaskId, inputs: do.Inputs) -> None:
        positions, restored = self._arrivals.pop(task)
        flow, application_id = self._flows[task.subtopology], self._config.application_id
        running = running_task(
            task,
            flow,
            self._in_hand.stores.get(task),
            inputs,
            positions,
            application_id,
            self._clocks,
            self.global_tables,
        )
        self._running[task] = running
        if self._shape.changelogs(application_id, task):
            self._sums.running(task)
        offsets = {str(p): position.offset for p, position in positions.items()}
        self._log.emit(events.RunningEvent(task=str(task), positions=offsets, restored=restored))
        self._labour.begins(running)
        if flow.in_time_order:
            self._inputs.order(positions)
        self._pauses.begins(running)
        self._purging.follow(inputs)

    def settle(self) -> None:
        """Carry out what is left to do once the loop has ended, by its own will or by an error."""
        self._inbox.settle()

    def close(self) -> None:
        """``settle`` for the last time. Requests that come later are refused at once."""
        self._pauses.stops()
        self._inbox.close()

    @property
    def stores(self) -> Mapping[TaskId, TaskStores]:
        """Return the stores of the tasks that are in the loop's hands, with the record cache before them."""
        return self._in_hand.stores

    def horizon(self, task: TaskId, store: str) -> bytes:
        """Return the bytes below which a value in a store with a ttl has expired; on the loop's own thread."""
        running = self._running.get(task)
        return b"" if running is None or running.expiry is None else running.expiry.horizons[store]()

    @property
    def commits(self) -> Commits:
        """For their totals, from any thread."""
        return self._commits

    @property
    def pauses(self) -> Pauses:
        """The paused tasks, from any thread."""
        return self._pauses

    @property
    def has_orders(self) -> bool:
        """Whether an order waits for the next turn."""
        return not self._inbox.empty

    def due_ms(self) -> int | None:
        """When something is to be done if nothing else happens, by the monotonic clock; None: never."""
        return self._engine.due_ms()

    def states(self) -> dict[TaskId, TaskState]:
        """Each task's state, for status. A copy, so any thread may look."""
        return self._engine.states()
