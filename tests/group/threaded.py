"""Groups whose processes have several consumers (Java's threads), as subscriptions with real bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.leader import DecisionInput, decide, lookups
from kstreams_assign.group.values import Decision, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import AssignmentInfo, SubscriptionInfo, decode_assignment, encode_subscription

APPLICATION, END, NOW_MS = "app", 50_000, 5_000_000
SHAPE = TopologyShape((SubtopologyShape(("orders",), (Store("totals"),)), SubtopologyShape(("clicks",))))
SOURCE = {0: "orders", 1: "clicks"}


def task(text: str) -> TaskId:
    return TaskId.parse(text)


def partition_of(task_id: TaskId) -> TopicPartition:
    return TopicPartition(SOURCE[task_id.subtopology], task_id.partition)


@dataclass(frozen=True)
class Thread:
    """One consumer. ``owned`` are its active tasks, ``sums`` what it reports."""

    name: str
    process: UUID
    owned: Sequence[str] = ()
    sums: Mapping[str, int] | None = None
    endpoint: str | None = None
    error_code: int = 0
    version: int = 11

    def joins(self) -> JoinedMember:
        sums = {task(t): at for t, at in (self.sums or {}).items()}
        info = SubscriptionInfo(self.version, 11, self.process, self.endpoint, sums, error_code=self.error_code)
        owned = tuple(sorted(partition_of(task(t)) for t in self.owned))
        return JoinedMember(self.name, ("clicks", "orders"), owned, encode_subscription(info))


def led(
    threads: Sequence[Thread],
    *,
    leader: UUID,
    config: AssignConfig | None = None,
    orders: int = 4,
    clicks: int = 0,
    ends: Mapping[TaskId, int] | None = None,
    ends_known: bool = True,
    assignor: str = "high_availability",
    promised: Mapping[TaskId, UUID] | None = None,
) -> Decision:
    """Return the decision of a Python leader by Java's rules: no member here carries a trailer."""
    shape = SHAPE if clicks else TopologyShape(SHAPE.subtopologies[:1])
    counts = {"orders": orders, **({"clicks": clicks} if clicks else {})}
    changelogs = lookups(shape, APPLICATION, counts).end_offsets
    known = {p: (ends or {}).get(TaskId(0, p.partition), END) for p in changelogs}
    question = DecisionInput(
        application_id=APPLICATION,
        topology=shape,
        assignor=assignor,
        config=config or AssignConfig(),
        leader=leader,
        partition_counts=counts,
        end_offsets=known if ends_known else None,
        now_ms=NOW_MS,
        promised=promised or {},
    )
    return decide(read_group([thread.joins() for thread in threads]), question)


def read_answers(decision: Decision) -> dict[str, AssignmentInfo]:
    """Return what each consumer reads."""
    return {name: decode_assignment(answer.user_data) for name, answer in decision.assignments.items()}


def actives(decision: Decision) -> dict[str, list[str]]:
    return {name: [str(t) for t in info.active_tasks] for name, info in read_answers(decision).items()}


def standbys(decision: Decision) -> dict[str, list[str]]:
    return {name: sorted(map(str, info.standby_tasks)) for name, info in read_answers(decision).items()}
