"""The slow twin of ``assign.java.flow`` and ``max_flow``: Kafka's graph with every edge and every pass, as in Java.

Nodes are numbers, -2 is Java's null; edges are iterated in the order of nodes. The result is the owner of each task.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from kstreams_assign.assign.java.places import FlowProblem

NULL, SOURCE = -2, -1


class Graph:
    def __init__(self):
        self.cost = {}
        self.left = {}
        self.next = {}

    def edge(self, start, end, capacity, cost, flow):
        for tail, head, left, price in ((start, end, capacity - flow, cost), (end, start, flow, -cost)):
            self.left[tail, head], self.cost[tail, head] = left, price
            self.next.setdefault(tail, set()).add(head)

    def ordered(self):
        return [(start, end) for start in sorted(self.next) for end in sorted(self.next[start])]

    def push(self, path):
        flow = min(self.left[edge] for edge in path)
        for start, end in path:
            self.left[start, end] -= flow
            self.left[end, start] += flow

    def max_flow(self, sink):
        following = {node: sorted(ends) for node, ends in self.next.items()}
        while True:
            came = {SOURCE: None}
            queue = deque([SOURCE])
            while queue and sink not in came:
                node = queue.popleft()
                for end in following[node]:
                    if end not in came and self.left[node, end] > 0:
                        came[end] = node
                        if end == sink:
                            break
                        queue.append(end)
            if sink not in came:
                return
            self.push(path(came, sink))

    def cancel_negative_cycles(self):
        nodes = len(self.next) + 1
        edges = self.ordered()
        while True:
            distance = dict.fromkeys([*self.next, NULL], 0)
            came = {}
            on_cycle = self.relax(edges, distance, came, nodes)
            if on_cycle is None:
                return
            seen = set()
            while on_cycle not in seen:
                seen.add(on_cycle)
                on_cycle = came[on_cycle]
            cycle, node = [(came[on_cycle], on_cycle)], came[on_cycle]
            while node != on_cycle:
                cycle.append((came[node], node))
                node = came[node]
            self.push(cycle)

    def relax(self, edges, distance, came, nodes):
        for number in range(nodes):
            changed = False
            for start, end in edges:
                if self.left[start, end] and distance[start] + self.cost[start, end] < distance[end]:
                    distance[end] = distance[start] + self.cost[start, end]
                    came[end] = start
                    changed = True
                    if number == nodes - 1:
                        return end
            if not changed:
                return None
        return None


def path(came, end):
    edges = []
    while came[end] is not None:
        edges.append((came[end], end))
        end = came[end]
    return edges


def price(problem: FlowProblem, task, client):
    return problem.cost[task][problem.rack[client]] + problem.away * (client != problem.owner[task])


def min_traffic(problem: FlowProblem):
    tasks, clients = len(problem.owner), len(problem.rack)
    graph = Graph()
    sink = tasks + clients
    for task in range(tasks):
        for client in range(clients):
            graph.edge(task, tasks + client, 1, price(problem, task, client), int(problem.owner[task] == client))
        graph.edge(SOURCE, task, 1, 0, 1)
    for client in range(clients):
        number = list(problem.owner).count(client)
        graph.edge(tasks + client, sink, number, 0, number)
    graph.cancel_negative_cycles()
    return [next(client for client in range(clients) if not graph.left[task, tasks + client]) for task in range(tasks)]


def balance_subtopology(problem: FlowProblem):
    tasks, clients = len(problem.owner), len(problem.rack)
    groups = max(problem.group) + 1
    graph = Graph()
    second = tasks + groups * clients
    number = [list(problem.owner).count(client) for client in range(clients)]
    for task, group in enumerate(problem.group):
        graph.edge(SOURCE, task, 1, 0, 0)
        for client in range(clients):
            graph.edge(task, tasks + group * clients + client, 1, price(problem, task, client), 0)
    for client in range(clients):
        for group in range(groups):
            room = ceil(number[client] * 1.0 / tasks * list(problem.group).count(group))
            graph.edge(tasks + group * clients + client, second + client, room, 0, 0)
        graph.edge(second + client, second + clients, number[client], 0, 0)
    graph.max_flow(second + clients)
    graph.cancel_negative_cycles()
    return [
        next(c for c in range(clients) if not graph.left[task, tasks + group * clients + c])
        for task, group in enumerate(problem.group)
    ]
