"""Has input records worked on, task by task, in as many calls as it takes.

Between two calls the loop keeps house when it is time to. What must not live here: reading input, and who works on it
(``labour``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kstreams_assign import events
from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.status.views import TaskTopic
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import TURN_MS, Labour
from kstreams_assign.worker.meters import Totals
from kstreams_assign.worker.running import Running


class Loop(Protocol):
    """What the feeding asks of the processing loop."""

    housed_ms: int
    """When house was kept last."""

    def reads_on(self, partition: TopicPartition) -> bool:
        """Return whether the records that were polled are still the next ones of this partition."""
        ...

    def rewind(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions again, from there."""
        ...

    def keep_house(self) -> None:
        """Make the calls that are due, carry the commit on, and whatever else each turn does."""
        ...

    def take_orders(self) -> None:
        """Carry out what other threads have ordered."""
        ...

    def calling(self) -> AbstractContextManager[None]:
        """Inside, the user's function runs."""
        ...

    def send_ahead(self, running: Running) -> None:
        """Send what a task has emitted before its commit, if that is allowed now."""
        ...

    def broken(self, task: TaskId, error: StateError) -> None:
        """The store of a task could not be read."""
        ...


class Feeding:
    """Feeds the tasks in ``running``. Used on the loop's thread; the totals may be read from any."""

    def __init__(
        self, loop: Loop, labour: Labour, running: Mapping[TaskId, Running], log: EventLog, clocks: Clocks
    ) -> None:
        self._loop = loop
        self._labour = labour
        self._running = running
        self._log = log
        self._clocks = clocks
        self.records_total = 0
        self.records_consumed: Totals[TaskTopic] = Totals()

    def feed(self, task: TaskId, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Have records worked on in as many calls as it takes.

        The rest is dropped where the partition is not read on from there; what the task still gets is read again.
        """
        running = self._running[task]
        if running.fresh:
            running.fresh = False
            self._log.emit(events.FirstRecordEvent(task=str(task), offset=records[0].offset, partition=str(partition)))
        done = 0
        while number := self._next_portion(running, partition, records, done):
            try:
                with self._loop.calling():
                    worked = self._labour.work(running, partition, records[done : done + number])
            except StateError as error:
                self._loop.broken(task, error)
                return
            self._loop.send_ahead(running)
            done += worked
            self.records_total += worked
            self.records_consumed.add((task, partition.topic), worked)
            if not self._loop.reads_on(partition):  # its function has paused the task, and resumed it
                self._loop.rewind({partition: self._labour.next_offsets(running)[partition]})

    def call(self, running: Running, work: Callable[[], None]) -> None:
        """Run the user's code for a task that no record causes to run."""
        try:
            with self._loop.calling():
                work()
        except StateError as error:
            self._loop.broken(running.task.id, error)
            return
        self._loop.send_ahead(running)

    def _next_portion(self, running: Running, partition: TopicPartition, records: Sequence[Record], done: int) -> int:
        """Return how many of the records that are left to work on now; 0: none is left, or they are not its next ones.

        Keep house after a long call, and while something else has to come first. Once is enough, however long it takes:
        records have their turn, too.
        """
        kept_house = made_calls = False
        while done < len(records) and self._loop.reads_on(partition):
            number = self._labour.portion(running, records, done)
            has_time = kept_house or self._clocks.monotonic_ms() - self._loop.housed_ms < TURN_MS
            if has_time and number:
                return number
            if has_time and not made_calls:  # what comes first may be a timer, of which a batch may pass many
                self._labour.call_due(running)
                made_calls = True
            else:
                self._loop.keep_house()
                self._loop.take_orders()
                kept_house, made_calls = True, False
        return 0
