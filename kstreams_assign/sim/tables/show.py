"""Print the tables of ``simulate policies``, ``placements``, ``probing`` and ``sweep``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import typer

from kstreams_assign.page.file import write_text
from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.spread import Spread, here
from kstreams_assign.sim.tables import sweep as points_played
from kstreams_assign.sim.tables.compare import WIDTH, Column, compare, facts, table
from kstreams_assign.sim.tables.probing import RULES, probing_facts, probing_table, probings
from kstreams_assign.sim.tables.words import EVENNESS, PROPOSAL, RULE


def policies(chosen: Sequence[Policy], *, as_json: bool) -> list[Column]:
    """Simulate these policies in all situations and print the tables."""
    columns = list(compare(chosen))
    titles = {policy.name: policy.title for policy in chosen}
    if as_json:
        typer.echo(json.dumps(facts(columns)))
    else:
        _introduce(chosen)
        second = PROPOSAL if any(column.has_expected for column in columns) else EVENNESS
        typer.echo("\n".join([*wrap(RULE, WIDTH), "", *wrap(second, WIDTH)]) + "\n")
        for column in columns:
            typer.echo("\n".join(table(column, titles)) + "\n")
    return columns


def all_invariants_hold(columns: Sequence[Column]) -> bool:
    """Return whether all invariants hold; print violations on standard error."""
    broken = [fact for fact in facts(columns) if fact["violations"]]
    for fact in broken:
        typer.echo(f"{fact['policy']} in {fact['situation']}: {'; '.join(fact['violations'])}", err=True)
    return not broken


def probing(*, as_json: bool) -> None:
    """Simulate the triggers of probing rebalances and print the table."""
    probed = list(probings())
    if as_json:
        typer.echo(json.dumps(probing_facts(probed)))
    else:
        _introduce(RULES)
        typer.echo("\n".join(probing_table(probed)))


def sweep(spread: Spread | None, svg: Path | None, *, as_json: bool) -> None:
    """Simulate the grid and print its tables; also write ``svg``. Raises ``ConfigError`` if that cannot be written."""
    results = points_played.sweep(points_played.points(), spread or here)
    cells = points_played.cells(results)
    if as_json:
        typer.echo(json.dumps([cell._asdict() for cell in cells]))
    else:
        typer.echo("\n".join(points_played.table(cells)))
    if svg is not None:
        from kstreams_assign.sim.page.sweep import picture

        write_text("--svg", svg, picture(cells, points_played.ASSIGNORS[-1]))


def _introduce(chosen: Sequence[Policy]) -> None:
    for policy in chosen:
        typer.echo("\n".join(wrap(f"{policy.title}: {policy.taken}.", WIDTH, subsequent_indent="  ")))
    typer.echo()
