"""Where standbys go: to the least loaded processes, or spread over client tags (KIP-708).

Kafka: ``DefaultStandbyTaskAssignor`` and ``ClientTagAwareStandbyTaskAssignor``. Each task gets as many standbys as there
are processes without a copy of it, up to ``num_standby_replicas``. Movements to warmer processes come later, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.java_order import hash_table_order, task_hash

MayMove = Callable[[int, int], bool]


class LeastLoaded:
    """Clients by load, then in order. Loads must change only through ``give_standbys``."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.heap = [(board.load(client), client) for client in range(len(board.clients))]
        heapify(self.heap)

    def give_standbys(self, task: int, wanted: int, allowed: Callable[[int], bool] = lambda client: True) -> int:
        """Give up to ``wanted`` standbys of a task to the least loaded clients without a copy; answer how many."""
        given, passed = 0, []
        while given < wanted and self.heap:
            entry = heappop(self.heap)
            client = entry[1]
            if self.board.holds(client, task) or not allowed(client):
                passed.append(entry)
                continue
            self.board.give_standby(task, client)
            passed.append((self.board.load(client), client))
            given += 1
        for entry in passed:
            heappush(self.heap, entry)
        return given


def place_standbys(board: Board, wanted: int) -> None:
    """``wanted`` standbys of every task, in task order, each on the least loaded client without a copy."""
    queue = LeastLoaded(board)
    for task in range(len(board.tasks)):
        queue.give_standbys(task, wanted)


def place_standbys_over_tags(board: Board, wanted: int, tag_keys: Iterable[str]) -> None:
    """As many standbys of every task as possible on clients whose tag values differ from those of its other copies.

    What is left over goes to the least loaded clients, in the order of Java's hash table of tasks.
    """
    if wanted == 0:
        return
    queue, keys = LeastLoaded(board), frozenset(tag_keys)
    values = tag_values(board)
    left = {}
    for task in range(len(board.tasks)):
        if missing := wanted - _give_over_tags(board, queue, task, wanted, keys, values):
            left[task] = missing
    for task in hash_table_order(range(len(board.tasks)), lambda task: task_hash(board.tasks[task])):
        queue.give_standbys(task, left.get(task, 0))


def tag_values(board: Board) -> dict[str, set[str]]:
    """Tag key -> all values that some client has."""
    found: dict[str, set[str]] = {}
    for client in board.clients:
        for key, value in client.tags.items():
            found.setdefault(key, set()).add(value)
    return found


def _give_over_tags(
    board: Board, queue: LeastLoaded, task: int, wanted: int, keys: frozenset[str], values: dict[str, set[str]]
) -> int:
    """Give standbys one by one while a client with unused tag values is there; answer how many were given."""
    used: dict[str, set[str]] = {}

    def unused(client: int) -> bool:
        return not any(value in used.get(key, ()) for key, value in board.clients[client].tags.items())

    last = board.owner[task]
    for given in range(wanted):
        for key, value in board.clients[last].tags.items():
            _use(used, key, value, exhausted=key in keys and len(values[key]) <= given + 1, known=key in keys)
        if not queue.give_standbys(task, 1, unused):
            return given
        last = board.standbys[task][-1]
    return wanted


def _use(used: dict[str, set[str]], key: str, value: str, *, exhausted: bool, known: bool) -> None:
    """Note a used tag value. Once there are as many copies as values the key no longer tells clients apart."""
    if exhausted:
        used.pop(key, None)
    elif known:
        used.setdefault(key, set()).add(value)


def same_tags(board: Board) -> MayMove:
    """Whether a standby may move between two clients: every tag of the source has the same value at the destination."""

    def may_move(source: int, destination: int) -> bool:
        theirs = board.clients[destination].tags
        return all(theirs.get(key) == value for key, value in board.clients[source].tags.items())

    return may_move
