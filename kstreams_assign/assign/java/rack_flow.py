"""The owner of each task at the least traffic between racks, as Kafka decides (``RackAwareGraphConstructor``).

``min_traffic`` keeps every client's number of tasks. ``balance_subtopology`` keeps it too, and bounds each client's
number of tasks of each group by its share, rounded up. Both are one flow, solved by ``flow``.
"""

from __future__ import annotations

from math import ceil

from kstreams_assign.assign.java.flow import turn_negative_cycles
from kstreams_assign.assign.java.max_flow import MaxFlow
from kstreams_assign.assign.java.places import FlowProblem, Places

OTHER_NODES = 3
"""Java's source, its sink, and the node from which it looks for cycles."""


def min_traffic(problem: FlowProblem) -> list[int]:
    """Return the client of each task; clients keep their numbers of tasks."""
    tasks, clients = len(problem.owner), len(problem.rack)
    single = FlowProblem(problem.owner, [0] * tasks, problem.rack, problem.cost, problem.away)
    places = Places(single, problem.owner, [[0] * clients], tasks + clients + OTHER_NODES)
    turn_negative_cycles(places)
    return places.at


def balance_subtopology(problem: FlowProblem) -> list[int]:
    """Return the client of each task; clients keep their numbers, within their share of each group, rounded up."""
    tasks, clients = len(problem.owner), len(problem.rack)
    sizes = [0] * (max(problem.group) + 1)
    for group in problem.group:
        sizes[group] += 1
    most = [0] * clients
    for client in problem.owner:
        most[client] += 1
    # as Java rounds: in doubles, in this order
    room = [[ceil(number * 1.0 / tasks * size) for number in most] for size in sizes]
    at = MaxFlow(problem.group, room, most).solve()
    places = Places(problem, at, room, tasks + (len(sizes) + 1) * clients + OTHER_NODES)
    turn_negative_cycles(places)
    return places.at
