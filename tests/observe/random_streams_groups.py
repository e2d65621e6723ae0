"""Streams groups with a random past, and how the brokers describe them."""

from __future__ import annotations

from random import Random
from uuid import UUID

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import STANDBYS
from kstreams_assign.wire import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedTopology,
    MemberTasks,
    StreamsSubtopology,
    TaskIds,
    TopicInfo,
)
from tests.assign.streams_coordinator import Coordinator
from tests.peer.streams_problems import member_id

GROUP = "app"


def grown(random: Random) -> Coordinator:
    """Return the coordinator of a group with a random past; at rest, with at least one member."""
    coordinator = Coordinator(
        {
            number: SubtopologyTasks(random.choice([1, 3, 6, 12, 24, 48]), is_stateful=random.random() < 0.7)
            for number in range(random.choice([1, 1, 2, 3, 5]))
        },
        random.choice([0, 0, 1, 1, 2]),
    )
    processes = random.choice([1, 2, 3, 5, 12])
    for _ in range(processes + random.choice([0, 0, 2, 6, 12])):
        _change(random, coordinator, processes)
    coordinator.assign()
    return coordinator


def _change(random: Random, coordinator: Coordinator, processes_max: int) -> None:
    """Let a process join or leave, a topic grow, the number of standbys change, or the coordinator move."""
    present = sorted({member.process_id for member in coordinator.members.values()})
    event = random.random()
    if present and event < 0.05:
        number = random.choice(list(coordinator.subtopologies))
        sub = coordinator.subtopologies[number]
        grown_by = {number: SubtopologyTasks(sub.tasks + random.randint(1, 6), sub.is_stateful)}
        coordinator.subtopologies = {**coordinator.subtopologies, **grown_by}
        coordinator.assign()
    elif present and event < 0.1:
        coordinator.standbys = random.randint(0, 2)
        coordinator.assign()
    elif present and event < 0.15:
        coordinator.move(random.sample(list(coordinator.members), len(coordinator.members)))
    elif len(present) > 1 and (len(present) >= processes_max or event < 0.35):
        gone = random.choice(present)
        for name in [name for name, member in coordinator.members.items() if member.process_id == gone]:
            coordinator.leave(name)
        coordinator.assign()
    else:
        _join_process(random, coordinator)


def _join_process(random: Random, coordinator: Coordinator) -> None:
    """Let a process of Java (a few threads, ids as Kafka's) or of ours (one member, an id as Java's UUID) join."""
    process = str(random_uuid(random))
    is_java = random.random() < 0.5
    for _ in range(random.randint(1, 4) if is_java else 1):
        name = member_id(random) if is_java else str(random_uuid(random))
        coordinator.join(StreamsMember(name, process), is_served=random.random() < 0.7)
    coordinator.assign()


def described(coordinator: Coordinator, *, is_readable: bool) -> StreamsSnapshot:
    """Return the group as the brokers describe it, with the settings if they are readable."""
    subs = coordinator.subtopologies
    members = tuple(_member(coordinator.members[name]) for name in coordinator.table.order())
    topology = DescribedTopology(1, tuple(_subtopology(number, sub) for number, sub in subs.items()))
    counts = {f"in-{number}": sub.tasks for number, sub in subs.items()}
    counts |= {f"log-{number}": sub.tasks for number, sub in subs.items() if sub.is_stateful}
    settings = {STANDBYS: str(coordinator.standbys)} if is_readable else {}
    group = DescribedStreamsGroup(0, None, GROUP, "Stable", 9, 9, topology, members)
    return StreamsSnapshot(group, 0, counts, settings=settings)


def _subtopology(number: int, sub: SubtopologyTasks) -> StreamsSubtopology:
    logs = (TopicInfo(f"log-{number}"),) if sub.is_stateful else ()
    return StreamsSubtopology(str(number), (f"in-{number}",), state_changelog_topics=logs)


def _member(member: StreamsMember) -> DescribedStreamsMember:
    tasks = MemberTasks(_rows(member.active), _rows(member.standby))
    return DescribedStreamsMember(
        member.member_id, 9, None, None, "client", "/host", 1, member.process_id, None, {}, (), (), tasks, tasks, False
    )


def _rows(tasks: frozenset[TaskId]) -> tuple[TaskIds, ...]:
    numbers = sorted({task.subtopology for task in tasks})
    return tuple(
        TaskIds(str(number), tuple(sorted(task.partition for task in tasks if task.subtopology == number)))
        for number in numbers
    )


def random_uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)
