"""The page apart from the groups' sections: each group's line, the histogram of all, and what was unreadable. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kstreams_assign.history.report.build import group_line
from kstreams_assign.history.report.rows import Count, Movement, Quarantined, Rebalance
from kstreams_assign.history.report.trouble import bucketed, by_trouble
from kstreams_assign.history.report.view import CAUSES, Damage, FleetView, Span


def span_of(rebalances: Iterable[Rebalance]) -> Span:
    """From the first to the last generation; of nothing, an empty span at zero."""
    times = [row.time_ms for row in rebalances]
    return Span(min(times, default=0), max(times, default=0))


def build_fleet(
    rebalances: Sequence[Rebalance],
    movements: Iterable[Movement] = (),
    quarantine: Iterable[Quarantined] = (),
    counts: Iterable[Count] = (),
) -> FleetView:
    """Everything but the groups' sections."""
    span = span_of(rebalances)
    of_group = _by_group(rebalances)
    moves_of = _by_group(movements)
    lines = [group_line(rows, moves_of.get(group, ()), span) for group, rows in of_group.items()]
    totals: Counter[str] = Counter()
    for kind, records in counts:
        totals[kind] += records
    events = ((row.time_ms, row.cause if row.cause in CAUSES else "unknown") for row in rebalances)
    return FleetView(span, by_trouble(lines), bucketed(events, span), tuple(totals.most_common()), _damage(quarantine))


Grouped = TypeVar("Grouped", Rebalance, Movement)


def _by_group(rows: Iterable[Grouped]) -> dict[str, list[Grouped]]:
    by_group: dict[str, list[Grouped]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    return by_group


def _damage(rows: Iterable[Quarantined]) -> tuple[Damage, ...]:
    """One entry a kind and reason, the most frequent first, each with the place of its first record."""
    places: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in rows:
        place = (-1 if row.offsets_partition is None else row.offsets_partition, row.offsets_offset or 0)
        places.setdefault((row.kind, row.reason or ""), []).append(place)
    ordered = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Damage(kind, reason, len(places_of), "partition {}, offset {}".format(*min(places_of)))
        for (kind, reason), places_of in ordered
    )
