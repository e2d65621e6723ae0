"""The engine of a member with a clock that the test sets, and what members report and get."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kstreams_assign.engine.membership import (
    AnnounceJoining,
    Effect,
    Event,
    Membership,
    MutexReleased,
    Profile,
    Received,
    ReportFacts,
    Turned,
)
from kstreams_assign.errors import ShutdownRequested
from kstreams_assign.group import member
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.member import RejoinWanted, Started, State
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
    TopologyShape,
)
from kstreams_assign.wire import AssignmentInfo, MemberTrailer, encode_assignment

PROCESS, OTHER = UUID(int=7), UUID(int=8)
NOW_MS = 10_000
SHAPE = TopologyShape((SubtopologyShape(("words",), (Store("totals"),)),))
T = [TaskId(0, partition) for partition in range(4)]
RUNS, DORMANT = T[0], T[1]
SUMS, KEPT = {RUNS: RUNNING_OFFSET_SUM, DORMANT: 5}, {RUNS: RUNNING_OFFSET_SUM}
PROMISED, UNPROMISED = ReportFacts(True, SUMS, KEPT, NOW_MS), ReportFacts(False, SUMS, KEPT, NOW_MS)
TRAILER = MemberTrailer(assignors={"least_movement": 2}, settings_digest="digest", exactly_once=True)
NOTHING = Adopted({}, frozenset(), frozenset())
SHUT_DOWN = ShutdownRequested("a member asked for it")
QUIET = Turned(rebalancing=False, cleaning=False)


def inputs(*tasks: TaskId) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("words", task.partition) for task in tasks)


def active(*tasks: TaskId, **facts: Any) -> Adopted:
    return Adopted({task: inputs(task) for task in tasks}, frozenset(), frozenset(), **facts)


class Machine:
    """The engine, with a clock that the test sets."""

    def __init__(self, **facts: Any) -> None:
        self.engine = Membership(Profile(PROCESS, SHAPE, "least_movement", TRAILER, **facts))
        self.now_ms = NOW_MS

    def handle(self, *events: Event) -> list[Effect]:
        """Return the effects of all events."""
        return [effect for event in events for effect in self.engine.handle(event, self.now_ms)]

    def receive(self, adopted: Adopted, generation: int = 1) -> list[Effect]:
        return self.handle(Received(generation, adopted, self.engine.leads))

    def join(self, adopted: Adopted, generation: int = 1) -> None:
        """Join with everything that happens in between, from any state."""
        if self.engine.state is State.UNJOINED:
            self.handle(Started())
        else:
            self.handle(RejoinWanted("again"), member.WorkCommitted())
        self.report()
        self.receive(adopted, generation)
        self.handle(member.TasksReleased(generation), MutexReleased(held=True))
        assert self.engine.state is State.STABLE

    def report(self, facts: ReportFacts = PROMISED) -> MemberReport:
        return self.engine.join(facts)[1]

    @property
    def claimed(self) -> tuple[TopicPartition, ...]:
        return self.engine.join(PROMISED)[0]

    def reason(self) -> str:
        """Commit, and return why the member then joins."""
        (join, announced) = self.handle(member.WorkCommitted())
        assert isinstance(join, member.Join)
        assert announced == AnnounceJoining(join.reason)
        return join.reason


def info(**facts: Any) -> bytes:
    return encode_assignment(AssignmentInfo(version=11, commonly_supported_version=11, **facts))
