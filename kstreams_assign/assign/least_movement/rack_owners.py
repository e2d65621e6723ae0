"""``least_movement`` with racks (KIP-925): final owners at the least total cost of traffic and movement.

A minimum-cost flow for networkx's network simplex, which is exact on integers. Every process gets its even share of
all tasks by threads, rounded down or up; with ``balance_subtopology`` at most its share of each subtopology, rounded
up. Of equal costs the end that keeps the most owners and needs the least restoring wins. Tasks that are alike in all of
this are one node, so the graph stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import networkx as nx  # type: ignore[import-untyped]

from kstreams_assign.assign.java.rack_aware import subtopology_order
from kstreams_assign.assign.previous_state import NO_CLIENT, PreviousState
from kstreams_assign.assign.racks import Costs, RackCosts, costs
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.assign.standby.tag_spread import TagSpread
from kstreams_assign.assign.values import AssignConfig, Cluster
from kstreams_assign.model import RUNNING_OFFSET_SUM

DEFAULT_COSTS = Costs(10, 1)
"""As ``high_availability``: traffic is paid for ever, a move once."""

ROUNDS_MAX = 4
COLD, BEHIND, CAUGHT_UP = 3, 2, 1
"""Added cost of a new owner, where nothing else differs: by the replica that it has. So no task moves for nothing."""

Node = tuple[str, int, int]
"""A graph node for tasks: a rack by subtopology, or a place by subtopology and client."""

Kind = tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]
"""What tasks have in common: subtopology, cost in each rack, and cost on clients with a special price."""


class RackOwners:
    """Final owners and standbys of one cluster. The racks of all replicas and processes must be known."""

    def __init__(self, held: PreviousState, cluster: Cluster, config: AssignConfig) -> None:
        self.held, self.cluster, self.config = held, cluster, config
        self.costs = costs(config, DEFAULT_COSTS)
        self.racks = RackCosts(held.clients, self.costs.traffic)
        self.unit = COLD * len(held.tasks) + 1

    def owners(self) -> list[int]:
        """Return the client that shall run each task."""
        kinds: dict[Kind, list[int]] = {}
        for task, kind in enumerate(self._kinds()):
            kinds.setdefault(kind, []).append(task)
        if not kinds:
            return []
        flow = nx.network_simplex(self._graph(kinds))[1]
        owners = [NO_CLIENT] * len(self.held.tasks)
        for number_of_kind, tasks in enumerate(kinds.values()):
            waiting = iter(tasks)
            for client, number in self._goals(flow, number_of_kind):
                for _ in range(number):
                    owners[next(waiting)] = client
        return owners

    def _kinds(self) -> Iterator[Kind]:
        held, by_subtopology = self.held, self.config.rack_aware_assignment_strategy == "balance_subtopology"
        groups: dict[object, int] = {}
        rows = self.racks.rows(held.tasks, self.cluster.source_racks)
        for task, row in enumerate(rows):
            group = groups.setdefault(subtopology_order(held.tasks[task]), len(groups)) if by_subtopology else 0
            homes = self._homes(task)
            special = {client: self._price(task, client, row, homes) for client in {*held.reported_lags[task], *homes}}
            elsewhere = [self._elsewhere(cost, homes) for cost in row]
            cheaper = {c: price for c, price in special.items() if price < elsewhere[self.racks.rack[c]]}
            yield group, tuple(elsewhere), tuple(sorted(cheaper.items()))

    def _homes(self, task: int) -> Sequence[int]:
        """Return where the task may run without a deliberate move: its owner, else the most caught-up clients."""
        owner, reported = self.held.owner[task], self.held.reported_lags[task]
        if reported.get(owner) == RUNNING_OFFSET_SUM or self.held.may_keep(task):
            return (owner,)
        return (self.held.most_caught_up(task) or ()) if reported else ()

    def _price(self, task: int, client: int, row: Sequence[int], homes: Sequence[int]) -> int:
        rank = self.held.rank(task, client)
        moved = self.costs.away if homes and client not in homes else 0
        step = 0 if client in homes else CAUGHT_UP if rank == 0 else BEHIND
        return (row[self.racks.rack[client]] + moved) * self.unit + step

    def _elsewhere(self, cost: int, homes: Sequence[int]) -> int:
        return (cost + (self.costs.away if homes else 0)) * self.unit + COLD

    def _graph(self, kinds: Mapping[Kind, Sequence[int]]) -> nx.DiGraph:
        graph = nx.DiGraph()
        clients, capacity, number = range(len(self.held.clients)), self.held.capacity, len(self.held.tasks)
        sizes: dict[int, int] = {}
        dearest = 1
        for kind, ((group, elsewhere, special), tasks) in enumerate(kinds.items()):
            graph.add_node(("kind", 0, kind), demand=-len(tasks))
            sizes[group] = sizes.get(group, 0) + len(tasks)
            for rack, price in enumerate(elsewhere):
                graph.add_edge(("kind", 0, kind), ("rack", group, rack), weight=price)
            for client, price in special:
                graph.add_edge(("kind", 0, kind), ("place", group, client), weight=price)
            dearest = max(dearest, *elsewhere)
        for group, size in sizes.items():
            for client, (_, share) in zip(clients, even_shares(size, capacity), strict=True):
                most = share if len(sizes) > 1 else number
                graph.add_edge(("rack", group, self.racks.rack[client]), ("place", group, client), weight=0)
                graph.add_edge(("place", group, client), ("client", client), weight=0, capacity=most)
        for client, (low, high) in zip(clients, even_shares(number, capacity), strict=True):
            # the share rounded down is filled before anything else counts
            graph.add_edge(("client", client), ("share", client), weight=-(number + 1) * dearest, capacity=low)
            graph.add_edge(("share", client), "end", weight=0)
            graph.add_edge(("client", client), "end", weight=0, capacity=high - low)
        graph.add_node("end", demand=number)
        return graph

    def _goals(self, flow: Mapping[Node, dict[Node, int]], kind: int) -> Iterator[tuple[int, int]]:
        """Yield the clients of a kind's tasks.

        What went by way of a rack is subtracted from what went from there to its clients.
        """
        for node, number in flow["kind", 0, kind].items():
            if node[0] == "place":
                yield node[2], number
                continue
            onward = flow[node]
            left = number
            for place in onward:
                taken = min(left, onward[place])
                onward[place] -= taken
                left -= taken
                if taken:
                    yield place[2], taken

    def standbys(self, owners: Sequence[int], planned: Sequence[Sequence[int]]) -> list[list[int]]:
        """Swap standbys of the same owner between clients of different racks while that costs less.

        So each client keeps its number of standbys of each owner's tasks, and with client tags the replicas of no task
        clash more.
        """
        placed = [list(clients) for clients in planned]
        tags = TagSpread(self.held.clients, self.config.rack_aware_assignment_tags)
        rows = self.racks.rows(self.held.tasks[: len(placed)], self.cluster.changelog_racks)
        tasks_of: dict[int, list[int]] = {}
        for task, owner in enumerate(owners[: len(placed)]):
            tasks_of.setdefault(owner, []).append(task)
        for owner, tasks in tasks_of.items():
            for _ in range(ROUNDS_MAX):
                clients = sorted({client for task in tasks for client in placed[task]})
                pairs = [(a, b) for a, b in combinations(clients, 2) if self.racks.rack[a] != self.racks.rack[b]]
                if not sum(self._swap(owner, tasks, pair, placed, rows, tags) for pair in pairs):
                    break
        return placed

    def _swap(
        self,
        owner: int,
        tasks: Sequence[int],
        pair: tuple[int, int],
        placed: list[list[int]],
        rows: Sequence[Sequence[int]],
        tags: TagSpread,
    ) -> bool:
        """Swap standbys of two clients while that costs less; return whether any was swapped."""
        gifts: list[list[tuple[int, int, list[int]]]] = []
        for source, goal in (pair, pair[::-1]):
            gifts.append([])
            for task in tasks:
                copies = placed[task]
                if source in copies and goal not in copies:
                    after = [goal if client == source else client for client in copies]
                    if tags.all_clashes(owner, after) <= tags.all_clashes(owner, copies):
                        price = self._copy_price(task, goal, rows) - self._copy_price(task, source, rows)
                        gifts[-1].append((price, task, after))
            gifts[-1].sort()
        swapped = False
        for gift, return_gift in zip(*gifts, strict=False):
            if gift[0] + return_gift[0] >= 0:
                break
            swapped = True
            for _, task, after in (gift, return_gift):
                placed[task] = after
        return swapped

    def _copy_price(self, task: int, client: int, rows: Sequence[Sequence[int]]) -> int:
        """Return the cost of a standby there: traffic, and movement where no replica exists yet."""
        return rows[task][self.racks.rack[client]] + (0 if client in self.held.reported_lags[task] else self.costs.away)
