"""How far the work on a task's input is, as commits see it. All offsets are next offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kstreams_assign.model import TopicPartition


class Passed(NamedTuple):
    """Offsets of a partition that no records have: from the offset behind a record up to another."""

    after: int
    to: int


@dataclass(slots=True)
class InputOffsets:
    """Offsets by input partition.

    ``positions`` are those of the last commit begun: a roll-back reads from there. ``handled`` are of work that the
    next commit may have. ``deferred`` are those whose commit a rebalance put off. ``passed``: what was passed over
    last.
    """

    positions: dict[TopicPartition, int]
    handled: dict[TopicPartition, int] = field(default_factory=dict)
    deferred: dict[TopicPartition, int] = field(default_factory=dict)
    passed: dict[TopicPartition, Passed] = field(default_factory=dict, compare=False)

    def done_to(self) -> Mapping[TopicPartition, int]:
        """Return how far the work on each partition is."""
        return {**self.positions, **self.deferred, **self.handled}

    def pass_over(self, partition: TopicPartition, passed: Passed) -> None:
        """Let the next commit have these offsets, too, if the work on all records before them is done.

        Kafka commits the consumer's position, which is behind markers of transactions (``StreamTask``). Otherwise a
        partition without further records would have a lag, and its committed offset might be deleted.
        """
        for offsets in (self.handled, self.deferred, self.positions):
            if partition in offsets:
                if passed.after <= offsets[partition] < passed.to:
                    (self.deferred if offsets is self.positions else offsets)[partition] = passed.to
                    self.passed[partition] = passed
                return

    def lift(self, partition: TopicPartition, offset: int) -> int:
        """Return an offset as it is committed: behind what was passed over, which a reader of records does not see."""
        after, to = self.passed.get(partition, (offset, offset))
        return to if after <= offset < to else offset

    def take(self) -> dict[TopicPartition, int]:
        """Return the offsets of a commit that begins, with those put off before."""
        offsets = {**self.deferred, **self.handled}
        self.positions.update(offsets)
        self.handled, self.deferred = {}, {}
        return offsets

    def defer(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep the offsets of a deferred commit for the next; those of other tasks are ignored."""
        for partition in offsets.keys() & self.positions.keys():
            self.deferred.setdefault(partition, offsets[partition])
