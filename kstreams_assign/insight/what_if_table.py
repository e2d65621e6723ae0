"""The outcomes of ``what-if`` as text that fits 80 columns: a line that names each alternative, its figures below.

Nothing is worked out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from rich.console import Group, RenderableType
from rich.text import Text

from kstreams_assign.insight.record_text import printable
from kstreams_assign.observe.alternatives import Row
from kstreams_assign.observe.reasons import span

LINE_WIDTH = 80
COLUMNS = (
    ("owner", "changes"),
    ("at", "least"),
    ("", "rounds"),
    ("", "rebalances"),
    ("", "time"),
    ("extra", "replicas"),
    ("without", "standby"),
    ("restored", "cold"),
)


def table(
    title: str, now: Row, rows: Iterable[Row], names: Mapping[UUID, str], assumed: Mapping[str, str]
) -> RenderableType:
    """Return the table with the warnings and assumptions below it; ``now`` is the group without a change."""
    every = [now, *rows]
    figures = [_figures(row) for row in every]
    widths = [max(map(len, column)) for column in zip(*zip(*COLUMNS, strict=True), *figures, strict=True)]
    above, below = ([heading[line] for heading in COLUMNS] for line in range(2))
    lines = [
        Text(printable(title), "bold"),
        Text(_aligned(above, widths), "bold"),
        Text(_aligned(below, widths), "bold"),
    ]
    warnings: dict[str, None] = {}
    for row, cells in zip(every, figures, strict=True):
        lines += [Text(printable(_name(row, names)), "cyan"), Text(_aligned(cells, widths))]
        warnings.update(dict.fromkeys(row.outcome.warnings))
    notes = [Text(printable(f"- {warning}"), "yellow") for warning in warnings]
    assumptions = [Text(printable(f"- {subject}: {why}"), "dim") for subject, why in assumed.items()]
    return Group(*lines, *notes, Text("assumed:", "dim"), *assumptions)


def _name(row: Row, names: Mapping[UUID, str]) -> str:
    return f"{row.outcome.alternative.text(names)} ({row.outcome.assignor})"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    gap = "  " if sum(widths) + 2 * len(widths) <= LINE_WIDTH else " "
    return gap.join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _figures(row: Row) -> list[str]:
    outcome = row.outcome
    least, most = row.owner_changes_range or (outcome.owner_changes, outcome.owner_changes)
    return [
        f"{outcome.owner_changes:,}" if least == most else f"{least:,}-{most:,}",
        f"{outcome.lower_bound:,}",
        f"{outcome.rounds:,}" if outcome.converged else f"> {outcome.rounds:,}",
        f"{outcome.rebalances:,}" if outcome.converged else f"> {outcome.rebalances:,}",
        _time(row),
        f"{outcome.extra_replicas:,}",
        f"{outcome.tasks_without_standby:,}",
        f"{outcome.cold:,}",
    ]


def _time(row: Row) -> str:
    outcome = row.outcome
    if not outcome.converged:
        return "not at rest"
    if outcome.seconds is None:
        return f"> {span(int(outcome.seconds_at_least * 1000))}"
    return span(int(outcome.seconds * 1000)) if outcome.seconds else "at once"
