"""Both engines of a process connected, under random events: stores are never in two hands, and everything rests.

``test_tasks_at_random`` plays the group, the commits and the loop's inbox; its restore thread is replaced by the real
engine on stores that are only names. Opening, reading and discarding fail at random, and look-ups are answered late, in
any order, or not at all.
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

import pytest

from kstreams_assign.engine import effects, restore_effects
from kstreams_assign.engine import restore_events as events
from kstreams_assign.engine.restoring import Restores
from kstreams_assign.engine.task_events import (
    Closed,
    CommitEnded,
    Restored,
    StopAsked,
    Turned,
)
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Missing, Progress, Purpose, StartedOver
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.tasks.commit import CommitEnd
from tests.engine.test_tasks_at_random import ENDS, TASKS, World, inputs_of
from tests.samples import sample

STATELESS, UNLOGGED = TaskId(1, 0), TaskId(2, 0)
ALL = [*TASKS, STATELESS, UNLOGGED]
SHAPE = TopologyShape(
    (
        SubtopologyShape(("in",), (Store("totals"),)),
        SubtopologyShape(("plain",)),
        SubtopologyShape(("lean",), (Store("cache", logged=False),)),
    )
)
TROUBLE = (StateError("no space left"), StoreDamaged("spoilt"))
PAUSE_MS = 100


def changelog(task: TaskId) -> TopicPartition:
    return TopicPartition("app-totals-changelog", task.partition)


class Thread:
    """A restore thread around the real engine. Each task's stores are in one of ``hands``, ``restorer`` and ``loop``.

    ``loop``: handed out, also on their way. ``restored``: nothing is left to read. ``newest``: the last order that was
    carried out. ``reported``: the tasks with a line in the next join.
    """

    def __init__(self, world: TwoEngines) -> None:
        self.world, self.rng = world, world.rng
        self.engine = Restores(SHAPE, "app", PAUSE_MS)
        self.orders: deque[tuple[effects.HandOver, bool]] = deque()
        self.answers: deque[Restored | Closed] = deque()
        self.hands: set[TaskId] = set()
        self.restorer: dict[TaskId, Purpose] = {}
        self.loop: set[TaskId] = set()
        self.restored: set[TaskId] = set()
        self.look_ups: list[restore_effects.LookUpPositions] = []
        self.positions: dict[TaskId, effects.Inputs] = {}
        self.newest: dict[TaskId, effects.HandOver] = {}
        self.reported: set[TaskId] = set()
        self.announced: set[TaskId] = set()
        self.calm = False
        self.depth = 0

    active: frozenset[TaskId] = frozenset()
    """The engine hands out, not the world."""

    @property
    def open(self) -> set[TaskId]:
        return self.hands | self.restorer.keys()

    def fails(self) -> bool:
        return not self.calm and self.rng.random() < 0.2

    def handle(self, event: events.Event) -> None:
        self.depth += 1
        for effect in self.engine.handle(event, self.world.now_ms):
            self.do(effect)
        self.depth -= 1
        if self.depth == 0:
            assert self.engine.stopped().keys() == self.announced, "each stop and each end of one is announced"

    # --- orders -------------------------------------------------------------------------

    def carry_out(self) -> None:
        order, handed_back = self.orders.popleft()
        task = order.task
        self.newest[task] = order
        brought = handed_back and task != STATELESS
        if brought:
            self.loop.remove(task)
            self.hands.add(task)
        offsets = {changelog(task): 5} if brought else None
        match order:
            case effects.RestoreTask(task, inputs):
                self.handle(events.Restore(task, inputs, offsets))
            case effects.RepairTask(task, inputs, error):
                self.handle(events.Repair(task, inputs, error, brought))
            case effects.TailTask(task):
                self.handle(events.Tail(task, offsets))
            case effects.CloseTask(task, number):
                self.handle(events.Close(task, number, brought))
            case _:
                assert_never(order)

    # --- effects ------------------------------------------------------------------------

    def do(self, effect: restore_effects.Effect) -> None:  # noqa: C901 - a case for each effect
        match effect:
            case restore_effects.OpenStores(task):
                assert task not in self.open | self.loop
                if self.fails():
                    self.handle(events.OpenFailed(task, self.rng.choice(TROUBLE)))
                else:
                    self.hands.add(task)
                    self.handle(events.Opened(task, {changelog(task): 1}))
            case restore_effects.CloseStores(task):
                self.hands.remove(task)
            case restore_effects.DiscardFolder(task, cause):
                assert task not in self.open | self.loop
                assert task not in self.reported
                answer = events.DiscardFailed if self.fails() else events.Discarded
                self.handle(answer(task, cause))
            case restore_effects.ReadChangelogs(task, _, purpose):
                self.hands.remove(task)
                assert task not in self.restorer
                self.restorer[task] = purpose
                self.restored.discard(task)
            case restore_effects.Repurpose(task, purpose):
                assert task in self.restorer
                self.restorer[task] = purpose
            case restore_effects.TakeFromRestorer(task):
                del self.restorer[task]
                self.hands.add(task)
            case restore_effects.LookUpPositions(task):
                self.look_ups.append(effect)
                self.positions.pop(task, None)
            case restore_effects.HandOut(task):
                self.hand_out(task)
            case restore_effects.ReportClosed(task, number):
                assert task not in self.open | self.loop
                self.announced.discard(task)
                self.answers.append(Closed(task, number))
            case _:
                self.note(effect)

    def note(self, effect: restore_effects.Effect) -> None:
        """Note what is reported."""
        match effect:
            case restore_effects.ReportOffsets(task) | restore_effects.ReportDormant(task):
                assert task in self.open
                self.reported.add(task)
            case restore_effects.ReportNothing(task):
                self.reported.discard(task)
            case restore_effects.CountOffsets(_, _, offsets):
                assert offsets >= 0
            case restore_effects.AnnounceStopped(task):
                self.announced.add(task)
            case restore_effects.AnnounceResumed(task):
                self.announced.remove(task)
            case restore_effects.AnnounceDiscarded(task):
                assert task not in self.open | self.loop

    def hand_out(self, task: TaskId) -> None:
        order = self.newest[task]
        assert isinstance(order, effects.RestoreTask | effects.RepairTask), "it is wanted for something else"
        assert self.positions.pop(task) == order.inputs, "positions of an earlier look-up"
        if task != STATELESS:
            self.hands.remove(task)
            self.loop.add(task)
        if task in TASKS:
            assert task in self.restored
            assert task in self.reported
        self.answers.append(Restored(task, order.inputs, brought=task != STATELESS))

    # --- what happens ---------------------------------------------------------------------

    def step(self) -> None:
        choices = [lambda: self.handle(events.Woke())]
        if self.look_ups:
            choices += [lambda: self.answer(self.rng.choice(self.look_ups))] * 2
        if self.restorer:
            choices += [lambda: self.read(self.rng.choice(sorted(self.restorer)))] * 3
        self.rng.choice(choices)()

    def answer(self, asked: restore_effects.LookUpPositions) -> None:
        self.look_ups.remove(asked)
        if self.fails():
            self.handle(events.PositionsFailed(asked.task, asked.number, "away"))
            return
        if self.engine.awaits(asked.task, asked.number):
            self.positions[asked.task] = asked.inputs
        self.handle(events.PositionsFound(asked.task, asked.number))

    def read(self, task: TaskId) -> None:
        purpose = self.restorer[task]
        what = self.rng.random()
        if what < 0.1:
            del self.restorer[task]
            self.hands.add(task)
            self.handle(events.StoresFailed(task, self.rng.choice(TROUBLE)))
        elif what < 0.2:
            self.handle(Missing(task, (changelog(task),)))
        elif what < 0.3:
            self.handle(StartedOver(task, "overtaken"))
        else:
            self.read_to_end(task, purpose)

    def read_to_end(self, task: TaskId, purpose: Purpose) -> None:
        done = TaskProgress.begin({changelog(task): 5}, {changelog(task): 5}, 0)
        self.handle(Progress(task, purpose, done))
        if purpose is Purpose.ACTIVE:
            del self.restorer[task]
            self.hands.add(task)
            self.restored.add(task)
            self.handle(events.Restored(task, {changelog(task): 5}))

    def go_on(self) -> None:
        """Let nothing fail, and answer everything."""
        self.calm = True
        while self.orders:
            self.carry_out()
        while self.look_ups:
            self.answer(self.look_ups[0])
        for task, purpose in list(self.restorer.items()):
            self.read_to_end(task, purpose)
        self.handle(events.Woke())


class TwoEngines(World):
    """One process, with a task without stores, too, and one whose stores have no changelogs."""

    restoring: Thread
    without_stores = frozenset({STATELESS})

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.restoring = Thread(self)

    def assign(self) -> Adopted:
        roles = {task: self.rng.choice(("active", "active", "standby", "none")) for task in ALL}
        active = {task: inputs_of(task, self.rng) for task, role in roles.items() if role == "active"}
        standby = frozenset(t for t, role in roles.items() if role == "standby" and t in TASKS)
        return Adopted(active, standby, frozenset())

    def step(self) -> None:
        if self.rng.random() < 0.5:
            self.now_ms += self.rng.randrange(60)
            self.restoring.step()
        else:
            super().step()

    def spoil(self, task: TaskId) -> None:
        """A task without stores has none that fails."""
        if task != STATELESS:
            super().spoil(task)

    def come_to_rest(self) -> None:
        for _ in range(2_000):
            self.now_ms += 50
            if self.lost:
                self.drop()
            if not self.joined:
                self.adopt()
            self.restoring.go_on()
            while self.restoring.answers:
                self.answer()
            if self.in_commit is not None:
                tasks, self.in_commit = self.in_commit, None
                self.handle(CommitEnded(CommitEnd.DONE, tasks))
            self.handle(Turned(joined=True))
            if self.at_rest():
                break
        else:
            raise AssertionError(f"{self.tasks.states()}, {self.restoring.engine.entries()}, assigned {self.adopted}")
        self.check_rest()

    def check_rest(self) -> None:
        thread, engine = self.restoring, self.restoring.engine
        assert thread.hands == set()
        assert thread.restorer == dict.fromkeys(self.copies(), Purpose.STANDBY)
        assert thread.loop == self.adopted.active.keys() - {STATELESS}
        assert engine.entries().keys() == self.adopted.active.keys() | self.copies()
        assert (engine.unanswered(), engine.restoring, engine.running) == ({}, False, bool(self.adopted.active))
        self.now_ms += 1
        thread.go_on()
        assert engine.stopped() == {}, "a replica at its end works"


@pytest.mark.parametrize("first", sample(range(0, 400, 50), 2))
def test_stores_are_in_one_hand_and_everything_comes_to_rest(first: int) -> None:
    for seed in sample(range(first, first + 50), 20):
        world = TwoEngines(seed)
        for _ in range(500):
            world.step()
        world.come_to_rest()


@pytest.mark.parametrize("first", sample(range(0, 200, 50), 1))
def test_a_process_that_ends_at_any_moment_closes_all_stores(first: int) -> None:
    for seed in sample(range(first, first + 50), 20):
        world = TwoEngines(seed)
        thread = world.restoring
        for _ in range(world.rng.randrange(400)):
            world.step()
        world.handle(StopAsked(world.joined and not world.lost, failed=seed % 5 == 0))
        while world.in_commit is not None:
            world.end_commit(world.rng.choice(ENDS))
        while thread.orders or thread.answers:
            if thread.orders:
                thread.carry_out()
            else:
                world.answer()
            if world.rng.random() < 0.3:
                thread.step()
        assert thread.open | thread.loop | world.locked == set()
        assert thread.engine.entries() == {}
