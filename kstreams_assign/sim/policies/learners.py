"""The learner protocol from which KIP-441 grew: owners give up what is being learned elsewhere before they join, and only that.

Taken from the first draft, "Algorithm Walkthrough": a task that moves has one learner; who sees in the last assignment that a task of his is
being learned commits it, stops it and does not own it when he joins, so it can change hands in that very rebalance; where its learner
is not ready he gets it back. A learner that is ready asks for the rebalance. On the wire a task that was given up is one that its
owner reports as running and whose partitions he does not own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kstreams_assign.assign import learner
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.policies.bootstrap import NEVER_MS, UNLIMITED, AsksWhenComplete
from kstreams_assign.sim.policies.current import Suspending
from kstreams_assign.sim.policies.policy import Policy, always


class GivesUpWhatIsLearned(AsksWhenComplete):
    """Owns all that it runs when it joins, but what others learn."""

    _told_complete: frozenset[TaskId] = frozenset()

    @property
    def being_learned(self) -> frozenset[TaskId]:
        if self.adopted is None:
            return frozenset()
        me = self._process.process_id
        elsewhere = {task for process, tasks in self.adopted.warmups.items() if process != me for task in tasks}
        return frozenset(self.adopted.active.keys() & elsewhere)

    def awaited(self, adopted: Adopted) -> frozenset[TaskId]:
        """A standby on the destination is a learner, too. What the leader knows to be complete brings nothing."""
        copies = adopted.warmup | adopted.standby
        return frozenset() if adopted.next_probe_ms is None else copies - self._told_complete

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        owned, user_data = super().subscription()
        self._told_complete = frozenset(filter(self.complete, self.sums.report(owned_only=True)))
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
    "KIP-441's first draft: who owns what is being learned gives that up, and only that, before each join",
    always(learner),
    GivesUpWhatIsLearned,
    StopsWhatIsLearned,
    {"probing_rebalance_interval_ms": NEVER_MS, "max_warmup_replicas": UNLIMITED},
)
