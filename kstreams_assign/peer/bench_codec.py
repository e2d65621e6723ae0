"""``bench-codec``: how often a second our codecs work, one JSON line a piece of work, as Java's harness tells it.

The first rows are single messages of 1,000 tasks. The ``leader`` rows are what a leader does in one rebalance: read
every member's subscription (1,000 tasks each), write every member's assignment (all name the same 100 endpoints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from uuid import UUID

from kstreams_assign.model import RUNNING_OFFSET_SUM, HostInfo, TaskId, TopicPartition
from kstreams_assign.peer.info import info
from kstreams_assign.peer.lines import Json
from kstreams_assign.wire import (
    AssignmentInfo,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

BATCHES = 5
SUMS = {
    TaskId(n // 100, n % 100): RUNNING_OFFSET_SUM if n % 3 == 0 else 1_000_000 + n  # as in Java's harness
    for n in range(1000)
}
HOSTS = {
    HostInfo(f"host-{h}.example.org", 8080): tuple(
        TopicPartition(f"topic-{p % 10}", h * 6 + p // 10) for p in range(60)
    )
    for h in range(100)
}
LAST_TASK = TaskId(9, 99)

Work = Callable[[], object]


def bench_codec(seconds: float, members: int = 1000) -> Iterator[Json]:
    """One row for each piece of work, measured for about ``seconds`` after a warm-up as long."""
    for what, size, work in works(members):
        _rate(work, seconds)
        rates = sorted(_rate(work, seconds / BATCHES) for _ in range(BATCHES))
        yield {
            "what": what,
            "bytes": size,
            "median_ops_per_s": round(rates[BATCHES // 2], 1),
            "best_ops_per_s": round(rates[-1], 1),
            "about": info(),
        }


def works(members: int) -> Iterator[tuple[str, int, Work]]:
    """Name, bytes and work of each row."""
    subscription, assignment = encode_one_subscription(7), encode_one_assignment()
    yield "subscription encode", len(subscription), lambda: encode_one_subscription(7)
    yield "subscription decode and sums", len(subscription), lambda: read_sums(subscription)
    yield "subscription round trip", len(subscription), lambda: read_sums(encode_one_subscription(7))
    yield "assignment encode", len(assignment), encode_one_assignment
    yield "assignment decode", len(assignment), lambda: decode_assignment(assignment)
    yield "assignment round trip", len(assignment), lambda: decode_assignment(encode_one_assignment())
    joined = [encode_one_subscription(n) for n in range(members)]
    yield f"leader reads {members:,} subscriptions", sum(map(len, joined)), lambda: [read_sums(one) for one in joined]
    answers = list(map(member_assignment, range(members)))
    written = sum(len(encode_assignment(one)) for one in answers)
    yield f"leader writes {members:,} assignments", written, lambda: [encode_assignment(one) for one in answers]


def encode_one_subscription(process: int) -> bytes:
    return encode_subscription(
        SubscriptionInfo(
            version=11,
            latest_supported_version=11,
            process_id=UUID(int=process),
            user_end_point=f"host-{process}.example.org:8080",
            task_offset_sums=SUMS,
            unique_field=1,
            client_tags={"zone": "eu-1"},
        )
    )


def read_sums(subscription: bytes) -> Mapping[TaskId, int]:
    """Decode, and look one sum up: so the mapping has to be there."""
    read = decode_subscription(subscription)
    assert isinstance(read, SubscriptionInfo)
    assert read.task_offset_sums[LAST_TASK] == RUNNING_OFFSET_SUM
    return read.task_offset_sums


def encode_one_assignment() -> bytes:
    return encode_assignment(AssignmentInfo(11, 11, active_tasks=tuple(SUMS), partitions_by_host=HOSTS))


def member_assignment(member: int) -> AssignmentInfo:
    """Six active tasks and six standbys, and the endpoints of all, active and standby."""
    tasks = [TaskId(n % 10, member) for n in range(12)]
    return AssignmentInfo(
        version=11,
        commonly_supported_version=11,
        active_tasks=tuple(tasks[:6]),
        standby_tasks={task: (TopicPartition(f"topic-{task.subtopology}", task.partition),) for task in tasks[6:]},
        partitions_by_host=HOSTS,
        standby_partitions_by_host=HOSTS,
    )


def _rate(work: Work, seconds: float) -> float:
    """Calls a second."""
    calls, began = 0, perf_counter()
    while True:
        work()
        calls += 1
        spent = perf_counter() - began
        if spent >= seconds:
            return calls / spent
