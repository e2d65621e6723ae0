"""What a situation cost, from the events of its processes. Pure.

Times are the events' own, in milliseconds since 1970. A process reports its tasks five times a second, so each change
counts up to 0.2 s late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Event = Mapping[str, Any]


class Costs(NamedTuple):
    """As the simulator's tables count them.

    ``downtime_s``: seconds in which no process works on a task, in sum over the tasks. ``restored``: records read to
    restore tasks or to update replicas.
    """

    downtime_s: float
    restored: int


class _Now(NamedTuple):
    """What a process last reported: its tasks at work, and how far each task is from the end of its changelogs."""

    running: frozenset[str] = frozenset()
    lags: Mapping[str, int] = {}


def costs(events: Iterable[Event], from_ms: int, to_ms: int, tasks: int) -> Costs:
    """Add up what happened between two times."""
    down_ms, restored, since_ms = 0, 0, from_ms
    state: dict[str, _Now] = {}
    changes = [(event["time_ms"], event["worker"], _reported(event)) for event in events if event["event"] in _CHANGES]
    for at_ms, name, now in sorted([*changes, (to_ms, "", _Now())], key=lambda change: change[0]):
        passed_ms = max(0, min(at_ms, to_ms) - since_ms)
        working = frozenset[str]().union(*(each.running for each in state.values()))
        down_ms += passed_ms * (tasks - len(working))
        since_ms += passed_ms
        if from_ms < at_ms <= to_ms:
            before = state.get(name, _Now()).lags
            restored += sum(max(0, before[task] - lag) for task, lag in now.lags.items() if task in before)
        state[name] = now
    return Costs(down_ms / 1_000, restored)


_CHANGES = ("status", "exited")


def _reported(event: Event) -> _Now:
    views = event.get("tasks", {}).items()
    return _Now(
        frozenset(task for task, view in views if view["role"] == "active" and view["state"] == "running"),
        {task: view["lag"] for task, view in views if view["lag"] is not None},
    )
