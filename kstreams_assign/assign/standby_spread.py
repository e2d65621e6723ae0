"""Which processes shall hold the standbys of each task in the end: sticky, and spread so that any one process may be lost.

Copies that are there stay. Missing ones go where cells and columns (``StandbyCells``) have room, and a copy moves only if that
brings a cell or a column nearer to its limits. So a spread that is good is left alone, and one that was made here is good.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.assign.holdings import Holdings
from kstreams_assign.assign.standby_fill import fill, keep
from kstreams_assign.assign.standby_settle import settle
from kstreams_assign.assign.standby_table import StandbyTable
from kstreams_assign.assign.tag_spread import TagSpread
from kstreams_assign.assign.values import AssignConfig


def final_standbys(held: Holdings, owners: Sequence[int], config: AssignConfig) -> Sequence[Sequence[int]]:
    """The clients that are to hold a standby of each stateful task: ``num_standby_replicas``, or all others if those are fewer."""
    clients = range(len(held.clients))
    if config.num_standby_replicas >= len(clients) - 1:
        others = [[other for other in clients if other != client] for client in clients]
        return [others[owner] for owner in owners[: held.stateful]]
    if config.num_standby_replicas == 0:
        return [()] * held.stateful
    tags = TagSpread(held.clients, config.rack_aware_assignment_tags) if config.rack_aware_assignment_tags else None
    table = StandbyTable(held, owners, config.num_standby_replicas, tags)
    keep(table)
    fill(table)
    settle(table)
    return table.copies
