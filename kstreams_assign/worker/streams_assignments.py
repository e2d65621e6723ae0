"""Assignments of a streams group on their way to the processing loop: the coordinator names tasks, and no partitions.

The input partitions of a task are those of its subtopology's source topics that have its number, so the topics are
looked at whenever tasks come, and from time to time, as they may grow. What must not live here: which tasks this member
has (``engine.streams_membership``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.engine.streams_events import AdoptTasks
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import AssignedEvent, LookupFailedEvent
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape, task_names
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.membership import Work
from kstreams_assign.worker.meters import Durations
from kstreams_assign.worker.streams_look import LOOK_UP_S

WATCH_S = 5.0

BEFORE_ASSIGNMENTS = 0
"""The number of what the loop is given before the first assignment."""

BROKERS = "brokers"
"""In place of an assignor's name: no member decides."""

Partitions = tuple[TopicPartition, ...]


class Assignments:
    """The newest assignment. Only ``turn`` waits for brokers; the rest is for any thread."""

    def __init__(self, shape: TopologyShape, admin: ClusterAdmin, processor: Work, log: EventLog) -> None:
        self._shape = shape
        self._admin = admin
        self._processor = processor
        self._log = log
        self._lock = threading.Lock()
        self._waiting: AdoptTasks | None = None
        self._given: tuple[int, Adopted] | None = None
        self._looked_s = 0.0
        self._kept: frozenset[TaskId] = frozenset()
        self._kept_for_leavers: frozenset[TaskId] = frozenset()
        self._assigned_warmups: frozenset[TaskId] = frozenset()
        self.durations = Durations()
        """From a join to its assignment."""

    @property
    def waits(self) -> bool:
        """Whether an assignment has not been given to the loop yet."""
        return self._waiting is not None

    @property
    def adopted(self) -> Adopted | None:
        """The assignment that the loop was given last; None while this is no member."""
        given = self._given
        return None if given is None else given[1]

    @property
    def number(self) -> int | None:
        """Its number; None while this is no member."""
        given = self._given
        return None if given is None else given[0]

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether all of these are input of active tasks."""
        adopted = self.adopted
        inputs = set() if adopted is None else {each for held in adopted.active.values() for each in held}
        return inputs.issuperset(partitions)

    def take(self, order: AdoptTasks) -> None:
        """Keep this assignment for the loop."""
        with self._lock:
            self._waiting = order

    def warm_up(self, tasks: frozenset[TaskId]) -> None:
        """Have the loop keep the state of these tasks up to date: before the first assignment, and beside others.

        A task that another member still has is not in the first assignments.
        """
        with self._lock:
            self._kept = tasks
            if self._given is None or self._given[0] == BEFORE_ASSIGNMENTS:
                self._given = BEFORE_ASSIGNMENTS, self._with_kept(Adopted({}, frozenset(), frozenset()))
                self._processor.adopt(*self._given)

    def keep_for_leavers(self, tasks: frozenset[TaskId]) -> None:
        """Have the loop keep the state of these tasks up to date, too: members that have them are about to leave.

        That holds from the next turn on, and also if this membership is lost.
        """
        with self._lock:
            self._kept_for_leavers = tasks

    def end_warm_up(self) -> None:
        """Keep no state any more that was restored before the join, from the next turn on."""
        with self._lock:
            self._kept = frozenset()

    def drop_all(self, reason: str, then: Callable[[], None]) -> None:
        """Have the loop drop all tasks and then make a call, and forget the assignments."""
        with self._lock:
            self._waiting = self._given = None
            self._kept = self._assigned_warmups = frozenset()
            self._processor.drop_all(reason, then)

    def turn(self) -> None:
        """Give the loop what waits, or the same tasks again if their inputs or what is kept warm have changed."""
        if (order := self._waiting) is not None:
            self._give(order)
        elif (given := self._given) is not None:
            if given[1].warmup != self._kept_warm(given[1]) | self._assigned_warmups:
                self._give_again(*given, given[1].active)
            elif time.monotonic() - self._looked_s >= WATCH_S:
                self._give_again(*given, self._inputs(given[1].active))

    def _give(self, order: AdoptTasks) -> None:
        inputs = self._inputs(order.tasks.active)
        if inputs is None:
            return
        adopted = self._with_kept(Adopted(inputs, order.tasks.standby, order.tasks.warmup))
        self._report(order, adopted)
        with self._lock:
            if self._waiting is not order:
                return  # the membership was lost meanwhile
            self._waiting, self._given = None, (order.number, adopted)
            self._assigned_warmups = order.tasks.warmup
            self._processor.adopt(order.number, adopted)
        self.durations.stop()

    def _report(self, order: AdoptTasks, adopted: Adopted) -> None:
        self._log.emit(
            AssignedEvent(
                generation=order.number,
                epoch=order.epoch,
                assignor=adopted.assignor,
                active=task_names(adopted.active),
                standby=task_names(adopted.standby),
                warmup=task_names(adopted.warmup),
                next_probe_ms=None,
                follow_up=adopted.follow_up,
                version=0,
                warnings=(),
            )
        )

    def _give_again(self, number: int, adopted: Adopted, inputs: Mapping[TaskId, Partitions] | None) -> None:
        """Give the loop the same tasks. A topic may have grown: its new partitions are input of tasks that are here."""
        with self._lock:
            given = self._given
            if inputs is None or given is None or given[1] is not adopted:
                return
            changed = self._with_kept(replace(adopted, active=inputs, warmup=self._assigned_warmups))
            if changed != adopted:
                self._given = number, changed
                self._processor.adopt(number, changed)

    def _with_kept(self, adopted: Adopted) -> Adopted:
        """Add what is kept warm; while there is such a task, it is between two owners."""
        kept = self._kept_warm(adopted)
        return replace(adopted, warmup=adopted.warmup | kept, assignor=BROKERS, follow_up=bool(kept))

    def _kept_warm(self, adopted: Adopted) -> frozenset[TaskId]:
        return (self._kept | self._kept_for_leavers) - adopted.active.keys() - adopted.standby

    def _inputs(self, tasks: Collection[TaskId]) -> dict[TaskId, Partitions] | None:
        """Return the input partitions of each task; None while the brokers do not tell them all."""
        self._looked_s = time.monotonic()
        try:
            counts = self._admin.partition_counts(self._shape.source_topics, LOOK_UP_S)
        except BrokerError as cause:
            self._log.emit(LookupFailedEvent(what="source topics", reason=str(cause)))
            return None
        known = self._shape.tasks(counts)
        return {task: known[task] for task in tasks} if known.keys() >= set(tasks) else None
