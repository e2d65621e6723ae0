"""The learner protocol from which KIP-441 grew: before a join, owners give up only the tasks that others learn.

Taken from the first draft, "Algorithm Walkthrough": a task that moves has one learner. If another process learns an
owner's task, the owner commits it, stops it and does not own it when it joins, so the task can change owners in that
rebalance; if its learner is not ready, the owner gets it back. A learner that is ready asks for the rebalance. On the
wire, the owner reports such a task as running but does not own its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kstreams_assign.assign import learner
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.policies.bootstrap import NEVER_MS, UNLIMITED, AsksWhenComplete
from kstreams_assign.sim.policies.current import Suspending
from kstreams_assign.sim.policies.policy import Policy, always

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


class GivesUpWhatIsLearned(AsksWhenComplete):
    """Owns the tasks that it runs when it joins, except those that others learn."""

    _reported_complete: frozenset[TaskId] = frozenset()

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.client.revokes_after_join = False

    @property
    def being_learned(self) -> frozenset[TaskId]:
        if self.adopted is None:
            return frozenset()
        me = self._process.process_id
        elsewhere = {task for process, tasks in self.adopted.warmups.items() if process != me for task in tasks}
        return frozenset(self.adopted.active.keys() & elsewhere)

    def awaited(self, adopted: Adopted) -> frozenset[TaskId]:
        """Return the awaited replicas: standbys count as learners; those reported complete are left out."""
        copies = adopted.warmup | adopted.standby
        return frozenset() if adopted.next_probe_ms is None else copies - self._reported_complete

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        owned, user_data = super().subscription()
        self._reported_complete = frozenset(filter(self.complete, self.sums.report(owned_only=True)))
        given_up = {partition for task in self.being_learned for partition in self._inputs(task)}
        return tuple(partition for partition in owned if partition not in given_up), user_data

    def _inputs(self, task: TaskId) -> Sequence[TopicPartition]:
        return self.adopted.active[task] if self.adopted else ()


class StopsWhatIsLearned(Suspending):
    def gives_up(self, task: TaskId) -> bool:
        membership = self._process.membership
        return isinstance(membership, GivesUpWhatIsLearned) and task in membership.being_learned


POLICY = Policy(
    "learner",
    "Learners",
    "KIP-441's first draft: before each join, an owner gives up only the tasks that other processes learn",
    always(learner),
    GivesUpWhatIsLearned,
    StopsWhatIsLearned,
    {"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": UNLIMITED},
)
