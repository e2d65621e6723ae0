"""Kafka Streams at the end of 2017: a rebalance revokes all tasks, and the sticky assignor assigns most of them back.

Taken from the proposal: each member commits and suspends all its tasks before it joins, and processes none until the
assignment arrives ("we pay the suspension cost for all tasks"). A task that is assigned back is resumed, not restored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kstreams_assign.assign import sticky
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.loop import Loop
from kstreams_assign.sim.membership import Membership
from kstreams_assign.sim.policies.policy import Policy, always


class Suspending(Loop):
    """Commits and suspends the tasks of ``gives_up`` before a join, and resumes those that it keeps."""

    def gives_up(self, task: TaskId) -> bool:  # noqa: ARG002 - others choose
        return True

    def commit_now(self) -> None:
        self._order(self._suspend)

    def _suspend(self) -> None:
        for task in filter(self.gives_up, list(self.running)):
            self._stop_input(task)
            self._world.watch.stopped(self._process, task)
        self.commits.all_before_join()

    def _adopt(self, generation: int, adopted: Adopted) -> None:
        super()._adopt(generation, adopted)
        for task in adopted.active.keys() & self.running.keys():
            self.resume(task)


class Eager(Membership):
    """Owns nothing when it joins, but reports its tasks as running, as they have no lag."""

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        return (), super().subscription()[1]


POLICY = Policy(
    "current",
    "Current",
    "2017: everything is revoked at each rebalance (eager), the sticky assignor gives it back as far as shares allow",
    always(sticky),
    Eager,
    Suspending,
)
