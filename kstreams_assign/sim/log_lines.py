"""Format events of a simulation as log lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstreams_assign.group.values import Adopted, Decision
from kstreams_assign.model import TaskId

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process


def log_line(ms: int, what: str, process: Process | None, detail: object) -> str:
    """Format ``12.345  P1  assigned  active 0_0 0_1, standby 0_2``."""
    who = process.run.name if process else "--"
    return f"{ms / 1000:10.3f}  {who:3} {what:9} {_detail(detail)}".rstrip()


def _detail(detail: object) -> str:
    if isinstance(detail, Adopted):
        return _adopted(detail)
    if isinstance(detail, Decision):
        return _decision(detail)
    return str(detail)


def _adopted(adopted: Adopted) -> str:
    parts = {"active": adopted.active, "standby": adopted.standby, "warm-up": adopted.warmup}
    roles = [f"{role} {names(tasks)}" for role, tasks in parts.items() if tasks]
    return ", ".join([*(roles or ["nothing"]), *(["a follow-up comes"] if adopted.follow_up else [])])


def _decision(decision: Decision) -> str:
    withheld = f", withheld {names(decision.withheld)}" if decision.withheld else ""
    waiting = f", waiting {names(decision.waiting)}" if decision.waiting else ""
    probe = ", a probe follows" if decision.next_probe_ms is not None else ""
    return f"{decision.kind} by {decision.assignor}: {len(decision.changed)} change hands{withheld}{waiting}{probe}"


def names(tasks: Iterable[TaskId]) -> str:
    """Join the task ids, in order."""
    return " ".join(map(str, sorted(tasks)))
