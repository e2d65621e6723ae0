"""What other settings would have saved: the costs that were measured, and each rebalance replayed (``history.fleet``).

An assignor and more warm-ups are judged by replaying: every rebalance of the time under Kafka's defaults, and under the
change. A standby is judged by what was measured: a task whose process was lost and that moved cold would have moved
warm. Seconds are estimates: what such a move took in the same history, the median. Null: no such move was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kstreams_assign.history.ask.answer import Answer
from kstreams_assign.history.fleet import FleetAnswer, Ranked
from kstreams_assign.observe.changes import Alternative

DEFAULTS = Alternative(assignor="high_availability")
CHANGES: Mapping[str, Alternative] = {
    "assignor = least_movement": Alternative(assignor="least_movement"),
    "max_warmup_replicas = 8": Alternative(assignor="high_availability", settings={"max_warmup_replicas": 8}),
}
STANDBY = "num_standby_replicas = 1"

SCHEMA = pa.schema(
    [
        ("change", pa.string()),
        ("owner_changes", pa.int64()),
        ("owner_changes_saved", pa.int64()),
        ("rounds", pa.int64()),
        ("rounds_saved", pa.int64()),
        ("cold_moves_saved", pa.int64()),
        ("silent_s_saved", pa.float64()),
    ]
)


def compare_savings(
    measured: Answer, group: str | None, replay: Callable[[Sequence[Alternative], str], FleetAnswer]
) -> Answer:
    """Answer the question, of which ``measured`` has what its SQL found.

    ``replay`` replays the rebalances that a condition of Spark's SQL names under each alternative.
    """
    only = measured.span.condition
    if group is not None:
        escaped = group.replace("\\", "\\\\").replace("'", "\\'")
        only += f" and `group` = '{escaped}'"
    rows = savings(measured.rows[0], replay([DEFAULTS, *CHANGES.values()], only))
    return replace(measured, table=pa.Table.from_pylist(rows, schema=SCHEMA))


def savings(measured: Mapping[str, Any], replayed: FleetAnswer) -> list[dict[str, Any]]:
    """A row a change: what the replays came to, and what it would have saved."""
    now = _of(replayed, DEFAULTS)
    return [
        *(_replayed(name, _of(replayed, each), now, measured["planned_s"]) for name, each in CHANGES.items()),
        _standby(measured),
    ]


def _replayed(change: str, then: Ranked, now: Ranked, move_s: float | None) -> dict[str, Any]:
    saved = now.owner_changes - then.owner_changes
    return {
        "change": change,
        "owner_changes": then.owner_changes,
        "owner_changes_saved": saved,
        "rounds": then.rounds,
        "rounds_saved": now.rounds - then.rounds,
        "cold_moves_saved": None,
        "silent_s_saved": None if move_s is None else saved * move_s,
    }


def _standby(measured: Mapping[str, Any]) -> dict[str, Any]:
    moves, warm_s = measured["lost_cold_moves"], measured["warm_s"]
    known = moves == 0 or warm_s is not None
    return {
        "change": STANDBY,
        "cold_moves_saved": moves,
        "silent_s_saved": max(0.0, (measured["lost_cold_s"] or 0.0) - moves * (warm_s or 0.0)) if known else None,
    }


def _of(replayed: FleetAnswer, alternative: Alternative) -> Ranked:
    return next(
        ranked
        for ranked in replayed.ranking
        if (ranked.assignor, dict(ranked.settings)) == (alternative.assignor, dict(alternative.settings))
    )
