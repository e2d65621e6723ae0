"""Cheaper owners by exchanging tasks: whatever the first layout was, the result is a cheapest layout.

This is a minimum cost flow in integers. ``Exchanges`` looks for a cycle of clients, each of which gives one task to
the next, that lowers the total of ``Prices``, until no such cycle exists (Klein's theorem: then the total is minimal).
``prices.least_cost`` often shows at much lower cost that no search is needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kstreams_assign.assign.cycles import Step, find_cycles
from kstreams_assign.assign.least_movement.prices import Prices
from kstreams_assign.assign.least_movement.subtopologies import Subtopologies
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.seats import OpenSeats

Arc = tuple[int, int, int]
"""(price, the node it leads to, the task that moves along it or ``NO_TASK``)."""

NO_TASK = -1


class Exchanges:
    """The flow network. Its nodes are clients, pairs of client and subtopology, and two kinds of hub.

    A task that arrives at a client makes another task of its subtopology leave, or any other task, or moves a spare
    seat. Each subtopology has a hub for all clients with the same price for a task; one more hub is for the spare
    seats.
    """

    def __init__(
        self, held: PreviousState, owners: list[int], room: OpenSeats, kinds: Subtopologies, prices: Prices
    ) -> None:
        self.owners, self.low, self.high, self.kinds, self.prices = owners, room.low, room.high, kinds, prices
        self.clients, self.sorts = len(held.clients), len(kinds.share[0])
        self.client_nodes = self.clients * self.sorts
        self.kind_hubs = self.client_nodes + self.clients
        self.spare_hub = self.kind_hubs + self.sorts
        self.tasks_of: list[set[int]] = [set() for _ in held.clients]
        for task, owner in enumerate(owners):
            self.tasks_of[owner].add(task)
        self.count = [len(tasks) for tasks in self.tasks_of]
        self.moves: list[list[Arc]] = [[] for _ in range(self.client_nodes)]
        for client in range(self.clients):
            self._list_moves(client)
        self.price = [0] * (self.spare_hub + 1)
        self.changed = set(range(self.spare_hub + 1))

    def settle(self) -> None:
        """Exchange tasks until no exchange lowers the total."""
        while rounds := self._cheaper_rounds():
            touched = {client for each in rounds for client in self._exchange(each)}
            for client in touched:
                self._list_moves(client)
                self.changed.update(
                    range(client * self.sorts, (client + 1) * self.sorts), (self.client_nodes + client,)
                )
            self.changed.add(self.spare_hub)

    def _list_moves(self, client: int) -> None:
        """List, per subtopology, the cheapest task to give to each client and to all clients with the common price."""
        best: dict[tuple[int, int], Arc] = {}
        seen: set[tuple[object, ...]] = set()
        for task in sorted(self.tasks_of[client], reverse=True):
            kind = self.kinds.of[task]
            alike = (kind, *self.prices.grounds(task))
            if alike in seen:
                continue
            seen.add(alike)
            prices, others = self.prices.of(task)
            price_at_client = prices.get(client, others)
            goals = [(goal * self.sorts + kind, price) for goal, price in prices.items() if goal != client]
            if all(price <= others for price in prices.values()):
                goals.append((self.kind_hubs + kind, others))
            else:
                rest = (goal for goal in range(self.clients) if goal not in prices)
                goals += [(goal * self.sorts + kind, others) for goal in rest]
            for goal, price in goals:
                known = best.get((kind, goal))
                if known is None or price - price_at_client < known[0]:
                    best[kind, goal] = (price - price_at_client, goal, task)
        for kind in range(self.sorts):
            self.moves[client * self.sorts + kind] = []
        for (kind, _), arc in best.items():
            self.moves[client * self.sorts + kind].append(arc)

    def _arcs(self, node: int) -> Iterator[Arc]:
        """Yield the arcs out of a node that something has arrived at."""
        if node < self.client_nodes:
            client, kind = divmod(node, self.sorts)
            yield from self.moves[node]
            yield self.kinds.taking(kind, client) * self.prices.spread, self.client_nodes + client, NO_TASK
        elif node < self.kind_hubs:
            client = node - self.client_nodes
            for kind, have in enumerate(self.kinds.count[client]):
                if have:
                    price = self.kinds.giving(kind, client) * self.prices.spread
                    yield price, client * self.sorts + kind, NO_TASK
            if self.count[client] < self.high[client]:
                yield 0, self.spare_hub, NO_TASK
        elif node < self.spare_hub:
            kind = node - self.kind_hubs
            yield from ((0, client * self.sorts + kind, NO_TASK) for client in range(self.clients))
        else:
            for client, count in enumerate(self.count):
                if count > self.low[client]:
                    yield 0, self.client_nodes + client, NO_TASK

    def _cheaper_rounds(self) -> list[list[Step]]:
        """Return cycles without a common node that lower the total (Bellman-Ford); empty if there are none.

        Node prices may start at any value, so they are kept; only nodes that ``changed`` can lower the price of others.
        """
        price, came = self.price, {}
        while self.changed:
            walk, self.changed = self.changed, set()
            for node in sorted(walk):
                base = price[node]
                for more, goal, task in self._arcs(node):
                    if base + more < price[goal]:
                        price[goal] = base + more
                        came[goal] = (node, task)
                        self.changed.add(goal)
            if rounds := find_cycles(came, self.changed):
                return rounds
        return []

    def _exchange(self, arcs: list[Step]) -> set[int]:
        """Move tasks along one cycle; return the clients whose tasks changed."""
        touched = set()
        after_hub = {source: goal for source, goal, _ in arcs}
        for source, goal, task in arcs:
            if task != NO_TASK:
                client = source // self.sorts
                new = (goal if goal < self.client_nodes else after_hub[goal]) // self.sorts
                self._move(task, client, new)
                touched |= {client, new}
        return touched

    def _move(self, task: int, client: int, new: int) -> None:
        self.tasks_of[client].remove(task)
        self.tasks_of[new].add(task)
        self.kinds.remove(task, client)
        self.kinds.add(task, new)
        self.count[client] -= 1
        self.count[new] += 1
        self.owners[task] = new
