"""``what-if``: a group from its brokers or a saved file, played on with changes, and the outcomes side by side.

What lives here: from the command's words to the table. What must not: predictions (``observe.what_if``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstreams_assign.errors import ConfigError
from kstreams_assign.insight.inspect import Asked, find_snapshot, observe
from kstreams_assign.observe.alternatives import (
    Row,
    alternatives,
    facts,
    names_of,
    played,
    process_called,
    told_changes,
    without_repeats,
)
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.group_state import PACE, GroupState, state_of_group
from kstreams_assign.observe.reasons import span
from kstreams_assign.observe.restore_rate import restore_rate
from kstreams_assign.observe.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for, in the caller's words. ``since``: an earlier snapshot, from which the restore rate is measured."""

    add: int = 0
    add_java: int = 0
    threads: int = 1
    remove: Sequence[str] = ()
    replace: Sequence[str] = ()
    settings: Sequence[str] = ()
    assignors: Sequence[str] = ()
    restore_rate: int | None = None
    since: Path | None = None


def what_if(wanted: Asked, change: Change, *, as_json: bool) -> None:
    """Print what ``change`` and its alternatives would do to the group.

    Raises ``ConfigError`` for words that cannot be read, ``NotAStreamsGroup`` for a group without members, and what
    ``find_snapshot`` does.
    """
    settings = told_changes(change.settings)
    group = observe(find_snapshot(wanted), wanted)
    state = state_of_group(group)
    asked = Alternative(
        add=change.add,
        add_java=change.add_java,
        threads=change.threads,
        remove=tuple(process_called(group.decoded, word) for word in change.remove),
        replace=tuple(process_called(group.decoded, word) for word in change.replace),
    )
    rate, rate_from = _rate(group, change)
    assignors = [*change.assignors, *([settings.pop("assignor")] if "assignor" in settings else [])]
    now = played(state, Alternative(), rate)
    rows = _rows(state, alternatives(state, asked, settings, assignors), rate)
    assumed = {**state.assumed, **_assumed(state, asked, rate_from)}
    if as_json:
        print(json.dumps(_document(group, now, rows, rate, assumed), indent=2))
    else:
        console = Console()
        console.width = max(console.width, TABLE_WIDTH)
        console.print(_table(group, now, rows, assumed))


def _rows(state: GroupState, asked: Sequence[Alternative], rate: int | None) -> list[Row]:
    rows = []
    for number, alternative in enumerate(asked, start=1):
        if len(state.ends) * len(state.processes) > 1000:  # larger ones take seconds
            print(f"playing {number} of {len(asked)}: {alternative.text()}", file=sys.stderr)
        rows.append(played(state, alternative, rate))
    return without_repeats(rows)


def _rate(group: ObservedGroup, change: Change) -> tuple[int | None, str]:
    """Offsets that one process restores in a second, and where that is from."""
    if change.restore_rate is not None:
        return change.restore_rate, f"{change.restore_rate:,} offsets/s a process, given"
    why = (
        "not known, so times are not either: give --restore-rate, or an earlier snapshot of a warming group by --since"
    )
    if change.since is None:
        return None, why
    found = restore_rate(decode_group(read_snapshot(_text(change.since), str(change.since))), group)
    if found is None:
        return None, f"not known: no copy read on, and was not at its end, between {change.since} and now"
    return found, f"{found:,} offsets/s a process, measured since {change.since}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"--since {path}: {cause}") from cause


def _assumed(state: GroupState, asked: Alternative, rate_from: str) -> dict[str, str]:
    """What the predictions take for granted beside what the group does not tell."""
    told = {key: getattr(state, key) for key in PACE}
    shown = ", ".join(f"{key} {str(value).lower()}" for key, value in told.items())
    found = {
        "restore rate": rate_from,
        "pace": f"{shown}; members that are not ours wait for the probing interval",
        "change": "it comes at once: who leaves is gone and who comes is there at the same rebalance, without state",
        "settings and assignor": "changed at every member together; the restarts that this takes are not counted",
    }
    if asked.newcomers:
        found["new process ids"] = "random; they sort last in the figures, and anywhere in the range of owner changes"
    return found


def _document(
    group: ObservedGroup, now: Row, rows: Iterable[Row], rate: int | None, assumed: dict[str, str]
) -> dict[str, Any]:
    names, snapshot = names_of(group.decoded), group.decoded.snapshot
    return {
        "group": snapshot.group,
        "generation": snapshot.generation,
        "processes": len(group.decoded.processes),
        "tasks": len(group.tasks),
        "restore_rate": rate,
        "now": facts(now, names),
        "alternatives": [facts(row, names) for row in rows],
        "assumed": assumed,
    }


TABLE_WIDTH = 134
"""Narrower, its cells would be cut."""

COLUMNS = (
    "owner\nchanges",
    "at\nleast",
    "rounds",
    "rebalances",
    "time",
    "extra\nreplicas",
    "without\nstandby",
    "restored\ncold",
)


def _table(group: ObservedGroup, now: Row, rows: Iterable[Row], assumed: dict[str, str]) -> RenderableType:
    names, snapshot = names_of(group.decoded), group.decoded.snapshot
    title = f"{snapshot.group}: {len(group.tasks)} tasks on {len(group.decoded.processes)} processes"
    table = Table(title=title, title_justify="left", box=box.ROUNDED, header_style="bold")
    table.add_column("what if", overflow="fold", min_width=24)
    table.add_column("decided by", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    warnings: dict[str, None] = {}
    for row in (now, *rows):
        table.add_row(row.outcome.alternative.text(names), row.outcome.assignor, *_cells(row))
        warnings.update(dict.fromkeys(row.outcome.warnings))
    notes = [Text(f"- {warning}", "yellow") for warning in warnings]
    taken = [Text(f"- {subject}: {why}", "dim") for subject, why in assumed.items()]
    return Group(table, *notes, Text("taken for granted:", "dim"), *taken)


def _cells(row: Row) -> list[str]:
    one = row.outcome
    least, most = row.owner_changes_range or (one.owner_changes, one.owner_changes)
    changes = f"{one.owner_changes:,}" if least == most else f"{least:,}-{most:,}"
    rounds = f"{one.rounds:,}" if one.converged else f"> {one.rounds:,}"
    return [
        changes,
        f"{one.lower_bound:,}",
        rounds,
        f"{one.rebalances:,}" if one.converged else f"> {one.rebalances:,}",
        _time(row),
        f"{one.extra_replicas:,}",
        f"{one.tasks_without_standby:,}",
        f"{one.cold:,}",
    ]


def _time(row: Row) -> str:
    one = row.outcome
    if not one.converged:
        return "never at rest"
    if one.seconds is None:
        return f"> {span(int(one.seconds_at_least * 1000))}"
    return span(int(one.seconds * 1000)) if one.seconds else "at once"
