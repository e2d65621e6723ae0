"""Random events in random order against a slow model of the threads around the engine: what must never happen.

The model has a restore thread with an inbox of its own, a member that joins, loses its membership and joins again, and
commits that end in every way. An assignment may be given again, with other inputs and other warm-ups. The model knows
who has each task's stores, and nothing else of the engine's reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from kstreams_assign.engine import effects as do
from kstreams_assign.engine.task_events import (
    Closed,
    CommitEnded,
    Event,
    InputsLost,
    Restored,
    StopAsked,
    StoreFailed,
    Turned,
)
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.errors import StateError
from kstreams_assign.group import member
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.lifecycle import TaskState
from tests.samples import sample

TASKS = [TaskId(0, partition) for partition in range(3)]
INTERVAL_MS = 200
SESSION_MS = 10_000
ENDS = (CommitEnd.DONE,) * 6 + (CommitEnd.FAILED, CommitEnd.FENCED, CommitEnd.DEFERRED)


def inputs_of(task: TaskId, rng: Random) -> do.Inputs:
    topics = ("in", "also") if rng.random() < 0.3 else ("in",)
    return tuple(TopicPartition(topic, task.partition) for topic in topics)


class RestoreThread:
    """Stores are in ``open`` here, in the loop's hands, or on their way to it. Orders are carried out one at a time."""

    def __init__(self) -> None:
        self.orders: deque[tuple[do.HandOver, bool]] = deque()
        self.answers: deque[Event] = deque()
        self.open: set[TaskId] = set()
        self.handed_out: set[TaskId] = set()
        self.inputs: dict[TaskId, do.Inputs] = {}
        self.active: set[TaskId] = set()

    def carry_out(self) -> None:
        order, stores = self.orders.popleft()
        task = order.task
        if stores:
            assert task in self.handed_out, "stores come back that were never given"
            self.handed_out.discard(task)
            self.open.add(task)
        match order:
            case do.RestoreTask(task, inputs) | do.RepairTask(task, inputs, _):
                self.inputs[task] = inputs
                if task not in self.handed_out:
                    self.open.add(task)
                    self.active.add(task)
            case do.TailTask(task):
                self.active.discard(task)
                self.inputs.pop(task, None)
                if task not in self.handed_out:
                    self.open.add(task)
            case do.CloseTask(task, number):
                if task not in self.handed_out:
                    self.open.discard(task)
                    self.active.discard(task)
                    self.inputs.pop(task, None)
                    self.answers.append(Closed(task, number))

    def hand_out(self, task: TaskId) -> None:
        self.active.discard(task)
        self.open.discard(task)
        self.handed_out.add(task)
        self.answers.append(Restored(task, self.inputs[task]))


class World:
    """One process, and the checks of what its engine asks for."""

    without_stores: frozenset[TaskId] = frozenset()

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.tasks = Tasks(INTERVAL_MS, SESSION_MS, exactly_once=seed % 2 == 0)
        self.now_ms = 0
        self.restoring = RestoreThread()
        self.in_hand: set[TaskId] = set()
        self.running: dict[TaskId, do.Inputs] = {}
        self.locked: set[TaskId] = set()
        self.in_commit: set[TaskId] | None = None
        self.adopted = Adopted({}, frozenset(), frozenset())
        self.generation = 0
        self.closing: set[TaskId] = set()
        """The tasks that ran until the newest assignment took them away, and are not closed yet."""
        self.given_again = False
        self.joined = self.awaits_release = self.awaits_commit = self.lost = self.ended = False

    # --- what the engine asks for ------------------------------------------------------

    def handle(self, event: Event) -> None:
        effects = self.tasks.handle(event, self.now_ms)
        for before, effect in pairwise([None, *effects]):
            if isinstance(before, do.StopTask) and isinstance(effect, do.CloseTask):
                self.closing.add(effect.task)
            self.carry_out(effect)

    def carry_out(self, effect: do.Effect) -> None:  # noqa: C901 - a case for each effect
        match effect:
            case do.LockFolder(task):
                assert task not in self.locked
                self.locked.add(task)
            case do.ReleaseFolder(task):
                assert task in self.locked
                assert task not in self.restoring.open | self.in_hand | self.running.keys()
                self.locked.discard(task)
                self.closing.discard(task)
            case do.RestoreTask() | do.RepairTask() | do.TailTask() | do.CloseTask():
                self.hand_over(effect)
            case do.RunTask(task, inputs):
                assert task in self.in_hand | self.without_stores
                assert task not in self.running
                assert task in self.locked
                assert task in self.adopted.active or self.lost, "it is to leave, and what it does now is thrown away"
                self.running[task] = inputs
            case do.StopTask(task, inputs):
                assert self.running.pop(task) == inputs
            case do.StopInput(task, inputs):
                assert self.running[task] == inputs
            case do.BeginCommit():
                assert self.in_commit is None
                assert not self.ended
                self.in_commit = set(self.running)
            case do.AbandonCommit():
                self.in_commit = None
            case do.CommitTimes(tasks):
                assert self.in_commit is None
                assert set(tasks) <= self.running.keys()
            case do.DiscardWork(tasks, _):
                assert not self.running.keys() & set(tasks)
            case do.TellMember(event):
                self.hear(event)
            case do.EndLoop():
                assert not self.running
                self.ended = True

    def hand_over(self, order: do.HandOver) -> None:
        stores = order.task in self.in_hand
        if stores:
            assert self.in_commit is None or order.task not in self.in_commit, "a commit may use these stores"
            assert order.task not in self.running
            self.in_hand.discard(order.task)
        assert order.task in self.locked
        self.restoring.orders.append((order, stores))

    def hear(self, event: member.Event) -> None:
        match event:
            case member.TasksReleased(generation):
                assert generation == self.generation
                self.check_released()
                self.awaits_release = False
            case member.WorkCommitted():
                assert self.awaits_commit
                assert self.in_commit is None
                self.awaits_commit = self.joined = False
            case member.MembershipLost():
                self.lost = True

    def check_released(self) -> None:
        """Another process may run what left, so this one has closed it, and none of its records is on its way."""
        assert self.awaits_release or self.given_again
        assert self.running.keys() <= self.adopted.active.keys()
        assert self.in_commit is None or self.in_commit <= self.adopted.active.keys()
        if self.awaits_release:
            assert self.closing <= self.adopted.active.keys() | self.copies()

    def copies(self) -> frozenset[TaskId]:
        return self.adopted.standby | self.adopted.warmup

    # --- what happens --------------------------------------------------------------------

    def assign(self) -> Adopted:
        roles = {task: self.rng.choice(("active", "active", "standby", "none")) for task in TASKS}
        active = {task: inputs_of(task, self.rng) for task, role in roles.items() if role == "active"}
        return Adopted(active, frozenset(t for t, role in roles.items() if role == "standby"), frozenset())

    def adopt(self) -> None:
        self.generation += 1
        self.adopted = self.assign()
        self.closing.clear()
        self.given_again = False
        self.joined = self.awaits_release = True
        self.handle(member.Adopt(self.generation, self.adopted))

    def give_again(self) -> None:
        """As in a streams group: a topic has grown, or other tasks are kept warm."""
        active = {task: inputs_of(task, self.rng) for task in self.adopted.active}
        others = [task for task in TASKS if task not in active and task not in self.adopted.standby]
        warmup = frozenset(task for task in others if self.rng.random() < 0.5)
        self.adopted, self.given_again = Adopted(active, self.adopted.standby, warmup), True
        self.handle(member.Adopt(self.generation, self.adopted))

    def drop(self) -> None:
        self.lost = self.joined = self.awaits_release = self.awaits_commit = False
        self.handle(member.DropAll("lost"))

    def end_commit(self, end: CommitEnd) -> None:
        assert self.in_commit is not None
        tasks, self.in_commit = self.in_commit, None
        failed = set(tasks) if end is CommitEnd.FAILED else {t for t in tasks if self.rng.random() < 0.05}
        self.handle(CommitEnded(end, tasks, set() if end is CommitEnd.FENCED else failed, "trouble"))

    def answer(self) -> None:
        event = self.restoring.answers.popleft()
        if isinstance(event, Restored) and event.brought:
            self.in_hand.add(event.task)
        self.handle(event)

    def step(self) -> None:
        rng = self.rng
        self.now_ms += rng.randrange(60)
        choices = [self.turn] * 3
        if self.restoring.orders:
            choices += [self.restoring.carry_out] * 3
        if self.restoring.answers:
            choices += [self.answer] * 3
        if self.restoring.active:
            choices += [lambda: self.restoring.hand_out(rng.choice(sorted(self.restoring.active)))] * 2
        if self.in_commit is not None:
            choices += [lambda: self.end_commit(rng.choice(ENDS))] * 2
        if self.running:
            task = rng.choice(sorted(self.running))
            choices.append(lambda: self.spoil(task))
            choices.append(lambda: self.handle(InputsLost(self.running[task])))
        choices += self.group_choices()
        if rng.random() < 0.02:
            choices.append(self.drop)
        rng.choice(choices)()

    def group_choices(self) -> list[Callable[[], None]]:
        if self.lost:
            return [self.drop] * 3
        if not self.joined:
            return [self.adopt] * 2
        return [self.give_again] if self.awaits_release or self.awaits_commit else [self.join, self.give_again]

    def spoil(self, task: TaskId) -> None:
        self.handle(StoreFailed(task, StateError("spoilt")))

    def turn(self) -> None:
        lease_left_ms = 0 if self.lost else self.rng.randrange(SESSION_MS)
        self.handle(Turned(self.joined and not self.lost, self.rng.random() < 0.1, lease_left_ms))

    def join(self) -> None:
        self.awaits_commit = True
        self.handle(member.Commit())

    def come_to_rest(self) -> None:
        """Answer everything; only time passes besides."""
        for _ in range(2_000):
            self.now_ms += 50
            if self.lost:
                self.drop()
            if not self.joined:
                self.adopt()
            while self.restoring.orders:
                self.restoring.carry_out()
            while self.restoring.active:
                self.restoring.hand_out(min(self.restoring.active))
            while self.restoring.answers:
                self.answer()
            if self.in_commit is not None:
                tasks, self.in_commit = self.in_commit, None
                self.handle(CommitEnded(CommitEnd.DONE, tasks))
            self.handle(Turned(joined=True))
            if self.at_rest():
                return
        raise AssertionError(f"{self.tasks.states()}, assigned {self.adopted}")

    def at_rest(self) -> bool:
        expected = dict.fromkeys(self.adopted.active, TaskState.RUNNING)
        expected |= dict.fromkeys(self.copies(), TaskState.TAILING)
        waits = self.awaits_release or self.awaits_commit or self.restoring.orders or self.restoring.answers
        return (
            not waits
            and self.tasks.states() == expected
            and self.running == self.adopted.active
            and self.locked == expected.keys()
            and self.restoring.open == self.copies()
        )


@pytest.mark.parametrize("first", sample(range(0, 400, 50), 2))
def test_nothing_forbidden_happens_and_everything_comes_to_rest(first: int) -> None:
    for seed in sample(range(first, first + 50), 20):
        world = World(seed)
        for _ in range(400):
            world.step()
        world.come_to_rest()


@pytest.mark.parametrize("first", sample(range(0, 200, 50), 1))
def test_a_process_that_ends_at_any_moment_closes_everything(first: int) -> None:
    for seed in sample(range(first, first + 50), 20):
        world = World(seed)
        for _ in range(world.rng.randrange(300)):
            world.step()
        world.handle(StopAsked(world.joined and not world.lost, failed=seed % 5 == 0))
        while world.in_commit is not None:
            world.end_commit(world.rng.choice(ENDS))
        assert world.ended
        while world.restoring.orders or world.restoring.answers or world.restoring.active:
            if world.restoring.orders:
                world.restoring.carry_out()
            elif world.restoring.answers:
                world.answer()
            else:
                world.restoring.hand_out(min(world.restoring.active))
        assert world.locked == set()
        assert world.restoring.open | world.in_hand == set()
