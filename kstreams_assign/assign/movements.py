"""Moving copies to warmer processes, and warming up the colder ones (Kafka: ``TaskMovement``, ``ConstrainedPrioritySet``).

The balanced layout says where copies *should* be. Where such a process is not caught up and a warmer one exists, the
warmer one gets the copy for now, and the wanted one a warm-up while the budget lasts.
"""

from __future__ import annotations

from collections.abc import Callable

from kstreams_assign.assign.board import Board, LagTable
from kstreams_assign.assign.java_order import JavaPriorityQueue, hash_table_order, process_hash


class WarmupBudget:
    """How many more warm-ups may be handed out: one budget for active and standby movements."""

    def __init__(self, max_warmup_replicas: int) -> None:
        self.left = max_warmup_replicas

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


class ClientsByLoad:
    """Clients by total load, with Java's layout: loads change while clients wait inside, so ties depend on it."""

    def __init__(self, board: Board) -> None:
        clients = range(len(board.clients))
        self.hashes = [process_hash(client.process_id) for client in board.clients]
        self.queue = JavaPriorityQueue(lambda client: (board.load(client), client), ())
        for client in clients:
            self.queue.offer(client)

    def poll(self, eligible: Callable[[int], bool]) -> int | None:
        """Take out the first eligible client. Those passed over are offered again in the order of a hash set."""
        passed: list[int] = []
        found = None
        while self.queue and found is None:
            client = self.queue.poll()
            if eligible(client):
                found = client
            else:
                passed.append(client)
        for client in hash_table_order(passed, self.hashes.__getitem__):
            self.queue.offer(client)
        return found

    def offer(self, client: int) -> None:
        if client in self.queue.array:
            self.queue.remove(client)
        self.queue.offer(client)


def move_actives(board: Board, lags: LagTable, budget: WarmupBudget) -> int:
    """Put each active task on a caught-up client, or on the most caught-up one; answer how many had to move."""
    wanted = sorted(
        (len(lags.caught_up_clients(task)), task)
        for task, owner in enumerate(board.owner)
        if _colder(lags, task, owner)
    )
    queue = ClientsByLoad(board)
    for _, task in wanted:
        _move_active(board, lags, budget, queue, task)
    return len(wanted)


def _colder(lags: LagTable, task: int, client: int) -> bool:
    """Whether the client is not caught up on the task and another one is further."""
    return not lags.is_caught_up(task, client) and lags.least_lag(task) < lags.lag(task, client)


def _move_active(board: Board, lags: LagTable, budget: WarmupBudget, queue: ClientsByLoad, task: int) -> None:
    caught_up = set(lags.caught_up_clients(task))
    destination = board.owner[task]
    source = queue.poll(lambda client: client in caught_up and client in board.standbys[task])
    if source is None:
        source = queue.poll(caught_up.__contains__)
    if source is None:
        source = lags.by_lag(task)[0]
    board.take_active(task)
    if source in board.standbys[task]:
        board.take_standby(task, source)
        board.give_standby(task, destination)
    elif budget.spend():
        board.give_warmup(task, destination)
    board.give_active(task, source)
    queue.offer(source)
    queue.offer(destination)


def move_standbys(board: Board, lags: LagTable, budget: WarmupBudget) -> int:
    """Put standbys on warmer clients that have no copy yet; answer how many found one. Warm-ups stay."""
    found = [
        (client, task)
        for task, clients in enumerate(board.standbys)
        for client in clients
        if _colder(lags, task, client)
    ]
    movements = JavaPriorityQueue[tuple[int, int, int]](lambda movement: movement[:2])
    for client, task in sorted(found):
        movements.offer((len(lags.caught_up_clients(task)), task, client))
    queue, moved = ClientsByLoad(board), 0
    while movements:
        _, task, destination = movements.poll()
        moved += _move_standby(board, lags, budget, queue, task, destination)
    return moved


def _move_standby(
    board: Board, lags: LagTable, budget: WarmupBudget, queue: ClientsByLoad, task: int, destination: int
) -> bool:
    source = queue.poll(lambda client: lags.is_caught_up(task, client) and not board.holds(client, task))
    if source is None:
        source = _warmest_without_copy(board, lags, task, destination)
    if source is None:
        return False
    board.take_standby(task, destination)
    board.give_standby(task, source)
    if budget.spend():
        board.give_warmup(task, destination)
    queue.offer(source)
    queue.offer(destination)
    return True


def _warmest_without_copy(board: Board, lags: LagTable, task: int, destination: int) -> int | None:
    """The most caught-up client without a copy, among those before the destination in the order of lag."""
    for client in lags.by_lag(task):
        if client == destination:
            return None
        if not board.holds(client, task):
            return client
    return None
