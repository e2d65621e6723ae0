"""What the processing loop asks of its neighbours: the membership, the input's client, the folders, the restore thread.

Protocols only, so that a test driver can stand in for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kstreams_assign.errors import StateError
from kstreams_assign.group import member
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.input_offsets import Passed
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.committing import OffsetCommits


class Group(OffsetCommits, Protocol):
    """What the loop asks of the membership."""

    def joined(self) -> bool: ...

    def handle(self, event: member.Event) -> None:
        """Report to the member's machine."""
        ...


class Inputs(Protocol):
    """What the loop asks of the client that reads input. ``InputConsumer`` describes each call and its errors."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None: ...

    def remove(self, partitions: Iterable[TopicPartition]) -> None: ...

    def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]: ...

    def ends(self) -> Mapping[TopicPartition, int]: ...

    def is_at_end(self, partition: TopicPartition) -> bool: ...

    def passed(self) -> Mapping[TopicPartition, Passed]: ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...


class TaskFolders(Protocol):
    """What the loop asks of the state directory."""

    def lock_task(self, task: TaskId) -> object: ...

    def release_task(self, task: TaskId) -> None: ...


class Restoring(Protocol):
    """What the loop asks of the restore thread. Answers come back through ``ready``, ``closed`` and ``damaged``."""

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None: ...

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], error: StateError
    ) -> None: ...

    def tail(self, task: TaskId, stores: TaskStores | None) -> None: ...

    def close(self, task: TaskId, stores: TaskStores | None, number: int) -> None: ...

    def queue(self, queue: WarmupQueue | None) -> None: ...
