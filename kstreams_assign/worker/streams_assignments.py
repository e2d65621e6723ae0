"""Assignments of a streams group on their way to the processing loop: the coordinator names tasks, and no partitions.

The input partitions of a task are those of its subtopology's source topics that have its number, so the topics are
looked at whenever tasks come, and from time to time, as they may grow. What must not live here: which tasks this member
has (``engine.streams_membership``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import replace

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.engine.streams_events import AdoptTasks
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import AssignedEvent, LookupFailedEvent
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.membership import Work
from kstreams_assign.worker.meters import Durations

LOOK_UP_S = 1.0
WATCH_S = 5.0

Inputs = dict[TaskId, tuple[TopicPartition, ...]]


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
        """Have the loop keep the state of these tasks up to date, before this is a member of the group."""
        with self._lock:
            self._given = (0, Adopted({}, frozenset(), tasks))
            self._processor.adopt(*self._given)

    def drop_all(self, reason: str) -> None:
        """Have the loop drop all tasks, and forget the assignments."""
        with self._lock:
            self._waiting = self._given = None
            self._processor.drop_all(reason)

    def turn(self) -> None:
        """Give the loop what waits, or the same tasks again if their inputs have changed."""
        if (order := self._waiting) is not None:
            self._give(order)
        elif (given := self._given) is not None and time.monotonic() - self._looked_s >= WATCH_S:
            self._look_again(*given)

    def _give(self, order: AdoptTasks) -> None:
        inputs = self._inputs(order.tasks.active)
        if inputs is None:
            return
        adopted = Adopted(inputs, order.tasks.standby, order.tasks.warmup)
        with self._lock:
            if self._waiting is not order:
                return  # the membership was lost meanwhile
            self._waiting, self._given = None, (order.number, adopted)
            self._processor.adopt(order.number, adopted)
        self.durations.stop()
        self._log.emit(
            AssignedEvent(
                generation=order.number,
                epoch=order.epoch,
                assignor=None,
                active=_ids(adopted.active),
                standby=_ids(adopted.standby),
                warmup=_ids(adopted.warmup),
                next_probe_ms=None,
                follow_up=False,
                version=0,
                warnings=(),
            )
        )

    def _look_again(self, number: int, adopted: Adopted) -> None:
        """A topic may have grown without another task; its new partitions are input of tasks that are here."""
        inputs = self._inputs(adopted.active)
        with self._lock:
            given = self._given
            if inputs in (None, adopted.active) or given is None or given[1] is not adopted:
                return
            assert inputs is not None
            self._given = number, replace(adopted, active=inputs)
            self._processor.adopt(*self._given)

    def _inputs(self, tasks: Collection[TaskId]) -> Inputs | None:
        """Return the input partitions of each task; None while the brokers do not tell them all."""
        self._looked_s = time.monotonic()
        try:
            counts = self._admin.partition_counts(self._shape.source_topics, LOOK_UP_S)
        except BrokerError as cause:
            self._log.emit(LookupFailedEvent(what="source topics", reason=str(cause)))
            return None
        known = self._shape.tasks(counts)
        return {task: known[task] for task in tasks} if known.keys() >= set(tasks) else None


def _ids(tasks: Collection[TaskId]) -> tuple[str, ...]:
    return tuple(map(str, sorted(tasks)))
