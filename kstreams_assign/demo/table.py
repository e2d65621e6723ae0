"""What is shown while it runs: a live table in a terminal, else a line per change. On standard error.

``news`` and ``render`` are pure; ``Screen`` and ``Lines`` are where text leaves.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.demo.fleet_state import Event, FleetState, TaskView, WorkerView

ROLES = {"active": "active", "standby": "standby", "warmup": "warm-up"}
LINE_WIDTH = 80
LEGEND = (
    "adopted: a task without an owner gets one; withheld: its old owner gives it up\n"
    "first; follow-up: the rebalance that then gives it out; (n): a replica's lag."
)
"""What the words of the lines mean."""


class Scenery(NamedTuple):
    """What to show beside the table of workers. ``says`` is the scene."""

    says: str
    news: str
    orders_per_s: float
    orders_in: int
    now_ms: int


class Show(AbstractContextManager["Show"], Protocol):
    """Shows progress."""

    def news(self, line: str) -> None:
        """Show an event."""
        ...

    def update(self, fleet_state: FleetState, scenery: Scenery) -> None:
        """Show the present state."""
        ...


# --- what happened, in words ----------------------------------------------------------


def news(event: Event) -> str | None:
    """Return an event as a line, or None for one that is not shown."""
    words = _WORDS.get(event["event"])
    text = words(event) if words else None
    return f"{event['worker']}: {text}" if text else None


def _decision(event: Event) -> str:
    kind = "follow-up" if event["kind"] == "follow_up" else "decision"
    parts = [f"leads: {kind} for {event['members']} member{'' if event['members'] == 1 else 's'}"]
    changed, adopted, withheld = event["changed"], event["adopted"], event["withheld"]
    parts += [f"{len(changed)} owner change{'' if len(changed) == 1 else 's'}"] if changed else []
    parts += [f"{len(adopted)} adopted"] if adopted else []
    parts += [f"{' '.join(withheld)} withheld"] if withheld else []
    parts += ["a probing rebalance follows"] if event["next_probe_ms"] is not None else []
    return "; ".join([*parts, *event["warnings"]])


def _assigned(event: Event) -> str:
    held = [f"{name} {' '.join(event[role])}" for role, name in ROLES.items() if event[role]]
    return f"generation {event['generation']}: {', '.join(held) or 'no task'}"


_WORDS: Mapping[str, Callable[[Event], str | None]] = {
    "started": lambda event: f"started as process {event['pid']}",
    "exited": lambda event: "was killed" if event["status"] < 0 else f"ended with status {event['status']}",
    "joining": lambda event: f"joins: {event['reason']}",
    "decision": _decision,
    "assigned": _assigned,
    "running": lambda event: f"runs {event['task']}",
    "lost": lambda event: f"lost its tasks: {event['reason']}",
    "commit_refused": lambda event: f"commit refused: {event['reason']}",
    "delivery_failed": lambda event: f"delivery failed: {event['reason']}",
    "lookup_failed": lambda event: f"lookup failed: {event['reason']}",
    "broker_unavailable": lambda event: f"no broker: {event['reason']}",
}

# --- the table ----------------------------------------------------------------------------


def render(fleet_state: FleetState, scenery: Scenery) -> Table:
    """The group at this moment."""
    table = Table(title=_title(fleet_state, scenery), caption=f"{scenery.says}\n{scenery.news}", expand=True)
    table.add_column("worker", no_wrap=True)
    table.add_column("gen.", justify="right", no_wrap=True)
    for role in ROLES.values():
        table.add_column(f"{role} (lag)" if role != "active" else role, ratio=1)
    table.add_column("orders", justify="right", no_wrap=True)
    for worker in fleet_state.workers.values():
        tasks = [_tasks(worker, role) for role in ROLES]
        generation = "-" if worker.adopted_generation is None else str(worker.adopted_generation)
        style = None if worker.alive else "dim strike"
        table.add_row(worker.name, generation, *tasks, f"{worker.records_total:,}", style=style)
    return table


def _title(fleet_state: FleetState, scenery: Scenery) -> str:
    return (
        f"{scenery.orders_per_s:,.0f} orders/s, {scenery.orders_in:,} in; "
        f"{probe_text(fleet_state.next_probe_ms, scenery.now_ms, balanced=fleet_state.converged)}"
    )


def probe_text(next_probe_ms: int | None, now_ms: int, *, balanced: bool) -> str:
    """Return when the next probing rebalance is due."""
    if next_probe_ms is not None:
        return f"next probing rebalance in {max(0, next_probe_ms - now_ms) / 1000:.0f} s"
    return ("the group is balanced, " if balanced else "") + "no probing rebalance is due"


def _tasks(worker: WorkerView, role: str) -> str:
    """Tasks of one role with their lag; an active task that runs has none, one that is being restored is marked.

    A task and its lag are never divided between two lines.
    """
    mine = sorted((task, view) for task, view in worker.tasks.items() if view.role == role)
    return " ".join(_with_lag(task, view) for task, view in mine)


def _with_lag(task: str, view: TaskView) -> str:
    if view.role == "active" and view.state == "running":
        return task
    return f"{task}\N{NO-BREAK SPACE}({_number(view.lag)})" + ("…" if view.role == "active" else "")


def _number(lag: int | None) -> str:
    return "?" if lag is None else f"{lag:,}"


class Screen:
    """A live table in a terminal."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def news(self, line: str) -> None:
        """The table's caption shows the last line."""

    def update(self, fleet_state: FleetState, scenery: Scenery) -> None:
        self._live.update(render(fleet_state, scenery))


class Lines:
    """A line per change, for logs and pipes."""

    def __init__(self) -> None:
        self._said = ""
        self._began_ms = monotonic_ms()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def news(self, line: str) -> None:
        self._print(f"  {line}")

    def update(self, fleet_state: FleetState, scenery: Scenery) -> None:
        if scenery.says != self._said:
            self._said = scenery.says
            probe = probe_text(fleet_state.next_probe_ms, scenery.now_ms, balanced=fleet_state.converged)
            self._print(f"{scenery.says} ({scenery.orders_in:,} orders in; {probe})")

    def _print(self, line: str) -> None:
        seconds = (monotonic_ms() - self._began_ms) / 1000
        text = f"{seconds:6.1f} s  {line}"
        print(textwrap.fill(text, LINE_WIDTH, subsequent_indent=" " * 14), file=sys.stderr, flush=True)
