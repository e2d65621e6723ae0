"""How often a process knows which tasks of a streams group (KIP-1071) it will get, before it joins.

    python -m bench.prediction                     # 2,000 random groups
    python -m bench.prediction --groups 200 --seed 7

Each group has a random past: processes with one to four members joined and left, the number of standbys changed, topics
grew, and the coordinator moved. The group is at rest. Then a process with one member joins, or two or three do. What
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

from kstreams_assign.assign import StreamsMember, SubtopologyTasks
from kstreams_assign.group.streams_outlook import Newcomer, Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_join import outlook
from tests.assign.streams_coordinator import Coordinator
from tests.observe.random_streams_groups import described, grown, random_uuid

GROUPS, SEED = 2_000, 1


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
ANNOUNCED = {2: "two that announce themselves", 3: "three that announce themselves"}
"""``IN_TURN``: the second looks again before it joins. ``TOGETHER``: as two do that know nothing of each other, where
both look before either has joined. ``ANNOUNCED``: each looks before any has joined, and counts on the others; then they
join in the agreed order, the second once it sees that the first was assigned. What counts is the first look, by which
they restore."""
KINDS = (
    *((ONE, is_served, is_readable) for is_served, is_readable in product((True, False), repeat=2)),
    *(
        (joining, is_served, True)
        for joining in (IN_TURN, TOGETHER, *ANNOUNCED.values())
        for is_served in (True, False)
    ),
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
    """Yield a row for each kind of join; all rows have the same groups, and the same first two processes."""
    for joining, is_served, is_readable in KINDS:
        active, stateful, standby = _Count(), _Count(), _Count()
        exact = []
        random, third = Random(seed), Random(-seed)  # noqa: S311 (repeatable)
        for _ in range(groups):
            coordinator = grown(random)
            newcomers = [_newcomer(random), _newcomer(random), _newcomer(third)]
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
    """Let processes join; yield for each what it expected, and the member with its tasks."""
    announced = [newcomers[:number] for number, name in ANNOUNCED.items() if name == joining]
    if announced or joining == TOGETHER:
        group = announced[0] if announced else newcomers[:2]
        expected = [_look(coordinator, newcomer, is_readable, group if announced else ()) for newcomer in group]
        coordinator.join(group[0], is_served=is_served)
        if announced and not is_served:
            coordinator.assign()  # the others wait for that
        for newcomer in group[1:]:
            coordinator.join(newcomer, is_served=False)  # its heartbeat falls into the assignment interval
        coordinator.assign()
        for seen, newcomer in zip(expected, group, strict=True):
            yield seen, coordinator.members[newcomer.member_id]
        return
    for newcomer in newcomers[: 1 if joining == ONE else 2]:
        seen = _look(coordinator, newcomer, is_readable)
        coordinator.join(newcomer, is_served=is_served)
        if not is_served:
            coordinator.assign()
        yield seen, coordinator.members[newcomer.member_id]


def _look(
    coordinator: Coordinator, newcomer: StreamsMember, is_readable: bool, joining: Sequence[StreamsMember] = ()
) -> Outlook:
    snapshot = described(coordinator, is_readable=is_readable)
    return outlook(snapshot, _announced(newcomer), [_announced(each) for each in joining])[0]


def _announced(member: StreamsMember) -> Newcomer:
    return Newcomer(member.member_id, member.process_id)


def _newcomer(random: Random) -> StreamsMember:
    return StreamsMember(str(random_uuid(random)), str(random_uuid(random)))


def _with_state(tasks: frozenset[TaskId], subs: Mapping[int, SubtopologyTasks]) -> frozenset[TaskId]:
    return frozenset(task for task in tasks if subs[task.subtopology].is_stateful)


if __name__ == "__main__":
    main(sys.argv[1:])
