"""How often a process knows which tasks of a streams group (KIP-1071) it will get, before it joins.

    python -m bench.prediction                     # 2,000 random groups
    python -m bench.prediction --groups 200 --seed 7

Each group has a random past: processes with one to four members joined and left, the number of standbys changed, topics
grew, and the coordinator moved. The group is at rest. Then a process with one member joins, or two do. What
``observe.streams_join`` predicts from the broker's description is compared with what a coordinator then assigns, whose
members are in Kafka's table with all its past. The tests of ``tests/assign`` compare its assignor with Kafka's own
class.

One JSON line for each row: which processes join, whether the coordinator assigns at the join or at a later heartbeat
(in the second after another change it does so later), and whether the process may read the group's settings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from random import Random
from uuid import UUID

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.group.streams_outlook import Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_join import outlook
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

GROUPS, SEED = 2_000, 1
GROUP = "app"


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of join, in all groups.

    ``active_hits``, ``stateful_hits``, ``standby_hits``: of the tasks that came, the share that was predicted.
    ``active_in_vain``: of the predicted active tasks, the share that did not come. ``exact``: the share of processes
    that got just the predicted active tasks.
    """

    joining: str
    assigned: str
    settings: str
    groups: int
    active_tasks: int
    active_hits: float
    stateful_hits: float
    standby_hits: float
    active_in_vain: float
    exact: float


ONE, IN_TURN, TOGETHER = "one process", "two, one after the other", "two in the same moment"
"""``IN_TURN``: as two processes do that start together: the second looks again before it joins. ``TOGETHER``: as they
do where both look before either has joined."""
KINDS = (
    *((ONE, is_served, is_readable) for is_served, is_readable in product((True, False), repeat=2)),
    *((joining, is_served, True) for joining in (IN_TURN, TOGETHER) for is_served in (True, False)),
)


@dataclass(slots=True)
class _Count:
    came: int = 0
    hits: int = 0
    predicted: int = 0

    def add(self, predicted: frozenset[TaskId], came: frozenset[TaskId]) -> None:
        self.came += len(came)
        self.predicted += len(predicted)
        self.hits += len(predicted & came)

    @property
    def hit_share(self) -> float:
        return round(self.hits / self.came, 5) if self.came else 1.0

    @property
    def vain_share(self) -> float:
        return round(1 - self.hits / self.predicted, 5) if self.predicted else 0.0


def main(arguments: list[str]) -> None:
    """Print one JSON line a row."""
    parser = argparse.ArgumentParser(prog="python -m bench.prediction", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=GROUPS, help=f"how many random groups ({GROUPS:,})")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    for row in measure(options.groups, options.seed):
        print(json.dumps(asdict(row)))


def measure(groups: int, seed: int) -> Iterable[Row]:
    """Yield a row for each kind of join; all rows have the same groups."""
    for joining, is_served, is_readable in KINDS:
        active, stateful, standby = _Count(), _Count(), _Count()
        exact = []
        random = Random(seed)  # noqa: S311 (repeatable)
        for _ in range(groups):
            coordinator = grown(random)
            newcomers = [StreamsMember(str(_uuid(random)), str(_uuid(random))) for _ in range(2)]
            for seen, given in _outcomes(coordinator, newcomers, joining, is_served, is_readable):
                active.add(seen.active, given.active)
                stateful.add(seen.state, _with_state(given.active, coordinator.subtopologies))
                standby.add(seen.standby, given.standby)
                exact.append(seen.active == given.active)
        yield Row(
            joining,
            "at the join" if is_served else "later",
            "known" if is_readable else "unknown",
            groups,
            active.came,
            active.hit_share,
            stateful.hit_share,
            standby.hit_share,
            active.vain_share,
            round(sum(exact) / len(exact), 5),
        )


def _outcomes(
    coordinator: Coordinator, newcomers: Sequence[StreamsMember], joining: str, is_served: bool, is_readable: bool
) -> Iterable[tuple[Outlook, StreamsMember]]:
    """Let one process or two join; yield for each what it expected at its last look, and the member with its tasks."""
    if joining == TOGETHER:
        expected = [_look(coordinator, newcomer, is_readable) for newcomer in newcomers]
        coordinator.join(newcomers[0], is_served=is_served)
        coordinator.join(newcomers[1], is_served=False)  # its heartbeat falls into the assignment interval
        coordinator.assign()
        for seen, newcomer in zip(expected, newcomers, strict=True):
            yield seen, coordinator.members[newcomer.member_id]
        return
    for newcomer in newcomers[:1] if joining == ONE else newcomers:
        seen = _look(coordinator, newcomer, is_readable)
        coordinator.join(newcomer, is_served=is_served)
        if not is_served:
            coordinator.assign()
        yield seen, coordinator.members[newcomer.member_id]


def _look(coordinator: Coordinator, newcomer: StreamsMember, is_readable: bool) -> Outlook:
    snapshot = described(coordinator, is_readable=is_readable)
    return outlook(snapshot, newcomer.process_id, newcomer.member_id)[0]


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
    process = str(_uuid(random))
    is_java = random.random() < 0.5
    for _ in range(random.randint(1, 4) if is_java else 1):
        name = member_id(random) if is_java else str(_uuid(random))
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


def _with_state(tasks: frozenset[TaskId], subs: Mapping[int, SubtopologyTasks]) -> frozenset[TaskId]:
    return frozenset(task for task in tasks if subs[task.subtopology].is_stateful)


def _uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


if __name__ == "__main__":
    main(sys.argv[1:])
