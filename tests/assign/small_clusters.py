"""All small clusters, and what ``least_movement`` guarantees for each, verified by trying every possible plan.

A cluster is drawn as one row of letters per task, one column per client. ``R``: runs there, ``O``: was its owner and
has no state, ``F``: a complete replica, ``N``: a replica that lacks a little, ``P``: a replica that lacks much, ``-``:
nothing. Lower-case ``r`` runs a stateless task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement, groupby, permutations, product
from uuid import UUID

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    Round,
    TaskLags,
    apply_plan,
    check,
    converge,
    is_instance_balanced,
    least_movement,
    owner_changes_lower_bound,
    previous_owners,
)
from kstreams_assign.assign.lags import KEPT_UP_TO
from kstreams_assign.assign.least_movement.final_owners import final_owners
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.shares import even_shares
from kstreams_assign.assign.standby.spread import final_standbys
from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId

END, PART, ACCEPTABLE = 1000, 400, 100
NEAR = END - 50
SUM = {"R": RUNNING_OFFSET_SUM, "F": END, "N": NEAR, "P": PART}
LAG = {"R": 0, "F": 0, "N": END - NEAR, "P": END - PART, "O": END, "-": END}
TINY = END
"""As ``acceptable``: whole tasks lack no more than is acceptable, so every client is caught up."""

Rows = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Small:
    """A cluster, drawn; ``kinds`` has the subtopology of each row, ``acceptable`` the acceptable lag."""

    rows: Rows
    kinds: tuple[int, ...]
    threads: tuple[int, ...]
    standbys: int
    acceptable: int = ACCEPTABLE

    @property
    def tasks(self) -> list[TaskId]:
        return [TaskId(kind, number) for number, kind in enumerate(self.kinds)]

    @property
    def config(self) -> AssignConfig:
        return AssignConfig(acceptable_recovery_lag=self.acceptable, num_standby_replicas=self.standbys)

    def cluster(self) -> Cluster:
        """Client n has the process id n + 1."""
        drawn = list(zip(self.tasks, self.rows, strict=True))
        stateful = frozenset(task for task, row in drawn if has_state(row))
        ends = dict.fromkeys(sorted(stateful), END)
        clients = []
        for number, threads in enumerate(self.threads):
            active = frozenset(task for task, row in drawn if row[number] in "RrO")
            sums = {task: SUM[row[number]] for task, row in drawn if row[number] in SUM}
            clients.append(
                Client(UUID(int=number + 1), threads, active, frozenset(sums) - active, TaskLags(ends, sums))
            )
        return Cluster(tuple(clients), stateful, frozenset(self.tasks) - stateful)


def has_state(row: str) -> bool:
    """Return whether the row is drawn as that of a stateful task."""
    return not {"r", "."} & set(row)


# ---------------------------------------------------------------------- all of them


def rows_of(clients: int, copies_max: int, letters: str) -> list[str]:
    """Return every row of a stateful task: at most one owner, at most ``copies_max`` replicas beside it."""
    rows = ("".join(row) for row in product(letters, repeat=clients))
    return [row for row in rows if row.count("R") + row.count("O") <= 1 and sum(map(row.count, "PNF")) <= copies_max]


def stateless_rows_of(clients: int) -> list[str]:
    """Return every row of a stateless task: with an owner (``r``) or without."""
    idle = "." * clients
    return [idle, *(idle[:owner] + "r" + idle[owner + 1 :] for owner in range(clients))]


def small_clusters(
    clients: int,
    kinds: tuple[int, ...],
    copies_max: int,
    letters: str = "-PFRO",
    *,
    reduced: bool = True,
    acceptable: int = ACCEPTABLE,
) -> Iterator[Small]:
    """Yield all clusters with 1 or 2 threads per client, 0 or 1 standby, each subtopology with or without state.

    ``reduced``: yield only one of the clusters that are equal after renaming clients or exchanging tasks of a
    subtopology.
    """
    stateful, stateless = rows_of(clients, copies_max, letters), stateless_rows_of(clients)
    sizes = [len(list(group)) for _, group in groupby(kinds)]
    names = list(permutations(range(clients))) if reduced else []
    for threads in combinations_with_replacement((1, 2), clients) if reduced else product((1, 2), repeat=clients):
        same = [order for order in names if tuple(threads[client] for client in order) == threads]
        for pools in product((stateful, stateless), repeat=len(sizes)):
            parts = [combinations_with_replacement(pool, size) for pool, size in zip(pools, sizes, strict=True)]
            for chosen in product(*parts):
                if not _renamed_from_another(chosen, same):
                    rows = tuple(row for part in chosen for row in part)
                    for standbys in (0, 1) if clients > 1 else (0,):
                        yield Small(rows, kinds, threads, standbys, acceptable)


def _renamed_from_another(parts: tuple[Rows, ...], orders: list[tuple[int, ...]]) -> bool:
    mine = [sorted(part) for part in parts]
    return any([sorted(_renamed(row, order) for row in part) for part in parts] < mine for order in orders)


@cache
def _renamed(row: str, order: tuple[int, ...]) -> str:
    return "".join(row[client] for client in order)


# ---------------------------------------------------------------------- every possible answer

Cost = tuple[int, int, int, int]
"""Owner changes, new owners without a copy, spread of subtopologies, offsets to restore."""


@cache
def balanced_owners(tasks: int, threads: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return every balanced distribution of the tasks."""
    shares = even_shares(tasks, threads)
    return [
        owners
        for owners in product(range(len(threads)), repeat=tasks)
        if all(low <= owners.count(client) <= high for client, (low, high) in enumerate(shares))
    ]


@cache
def spread(owners: tuple[int, ...], kinds: tuple[int, ...], threads: tuple[int, ...]) -> int:
    """Return the sum of 1 + 2 + … + n per client and subtopology with n tasks too few or too many."""
    total = 0
    for kind, client in product(set(kinds), range(len(threads))):
        low, high = even_shares(kinds.count(kind), threads)[client]
        have = sum(owner == client and own == kind for owner, own in zip(owners, kinds, strict=True))
        out = max(low - have, have - high, 0)
        total += out * (out + 1) // 2
    return total


def prices(small: Small) -> list[list[tuple[int, int, int]]]:
    """Return the cost of each task per client that runs it in the end."""
    backlog = [0] * len(small.threads)
    for row in filter(has_state, small.rows):
        if (owner := owner_of(row)) != -1:
            backlog[owner] += LAG[row[owner]]
    return [row_prices(row, small.acceptable, _is_slow(row, backlog)) for row in small.rows]


def owner_of(row: str) -> int:
    """Return the client that runs a stateful task, or was its owner; -1 if there is none."""
    return max(row.find("R"), row.find("O"))


def _is_slow(row: str, backlog: list[int]) -> bool:
    """Return whether a client that has more of the task would have it in less than half of its owner's time."""
    owner = owner_of(row)
    return owner != -1 and any(
        backlog[owner] > KEPT_UP_TO * (backlog[client] + LAG[letter])
        for client, letter in enumerate(row)
        if LAG[letter] < LAG[row[owner]]
    )


@cache
def row_prices(row: str, acceptable: int, is_slow: bool) -> list[tuple[int, int, int]]:
    """Return per client the cost of running the task in the end.

    The cost is (owner changes, 1 if new without a copy, offsets to restore). ``is_slow``: its owner is, if it restores.
    """
    if not has_state(row):
        return [(int("r" in row and letter != "r"), 0, 0) for letter in row]
    lags = [LAG[letter] for letter in row]
    ranks = [0 if lag <= acceptable else lag for lag in lags]
    owner = owner_of(row)
    may_stay = owner != -1 and (ranks[owner] == min(ranks) or (restarts(row, acceptable) and not is_slow))
    costs = []
    for client, mine in enumerate(ranks):
        # if no client may keep the task, its first change, to the most caught-up client, is inevitable; an orphan has
        # none
        changes = int(client != owner) if may_stay else int(owner != -1) + int(mine > min(ranks))
        stays = may_stay and client == owner
        costs.append((changes, int(not stays and lags[client] == END), lags[client]))
    return costs


def restarts(row: str, acceptable: int) -> bool:
    """Return whether no client has caught up with the task."""
    return has_state(row) and min(LAG[letter] for letter in row) > acceptable


def cost(small: Small, each_price: list[list[tuple[int, int, int]]], owners: tuple[int, ...]) -> Cost:
    """Return the total cost over all rounds, at these prices."""
    each = [of_task[owner] for of_task, owner in zip(each_price, owners, strict=True)]
    changes, without_copy, offsets = (sum(column) for column in zip(*each, strict=True))
    return changes, without_copy, spread(owners, small.kinds, small.threads), offsets


# ---------------------------------------------------------------------- judgement


def faults(small: Small) -> list[str]:
    """Return violated guarantees."""
    cluster = small.cluster()
    ends = dict.fromkeys(cluster.stateful, END)
    rounds = converge(cluster, small.config, least_movement, ends, rounds_max=50)
    last = apply_plan(rounds[-1].cluster, rounds[-1].plan, ends)
    texts = [text for round_ in rounds for text in check(round_.cluster, small.config, round_.plan)]
    if rounds[-1].plan.probing or least_movement(last, small.config).placements != rounds[-1].plan.placements:
        texts.append("does not come to rest")
    if not is_instance_balanced(rounds[-1].plan.owners, cluster.capacities):
        texts.append("is not balanced")
    texts += _dear_owners(small, cluster, rounds) + _uneven_replicas(small, last) + _dear_standbys(small, cluster)
    return texts + (_left_alone(small, last) if _is_loss_proof(small, last) else [])


def _dear_owners(small: Small, cluster: Cluster, rounds: list[Round]) -> list[str]:
    each_price = prices(small)
    best = min(cost(small, each_price, owners) for owners in balanced_owners(len(small.rows), small.threads))
    held = PreviousState(cluster, small.acceptable)
    owners = final_owners(held)
    texts = []
    changes = sum(len(round_.changed) for round_ in rounds)
    # a restore that begins again elsewhere saves the change to the most caught-up client, which ``prices`` counts
    if changes > best[0] or (changes < best[0] and not any(restarts(row, small.acceptable) for row in small.rows)):
        texts.append(f"changes {changes} owners, {best[0]} would do")
    if changes < owner_changes_lower_bound(previous_owners(cluster), cluster.capacities, cluster.tasks):
        texts.append("changes fewer owners than the lower bound")
    mine = cost(small, each_price, tuple(owners[held.numbers[task]] for task in small.tasks))
    if mine != best:
        texts.append(f"its goal costs {mine}, {best} would do")
    return texts


def _uneven_replicas(small: Small, at_rest: Cluster) -> list[str]:
    """Where processes have equal threads, none has two replicas more than another, active tasks included."""
    replicas = [len(client.prev_active) + len(client.prev_standby) for client in at_rest.clients]
    if not small.standbys or len(set(small.threads)) > 1 or max(replicas) - min(replicas) < 2:
        return []
    return [f"replicas are uneven: {replicas}"]


def _is_loss_proof(small: Small, at_rest: Cluster) -> bool:
    """Return whether the standbys are where a loss of any process wants them."""
    if not small.standbys or len(small.threads) < 3:
        return False
    held = PreviousState(at_rest, small.acceptable)
    owners = final_owners(held)
    table = StandbyTable(held, owners, small.standbys, None)
    return table.limits.loss_proof and not cells_off(table, final_standbys(held, owners, small.config))


def _left_alone(small: Small, at_rest: Cluster) -> list[str]:
    """Lose each process in turn: later moves may only make room, as without any standby."""
    texts = []
    for lost in at_rest.clients:
        rest = tuple(client for client in at_rest.clients if client is not lost)
        left = Cluster(rest, at_rest.stateful, at_rest.stateless)
        rounds = converge(left, small.config, least_movement, dict.fromkeys(left.stateful, END), rounds_max=50)
        bound = owner_changes_lower_bound(previous_owners(left), left.capacities, left.tasks)
        if sum(len(round_.changed) for round_ in rounds) != bound:
            texts.append(f"when process {lost.process_id.int} is lost, tasks move that need not")
    return texts


def _dear_standbys(small: Small, cluster: Cluster) -> list[str]:
    """Compare with all layouts: distances of columns from their limits, then offsets to restore with cells."""
    held = PreviousState(cluster, small.acceptable)
    clients = range(len(held.clients))
    if not small.standbys or len(clients) < 3:
        return []
    owners = final_owners(held)
    table = StandbyTable(held, owners, small.standbys, None)
    choices = [
        list(combinations([client for client in clients if client != owner], small.standbys)) for owner in table.owners
    ]
    mine = layout_cost(table, final_standbys(held, owners, small.config))
    best = min(layout_cost(table, layout) for layout in product(*choices))
    if mine[0] > best[0]:
        return [f"columns of standbys are {mine[0]} off, {best[0]} would do"]
    return [f"standbys cost {mine[1]}, {best[1]} would do"] if mine[1] > best[1] else []


def layout_cost(table: StandbyTable, layout: object) -> tuple[int, int]:
    """Return how far columns are off their limits, and the offsets to restore, with the price of cells."""
    columns: Counter[int] = Counter()
    restored = 0
    for task, copies in enumerate(layout):  # type: ignore[arg-type, var-annotated]
        columns.update(copies)
        restored += sum(table.held.rank(task, client) for client in copies)
    low, high = table.limits.column_low, table.limits.column_high
    uneven = sum(max(low[client] - columns[client], columns[client] - high[client], 0) for client in range(len(low)))
    return uneven, restored + table.cell_price * cells_off(table, layout)


def cells_off(table: StandbyTable, layout: object) -> int:
    """Return how far cells are off their limits: no task has to move later when a process is lost, if they are not."""
    cells: Counter[tuple[int, int]] = Counter()
    for owner, copies in zip(table.owners, layout, strict=True):  # type: ignore[call-overload]
        cells.update((owner, client) for client in copies)
    return sum(
        max(row.least[client] - cells[owner, client], cells[owner, client] - row.most[client], 0)
        for owner in set(table.owners)
        for row in (table.limits.rows[owner],)
        for client in range(len(table.column))
        if client != owner
    )
