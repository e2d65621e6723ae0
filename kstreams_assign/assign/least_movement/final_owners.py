"""The owner that each task shall have in the end: balanced, with the fewest changes, then the least to restore.

Where a task runs until its new owner has caught up is not decided here. ``seats`` counts seats, ``subtopologies`` the
spread of subtopologies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace, nsmallest
from itertools import chain, groupby

from kstreams_assign.assign.least_movement.exchanges import Exchanges
from kstreams_assign.assign.least_movement.prices import Prices, Surplus, least_cost
from kstreams_assign.assign.least_movement.subtopologies import Subtopologies
from kstreams_assign.assign.previous_state import NO_CLIENT, PreviousState
from kstreams_assign.assign.seats import Matching, OpenSeats
from kstreams_assign.model import RUNNING_OFFSET_SUM

Pair = tuple[bool, int, int, int, int, int]
"""(not caught up, change of the spread, offsets to restore, the task negated, its owner, a client with a replica)."""

Leavers = list[tuple[int, int, int, list[int]]]
"""A heap of (effect on the spread, lag, client, the tasks of a subtopology that may leave that client)."""

COMPARED_TASKS = 16
"""How many tasks per client and subtopology have their replicas compared, beside four times those that may leave."""


def final_owners(held: PreviousState) -> list[int]:
    """Return the client that shall run each task.

    1. A task whose owner is among the most caught-up clients stays while its owner has a seat for it.
    2. A task without such an owner goes to one of its most caught-up clients, if seats allow: to the one with the least
       to restore. If all clients count as caught up, it goes to a client with a replica.
    3. Every other task changes its owner once: first to clients with a replica, then so that subtopologies spread, then
       the tasks with the least to restore, then the last tasks.
    4. Tasks are exchanged if another combination is cheaper by the prices of ``least_movement``. Usually none is, and a
       lower bound proves it.
    """
    owners = list(held.owner)
    room = OpenSeats.even(len(held.tasks), held.capacity)
    staying, choosy, anywhere = _sorted_out(held)
    leaving = Leaving(staying, room)
    prices = Prices(held)
    bound = leaving.least_cost(prices)
    goals = {client for client in range(len(held.clients)) if room.is_open(client)}
    matching = Matching(room, held.capacity)
    choosy.sort(key=lambda each: (len(each[1]), -held.cold_restore[each[0]]))
    homeless = [task for task, best in choosy if not matching.seat(task, best, held.restore)]
    without_copy = [
        task
        for task in anywhere
        if not ((copies := held.with_copies(task)) and matching.seat(task, copies, held.restore))
    ]
    for client, seated in enumerate(matching.seated):
        for task in seated:
            owners[task] = client
    for task in (*homeless, *without_copy):
        owners[task] = NO_CLIENT
    if leaving.left or choosy or anywhere:
        moving = Moving(held, owners, room, leaving)
        moving.move(homeless, without_copy)
        orphans = chain((task for task, _ in choosy), anywhere)
        if (
            homeless
            or not moving.kinds.are_even()
            or any(prices.excess(task, owners[task], goals) for task in orphans)
            or _cost(prices, staying, owners) > bound
        ):
            Exchanges(held, owners, room, moving.kinds, prices).settle()
    return owners


def _cost(prices: Prices, staying: list[list[int]], owners: list[int]) -> int:
    """Return what the tasks that left their owner cost."""
    return sum(
        prices.leaving(task, owners[task])
        for client, tasks in enumerate(staying)
        for task in tasks
        if owners[task] != client
    )


def _sorted_out(held: PreviousState) -> tuple[list[list[int]], list[tuple[int, list[int]]], list[int]]:
    """Return tasks that may stay, per client; tasks with the clients that may run them; tasks without preference."""
    staying: list[list[int]] = [[] for _ in held.clients]
    choosy: list[tuple[int, list[int]]] = []
    anywhere: list[int] = []
    for task, (owner, reported) in enumerate(zip(held.owner, held.reported_lags, strict=True)):
        if reported.get(owner) == RUNNING_OFFSET_SUM or held.may_keep(task):
            staying[owner].append(task)
        elif reported and (best := held.most_caught_up(task)) is not None:
            choosy.append((task, best))
        else:
            anywhere.append(task)
    return staying, choosy, anywhere


class Leaving:
    """How many tasks each client has to give away, and how many it may.

    If more clients have a task too many than shares round up, ``optional`` of them give one more than they must.
    """

    def __init__(self, staying: list[list[int]], room: OpenSeats) -> None:
        """Reserve the seats of the tasks that stay."""
        self.staying, self.room = staying, room
        self.must = [max(0, len(tasks) - high) for tasks, high in zip(staying, room.high, strict=True)]
        self.may = [max(0, len(tasks) - low) for tasks, low in zip(staying, room.low, strict=True)]
        rounding_up = sum(must < may for must, may in zip(self.must, self.may, strict=True))
        kept = min(rounding_up, room.spare)
        self.optional = rounding_up - kept
        self.left = sum(self.must) + self.optional
        room.count = [min(len(tasks), high) for tasks, high in zip(staying, room.high, strict=True)]
        room.spare -= kept

    def least_cost(self, prices: Prices) -> int:
        """Return the least cost of the tasks that leave. Call it before any task takes a seat."""
        if not self.left:
            return 0
        goals = {client for client in range(len(self.must)) if self.room.is_open(client)}
        return least_cost(prices, Surplus(self.staying, self.must, self.may, self.optional), goals)

    def allows(self, client: int) -> bool:
        return self.must[client] > 0 or (self.optional > 0 and self.may[client] > 0)

    def leave(self, client: int) -> None:
        self.optional -= self.must[client] <= 0
        self.must[client] -= 1
        self.may[client] -= 1
        self.left -= 1

    def most(self, client: int) -> int:
        """Return how many tasks may still leave this client, if no other client uses the optional ones."""
        return self.may[client] if self.optional else max(0, self.must[client])


class Moving:
    """Find new owners for tasks that leave, for tasks without a seat, and for tasks that may go anywhere."""

    def __init__(self, held: PreviousState, owners: list[int], room: OpenSeats, leaving: Leaving) -> None:
        self.held, self.owners, self.room, self.leaving = held, owners, room, leaving
        self.kinds = Subtopologies(held.tasks, held.capacity)
        self.kinds.add_all(owners)
        self.moved: set[int] = set()

    def move(self, homeless: list[int], anywhere: list[int]) -> None:
        if self.leaving.left or homeless:
            self._to_copies(homeless)
        cold = [task for task in homeless if task not in self.moved]
        self._deal(sorted([*cold, *self._cold_leavers(), *anywhere]))

    # ------------------------------------------------------------------ to clients with a replica

    def _to_copies(self, homeless: list[int]) -> None:
        """Move tasks to clients with a replica: caught-up replicas first, then those that are warming up."""
        is_open = {client for client in range(len(self.held.clients)) if self.room.is_open(client)}
        pairs = self._pairs(NO_CLIENT, homeless, is_open)
        for source, tasks in enumerate(self.leaving.staying):
            if self.leaving.allows(source):
                pairs += self._pairs(source, tasks, is_open)
        for _, _, _, last, source, client in sorted(pairs):
            if -last not in self.moved and self.room.is_open(client) and self._may_leave(source):
                self._give(-last, source, client)

    def _pairs(self, source: int, tasks: list[int], is_open: set[int]) -> list[Pair]:
        lags, holders, restore_of = self.held.reported_lags, self.held.holders, self.held.restore_of
        return [
            self._pair(task, source, rank, restore_of(lag), client)
            for task in tasks
            if not is_open.isdisjoint(lags[task])
            for rank, lag, client in holders(task, source)
            if client in is_open
        ]

    def _pair(self, task: int, source: int, rank: int, restore: int, client: int) -> Pair:
        kind = self.kinds.of[task]
        spread = self.kinds.taking(kind, client) + (0 if source == NO_CLIENT else self.kinds.giving(kind, source))
        return rank > 0, spread, restore, -task, source, client

    def _may_leave(self, source: int) -> bool:
        return source == NO_CLIENT or self.leaving.allows(source)

    def _give(self, task: int, source: int, client: int) -> None:
        self.moved.add(task)
        if source != NO_CLIENT:
            self.leaving.leave(source)
            self.kinds.remove(task, source)
        self._seat(task, client)

    def _seat(self, task: int, client: int) -> None:
        self.room.take(client)
        self.kinds.add(task, client)
        self.owners[task] = client

    # ------------------------------------------------------------------ to clients without a replica

    def _cold_leavers(self) -> list[int]:
        """Choose the remaining leavers: from each subtopology in turn where it is too dense, least to restore first."""
        leavers: list[int] = []
        heaps: list[Leavers] = [[] for _ in self.kinds.size]
        for source in range(len(self.held.clients)):
            if most := self.leaving.most(source):
                for tasks in self._light(source, most):
                    heaps[self.kinds.of[tasks[-1]]].append((*self._leaver_key(source, tasks), tasks))
        left = [0] * len(heaps)
        for heap in heaps:
            heapify(heap)
        while self.leaving.left:
            firsts = ((self._first_leaver(heap), kind) for kind, heap in enumerate(heaps) if heap)
            _, _, _, kind = min(
                (first[0], left[kind] / self.kinds.size[kind], first[1:3], kind) for first, kind in firsts if first
            )
            _, _, source, tasks = heaps[kind][0]
            task = tasks.pop()
            self.leaving.leave(source)
            self.kinds.remove(task, source)
            left[kind] += 1
            leavers.append(task)
        return leavers

    def _first_leaver(self, heap: Leavers) -> tuple[int, int, int, list[int]] | None:
        """Return the first entry of the heap that may leave; refresh its key, and keys that have grown meanwhile."""
        while heap:
            *key, source, tasks = heap[0]
            if not tasks or not self.leaving.allows(source):
                heappop(heap)
                continue
            now = self._leaver_key(source, tasks)
            if now == (*key, source):
                return heap[0]
            heapreplace(heap, (*now, tasks))
        return None

    def _light(self, source: int, most: int) -> list[list[int]]:
        """Return per subtopology the tasks that leave first, the very first at the end.

        Of many tasks with equally much to restore, those leave first whose replicas are crowded on one client, so the
        replicas of the staying tasks remain spread.
        """
        staying = [task for task in self.leaving.staying[source] if task not in self.moved]
        lags, cold = self.held.reported_lags, self.held.cold_restore
        crowd = Counter(chain.from_iterable(lags[task] for task in staying))
        lightest = []
        for _, tasks in groupby(reversed(staying), key=self.kinds.of.__getitem__):
            near = nsmallest(COMPARED_TASKS + 4 * most, tasks, key=cold.__getitem__)
            heights = self._heights(near, source, crowd)
            near.sort(key=lambda task: (cold[task], -heights[task]))
            lightest.append(near[most - 1 :: -1])
        return lightest

    def _heights(self, tasks: list[int], source: int, crowd: Counter[int]) -> dict[int, int]:
        """Return, for each task, the size of its replicas' largest crowd once the tasks before it have left."""
        heights = {}
        for task in tasks:
            others = [client for client in self.held.reported_lags[task] if client != source]
            heights[task] = max((crowd[client] for client in others), default=0)
            for client in others:
                crowd[client] -= 1
        return heights

    def _leaver_key(self, source: int, tasks: list[int]) -> tuple[int, int, int]:
        return self.kinds.giving(self.kinds.of[tasks[-1]], source), self.held.cold_restore[tasks[-1]], source

    def _deal(self, tasks: list[int]) -> None:
        """Seat the tasks where their subtopology is thin, on clients with the most open seats."""
        for kind, group in groupby(tasks, key=self.kinds.of.__getitem__):
            self._deal_singly(self._deal_floors(kind, list(group)))

    def _deal_floors(self, kind: int, tasks: list[int]) -> list[int]:
        """While there are enough tasks for all, give each client its even share of the subtopology; return the rest."""
        seats = [
            min(self.room.seats(client), self.kinds.lacking(kind, client)) for client in range(len(self.held.clients))
        ]
        if sum(seats) > len(tasks):
            return tasks
        taken = 0
        for client in _rounds(seats):
            self._seat(tasks[taken], client)
            taken += 1
        return tasks[taken:]

    def _deal_singly(self, tasks: list[int]) -> None:
        if not tasks:
            return
        clients = range(len(self.held.clients))
        heap = [self._seat_key(tasks[0], client) for client in clients if self.room.is_open(client)]
        heapify(heap)
        for task in tasks:
            self._seat(task, self._first_open(heap, task))

    def _seat_key(self, task: int, client: int) -> tuple[bool, int, float, int]:
        seats = self.room.seats(client)
        return seats == 0, self.kinds.taking(self.kinds.of[task], client), -seats / self.held.capacity[client], client

    def _first_open(self, heap: list[tuple[bool, int, float, int]], task: int) -> int:
        """Return the first open client of the heap; refresh its key, and keys that have grown meanwhile."""
        while True:
            client = heap[0][3]
            if not self.room.is_open(client):
                heappop(heap)
                continue
            now = self._seat_key(task, client)
            if now == heap[0]:
                return client
            heapreplace(heap, now)


def _rounds(seats: list[int]) -> Iterable[int]:
    """Yield each client as often as it has seats, in rounds."""
    left = [(client, number) for client, number in enumerate(seats) if number]
    level = 0
    while left:
        yield from (client for client, _ in left)
        level += 1
        left = [entry for entry in left if entry[1] > level]
