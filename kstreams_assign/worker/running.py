"""A task at work, and how far its work is; and what of it a commit takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.buffer import Taken
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.tasks.pieces import Pieces
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.expiring import TaskExpiry
from kstreams_assign.worker.task import Task
from kstreams_assign.worker.task_workspace import TaskWorkspace
from kstreams_assign.worker.timing import Timing

NOTHING = Taken({}, {}, ())
_timestamp_of = itemgetter(Record._fields.index("timestamp_ms"))


class Work(NamedTuple):
    """What a task brings into a commit: its writes and records, and the input offsets with their metadata.

    ``fired``: how many keyed timers were done, ``expired``: how many entries the commit deletes as their time is over.
    """

    taken: Taken
    offsets: Mapping[TopicPartition, int]
    metadata: Mapping[TopicPartition, str]
    fired: int = 0
    expired: int = 0


@dataclass(slots=True)
class Running:
    """A running task.

    ``offsets``: its handled ones are sealed. ``times`` has all input partitions, ``committed_metadata`` what was
    committed beside their offsets. ``paused``: nothing of the task is worked on, though it runs (``pauses``).
    """

    workspace: TaskWorkspace
    offsets: InputOffsets
    times: Mapping[TopicPartition, PartitionTime]
    sealed: bool = False
    fresh: bool = True
    pieces: Pieces = field(default_factory=Pieces)
    committed_metadata: dict[TopicPartition, str] = field(default_factory=dict)
    written_bytes: int = 0
    paused: bool = False
    pause_mark: PauseMark = field(default_factory=PauseMark)

    @property
    def task(self) -> Task:
        """Return the task as the user's code sees it."""
        return self.workspace.task

    @property
    def timing(self) -> Timing:
        """Return the clocks, punctuators and timers of the task."""
        return self.workspace.timing

    @property
    def expiry(self) -> TaskExpiry | None:
        """Return the expiry of a task whose entries expire."""
        return self.workspace.expiry

    @property
    def news(self) -> bool:
        """Whether there is something to commit."""
        return self.sealed or bool(self.offsets.deferred) or (self.expiry is not None and self.expiry.found)

    def seal(self, handled: Mapping[TopicPartition, int]) -> None:
        """The writes so far, and these offsets, go into the next commit."""
        self.offsets.handled.update(handled)
        self.sealed = True

    def saw(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """These are being worked on, at least one: their times count once the offset behind them is committed."""
        newest_ms = max(map(_timestamp_of, records))
        self.times[partition].saw(records[-1].offset + 1, newest_ms)
        self.workspace.at_work.end()
        self.timing.stream.saw(newest_ms)

    def timers_fired(self) -> None:
        """Commit the time of the record that comes behind the timers with them: no record is to see an earlier one."""
        stream, partition = self.timing.stream, self.timing.ahead_in
        if partition is not None and stream.ahead_ms > stream.done_ms:
            offset = self.offsets.done_to()[partition]
            self.times[partition].saw(offset, stream.ahead_ms)
            self.offsets.defer({partition: offset})

    def roll_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Forget the times of the records from these offsets on: they are processed again."""
        for partition, offset in offsets.items():
            self.times[partition].roll_back(offset)
        self.timing.stream.begin(self.times.values())

    def mark_pause(self, mark: PauseMark) -> None:
        """The task is paused, or not, as the mark says; each offset that is committed from now on has it."""
        self.pause_mark, self.paused = mark, mark.is_paused
        for time in self.times.values():
            time.mark_pause(mark)

    def grown_bytes(self) -> int:
        """Return the bytes that wait for a commit and did not when this was asked last."""
        before, self.written_bytes = self.written_bytes, self.workspace.waiting_bytes()
        return self.written_bytes - before

    def take(self) -> Work:
        """A commit begins: what is sealed, expired entries, and the offsets put off before.

        Work that brings no offsets, as that of timers and expiry, commits a position again: then the group refuses it
        from a member that is no longer in the generation.
        """
        self.written_bytes = 0
        taken, fired, expired = NOTHING, 0, 0
        if self.sealed:
            taken, fired = self.workspace.take(), self.timing.take_fired()
        if self.expiry is not None:
            taken, expired = self.expiry.add_to(taken)
        self.sealed = False
        offsets = self.offsets.take() or dict(sorted(self.offsets.positions.items())[:1])
        metadata = {partition: self.times[partition].commit(offset) for partition, offset in offsets.items()}
        self.committed_metadata.update(metadata)
        return Work(taken, offsets, metadata, fired, expired)
