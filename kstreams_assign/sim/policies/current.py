"""Kafka Streams at the end of 2017: a rebalance revokes all tasks, and the sticky assignor assigns most of them back.

Taken from the proposal: each member commits and suspends all its tasks before it joins, and processes none until the
assignment arrives ("we pay the suspension cost for all tasks"). A task that is assigned back is resumed, not restored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from kstreams_assign.assign import sticky
from kstreams_assign.engine.effects import Effect
from kstreams_assign.engine.task_events import Event
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.group import member
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.loop import Loop
from kstreams_assign.sim.membership import Membership
from kstreams_assign.sim.policies.policy import Policy, always

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


class CommitsAll(Tasks):
    """Commits everything before a join, however short ago the last commit was."""

    def _commit_before_join(self, event: member.Commit, now_ms: int) -> list[Effect]:
        self._next_commit_ms = now_ms
        return super()._commit_before_join(event, now_ms)

    _REACTIONS: ClassVar = {**Tasks._REACTIONS, member.Commit: _commit_before_join}  # noqa: SLF001  # a variant


class Suspending(Loop):
    """Commits and suspends the tasks of ``gives_up`` before a join, and resumes those that it keeps."""

    engine = CommitsAll

    def gives_up(self, task: TaskId) -> bool:  # noqa: ARG002 - others choose
        return True

    def handle(self, event: Event) -> None:
        if isinstance(event, member.Commit):
            for task in filter(self.gives_up, list(self.running)):
                self.running[task].stopped = True
                self._world.watch.stopped(self._process, task)
        super().handle(event)
        if isinstance(event, member.Adopt):
            for task in event.adopted.active.keys() & self.running.keys():
                self._resume(task)

    def _resume(self, task: TaskId) -> None:
        """Process a suspended task again that is still owned."""
        running = self.running[task]
        if running.stopped:
            running.stopped, running.since_ms = False, self._world.timeline.now_ms
            self._world.watch.runs(self._process, task, running.at)


class Eager(Membership):
    """Owns nothing when it joins, but reports its tasks as running, as they have no lag."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.client.revokes_after_join = False

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
