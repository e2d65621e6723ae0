"""The real processing loop under random events, at any moment between two calls and inside them.

Assignments come and go, stores are on their way, commits are held back and fail, tasks pause, stores break, memberships
are lost. Nothing may be sent or committed after a task was released, no offset goes back, and in the end each input has
its result: exactly once, or at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from random import Random

import pytest

from kstreams_assign import StateError, TaskId, TopicPartition
from kstreams_assign.engine.task_events import InputsLost
from kstreams_assign.errors import CommitDeferred, CommitRefused
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import MemberId
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.stores import TaskStores
from tests.samples import sample
from tests.worker.loop_in_memory import Room, source, task_of

PARTITIONS = 3
STEPS = 300
REST_TURNS = 300


class RestoreThread:
    """Orders wait until the world carries them out, one at a time; so do stores that are handed out."""

    def __init__(self) -> None:
        self.room: Room
        self._orders: list[Callable[[], None]] = []
        self._out: set[TaskId] = set()
        self._wanted: dict[TaskId, Sequence[TopicPartition]] = {}

    def restore(self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition]) -> None:
        self._take(task, stores, lambda: self._wanted.update({task: inputs}))

    def failed(
        self, task: TaskId, stores: TaskStores | None, inputs: Sequence[TopicPartition], _error: StateError
    ) -> None:
        self.restore(task, stores, inputs)

    def tail(self, task: TaskId, stores: TaskStores | None) -> None:
        raise AssertionError((task, stores))

    def close(self, task: TaskId, stores: TaskStores | None, number: int) -> None:
        self._take(task, stores, lambda: self._close(task, number))

    def queue(self, queue: object) -> None:
        """There are no warm-ups."""

    def _take(self, task: TaskId, stores: TaskStores | None, order: Callable[[], None]) -> None:
        def carry_out() -> None:
            if stores is not None:
                self._out.remove(task)
            order()

        self._orders.append(carry_out)

    def _close(self, task: TaskId, number: int) -> None:
        if task not in self._out:  # else its stores are on their way to the loop
            self._wanted.pop(task, None)
            self.room.loop.closed(task, number)

    def carry_out(self) -> bool:
        """Carry out the next order, if there is one."""
        if not self._orders:
            return False
        self._orders.pop(0)()
        return True

    def hand_out(self, rng: Random) -> bool:
        """Give the loop the stores of a task that is restored, if there is one."""
        restored = [task for task in self._wanted if task not in self._out]
        if not restored:
            return False
        task = rng.choice(restored)
        self._out.add(task)
        positions = self.room.broker.positions(self._wanted.pop(task))
        self.room.loop.ready(task, self.room.stores[task], positions, 0)
        return True


class World:
    """A loop and all that happens around it. ``owned``: the partitions that no other member may have yet."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.exactly_once = seed % 2 == 0
        self.restoring = RestoreThread()
        self.room = self.restoring.room = Room(
            exactly_once=self.exactly_once,
            table=seed % 3 == 0,
            partitions=PARTITIONS,
            work=self.work,
            restoring=self.restoring,
            max_poll_records=self.rng.choice([20, 50, 200]),
        )
        self.owned: set[int] = set()
        self.active: set[int] = set()
        self.generation = 0
        self.joined, self.released, self.rejoining = False, True, False
        self.calm = self.in_call = False
        self.sent_ahead: Counter[int] = Counter()
        self._watch()

    # --- what must not happen ----------------------------------------------------------

    def _watch(self) -> None:
        room, producer = self.room, self.room.producer
        room.member.handle = self.hear  # type: ignore[method-assign]
        send_ahead, abandon, begin_commit = producer.send_ahead, producer.abandon, producer.begin_commit

        def watched_send_ahead(rows: Iterable[Row]) -> int:
            sent = list(rows)
            self.sent_ahead.update(row[4] for row in sent if row[4] is not None)
            assert self.sent_ahead.keys() <= self.owned, "sent after the release"
            return send_ahead(sent)

        def watched_abandon() -> None:
            self.sent_ahead.clear()
            abandon()

        def watched_begin_commit() -> None:
            self.sent_ahead.clear()
            begin_commit()

        producer.send_ahead, producer.abandon = watched_send_ahead, watched_abandon  # type: ignore[method-assign]
        producer.begin_commit = watched_begin_commit  # type: ignore[method-assign]
        commit, take_orders = room.broker.commit, room.loop.take_orders

        def watched_commit(offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]) -> None:
            assert {at.partition for at in offsets} <= self.owned, "committed after the release"
            assert all(offset >= room.committed(at.partition) for at, offset in offsets.items()), "it goes back"
            commit(offsets, metadata)

        room.broker.commit = watched_commit  # type: ignore[method-assign]
        room.member.commit = self.answer_commit  # type: ignore[method-assign]

        def watched_take_orders(*, wait: bool = True) -> None:
            if wait:  # between two calls
                room.clock.advance(self.rng.choice([1, 20, 60]))
                if self.calm:
                    self.let_go_on()
                else:
                    self.happen()
            take_orders(wait=False)

        room.loop.take_orders = watched_take_orders  # type: ignore[method-assign]

    def answer_commit(
        self,
        offsets: Mapping[TopicPartition, int],
        _timeout_s: float,
        metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None:
        answer = 1.0 if self.calm or only_as is not None else self.rng.random()
        if answer < 0.05:
            raise CommitDeferred("the group rebalances")
        if answer < 0.08:
            raise CommitRefused("on purpose")
        self.room.broker.commit(offsets, metadata)

    def hear(self, event: machine.Event) -> None:
        match event:
            case machine.TasksReleased():
                assert not self.sent_ahead.keys() & (self.owned - self.active), "sent ahead of a commit that never came"
                self.owned, self.released = set(self.active), True
            case machine.WorkCommitted():
                self.rejoining = self.joined = False
            case machine.MembershipLost():
                self.lose()

    # --- what happens --------------------------------------------------------------------

    def work(self, _partition: int, _offsets: Sequence[int]) -> None:
        """The user's function takes its time, in which other things happen."""
        self.room.clock.advance(self.rng.choice([1, 20, 60, 120]))
        if not self.calm and not self.in_call:
            self.in_call = True
            for _ in range(self.rng.randrange(3)):
                self.happen()
            self.in_call = False

    def happen(self) -> None:
        """Let one thing happen that another thread or the group does."""
        rng, room = self.rng, self.room
        partition = rng.randrange(PARTITIONS)
        weights = {
            self.restoring.carry_out: 25,
            lambda: self.restoring.hand_out(rng): 20,
            self.hold_or_fail: 19,
            lambda: self.break_store(partition): 3,
            lambda: self.pause_and_resume(partition): 10,
            self.go_on_in_the_group: 10,
            self.lose: 0.5,
            lambda: room.loop.order(lambda: room.loop._handle(InputsLost([source(partition)]))): 2.5,
            lambda: room.put(partition, rng.choice([5, 60, 150])): 7,
        }
        rng.choices([*weights], [*weights.values()])[0]()

    def hold_or_fail(self) -> None:
        if self.rng.random() < 0.2:
            self.room.producer.fails_next = True
        else:
            self.room.producer.holds = self.rng.random() < 0.7

    def break_store(self, partition: int) -> None:
        loop, task = self.room.loop, task_of(partition)
        loop.order(lambda: loop.broken(task, StateError("on purpose")) if loop.runs(task) else None)

    def pause_and_resume(self, partition: int) -> None:
        """Both as orders of one moment; sometimes only the end of a pause."""
        room = self.room

        def ask(paused: bool) -> None:
            if task_of(partition) in room.loop.states():
                room.loop._pauses.ask(task_of(partition), Future(), paused=paused)

        for paused in (True, False) if self.rng.random() < 0.7 else (False,):
            room.loop.order(partial(ask, paused))

    def go_on_in_the_group(self) -> None:
        """Join, or get the next assignment."""
        if self.joined and self.released and not self.rejoining:
            self.rejoining = True
            self.room.loop.commit_now()
        elif not self.joined and self.released:
            self.joined, self.released = True, False
            self.generation += 1
            active = {each for each in range(PARTITIONS) if self.calm or self.rng.random() < 0.6}
            self.room.loop.order(lambda: self.own(active))
            self.room.adopt(self.generation, sorted(active))

    def own(self, active: set[int]) -> None:
        self.owned |= active
        self.active = active

    def lose(self) -> None:
        self.room.member.losses += 1
        self.room.loop.drop_all("on purpose")
        self.joined, self.released, self.rejoining = False, True, False

    def let_go_on(self) -> None:
        """Let everything arrive that is on its way."""
        self.room.producer.holds = self.room.producer.fails_next = False
        while self.restoring.carry_out():
            pass
        while self.restoring.hand_out(self.rng):
            pass

    def come_to_rest(self) -> None:
        """Assign everything, and let nothing go wrong any more."""
        self.calm = True
        for _ in range(REST_TURNS):
            self.let_go_on()
            if not self.joined or self.active != set(range(PARTITIONS)):
                self.go_on_in_the_group()
            for task in self.room.loop.paused:
                self.room.pause(task.partition, paused=False)
            self.room.turn(after_ms=120)

    def check(self) -> None:
        """Check that each input has its result."""
        for partition in range(PARTITIONS):
            end, outputs = self.room.broker.end(source(partition)), self.room.outputs(partition)
            assert self.room.committed(partition) == end
            if self.exactly_once:
                assert outputs == list(range(end))
                assert self.room.total(partition) == end
            else:
                assert set(outputs) == set(range(end))
                assert self.room.total(partition) >= end


@pytest.mark.parametrize("first", sample(range(0, 400, 50), 1))
def test_nothing_is_lost_sent_late_or_processed_twice(first: int) -> None:
    for seed in sample(range(first, first + 50), 10):
        world = World(seed)
        for _ in range(STEPS):
            world.happen()
            if world.rng.random() < 0.5:
                world.room.turn(after_ms=world.rng.choice([1, 30, 120]))
        world.come_to_rest()
        world.check()
