"""When a member asks for a rebalance by itself, leader or not.

There are more source partitions than the leader knew of; or an assignment was given back to a state directory that it does not fit.
Why every member: a static member that was the leader comes back as a follower, as kafka-python joins (JoinGroup 7), and then
nobody watches the topics for the group. It is also given its old assignment back without a rebalance, whatever became of its state.
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
    """Used by the membership: ``assigned`` on the client's thread, ``wish`` on its own, while it is stable."""

    def __init__(self, config: Config, shape: TopologyShape, leading: Leading) -> None:
        self._config = config
        self._shape = shape
        self._leading = leading
        self._fresh = config.group_instance_id is not None
        self._given_back: tuple[Iterable[TaskId], Mapping[TaskId, int]] | None = None
        self._decided: int | None = None
        self.seen = 0
        """Source partitions, where they are more than the leader decided for; it is told of them."""

    def assigned(self, adopted: Adopted, told: Mapping[TaskId, int], *, leads: bool) -> None:
        """``told``: the offset sums that this member joined with."""
        self._decided = adopted.source_partitions
        if self._fresh and not leads:
            self._given_back = adopted.active.keys(), told
        self._fresh = False

    def wish(self, counts: Mapping[str, int]) -> str | None:
        """Why a rebalance is needed, None if it is not; each reason once. ``counts``: of the topics' partitions. May wait for a look-up."""
        return self._more(counts) or self._misfit()

    def _more(self, counts: Mapping[str, int]) -> str | None:
        if self._decided is None:
            return None
        topology = resolve_patterns(self._shape, self._config.application_id, counts)
        found = sum(counts.get(topic, 0) for topic in topology.source_topics)
        if found <= max(self._decided, self.seen):
            return None
        self.seen = found
        return f"the source topics have {found} partitions, the leader knew of {self._decided}"

    def _misfit(self) -> str | None:
        """What a rebalance would have found: state that is far behind. One that really took place is repeated once, for nothing."""
        if self._given_back is None:
            return None
        (tasks, told), self._given_back = self._given_back, None
        ends = self._leading.end_offset_sums(t for t in tasks if self._shape.changelogs(self._config.application_id, t))
        acceptable = self._config.acceptable_recovery_lag
        behind = sorted(t for t, end in ends.items() if not is_caught_up(compute_lag(end, told.get(t)), acceptable))
        return (
            f"the state here does not fit the tasks that were given back: {', '.join(map(str, behind))}"
            if behind
            else None
        )
