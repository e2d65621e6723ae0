"""The rules around ``balance_by``: what a member reports, when it asks for a rebalance, and what a leader uses.

A report is coarse and sluggish, so that noise changes nothing: it has two digits, and it stays as it is until a task's
load differs by more than a fifth from it. So a measure that stays within 5% of its mean never changes the report. A
member asks for a rebalance only for the sum of its tasks, as one task more and another less change no balance. At
each rebalance all members report, so a group asks at most once an interval.

How a load is measured is the shell's; what follows from loads is decided in ``assign``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from kstreams_assign.allowed_values import BalanceBy
from kstreams_assign.assign import Loads
from kstreams_assign.group.view import GroupView
from kstreams_assign.model import TaskId

CHANGE_MIN = 5
"""A load has changed if it differs by more than one such part."""

LEAST_CHANGES: Mapping[str, int] = MappingProxyType({BalanceBy.INPUT_RATE: 60, BalanceBy.STATE_SIZE: 64 << 20})
"""Smaller differences are none: a record a second, which is 60 a minute, and 64 MiB."""

UNITS: Mapping[str, str] = MappingProxyType(
    {BalanceBy.INPUT_RATE: "records a minute", BalanceBy.STATE_SIZE: "bytes on disk"}
)

DIGITS = 2

BY_LOAD = "least_movement"
"""The only assignor that reads loads."""

TASKS_SHOWN = 6


def has_changed(known: int, measured: int, balance_by: str) -> bool:
    """Return whether a load differs from the known one by more than noise."""
    return abs(measured - known) > max(LEAST_CHANGES[balance_by], known // CHANGE_MIN)


def settle_load(known: int | None, measured: int, balance_by: str) -> int:
    """Return the load to report: the known one, or the measured one in two digits if it differs by more than noise."""
    if known is not None and not has_changed(known, measured, balance_by):
        return known
    unit: int = 10 ** max(0, len(str(measured)) - DIGITS)
    return (measured + unit // 2) // unit * unit


def settle_loads(known: Loads, measured: Loads, balance_by: str) -> dict[TaskId, int]:
    """Return the load to report of each task that is known or measured."""
    settled = {task: settle_load(known.get(task), load, balance_by) for task, load in measured.items()}
    return dict(sorted({**known, **settled}.items()))


def explain_new_loads(reported: Loads, measured: Loads, balance_by: str) -> str | None:
    """Return why the group should know of the measured loads, None if the reported ones are good enough.

    A task without a report counts only once it is measured.
    """
    if new := sorted(measured.keys() - reported.keys()):
        return f"balance_by = {balance_by}: the load of {_names(new)} is known now"
    before, now = (sum(loads[task] for task in measured) for loads in (reported, measured))
    if not has_changed(before, now, balance_by):
        return None
    return f"balance_by = {balance_by}: the tasks of this process have {now:,} {UNITS[balance_by]}, not {before:,}"


def explain_by_number(view: GroupView, balance_by: str) -> str | None:
    """Return why the group balances by number although the leader's setting is another; None if it does not."""
    if balance_by == BalanceBy.TASKS:
        return None
    ignored = f"balance_by = {balance_by} is ignored, and tasks are balanced by number"
    if view.foreign:
        return f"{ignored}: {', '.join(view.foreign)} are not Python members; set balance_by to {BalanceBy.TASKS}"
    if others := view.with_other_balance(balance_by):
        return f"{ignored}: {', '.join(others)} have another balance_by; set the same in all members"
    return None


def explain_balance_ignored(decided: str | None, balance_by: str) -> str | None:
    """Return why a member's ``balance_by`` has no effect under this leader's assignor; None if it may have.

    ``decided`` is None if the assignment has no trailer.
    """
    if balance_by == BalanceBy.TASKS or decided in (BY_LOAD, "fallback_prior"):
        return None
    leader = "the leader is not a Python member" if decided is None else f"the leader uses assignor {decided}"
    return f"balance_by = {balance_by} is ignored: {leader}, which balances tasks by number"


def collect_loads(view: GroupView, balance_by: str, remembered: Loads, tasks: Collection[TaskId]) -> dict[TaskId, int]:
    """Return the loads that a decision may use; none if the group balances by number.

    ``remembered`` are those of the leader's last assignment, for tasks whose process has left. Two members report one
    task only if one of them missed an assignment: then the greater load counts.
    """
    if balance_by == BalanceBy.TASKS or explain_by_number(view, balance_by) is not None:
        return {}
    loads: dict[TaskId, int] = {}
    for reported in view.reported_loads:
        for task, load in reported.items():
            loads[task] = max(load, loads.get(task, 0))
    known = {task: load for task, load in {**remembered, **loads}.items() if task in tasks}
    return dict(sorted(known.items()))


def _names(tasks: Collection[TaskId]) -> str:
    shown = ", ".join(map(str, list(tasks)[:TASKS_SHOWN]))
    return shown if len(tasks) <= TASKS_SHOWN else f"{shown} and {len(tasks) - TASKS_SHOWN:,} more"
