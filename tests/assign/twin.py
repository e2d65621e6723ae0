"""A slow, obvious twin of the high-availability assignor: sets and dictionaries, step by step as KIP-441's Java.

It shares with the real assignor only Java's orders of ids. It computes loads again for each comparison, looks up every
lag, and tries every pair of processes. It also keeps Java's queue of clients as Java does, which the real assignor
avoids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Cluster, Placement, Plan
from kstreams_assign.assign.java_order import process_hash, task_hash, task_order
from kstreams_assign.model import TaskId, process_order


@dataclass(eq=False)
class State:
    """One process while tasks are laid out (Kafka: ``ClientState``); ``standby`` includes warm-ups."""

    process_id: UUID
    capacity: int
    lags: Any
    tags: Any
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    warmup: set[TaskId] = field(default_factory=set)

    def count(self) -> int:
        return len(self.active) + len(self.standby)

    def load(self) -> float:
        return self.count() / self.capacity

    def has(self, task: TaskId) -> bool:
        return task in self.active or task in self.standby


class DynamicQueue:
    """``java.util.PriorityQueue`` whose comparator reads values that may have changed meanwhile."""

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self.key, self.array = key, []

    def offer(self, item: Any) -> None:
        self.array.append(item)
        self.up(len(self.array) - 1)

    def poll(self) -> Any:
        head, last = self.array[0], self.array.pop()
        if self.array:
            self.array[0] = last
            self.down(0)
        return head

    def remove(self, item: Any) -> None:
        index = self.array.index(item)
        moved = self.array.pop()
        if index < len(self.array):
            self.array[index] = moved
            self.down(index)
            if self.array[index] is moved:
                self.up(index)

    def up(self, index: int) -> None:
        parent = (index - 1) // 2
        if index and self.key(self.array[index]) < self.key(self.array[parent]):
            self.array[index], self.array[parent] = self.array[parent], self.array[index]
            self.up(parent)

    def down(self, index: int) -> None:
        children = [child for child in (2 * index + 1, 2 * index + 2) if child < len(self.array)]
        if not children:
            return
        least = min(children, key=lambda child: self.key(self.array[child]))
        if self.key(self.array[index]) > self.key(self.array[least]):
            self.array[index], self.array[least] = self.array[least], self.array[index]
            self.down(least)


class PrioritySet:
    """Kafka's ``ConstrainedPrioritySet`` of processes."""

    def __init__(self, states: Iterable[State], load: Callable[[State], float] = State.load) -> None:
        self.queue = DynamicQueue(lambda state: (load(state), process_order(state.process_id)))
        for state in states:
            self.offer(state)

    def offer(self, state: State) -> None:
        if state in self.queue.array:
            self.queue.remove(state)
        self.queue.offer(state)

    def poll(self, allowed: Callable[[State], bool]) -> State | None:
        passed, polled = [], None
        while self.queue.array and polled is None:
            state = self.queue.poll()
            if allowed(state):
                polled = state
            else:
                passed.append(state)
        for state in in_buckets(passed, lambda state: process_hash(state.process_id)):
            self.offer(state)
        return polled


class Twin:
    """One decision, step by step."""

    def __init__(self, cluster: Cluster, config: AssignConfig) -> None:
        self.config = config
        clients = sorted(cluster.clients, key=lambda client: process_order(client.process_id))
        self.states = [State(client.process_id, client.capacity, client.lags, client.tags) for client in clients]
        self.stateful = sorted(cluster.stateful, key=task_order)
        self.stateless = sorted(cluster.stateless, key=task_order)
        self.budget = config.max_warmup_replicas

    def decide(self) -> Plan:
        self.actives()
        self.standbys()
        movements = self.move_actives() + self.move_standbys()
        queue = PrioritySet(self.states, lambda state: len(state.active) / state.capacity)
        for task in self.stateless:
            state = queue.poll(anyone)
            state.active.add(task)
            queue.offer(state)
        placements = {
            state.process_id: Placement(
                frozenset(state.active), frozenset(state.standby - state.warmup), frozenset(state.warmup)
            )
            for state in self.states
        }
        return Plan(placements, movements > 0)

    def actives(self) -> None:
        for number, task in enumerate(self.stateful):
            self.states[number % len(self.states)].active.add(task)
        self.balance(lambda state: state.active, anyone)

    def standbys(self) -> None:
        wanted = self.config.num_standby_replicas
        if wanted == 0:
            return
        left = dict.fromkeys(self.stateful, wanted)
        if self.config.rack_aware_assignment_tags:
            for task in self.stateful:
                left[task] -= self.over_tags(task, wanted)
            left = {task: left[task] for task in in_buckets(self.stateful, task_hash)}
        for task, missing in left.items():
            for _ in range(missing):
                self.to_least_loaded(task, anyone)
        self.balance(lambda state: state.standby, same_tags if self.config.rack_aware_assignment_tags else anyone)

    def to_least_loaded(self, task: TaskId, allowed: Callable[[State], bool]) -> State | None:
        free = [state for state in self.states if not state.has(task) and allowed(state)]
        if not free:
            return None
        least = min(free, key=State.load)
        least.standby.add(task)
        return least

    def over_tags(self, task: TaskId, wanted: int) -> int:
        keys = self.config.rack_aware_assignment_tags
        values = {key: {state.tags[key] for state in self.states if key in state.tags} for key in keys}
        used = {}
        last = next(state for state in self.states if task in state.active)
        for copies in range(1, wanted + 1):
            for key in keys:
                if key not in last.tags:
                    continue
                if len(values[key]) <= copies:
                    used.pop(key, None)
                else:
                    used.setdefault(key, set()).add(last.tags[key])
            last = self.to_least_loaded(
                task, lambda state: not any(state.tags.get(key) in taken for key, taken in used.items())
            )
            if last is None:
                return copies - 1
        return wanted

    def balance(self, kind: Callable[[State], set[TaskId]], allowed: Callable[[State, State], bool]) -> None:
        has_moved = True
        while has_moved:
            has_moved = False
            for source in self.states:
                for destination in self.states:
                    if source is destination or not allowed(source, destination):
                        continue
                    for task in sorted(kind(source), key=task_order):
                        if not evens_out(source, destination):
                            break
                        if not destination.has(task):
                            kind(source).remove(task)
                            kind(destination).add(task)
                            has_moved = True

    def caught_up(self, task: TaskId, state: State) -> bool:
        lag, acceptable = state.lags[task], self.config.acceptable_recovery_lag
        return lag == -2 or acceptable == 2**63 - 1 or 0 <= lag <= acceptable

    def number_caught_up(self, task: TaskId) -> int:
        return sum(self.caught_up(task, state) for state in self.states)

    def colder(self, task: TaskId, state: State) -> bool:
        least = min(other.lags[task] for other in self.states)
        return not self.caught_up(task, state) and least < state.lags[task]

    def warmest(self, task: TaskId, before: State, allowed: Callable[[State], bool]) -> State | None:
        for state in sorted(self.states, key=lambda state: state.lags[task]):
            if state is before:
                return None
            if allowed(state):
                return state
        return None

    def spend(self) -> bool:
        self.budget -= 1
        return self.budget >= 0

    def move_actives(self) -> int:
        movements = [
            (self.number_caught_up(task), task_order(task), task, state)
            for state in self.states
            for task in state.active
            if self.colder(task, state)
        ]
        queue = PrioritySet(self.states)
        for _, _, task, destination in sorted(movements, key=lambda movement: movement[:2]):
            source = self.source_of_active(queue, task, destination)
            destination.active.remove(task)
            source.active.add(task)
            if task in source.standby:
                source.standby.remove(task)
                destination.standby.add(task)
            elif self.spend():
                destination.standby.add(task)
                destination.warmup.add(task)
            queue.offer(source)
            queue.offer(destination)
        return len(movements)

    def source_of_active(self, queue: PrioritySet, task: TaskId, destination: State) -> State:
        return (
            queue.poll(lambda state: self.caught_up(task, state) and task in state.standby)
            or queue.poll(lambda state: self.caught_up(task, state))
            or self.warmest(task, destination, anyone)
        )

    def source_of_standby(self, queue: PrioritySet, task: TaskId, destination: State) -> State | None:
        source = queue.poll(lambda state: self.caught_up(task, state) and not state.has(task))
        return source or self.warmest(task, destination, lambda state: not state.has(task))

    def move_standbys(self) -> int:
        movements = DynamicQueue(lambda movement: movement[:2])
        for state in self.states:
            for task in sorted(state.standby - state.warmup, key=task_order):
                if self.colder(task, state):
                    movements.offer((self.number_caught_up(task), task_order(task), task, state))
        queue, moved = PrioritySet(self.states), 0
        while movements.array:
            _, _, task, destination = movements.poll()
            source = self.source_of_standby(queue, task, destination)
            if source is None:
                continue
            source.standby.add(task)
            if self.spend():
                destination.warmup.add(task)
            else:
                destination.standby.remove(task)
            queue.offer(source)
            queue.offer(destination)
            moved += 1
        return moved


def anyone(*_: State) -> bool:
    """Allow every move."""
    return True


def same_tags(source: State, destination: State) -> bool:
    return all(destination.tags.get(key) == value for key, value in source.tags.items())


def in_buckets(keys: list[Any], hash_of: Callable[[Any], int]) -> list[Any]:
    """Iterate over a hash table that never had nine keys in a bucket."""
    size = 16
    while len(keys) > 0.75 * size:
        size *= 2
    return sorted(keys, key=lambda key: (hash_of(key) ^ hash_of(key) >> 16) % size)


def evens_out(source: State, destination: State) -> bool:
    """Java's ``shouldMoveATask``."""
    skew = source.load() - destination.load()
    after = (source.count() - 1.0) / source.capacity - (destination.count() + 1.0) / destination.capacity
    return skew > 0 and 0 <= after < skew
