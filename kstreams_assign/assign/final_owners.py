"""Which process shall run each task in the end: balanced, with the fewest changes, then the least to restore.

Where a task runs until its new owner is caught up is not decided here. Counting in ``Room``, matching in ``seats``.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace, nsmallest

from kstreams_assign.assign.holdings import NOBODY, Holdings
from kstreams_assign.assign.seats import Matching, Room
from kstreams_assign.assign.subtopologies import Subtopologies


def final_owners(held: Holdings) -> list[int]:
    """The client that is to run each task.

    1. A task whose owner is among the most caught-up stays, as long as its owner has a seat for it.
    2. A task without such an owner goes to one of its most caught-up clients, if seats allow.
    3. Everything else changes its owner once: to who has a copy first, then so that subtopologies spread, then the
       tasks with the least to restore, then the last ones.
    """
    owners = [NOBODY] * len(held.tasks)
    room = Room(len(held.tasks), held.capacity)
    staying, choosy, anywhere = _sorted_out(held)
    for client, tasks in enumerate(staying):
        for task in tasks:
            owners[task] = client
    leaving = Leaving(staying, room)
    matching = Matching(room, held.capacity)
    choosy.sort(key=lambda each: len(each[1]))
    homeless = [task for task, best in choosy if not matching.seat(task, best)]
    for client, seated in enumerate(matching.seated):
        for task in seated:
            owners[task] = client
    if leaving.left or homeless or anywhere:
        Moving(held, owners, room, leaving).move(homeless, anywhere)
    return owners


def _sorted_out(held: Holdings) -> tuple[list[list[int]], list[tuple[int, list[int]]], list[int]]:
    """Tasks that may stay, per client; tasks with the clients that may run them; tasks that all may run."""
    staying: list[list[int]] = [[] for _ in held.clients]
    choosy: list[tuple[int, list[int]]] = []
    anywhere: list[int] = []
    for task, owner in enumerate(held.owner):
        if owner != NOBODY and held.may_run(task, owner):
            staying[owner].append(task)
            continue
        best = held.most_caught_up(task)
        if best is None:
            anywhere.append(task)
        else:
            choosy.append((task, best))
    return staying, choosy, anywhere


class Leaving:
    """How many tasks each client has to give away, and how many it may.

    If more clients have a task too many than shares round up, ``optional`` of them give one more than they must.
    """

    def __init__(self, staying: list[list[int]], room: Room) -> None:
        """Takes the seats of those that stay."""
        self.staying = staying
        self.must = [max(0, len(tasks) - high) for tasks, high in zip(staying, room.high, strict=True)]
        self.may = [max(0, len(tasks) - low) for tasks, low in zip(staying, room.low, strict=True)]
        rounding_up = sum(must < may for must, may in zip(self.must, self.may, strict=True))
        kept = min(rounding_up, room.spare)
        self.optional = rounding_up - kept
        self.left = sum(self.must) + self.optional
        room.count = [min(len(tasks), high) for tasks, high in zip(staying, room.high, strict=True)]
        room.spare -= kept

    def allows(self, client: int) -> bool:
        return self.must[client] > 0 or (self.optional > 0 and self.may[client] > 0)

    def leave(self, client: int) -> None:
        self.optional -= self.must[client] <= 0
        self.must[client] -= 1
        self.may[client] -= 1
        self.left -= 1

    def most(self, client: int) -> int:
        """How many tasks may still leave this client, others permitting."""
        return self.may[client] if self.optional else max(0, self.must[client])


class Moving:
    """Finds new owners for the tasks that leave, the homeless ones and those that may go anywhere."""

    def __init__(self, held: Holdings, owners: list[int], room: Room, leaving: Leaving) -> None:
        self.held, self.owners, self.room, self.leaving = held, owners, room, leaving
        self.kinds = Subtopologies(held.tasks, held.capacity)
        for task, owner in enumerate(owners):
            if owner != NOBODY:
                self.kinds.add(task, owner)
        self.moved: set[int] = set()

    def move(self, homeless: list[int], anywhere: list[int]) -> None:
        self._to_copies(homeless)
        cold = [task for task in homeless if task not in self.moved]
        self._deal(sorted([*cold, *self._cold_leavers(), *anywhere]))

    def _to_copies(self, homeless: list[int]) -> None:
        """Prefer pairs of a task and a client with a copy of it: caught up first, then those that warm up already."""
        pairs = [self._pair(task, NOBODY, copy) for task in homeless for copy in self._copies(task)]
        for source, tasks in enumerate(self.leaving.staying):
            if self.leaving.allows(source):
                pairs += [self._pair(task, source, copy) for task in tasks for copy in self._copies(task)]
        heapify(pairs)
        while pairs:
            _, _, _, task, source, copy = pair = heappop(pairs)
            if -task in self.moved or not self.room.is_open(copy[2]):
                continue
            if source != NOBODY and not self.leaving.allows(source):
                continue
            now = self._pair(-task, source, copy)
            if now == pair:
                self._give(-task, source, copy[2])
            else:
                heappush(pairs, now)

    def _copies(self, task: int) -> list[tuple[int, int, int]]:
        if len(self.held.told[task]) <= (self.owners[task] != NOBODY):
            return []
        return [copy for copy in self.held.holders(task, self.owners[task]) if self.room.is_open(copy[2])]

    def _pair(
        self, task: int, source: int, copy: tuple[int, int, int]
    ) -> tuple[bool, int, int, int, int, tuple[int, int, int]]:
        spread = self.kinds.taking(task, copy[2])
        if source != NOBODY:
            spread += self.kinds.giving(task, source)
        return copy[0] > 0, spread, copy[0], -task, source, copy

    def _give(self, task: int, source: int, client: int) -> None:
        self.moved.add(task)
        if source != NOBODY:
            self.leaving.leave(source)
            self.kinds.remove(task, source)
        self.room.take(client)
        self.kinds.add(task, client)
        self.owners[task] = client

    def _cold_leavers(self) -> list[int]:
        """Take away what is left to leave: of the subtopology that is too dense there, the least to restore."""
        found: list[int] = []
        heap = []
        for source in range(len(self.held.clients)):
            if most := self.leaving.most(source):
                heap += [(self._leaver_key(source, tasks), source, tasks) for tasks in self._light(source, most)]
        heapify(heap)
        while heap and self.leaving.left:
            key, source, tasks = heap[0]
            now = self._leaver_key(source, tasks) if tasks and self.leaving.allows(source) else None
            if now is None:
                heappop(heap)
            elif now > key:
                heapreplace(heap, (now, source, tasks))
            else:
                task = tasks.pop()
                self.leaving.leave(source)
                self.kinds.remove(task, source)
                self.owners[task] = NOBODY
                found.append(task)
        return found

    def _light(self, source: int, most: int) -> list[list[int]]:
        """Per subtopology the tasks that are the first to leave, the very first at the end."""
        by_kind: dict[int, list[int]] = {}
        for task in self.leaving.staying[source]:
            if task not in self.moved:
                by_kind.setdefault(self.kinds.of[task], []).append(task)
        first = (nsmallest(most, tasks, key=self._weight) for tasks in by_kind.values())
        return [tasks[::-1] for tasks in first]

    def _weight(self, task: int) -> tuple[int, int]:
        return self.held.rank_of(self.held.untold[task]), -task

    def _leaver_key(self, source: int, tasks: list[int]) -> tuple[int, int, int]:
        return (self.kinds.giving(tasks[-1], source), *self._weight(tasks[-1]))

    def _deal(self, tasks: list[int]) -> None:
        """Seat the tasks where their subtopology is thin, on clients with the most open seats."""
        heap: list[tuple[bool, int, float, int]] = []
        kind = NOBODY
        for task in tasks:
            if self.kinds.of[task] != kind:
                kind = self.kinds.of[task]
                open_now = (client for client in range(len(self.held.clients)) if self.room.is_open(client))
                heap = [self._seat_key(task, client) for client in open_now]
                heapify(heap)
            client = self._first_open(heap, task)
            self.room.take(client)
            self.kinds.add(task, client)
            self.owners[task] = client

    def _seat_key(self, task: int, client: int) -> tuple[bool, int, float, int]:
        seats = self.room.seats(client)
        return seats == 0, self.kinds.taking(task, client), -seats / self.held.capacity[client], client

    def _first_open(self, heap: list[tuple[bool, int, float, int]], task: int) -> int:
        """The first client of the heap; its key, and those that have grown since, are brought up to date."""
        while True:
            client = heap[0][3]
            if not self.room.is_open(client):
                heappop(heap)
                continue
            now = self._seat_key(task, client)
            if now == heap[0]:
                return client
            heapreplace(heap, now)
