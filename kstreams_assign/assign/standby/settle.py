"""Move misplaced standbys: each move brings a cell or a column nearer to its limits, so the moves end.

No other move is made, so a settled table stays as it is. Where rows have a price, no move for a cell adds as much as
that to what is restored. The module works on a ``StandbyTable``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kstreams_assign.assign.standby.limits import Counts
from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.assign.standby.tag_spread import TagSpread
from kstreams_assign.assign.standby.takeover import ensure_takeover


def settle(table: StandbyTable) -> None:
    """Move standbys until no move brings a cell or column nearer to its limits.

    Where rows have a price, columns get what they still lack, whatever the row.
    """
    moving = True
    while moving:
        moving = (
            _part(table)
            | _thin_cells(table)
            | _feed_cells(table)
            | _feed_columns(table)
            | _thin_columns(table)
            | ensure_takeover(table)
        )
    if table.limits.rows_priced:
        table.rows = table.limits.any_row()
        while _feed_columns(table) | _thin_columns(table):
            pass


def _part(table: StandbyTable) -> bool:
    """Separate the replicas of a task by their tags, where other clients clash less."""
    moved = False
    if table.tags is None:
        return moved
    for owner, tasks in enumerate(table.tasks_of):
        fewest = table.tags.fewest(owner, table.wanted)
        for task in tasks:
            now = table.tags.all_clashes(owner, table.copies[task])
            if now > fewest and table.tags.all_clashes(owner, better := _parted(table, task, table.tags)) < now:
                for client in tuple(table.copies[task]):
                    table.drop(task, client)
                for client in better:
                    table.put(task, client)
                moved = True
    return moved


def _parted(table: StandbyTable, task: int, tags: TagSpread) -> list[int]:
    """Choose standbys in turn where they clash least; among equals clients with a replica, then empty columns."""
    chosen: list[int] = []
    owner = table.owners[task]

    def preference(client: int) -> tuple[int, bool, int, bool, float, int]:
        crowded = not table.has_room(task, client)
        settled = client not in table.copies[task]
        clashes = tags.clashes(owner, chosen, client)
        return clashes, settled, table.held.restore(task, client), crowded, table.fullness(client), client

    for _ in range(table.wanted):
        free = (client for client in range(len(table.column)) if client != owner and client not in chosen)
        chosen.append(min(free, key=preference))
    return chosen


def _thin_cells(table: StandbyTable) -> bool:
    """Move replicas out of cells that have too many."""
    moved = False
    for owner, row in enumerate(table.rows):
        most = row.most
        crowded = [client for client, count in table.cell[owner].items() if count > most[client]]
        for client in crowded:
            on_client = [task for task in table.tasks_of[owner] if client in table.copies[task]]
            for task in table.first_to_move(on_client):
                if table.count(owner, client) > most[client]:
                    goals = [goal for goal in range(len(table.column)) if table.pays(task, client, goal)]
                    moved |= _move_out(table, task, client, goals)
    return moved


def _move_out(table: StandbyTable, task: int, source: int, goals: Iterable[int]) -> bool:
    """Move the replica to one of the goals, if possible; return whether it moved.

    It prefers clients with a replica, then cells below their minimum, then the emptiest column.
    """
    fit = [goal for goal in goals if table.may_shift(task, source, goal)]
    if fit:
        owner = table.owners[task]
        least = table.rows[owner].least

        def preference(goal: int) -> tuple[int, bool, float, int]:
            return table.held.restore(task, goal), table.count(owner, goal) >= least[goal], table.fullness(goal), goal

        table.shift(task, source, min(fit, key=preference))
    return bool(fit)


def _feed_cells(table: StandbyTable) -> bool:
    """Move replicas within a row to the cells that must have more."""
    moved = False
    for owner, row in enumerate(table.rows):
        for client in row.due:
            if client != owner and table.count(owner, client) < row.least[client]:
                moved |= _feed_cell(table, owner, client)
    return moved


def _feed_cell(table: StandbyTable, owner: int, goal: int) -> bool:
    """Fill one cell: first with tasks that the client holds, then from the fullest columns, least to restore first."""
    lacks = table.rows[owner].least[goal] - table.count(owner, goal)
    tasks = [task for task in table.tasks_of[owner] if goal not in table.copies[task]]
    tasks.sort(key=lambda task: (table.held.restore(task, goal), -task))
    warm = [task for task in tasks if table.held.restore(task, goal) < table.held.cold_restore[task]]
    moved = 0
    for choice in (warm, tasks):
        while moved < lacks and _take_from_fullest(table, owner, goal, choice):
            moved += 1
    return moved > 0


def _take_from_fullest(table: StandbyTable, owner: int, goal: int, tasks: list[int]) -> bool:
    """Shift a replica of one of the tasks within its row, if possible; remove that task from ``tasks``."""
    least, cell = table.rows[owner].least, table.cell[owner]
    givers = [(-table.fullness(client), client) for client, count in cell.items() if count > least[client]]
    for _, source in sorted(givers):
        for task in tasks:
            movable = source in table.copies[task] and table.may_shift(task, source, goal)
            if movable and table.pays(task, source, goal):
                table.shift(task, source, goal)
                tasks.remove(task)
                return True
    return False


def _feed_columns(table: StandbyTable) -> bool:
    """Move replicas to columns that lack some from all that have more than the least."""
    moved = False
    for goal, least in enumerate(table.limits.column_low):
        if table.column[goal] < least:
            moved |= _feed_column(table, goal, least)
    return moved


def _feed_column(table: StandbyTable, goal: int, least: int) -> bool:
    column, low, before = table.column, table.limits.column_low, table.column[goal]
    rows = enumerate(table.rows)
    room = [client != goal and table.count(client, goal) < row.most[goal] for client, row in rows]
    near = [task for task, owner in enumerate(table.owners) if room[owner] and goal not in table.copies[task]]
    warm = [task for task in near if goal in table.held.reported_lags[task]]
    near.reverse()
    near.sort(key=table.held.cold_restore.__getitem__)
    tasks = (*sorted(warm, key=lambda task: (table.held.restore(task, goal), -task)), *near)
    for floor in (table.limits.column_high, low) if table.limits.rows_priced else (low,):
        for task in tasks:
            if column[goal] >= least:
                break
            _shift_from_above(table, floor, task, goal)
    return column[goal] > before


def _shift_from_above(table: StandbyTable, floor: Counts, task: int, goal: int) -> None:
    """Shift a replica of the task from a column that has more than its ``floor``, if possible."""
    for source in table.copies[task]:
        full = table.column[source] > floor[source]
        if full and table.may_give(task, source) and table.may_shift(task, source, goal):
            table.shift(task, source, goal)
            return


def _thin_columns(table: StandbyTable) -> bool:
    """Move replicas out of columns that have too many, to those with room."""
    moved = False
    high = table.limits.column_high
    for source, most in enumerate(high):
        if table.column[source] <= most:
            continue
        for task in table.first_to_move(task for task, copies in enumerate(table.copies) if source in copies):
            if table.column[source] > most and table.may_give(task, source):
                roomy = (client for client, have in enumerate(table.column) if have < high[client])
                moved |= _move_out(table, task, source, roomy)
    return moved
