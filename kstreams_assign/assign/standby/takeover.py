"""The process that takes over each task when a process is lost, where tasks have several standbys.

Cells alone say how many standbys a row has on each client. With more than one per task, the right numbers can still be
on the wrong tasks: two standbys of one task on the only clients that may take more, and none of another. Then replicas
are exchanged.
"""

from __future__ import annotations

from kstreams_assign.assign.seats import Matching, OpenSeats
from kstreams_assign.assign.standby.table import StandbyTable


def ensure_takeover(table: StandbyTable) -> bool:
    """Exchange replicas within rows until each task has a standby that can take it over; return whether any were.

    Exchanges change no cell and no column.
    """
    exchanged = False
    if table.wanted > 1 and table.limits.loss_proof:
        for owner in range(len(table.tasks_of)):
            exchanged |= _give_heirs(table, owner)
    return exchanged


def _give_heirs(table: StandbyTable, owner: int) -> bool:
    low, high = table.limits.rows[owner].heirs
    tasks = table.tasks_of[owner]
    low = [0 if client == owner else number for client, number in enumerate(low)]
    high = [0 if client == owner else number for client, number in enumerate(high)]
    matching = Matching(OpenSeats(len(tasks), low, high), table.held.capacity)
    without = [task for task in tasks if not _seated(table, task, matching)]
    exchanges = [_exchange(table, owner, task, matching) for task in without]
    return any(exchanges)


def _seated(table: StandbyTable, task: int, matching: Matching) -> bool:
    """Return whether one of the task's standbys has a seat for it; usually no search is needed."""
    copies = table.copies[task]
    client = next((client for client in copies if matching.room.is_open(client)), None)
    if client is None:
        return matching.seat(task, copies)
    matching.put(task, client, copies)
    return True


def _exchange(table: StandbyTable, owner: int, task: int, matching: Matching) -> bool:
    """Return whether the task could get a standby, on a client with a seat left, from a task that has a second one."""
    for client in range(len(table.column)):
        if not matching.room.is_open(client) or client in table.copies[task]:
            continue
        for other in table.tasks_of[owner]:
            if other == task or client not in table.copies[other] or other in matching.seated[client]:
                continue
            for mine in table.copies[task]:
                if mine not in table.copies[other]:
                    table.shift(task, mine, client)
                    table.shift(other, client, mine)
                    matching.put(task, client, table.copies[task])
                    return True
    return False
