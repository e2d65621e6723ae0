"""Where input begins that has no committed offset, or whose committed offset the broker no longer holds (``auto.offset.reset``).

What must not live here: reading committed offsets, reading input. The idea: "latest" is another offset each time it is asked, and what
came meanwhile would be lost. So the end offset is looked up once and committed before a record is read; a failed commit, a restart and
another process then begin at the same record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable, CommitDeferred, CommitRefused
from kstreams_assign.model import TopicPartition

RETRY_S = 0.05


class LogEnds(Protocol):
    """The brokers' answers. Both raise ``BrokerUnavailable``."""

    def start_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]: ...


Commit = Callable[[Mapping[TopicPartition, int], float, Mapping[TopicPartition, str]], None]
"""``OffsetCommits.commit``."""


class StartPositions:
    """Used by one thread. ``internal`` are repartition topics, which are always read from their start: nothing of them may be skipped."""

    def __init__(self, config: Config, internal: Collection[str], log_ends: LogEnds, commit: Commit) -> None:
        self._latest = config.auto_offset_reset == "latest"
        self._internal = internal
        self._log_ends = log_ends
        self._commit = commit
        self._uncommitted: dict[TopicPartition, int] = {}

    def resolve(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, int]:
        """Return where each of these begins. An end offset is committed first.

        Raises ``BrokerUnavailable``, and ``CommitDeferred`` or ``CommitRefused`` where the group takes no commit now; the next call
        goes on with the same end offsets.
        """
        at_end = {p for p in partitions if self._latest and p.topic not in self._internal}
        at_start = set(partitions) - at_end
        starts = dict(self._log_ends.start_offsets(at_start, timeout_s)) if at_start else {}
        unknown = at_end - self._uncommitted.keys()
        if unknown:
            self._uncommitted.update(self._log_ends.end_offsets(unknown, timeout_s))
        ends = {p: self._uncommitted[p] for p in at_end & self._uncommitted.keys()}
        if ends:
            self._commit(ends, timeout_s, {})
        for partition in ends:
            del self._uncommitted[partition]
        return starts | ends

    def resolve_patiently(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """As ``resolve``, but wait for a rebalance under way. Raises ``BrokerUnavailable`` where it takes longer than ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.resolve(partitions, timeout_s)
            except (CommitDeferred, CommitRefused) as cause:
                if time.monotonic() >= deadline:
                    raise BrokerUnavailable(f"start positions are not committed yet: {cause}") from cause
            threading.Event().wait(RETRY_S)
