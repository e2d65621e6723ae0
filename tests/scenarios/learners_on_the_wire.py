"""The seed's members in a simulated group: the same commands as ``learner_group``, but over the real wire format.

``new member`` and ``ready`` let time pass until the rebalance that follows is over; ``members join`` and ``leader
assigns`` show the reports and the assignments of that rebalance. Without anything new, ``members join`` has a member
ask for a rebalance.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

from kstreams_assign.assign import LearnerMarks
from kstreams_assign.group.view import read_group
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.sim.checkers.checker import Checker, Watch
from kstreams_assign.sim.checkers.classic import every_checker
from kstreams_assign.sim.disk import Disk
from kstreams_assign.sim.faults import NO_FAULTS
from kstreams_assign.sim.policies import learners
from kstreams_assign.sim.scenario import APPLICATION, Scenario
from kstreams_assign.sim.world import World
from tests.scenarios.learner_group import MEMBER, TASK, differing

LONGEST_MS = 120_000
SETTLED_MS = 5_000
BETWEEN_MS = 10_000
"""Between two new members, so that their learners are ready one after the other."""


class Marks(Checker):
    """The members' reports and assignments in the last rebalance, by place."""

    invariant = "marks are kept"

    def __init__(self) -> None:
        super().__init__()
        self.joined: dict[int, LearnerMarks] = {}
        self.assigned: dict[int, LearnerMarks] = {}

    def decided(self, process, members, question, decision) -> None:  # noqa: ARG002
        place = {process.process_id: process for process in self.world.processes}
        self.joined, self.assigned = {}, {}
        for who, consumers in read_group(members).processes.items():
            at = place[who]
            owned = {TaskId(0, partition.partition) for consumer in consumers for partition in consumer.member.owned}
            reported = consumers[0].info.reported_tasks
            running = {task for task, at_offset in reported.items() if at_offset == RUNNING_OFFSET_SUM}
            adopted = at.membership.adopted
            learning = reported.keys() & (adopted.warmup if adopted else set())
            given_up = frozenset(running - owned)
            placed = decision.placements[who]
            self.joined[at.slot] = LearnerMarks(frozenset(owned), given_up, frozenset(learning))
            self.assigned[at.slot] = LearnerMarks(placed.active, given_up - placed.active, placed.warmup)


class LearnersOnTheWire:
    """``S4`` is the process in place 3, ``T1`` is task 0_0."""

    def __init__(self) -> None:
        self.marks = Marks()
        self.watch: Watch
        self.world: World
        self.news = False

    def commands(self) -> dict[str, Callable[[list[str], list[str]], list[str]]]:
        return {
            "members join": lambda _, given: differing(given, self.join()),
            "leader assigns": lambda _, given: differing(given, self.assign()),
            "members": lambda words, _: self.start(" ".join(words)),
            "new member": lambda words, _: self.enter(*words),
            "ready": lambda words, _: self.learned(*words),
        }

    def start(self, text: str) -> list[str]:
        """Each process has the state of its tasks on its disk, so they are given to it."""
        owned = {name: [place(task) for task in re.findall(r"T\d+", tasks)] for name, tasks in MEMBER.findall(text)}
        count = sum(map(len, owned.values()))
        scenario = Scenario(
            processes=9,
            partitions=count,
            stateless_partitions=0,
            standbys=0,
            first_records=50_000,
            records_per_s=0,  # or a record more or less decides which of two tasks moves
            restored_per_s=1_000,
        )
        policy = learners.POLICY
        self.watch = Watch(1, [*every_checker(), self.marks])
        self.world = World(policy.applied(scenario), NO_FAULTS, 1, self.watch, None, policy)
        for name, tasks in owned.items():
            disk = self.world._disks[place(name)] = Disk(UUID(int=place(name) + 1))
            for task in (TaskId(0, partition) for partition in tasks):
                changelogs = self.world.shape.changelogs(APPLICATION, task).values()
                disk.folders[task] = dict.fromkeys(changelogs, self.world.logs.ends[task])
            self.world.start(place(name))
        self.single_rebalance()
        assert {name: marks.assigned for name, marks in self.by_name(self.marks.assigned).items()} == {
            name: {TaskId(0, partition) for partition in tasks} for name, tasks in owned.items()
        }
        return []

    def enter(self, name: str) -> list[str]:
        self.world.timeline.run(self.world.timeline.now_ms + BETWEEN_MS)
        self.world.start(place(name))
        self.single_rebalance()
        return []

    def learned(self, name: str, task: str) -> list[str]:
        """Only who has learned the task asks; the others are not ready."""
        self.single_rebalance()
        assert TaskId(0, place(task)) in self.marks.joined[place(name)].learning
        return []

    def join(self) -> list[str]:
        if not self.news:
            self.world.processes[0].membership.rejoin("a rebalance is asked for")
            self.single_rebalance()
        return self.table(self.marks.joined)

    def assign(self) -> list[str]:
        self.news = False
        return self.table(self.marks.assigned)

    def single_rebalance(self) -> None:
        """Wait for the next; no other follows at once, so what changed hands did so in this one."""
        timeline, group = self.world.timeline, self.world.coordinator
        before = group.rebalances
        assert timeline.run(timeline.now_ms + LONGEST_MS, lambda: group.rebalances > before)
        timeline.run(timeline.now_ms + SETTLED_MS)
        assert group.rebalances == before + 1
        assert self.watch.violations == []
        self.news = True

    def by_name(self, marks: dict[int, LearnerMarks]) -> dict[str, LearnerMarks]:
        return {f"S{at + 1}": marks[at] for at in sorted(marks)}

    def table(self, marks: dict[int, LearnerMarks]) -> list[str]:
        return [
            f"{name}{TASK.sub(lambda match: f'T{TaskId.parse(match.group()).partition + 1}', str(assigned))}"
            for name, assigned in self.by_name(marks).items()
        ]


def place(name: str) -> int:
    return int(name[1:]) - 1
