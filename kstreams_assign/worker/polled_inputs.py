"""The input that the loop reads, and which of the records of its last poll are still to be worked on.

Between two of them a task may be stopped, started again, paused or rolled back. Then its partitions are not read any
more, or from another offset, and what the poll has brought of them must not be worked on: the task is not to have it,
or gets it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.neighbours import Inputs


class PolledInputs:
    """The client that reads input, on the loop's thread. ``InputConsumer`` describes each call and its errors."""

    def __init__(self, client: Inputs) -> None:
        self._client = client
        self._moved: set[TopicPartition] = set()
        """The partitions that were added or removed since the last poll."""

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on."""
        self._moved.update(positions)
        self._client.add(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        leaving = [*partitions]
        self._moved.update(leaving)
        self._client.remove(leaving)

    def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:
        """Return the next records; what an earlier poll brought is not asked about any more."""
        self._moved.clear()
        return self._client.poll(max_records, timeout_s)

    def reads_on(self, partition: TopicPartition) -> bool:
        """Return whether the records of the last poll are still the next ones of this partition."""
        return partition not in self._moved

    def ends(self) -> Mapping[TopicPartition, int]:
        """Return the end offsets of what is read, as far as they are known."""
        return self._client.ends()
