"""How far a run of ``history follow`` is, as values: what its batches have counted, and how far the topic is ahead.

What lives here: the figures, as values of metrics and as lines of JSON. What must not: Spark, sockets and the clock.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kstreams_assign.status.metric_table import HISTORY_ROWS

if TYPE_CHECKING:
    from kstreams_assign.history.follow import BatchReport


@dataclass(frozen=True)
class Totals:
    """What the batches of a run have counted. ``newest_ms``: time of the newest record of any of them, else 0."""

    batches: int = 0
    records: int = 0
    rebalances: int = 0
    newest_ms: int = 0
    took_ms: int = 0
    time_ms: int = 0

    def plus(self, report: BatchReport, now_ms: int) -> Totals:
        """Return the totals with one batch more, which ended at ``now_ms``."""
        return Totals(
            self.batches + 1,
            self.records + report.records,
            self.rebalances + report.rebalances,
            max(self.newest_ms, report.newest_ms),
            report.took_ms,
            now_ms,
        )


@dataclass(frozen=True)
class Lag:
    """How many offsets the tables lacked at ``time_ms``."""

    offsets: int
    time_ms: int

    def seconds(self, newest_ms: int, now_ms: int) -> float | None:
        """Return the age of the newest record in the tables; 0 if they lack nothing, None if that record is unknown."""
        if not self.offsets:
            return 0.0
        return max(0, now_ms - newest_ms) / 1000 if newest_ms else None


@dataclass(frozen=True)
class Figures:
    """A run at one moment. ``lag`` is None for files, and until Spark has reported it."""

    totals: Totals
    lag: Lag | None

    def values(self, now_ms: int) -> dict[str, float]:
        """Return the values of ``HISTORY_ROWS`` by name; one that is not known is left out."""
        totals, lag = self.totals, self.lag
        values: tuple[float | None, ...] = (
            totals.batches,
            totals.records,
            totals.rebalances,
            totals.took_ms / 1000 if totals.batches else None,
            totals.time_ms / 1000 if totals.batches else None,
            *((lag.offsets, lag.seconds(totals.newest_ms, now_ms), lag.time_ms / 1000) if lag else (None,) * 3),
        )
        return {row.name: value for row, value in zip(HISTORY_ROWS, values, strict=True) if value is not None}


def offsets_behind(source: Mapping[str, Any]) -> int | None:
    """Return how many offsets a batch has left in the topic, by the source of Spark's progress; None for files."""
    end, latest = (_by_partition(source.get(name)) for name in ("endOffset", "latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _by_partition(offsets: object) -> dict[tuple[str, str], int] | None:
    """Return the offsets of a Kafka source: topic -> partition -> offset, which pyspark shows as a dict's text."""
    try:
        value = literal_eval(offsets) if isinstance(offsets, str) else offsets
    except (SyntaxError, ValueError):
        return None
    if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
        return None
    return {(topic, partition): int(offset) for topic, each in value.items() for partition, offset in each.items()}


def batch_line(report: BatchReport, now_ms: int) -> str:
    """Return a batch as a line of JSON."""
    return json.dumps({"event": "history_batch", "time_ms": now_ms, **asdict(report)})


def lag_line(batch: int, figures: Figures, now_ms: int) -> str:
    """Return the lag after a batch as a line of JSON; ``seconds`` may be null."""
    assert figures.lag is not None
    seconds = figures.lag.seconds(figures.totals.newest_ms, now_ms)
    lag = {"batch": batch, "offsets": figures.lag.offsets, "seconds": seconds}
    return json.dumps({"event": "history_lag", "time_ms": now_ms, **lag})
