"""The processes that shall hold the standbys of each task in the end: sticky, and spread for the loss of any process.

Existing replicas stay. Missing ones go where cells and columns (``StandbyLimits``) have room, and a replica moves only
if that brings a cell or a column nearer to its limits, or if it saves a restore. So a good spread is left alone, and
one that was made here is good. Where costs are compared, a layout is left alone unless another one costs less: two of
the same cost do not alternate.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.standby.exchanges import NO_COST, cost, lower_cost
from kstreams_assign.assign.standby.fill import fill, keep
from kstreams_assign.assign.standby.settle import settle
from kstreams_assign.assign.standby.table import StandbyTable
from kstreams_assign.assign.standby.tag_spread import TagSpread
from kstreams_assign.assign.values import AssignConfig


def final_standbys(held: PreviousState, owners: Sequence[int], config: AssignConfig) -> Sequence[Sequence[int]]:
    """Return the clients that shall hold a standby of each stateful task.

    Each task gets ``num_standby_replicas`` standbys, or one on every other client if there are fewer.
    """
    clients = range(len(held.clients))
    if config.num_standby_replicas >= len(clients) - 1:
        others = [[other for other in clients if other != client] for client in clients]
        return [others[owner] for owner in owners[: held.stateful]]
    if config.num_standby_replicas == 0:
        return [()] * held.stateful
    tags = TagSpread(held.clients, config.rack_aware_assignment_tags) if config.rack_aware_assignment_tags else None
    table = StandbyTable(held, owners, config.num_standby_replicas, tags)
    keep(table)
    if not (table.exact and all(table.copies)):
        return _place(table)
    kept, as_kept = [*map(list, table.copies)], cost(table)
    if as_kept == NO_COST:
        return kept
    placed = _place(table)
    return placed if cost(table) < as_kept else kept


def _place(table: StandbyTable) -> Sequence[Sequence[int]]:
    fill(table)
    settle(table)
    lower_cost(table)
    return table.copies
