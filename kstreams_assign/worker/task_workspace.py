"""The worker's side of a task: the writes and records that wait for the next commit, and the current input record.

What must not live here: what the user's code sees (``task``, ``views``), and when to commit. Used from the processing
thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.tasks.buffer import Emitted, Row, Taken, WriteBuffer
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import PartitionTime, StreamTime
from kstreams_assign.topology.flows import KeyedTimers
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.batch import Batch, TimedBatch
from kstreams_assign.worker.expiring import TaskExpiry
from kstreams_assign.worker.given import BYTES_OR_NONE, Place
from kstreams_assign.worker.global_views import NO_TABLES, Views
from kstreams_assign.worker.task import Task
from kstreams_assign.worker.timing import Timing


class TaskWorkspace:
    """Own a ``Task`` and the buffer behind it.

    ``sinks``: the names that ``Task.emit`` takes, each with its topic. ``application_id`` is part of the names of
    changelogs, which serdes may ask for. ``expiry``: that of a task whose entries expire.
    """

    def __init__(
        self,
        task_id: TaskId,
        shape: SubtopologyShape,
        sinks: Mapping[str, str],
        stores: TaskStores | None,
        at_work: AtWork,
        times: Mapping[TopicPartition, PartitionTime],
        application_id: str = "",
        timers: KeyedTimers | None = None,
        wall_ms: Callable[[], int] = wall_ms,
        expiry: TaskExpiry | None = None,
        global_tables: Views = NO_TABLES,
    ) -> None:
        self._buffer = WriteBuffer()
        self.at_work = at_work
        self.sinks = sinks
        self.expiry = expiry
        self.global_tables = global_tables
        stream = StreamTime(times.values()) if expiry is None else expiry.stream
        self.timing = Timing(task_id, timers, stores, self._buffer, at_work, stream, wall_ms)
        horizons = {} if expiry is None else expiry.horizons
        if expiry is not None:
            expiry.first_call_ms = self.timing.first_stream_ms
        self.task = Task(
            task_id,
            shape,
            sinks,
            stores,
            self._buffer,
            at_work,
            times,
            self.timing,
            application_id,
            horizons,
            global_tables,
        )

    def batch(self, records: Sequence[Record]) -> Batch:
        """Return the next input for the user's function."""
        if self.expiry is not None or self.timing.by_stream:
            return TimedBatch(records, self.at_work, self.timing.stream, timers=self.timing.by_stream)
        return Batch(records, self.at_work)

    def emit_many(self, records: Iterable[Emitted]) -> None:
        """Send records whose topics, by the names that ``Task.emit`` takes, have been checked."""
        checked = list(records)
        for record in checked:
            if type(record.key) not in BYTES_OR_NONE or type(record.value) not in BYTES_OR_NONE:
                place = Place(self.task.id, f"output {record.topic!r}", self.at_work)
                place.check("key or value", (record.key, record.value), BYTES_OR_NONE)
        self._buffer.emit_many(
            [
                (self.sinks[topic], key, value, headers, partition, timestamp_ms)
                for topic, key, value, headers, partition, timestamp_ms in checked
            ]
        )

    def emit_rows(self, rows: Sequence[Row]) -> None:
        """Send records of this package to any topic, such as dead letters."""
        self._buffer.emit_many(rows)

    def save(self) -> None:
        """Set a savepoint, in place of an earlier one."""
        self._buffer.save()
        self.timing.save()

    def undo(self) -> None:
        """End the savepoint and undo what the user's code did since then, and the time of the batch at work.

        That is what it wrote and emitted, and the punctuators that it scheduled and cancelled.
        """
        self._buffer.undo()
        self.timing.undo()
        self.timing.stream.begin_batch()

    def holds_work(self) -> bool:
        """Return whether something was written or sent since the last commit began."""
        return len(self._buffer) > 0

    def emitted_since_savepoint(self) -> Iterator[Row]:
        """Yield the records that were emitted since the savepoint."""
        return self._buffer.emitted_since_savepoint()

    def waiting_bytes(self) -> int:
        """Return the bytes of keys and values that were written and sent since the last commit began."""
        return self._buffer.size_bytes()

    def unsent(self) -> Sequence[Row]:
        """Return the emitted records that were not sent ahead of their commit."""
        return self._buffer.emitted[self._buffer.ahead :]

    def sent_ahead(self, records: int) -> None:
        """So many more have been sent."""
        self._buffer.ahead += records

    def send_again(self) -> None:
        """What was sent ahead may not arrive: nothing of it counts as sent."""
        self._buffer.ahead = 0

    def take(self) -> Taken:
        """Begin a commit: return what waits for it."""
        return self._buffer.take()

    def landed(self) -> None:
        """Note that the store holds what was taken."""
        self._buffer.landed()

    def roll_back(self) -> None:
        """Drop what was written and sent since the last commit began."""
        self._buffer.drop()
