"""The results as rows for scripts and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.results import rounded
from bench.scaling.measures import Scaling, Steady
from bench.scaling.scenario import Run

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Result:
    """The run of one system with so many keys in each partition."""

    system: str
    records_per_partition: int
    run: Run

    def rows(self) -> Iterator[Row]:
        """Yield a row for the steady time and one for each event. Where a value does not apply, it is null."""
        yield self._row("steady", _of_steady(self.run.steady))
        for event, measured in self.run.events.items():
            yield self._row(event, _of_event(measured))

    @property
    def title(self) -> str:
        return f"{self.system}, {self.records_per_partition:,} records a partition"

    def counts(self) -> str:
        """Return one line: what was sent, lost and repeated."""
        counts = self.run.counts
        return (
            f"{self.title}: {counts.inputs:,} inputs, "
            f"{counts.lost:,} lost, {counts.repeated:,} outputs repeated, {counts.low:,} counts too low"
        )

    def moves(self) -> Iterator[str]:
        """Yield a line for each event: the gap of each moved task."""
        for event, measured in self.run.events.items():
            gaps = ", ".join(f"0_{task} {gap_ms:,.0f} ms" for task, gap_ms in measured.moved_gap_by_task_ms.items())
            yield f"{self.system}: {event}: gaps of moved tasks: {gaps or 'none moved'}"

    @property
    def correct(self) -> bool:
        """Return whether no input and no state was lost."""
        return not (self.run.counts.lost or self.run.counts.low)

    def _row(self, event: str, facts: Row) -> Row:
        return {"system": self.system, "records_per_partition": self.records_per_partition, "event": event, **facts}


def _of_steady(steady: Steady) -> Row:
    return {
        "moved_gap_ms": None,
        "staying_gap_ms": {"max": _tenths(steady.gap_max_ms)},
        "peak_latency_ms": _tenths(steady.peak_ms),
        "average_latency_ms": _tenths(steady.average_ms),
        "duration_s": None,
        "latency_ms": {"p50": _tenths(steady.p50_ms), "p99": _tenths(steady.p99_ms)},
    }


def _of_event(event: Scaling) -> Row:
    moved, staying = event.moved_gap_by_task_ms, event.staying_gap_by_task_ms
    return {
        "moved_gap_ms": {"median": _tenths(event.moved_median_ms), "max": _tenths(max(moved.values()))}
        if moved
        else None,
        "staying_gap_ms": {"max": _tenths(max(staying.values()))} if staying else None,
        "peak_latency_ms": _tenths(event.peak_ms),
        "average_latency_ms": _tenths(event.average_ms),
        "duration_s": round(event.duration_s, 2),
    }


def _tenths(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


HEADINGS = ("records", "event", "moved tasks: median", "max", "staying: max", "peak", "average", "duration")


def print_json(results: Sequence[Result]) -> None:
    """Print all rows as one JSON list, a row in a line."""
    rows = ",\n".join(f"  {json.dumps(row)}" for result in results for row in result.rows())
    print(f"[\n{rows}\n]")


def show(results: Sequence[Result]) -> None:
    """Print one table, and the counts of each system."""
    table = Table(title="Live scaling, seen by a reader of the output topic", title_justify="left")
    table.caption = "gaps and latencies in ms, duration in s; in the steady row, average is the mean latency"
    table.add_column("system", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for result in results:
        for row in result.rows():
            table.add_row(*_cells(row))
    Console(width=120).print(table)
    for result in results:
        print(result.counts())


def _cells(row: Row) -> Iterator[str]:
    yield str(row["system"])
    yield f"{row['records_per_partition']:,}"
    yield str(row["event"])
    for gaps, figure in (("moved_gap_ms", "median"), ("moved_gap_ms", "max"), ("staying_gap_ms", "max")):
        of_tasks = row[gaps]
        yield rounded(of_tasks[figure] if isinstance(of_tasks, Mapping) else None)
    for key in ("peak_latency_ms", "average_latency_ms", "duration_s"):
        figure_of_row = row[key]
        yield rounded(figure_of_row if isinstance(figure_of_row, float) else None)
