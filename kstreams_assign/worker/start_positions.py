"""Where a task starts to read an input partition without a committed offset, or whose offset the brokers deleted.

What lives here: ``auto.offset.reset``. What must not: reading input. The idea: "latest" is another offset each time it
is looked up, and the records between two answers would be lost. So an end offset is committed before a record is read,
and a failed commit, a restart and another process begin at the same record. It is committed only if nothing was
committed under an earlier membership: another member may have owned the partition between two memberships.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable, CommitDeferred, CommitRefused
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition

RETRY_S = 0.05
PATIENCE_S = 0.5
"""How long to wait for a rebalance; then other tasks' look-ups get their turn."""


class LogEnds(Protocol):
    """The brokers' answers. Both raise ``BrokerUnavailable``."""

    def start_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...


class Committed(Protocol):
    """The group's committed offsets; partitions without one are absent. Raises ``BrokerUnavailable``."""

    def read(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...


class Group(Protocol):
    """This member's part in the group. ``member`` and ``commit`` raise ``CommitDeferred`` and ``CommitRefused``."""

    def member(self) -> MemberId: ...

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether all of these are input of this member's active tasks."""
        ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None: ...


class StartPositions:
    """Used by one thread, but for ``lose``.

    ``internal`` are repartition topics, which are always read from their start: nothing of them may be skipped.
    """

    def __init__(
        self, config: Config, internal: Collection[str], log_ends: LogEnds, committed: Committed, group: Group
    ) -> None:
        self._latest = config.auto_offset_reset == "latest"
        self._internal = internal
        self._log_ends = log_ends
        self._committed = committed
        self._group = group
        self._lost: dict[TopicPartition, int] = {}

    def lose(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that the brokers do not hold these offsets. Call it from any thread."""
        self._lost.update(positions)

    def missing(
        self, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Return the partitions without a committed offset that the brokers hold."""
        return {p for p in partitions if p not in committed or committed[p] == self._lost.get(p)}

    def resolve(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return where to start to read each partition; end offsets are committed first.

        Waits briefly for a rebalance under way. Raises ``BrokerUnavailable`` if that or a broker takes longer, if the
        partitions are no longer this member's, and if an offset was committed meanwhile: then read the committed
        offsets again.
        """
        at_end = {p for p in partitions if self._latest and p.topic not in self._internal}
        at_start = set(partitions) - at_end
        starts = dict(self._log_ends.start_offsets(at_start, timeout_s)) if at_start else {}
        starts |= self._committed_ends(at_end, timeout_s) if at_end else {}
        for partition in partitions:
            self._lost.pop(partition, None)
        return starts

    def _committed_ends(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._commit_ends(partitions, timeout_s)
            except (CommitDeferred, CommitRefused) as cause:
                if time.monotonic() >= deadline:
                    raise BrokerUnavailable(
                        f"the start of {_listed(partitions)} is not committed yet: {cause}"
                    ) from cause
            threading.Event().wait(RETRY_S)

    def _commit_ends(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]:
        """Look up and commit under one membership, under which the committed offsets are read again, too.

        Between two memberships the partitions may have been another member's.
        """
        member = self._group.member()
        committed = self._committed.read(partitions, timeout_s)
        if already := set(partitions) - self.missing(partitions, committed):
            raise BrokerUnavailable(f"the start of {_listed(already)}: it was committed meanwhile; looking again")
        ends = self._log_ends.end_offsets(partitions, timeout_s)
        if self._group.member() != member or not self._group.owns(partitions):
            raise BrokerUnavailable(f"the start of {_listed(partitions)}: a rebalance came between; looking again")
        self._group.commit(ends, timeout_s, {}, member)
        return ends


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
