"""The loads of one member's tasks: what it reports of them, and when they are a reason for a rebalance.

A member knows the load of a task from its last assignment before it can measure it, so a task that moves keeps its
load. The rules of a single load are in ``group.loads``.
"""

from __future__ import annotations

from uuid import UUID

from kstreams_assign.allowed_values import BalanceBy
from kstreams_assign.assign import Loads
from kstreams_assign.group.loads import explain_new_loads, settle_loads
from kstreams_assign.group.values import Adopted


class OwnLoads:
    """Loads in the unit of ``balance_by``; none are reported where that is ``tasks``."""

    def __init__(self, process: UUID, balance_by: str, interval_ms: int) -> None:
        self._process = process
        self._balance_by = balance_by
        self._interval_ms = interval_ms
        self.reported: Loads = {}
        """Those of the last report."""

    def report(self, adopted: Adopted | None, measured: Loads) -> Loads:
        """Return what to report now. ``adopted``: the last assignment; ``measured``: loads of tasks that run."""
        self.reported = self._settled(adopted, measured)
        return self.reported

    def _settled(self, adopted: Adopted | None, measured: Loads) -> Loads:
        """Return the loads of this member's tasks: as they are known, unless they have changed."""
        if self._balance_by == BalanceBy.TASKS or adopted is None:
            return {}
        promised = {task for task, process in adopted.promised.items() if process == self._process}
        mine = adopted.active.keys() | promised
        known = {task: load for task, load in {**self.reported, **adopted.loads}.items() if task in mine}
        return settle_loads(known, {t: load for t, load in measured.items() if t in mine}, self._balance_by)

    def reason(self, adopted: Adopted, measured: Loads, assigned_for_ms: int) -> str | None:
        """Return why the group should know of these loads, None if it need not.

        It need not within the interval after an assignment, and where the leader has used none of the loads that this
        member reported.
        """
        ignored = bool(self.reported) and not adopted.loads
        if self._balance_by == BalanceBy.TASKS or assigned_for_ms < self._interval_ms or ignored:
            return None
        running = {task: load for task, load in measured.items() if task in adopted.active}
        return explain_new_loads(self._settled(adopted, {}), running, self._balance_by)
