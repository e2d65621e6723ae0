"""``bench-codec``: operations per second of our codecs, one JSON line per kind of work, as Java's harness reports it.

The first rows are single messages of 1,000 tasks. Nothing that is read stays lazy: each task and sum is iterated, as a
leader does. Fresh messages contain other tasks than the 300 messages before them; ``known tasks`` are the same tasks
again and again. The ``leader`` rows are a leader's work in one rebalance: read every member's subscription (1,000
tasks each, different for each member) and keep it all, or turn it into an assignor's input (previous tasks, and lags
for every task of the group); write every member's assignment (all name the same 100 endpoints).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle
from time import perf_counter, process_time
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.leader import DecisionInput, build_cluster, lookups
from kstreams_assign.group.values import JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    HostInfo,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
    TopologyShape,
)
from kstreams_assign.peer.info import info
from kstreams_assign.peer.lines import Json
from kstreams_assign.wire import (
    AssignmentInfo,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_assignments,
    encode_subscription,
)

BATCHES = 5
TASKS = 1000
DISTINCT = 300
HOSTS = {
    HostInfo(f"host-{h}.example.org", 8080): tuple(
        TopicPartition(f"topic-{p % 10}", h * 6 + p // 10) for p in range(60)
    )
    for h in range(100)
}
Work = Callable[[], object]


def bench_codec(seconds: float, members: int = 1000) -> Iterator[Json]:
    """Yield one row for each kind of work, measured for about ``seconds`` after an equally long warm-up."""
    for what, size, work in works(members):
        slow = _rates(work, seconds)[0] * seconds < 1  # one more call is enough
        batches = [_rates(work, seconds / BATCHES) for _ in range(1 if slow else BATCHES)]
        rates, cpu_rates = map(sorted, zip(*batches, strict=True))
        yield {
            "what": what,
            "bytes": size,
            "median_ops_per_s": round(rates[len(rates) // 2], 1),
            "best_ops_per_s": round(rates[-1], 1),
            "median_ops_per_cpu_s": round(cpu_rates[len(cpu_rates) // 2], 1),
            "about": info(),
        }


def works(members: int) -> Iterator[tuple[str, int, Work]]:
    """Yield the name, size in bytes and work of each row."""
    sums = offset_sums(7)
    subscription, assignment = subscription_of(7, sums), encode_single_assignment(tuple(sums))
    fresh = cycle([subscription_of(n, offset_sums(n)) for n in range(DISTINCT)])
    yield "subscription encode", len(subscription), lambda: subscription_of(7, sums)
    yield "subscription decode and sums", len(subscription), lambda: read_sums(next(fresh))
    yield "subscription decode and sums, known tasks", len(subscription), lambda: read_sums(subscription)
    yield "subscription round trip, known tasks", len(subscription), lambda: read_sums(subscription_of(7, sums))
    yield "assignment encode", len(assignment), lambda: encode_single_assignment(tuple(sums))
    yield "assignment decode", len(assignment), lambda: read_partitions(assignment)
    yield "assignment round trip", len(assignment), lambda: read_partitions(encode_single_assignment(tuple(sums)))
    joined = [subscription_of(n, offset_sums(n)) for n in range(members)]
    yield (
        f"leader reads {members:,} subscriptions",
        sum(map(len, joined)),
        lambda: [read_sums(subscription) for subscription in joined],
    )
    yield f"leader makes {members:,} clients of subscriptions", sum(map(len, joined)), clients_of(joined)
    answers = list(map(member_assignment, range(members)))
    written = sum(map(len, encode_assignments(answers)))
    yield f"leader writes {members:,} assignments", written, lambda: encode_assignments(answers)


def offset_sums(member: int) -> dict[TaskId, int]:
    """Return sums of ten subtopologies with 100 tasks each, shifted by a partition per member; a third is running."""
    return {
        TaskId(n // 100, member + n % 100): RUNNING_OFFSET_SUM if n % 3 == 0 else 1_000_000 + n for n in range(TASKS)
    }


def subscription_of(process: int, sums: Mapping[TaskId, int]) -> bytes:
    return encode_subscription(
        SubscriptionInfo(
            version=11,
            latest_supported_version=11,
            process_id=UUID(int=process),
            user_end_point=f"host-{process}.example.org:8080",
            task_offset_sums=sums,
            unique_field=1,
            client_tags={"zone": "eu-1"},
        )
    )


def read_sums(subscription: bytes) -> Mapping[TaskId, int]:
    """Decode, and iterate over every task with its sum."""
    read = decode_subscription(subscription)
    assert isinstance(read, SubscriptionInfo)
    walk(read.task_offset_sums.items())
    return read.task_offset_sums


def clients_of(joined: Sequence[bytes]) -> Work:
    """Decode all subscriptions, and build the assignor's input from them."""
    stores = (SubtopologyShape((f"topic-{n}",), (Store(f"store-{n}"),)) for n in range(10))
    topology, counts = TopologyShape(tuple(stores)), {f"topic-{n}": len(joined) + 99 for n in range(10)}
    ends = dict.fromkeys(lookups(topology, "bench", counts).end_offsets, 2_000_000)
    question = DecisionInput(
        "bench", topology, "high_availability", AssignConfig(), UUID(int=0), counts, ends, now_ms=0
    )
    members = [JoinedMember(str(n), (), (), user_data) for n, user_data in enumerate(joined)]
    return lambda: build_cluster(read_group(members), question, topology.tasks(counts))


def read_partitions(assignment: bytes) -> AssignmentInfo:
    """Decode, and iterate over every task and every partition of every endpoint."""
    read = decode_assignment(assignment)
    walk(read.active_tasks)
    walk(chain.from_iterable(read.partitions_by_host.values()))
    return read


def encode_single_assignment(tasks: tuple[TaskId, ...]) -> bytes:
    return encode_assignment(AssignmentInfo(11, 11, active_tasks=tasks, partitions_by_host=HOSTS))


def walk(items: Iterable[object]) -> None:
    deque(items, maxlen=0)


def member_assignment(member: int) -> AssignmentInfo:
    """Return six active tasks and six standbys, and the endpoints of all, active and standby."""
    tasks = [TaskId(n % 10, member) for n in range(12)]
    return AssignmentInfo(
        version=11,
        commonly_supported_version=11,
        active_tasks=tuple(tasks[:6]),
        standby_tasks={task: (TopicPartition(f"topic-{task.subtopology}", task.partition),) for task in tasks[6:]},
        partitions_by_host=HOSTS,
        standby_partitions_by_host=HOSTS,
    )


def _rates(work: Work, seconds: float) -> tuple[float, float]:
    """Return calls per second, and calls per second of this process's processor time."""
    calls, began, began_cpu = 0, perf_counter(), process_time()
    while True:
        work()
        calls += 1
        spent = perf_counter() - began
        if spent >= seconds:
            return calls / spent, calls / (process_time() - began_cpu)
