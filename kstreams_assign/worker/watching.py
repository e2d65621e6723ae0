"""When a member asks for a rebalance by itself, leader or not.

There are two reasons: more source partitions than the leader knew of, or an old assignment that no longer fits the
state here. Every member watches: a static member that was the leader comes back as a follower, as kafka-python joins
(JoinGroup 7), and then no leader watches the topics. It also gets its old assignment back without a rebalance, even if
its state was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.assign import compute_lag, is_caught_up
from kstreams_assign.config import Config
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopologyShape
from kstreams_assign.topology.internal import resolve_patterns
from kstreams_assign.worker.leading import Leading


class Watch:
    """Watch topics and state. The membership calls ``assigned`` on the client's thread, ``reason`` on its own."""

    def __init__(self, config: Config, shape: TopologyShape, leading: Leading) -> None:
        self._config = config
        self._shape = shape
        self._leading = leading
        self._fresh = config.group_instance_id is not None
        self._old_assignment: tuple[Iterable[TaskId], Mapping[TaskId, int]] | None = None
        self._decided: int | None = None
        self.seen = 0
        """Number of source partitions if more than the leader decided for; the subscription carries it."""

    def assigned(self, adopted: Adopted, reported_sums: Mapping[TaskId, int], *, leads: bool) -> None:
        """Note an assignment. ``reported_sums``: the offset sums that this member joined with."""
        self._decided = adopted.source_partitions
        if self._fresh and not leads:
            self._old_assignment = adopted.active.keys(), reported_sums
        self._fresh = False

    def reason(self, counts: Mapping[str, int]) -> str | None:
        """Return why a rebalance is needed, each reason once, or None. It may wait for a look-up.

        ``counts``: the partitions of each topic.
        """
        return self._more(counts) or self._misfit()

    def _more(self, counts: Mapping[str, int]) -> str | None:
        if self._decided is None:
            return None
        topology = resolve_patterns(self._shape, self._config.application_id, counts)
        partitions = sum(counts.get(topic, 0) for topic in topology.source_topics)
        if partitions <= max(self._decided, self.seen):
            return None
        self.seen = partitions
        return f"the source topics have {partitions} partitions, the leader knew of {self._decided}"

    def _misfit(self) -> str | None:
        """Return which state is too far behind for the old assignment, once the ends of its changelogs are known."""
        if self._old_assignment is None:
            return None
        tasks, reported_sums = self._old_assignment
        logged = [task for task in tasks if self._shape.changelogs(self._config.application_id, task)]
        ends = self._leading.end_offset_sums(logged)
        if not ends.keys() >= set(logged):
            return None
        self._old_assignment = None
        acceptable = self._config.acceptable_recovery_lag
        behind = sorted(
            t for t, end in ends.items() if not is_caught_up(compute_lag(end, reported_sums.get(t)), acceptable)
        )
        return f"state here is too far behind for the old assignment: {', '.join(map(str, behind))}" if behind else None
