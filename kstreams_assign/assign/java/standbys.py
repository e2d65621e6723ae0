"""Where standbys go: to the least loaded processes, or spread over client tags (KIP-708).

Kafka: ``DefaultStandbyTaskAssignor`` and ``ClientTagAwareStandbyTaskAssignor``. Each task gets as many standbys as
there are processes without a replica of it, up to ``num_standby_replicas``. ``movements`` moves them to warmer
processes later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush

from kstreams_assign.assign.java.hash_table import spread, walk_order
from kstreams_assign.assign.java.plan_table import PlanTable, load_units
from kstreams_assign.assign.java.thread_balance import MayMove
from kstreams_assign.assign.java_order import task_hash, task_order

NOT_EXCLUDED: frozenset[int] = frozenset()


class LeastLoaded:
    """Clients by replicas per thread, then in order (``load_units``). Loads must change only through this queue."""

    def __init__(self, table: PlanTable) -> None:
        self.table = table
        self.units = load_units(table.capacity)
        self.heap = [
            count * unit + client for client, (count, unit) in enumerate(zip(table.count, self.units, strict=True))
        ]
        heapify(self.heap)

    def give_standby(self, task: int, excluded: Collection[int] = NOT_EXCLUDED) -> int | None:
        """Give a standby to the least loaded client without a replica; return the client, or None."""
        given = self.give_standbys(task, 1, excluded)
        return given[0] if given else None

    def give_standbys(self, task: int, wanted: int, excluded: Collection[int] = NOT_EXCLUDED) -> list[int]:
        """Give up to ``wanted`` standbys to the least loaded clients without a replica; return the clients in order."""
        heap, units, clients = self.heap, self.units, len(self.units)
        holders = self.table.holders[task]
        given: list[int] = []
        passed: list[int] = []
        while heap and len(given) < wanted:
            key = heappop(heap)
            client = key % clients
            if client in holders or client in excluded:
                passed.append(key)
            else:
                given.append(client)
                passed.append(key + units[client])
        for key in passed:
            heappush(heap, key)
        self.table.give_standbys(task, given)
        return given


def place_standbys(table: PlanTable, wanted: int) -> None:
    """Give every task, in order, ``wanted`` standbys, each on the least loaded client without a replica."""
    queue = LeastLoaded(table)
    for task in range(len(table.tasks)):
        queue.give_standbys(task, wanted)


def place_standbys_over_tags(table: PlanTable, wanted: int, tag_keys: Iterable[str]) -> None:
    """Place standbys on clients whose tag values differ from those of the task's other replicas, as far as possible.

    The rest go to the least loaded clients, in the order of Java's hash table of tasks.
    """
    queue, tags = LeastLoaded(table), Tags(table, frozenset(tag_keys))
    tasks = range(len(table.tasks))
    left = [wanted - _give_over_tags(table, queue, tags, task, wanted) for task in tasks]
    done = [task for task in tasks if not left[task]]
    hashes = [spread(task_hash(task)) for task in table.tasks]
    for task in walk_order(tasks, hashes, lambda task: task_order(table.tasks[task]), removed=done):
        queue.give_standbys(task, left[task])


def _give_over_tags(table: PlanTable, queue: LeastLoaded, tags: Tags, task: int, wanted: int) -> int:
    """Give standbys in turn while a client with unused tag values exists; return how many were given."""
    used: set[tuple[str, str]] = set()
    last = table.owner[task]
    for given in range(wanted):
        tags.use(used, last, copies=given + 1)
        holder = queue.give_standby(task, tags.clients_with(used))
        if holder is None:
            return given
        last = holder
    return wanted


class Tags:
    """The clients that share each tag value, for the configured keys."""

    def __init__(self, table: PlanTable, keys: frozenset[str]) -> None:
        self.by_client = [{key: value for key, value in client.tags.items() if key in keys} for client in table.clients]
        self.clients: dict[tuple[str, str], set[int]] = {}
        self.values: dict[str, set[str]] = {}
        for client, tags in enumerate(self.by_client):
            for key, value in tags.items():
                self.clients.setdefault((key, value), set()).add(client)
                self.values.setdefault(key, set()).add(value)

    def use(self, used: set[tuple[str, str]], client: int, copies: int) -> None:
        """Record a client's tag values. A key with no more values than replicas no longer separates clients."""
        for key, value in self.by_client[client].items():
            if len(self.values[key]) > copies:
                used.add((key, value))
            else:
                used.difference_update([(key, each) for each in self.values[key]])

    def clients_with(self, used: set[tuple[str, str]]) -> set[int]:
        return set().union(*(self.clients[tag] for tag in used))


def same_tags(table: PlanTable) -> MayMove:
    """Return the rule that a standby may move only to a client with the same value for every tag of the source."""

    def may_move(source: int, destination: int) -> bool:
        theirs = table.clients[destination].tags
        return all(theirs.get(key) == value for key, value in table.clients[source].tags.items())

    return may_move


def as_many_tags(table: PlanTable) -> Callable[[int, int, int], bool]:
    """Return the rule that a standby may move only if its task's replicas have no fewer distinct tags afterwards."""

    def may_move(task: int, source: int, destination: int) -> bool:
        clients = table.clients
        others = {tag for holder in table.holders[task] if holder != source for tag in clients[holder].tags.items()}
        return len(others | clients[destination].tags.items()) >= len(others | clients[source].tags.items())

    return may_move
