"""What was measured, as tables for people and as ``bench/results.json`` for scripts.

A row is one piece of work: ours, the peer's, and how many times as good ours is. Above 1 we are ahead, whatever the
unit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results.json")
MORE_IS_BETTER = {"1/s": True, "ms": False, "MiB": False, "partitions": False}
"""Every unit, and whether more of it is better."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row. ``peer`` is ``None`` where the peer could not run here."""

    work: str
    ours: float
    peer: float | None
    peer_name: str
    unit: str

    @property
    def ratio(self) -> float | None:
        """How many times as good as the peer."""
        if self.peer is None:
            return None
        return self.ours / self.peer if MORE_IS_BETTER[self.unit] else self.peer / self.ours

    def as_json(self) -> dict[str, str | float | None]:
        ratio = self.ratio
        return {
            "work": self.work,
            "ours": round(self.ours, 3),
            "peer": None if self.peer is None else round(self.peer, 3),
            "peer_name": self.peer_name,
            "ratio": None if ratio is None else round(ratio, 3),
            "unit": self.unit,
        }


def write(results: Sequence[Result], path: Path = RESULTS) -> None:
    lines = ",\n".join(f"  {json.dumps(result.as_json())}" for result in results)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def show(title: str, results: Sequence[Result], console: Console | None = None) -> None:
    """One table, in the order of the results."""
    table = Table(title=title, title_justify="left", caption="ratio: above 1 ours is ahead", caption_justify="left")
    table.add_column("work", no_wrap=True)
    for heading in ("ours", results[0].peer_name if results else "peer", "unit", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        ratio = result.ratio
        shown = "-" if ratio is None else f"{rounded(ratio)}x"
        table.add_row(result.work, rounded(result.ours), rounded(result.peer), result.unit, shown)
    (console or Console(width=110)).print(table)


def rounded(number: float | None) -> str:
    """Three digits that count, without an exponent."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
