"""The first layout of standbys: existing replicas stay, missing ones go where cells and columns lack most.

It works on a ``StandbyTable``; ``settle`` then moves what is still misplaced.
"""

from __future__ import annotations

from collections import deque
from heapq import nsmallest

from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.model import RUNNING_OFFSET_SUM

Gift = dict[int, int]
"""Column -> how many standbys a row adds there."""


def keep(table: StandbyTable) -> None:
    """Keep each task's replicas; of too many the most caught up, and of equal ones those in columns with room."""
    choosing = []
    acceptable, wanted, column, cell = table.held.acceptable, table.wanted, table.column, table.cell
    for task, (owner, reported) in enumerate(zip(table.owners, table.held.reported_lags, strict=False)):
        if not reported:
            continue
        copies = [client for client in reported if client != owner]
        if len(copies) > wanted or max(reported.values()) > acceptable or min(reported.values()) < RUNNING_OFFSET_SUM:
            choosing.append(task)
            continue
        table.copies[task] = copies
        row = cell[owner]
        for client in copies:
            column[client] += 1
            row[client] = row.get(client, 0) + 1
    for task in choosing:
        for *_, client in nsmallest(wanted, _candidates(table, task)):
            table.put(task, client)


def _candidates(table: StandbyTable, task: int) -> list[tuple[int, int, int, bool, int]]:
    owner, column, tags = table.owners[task], table.column, table.tags
    cell, most, high = table.cell[owner], table.rows[owner].most, table.limits.column_high
    return [
        (
            rank,
            tags.clashes(owner, (), client) if tags else 0,
            lag,
            column[client] >= high[client] or cell.get(client, 0) >= most[client],
            client,
        )
        for rank, lag, client in table.held.holders(task, owner)
    ]


def fill(table: StandbyTable) -> None:
    """Give every task all its standbys: first the cells that must have some, then the columns in turn."""
    gifts = {owner: _due(table, owner, lacks) for owner in range(len(table.column)) if (lacks := table.lacks(owner))}
    places = deque(_places(table, gifts) if gifts else ())
    for owner, gift in gifts.items():
        _add_places(table, owner, gift, places)
        _hand_out(table, owner, gift)


def _due(table: StandbyTable, owner: int, lacks: int) -> Gift:
    """Return what the cells of a row lack of their minimum."""
    gift: Gift = {}
    row = table.rows[owner]
    for client in row.due:
        if client != owner and lacks > 0:
            number = min(lacks, row.least[client] - table.count(owner, client))
            if number > 0:
                gift[client] = number
                lacks -= number
    return gift


def _places(table: StandbyTable, gifts: dict[int, Gift]) -> list[int]:
    """List each column as often as it lacks standbys, in rounds, so that no row gets one column many times at once."""
    have = list(table.column)
    for gift in gifts.values():
        for client, number in gift.items():
            have[client] += number
    lacking = [max(0, low - own) for low, own in zip(table.limits.column_low, have, strict=True)]
    rounds = max(lacking, default=0)
    places = []
    for turn in range(rounds):
        places += [client for client, each in enumerate(lacking) if (turn + 1) * each // rounds > turn * each // rounds]
    high = table.limits.column_high
    return places + [client for client, own in enumerate(have) if own + lacking[client] < high[client]]


def _add_places(table: StandbyTable, owner: int, gift: Gift, places: deque[int]) -> None:
    """Take places from the front for what the row lacks beyond its gift; unusable places go back to the front."""
    most = table.rows[owner].most
    lacks = table.lacks(owner) - sum(gift.values())
    passed = []
    while lacks > 0 and places:
        client = places.popleft()
        if client == owner or table.count(owner, client) + gift.get(client, 0) >= most[client]:
            passed.append(client)
            continue
        gift[client] = gift.get(client, 0) + 1
        lacks -= 1
    places.extendleft(reversed(passed))


def _hand_out(table: StandbyTable, owner: int, gift: Gift) -> None:
    """Deal the gift to the tasks of the row in rounds, no task the same column twice."""
    tasks = table.tasks_of[owner]
    # clients with the same tags are adjacent, so that each task gets them in turn
    clients = sorted(gift, key=table.tags.group.__getitem__) if table.tags else gift
    dealt = [client for client in clients for _ in range(gift[client])]
    if not any(table.copies[task] for task in tasks):
        _deal(table, owner, gift, dealt)
        dealt = []
    lacking = deque(task for task in tasks if len(table.copies[task]) < table.wanted)
    for column in dealt:
        _put_on_client(table, column, lacking)
    while lacking:
        task = lacking.popleft()
        taken = (owner, *table.copies[task])
        free = (client for client in range(len(table.column)) if client not in taken)
        table.put(
            task, min(free, key=lambda client: (not table.has_room(task, client), table.fullness(client), client))
        )
        if len(table.copies[task]) < table.wanted:
            lacking.append(task)


def _deal(table: StandbyTable, owner: int, gift: Gift, dealt: list[int]) -> None:
    """Do the same in one step for tasks without any replica: no column gets more than there are tasks."""
    tasks = table.tasks_of[owner]
    for number, task in enumerate(tasks):
        table.copies[task] = dealt[number :: len(tasks)]
    table.cell[owner].update(gift)
    for client, number in gift.items():
        table.column[client] += number


def _put_on_client(table: StandbyTable, client: int, lacking: deque[int]) -> None:
    for _ in range(len(lacking)):
        task = lacking.popleft()
        if client in table.copies[task]:
            lacking.append(task)
            continue
        table.put(task, client)
        if len(table.copies[task]) < table.wanted:
            lacking.append(task)
        return
