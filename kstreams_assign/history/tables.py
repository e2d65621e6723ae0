"""The tables of the history as columns in memory: their names and columns, as ``protocol/history.md`` defines them.

What lives here: names and order of the columns, and the containers that derivation fills. What must not: types of Arrow
or Spark, files, and how a value is derived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

Columns = dict[str, list[Any]]
"""One table: column -> values, all of one length."""

Tables = dict[str, Columns]
"""Every table of ``COLUMNS``, by name."""

STREAMS_PROTOCOL = "streams"
"""The ``protocol`` of a streams group (KIP-1071); a classic group has its assignor's there."""

GENERATION = ("group", "generation", "offsets_partition", "offsets_offset", "time_ms")
"""What identifies a generation, and when it was completed."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "rebalances": (
        *GENERATION,
        *("state", "protocol", "leader", "leader_process", "members", "processes", "assignor"),
        *("cause", "confidence", "evidence", "joined", "gone"),
        *("owner_changes", "adopted", "probing", "next_rebalance_ms", "began_ms"),
    ),
    "members": (
        *GENERATION,
        *("member_id", "instance_id", "client_id", "client_host", "process_id", "version", "latest_supported_version"),
        *("endpoint", "tags", "ours", "assignors", "settings_digest", "offset_sums", "error_code", "unreadable"),
    ),
    "task_placements": (
        *GENERATION,
        *("task", "subtopology", "role", "warmup_known", "process_id", "member_id", "offset_sum"),
    ),
    "end_offsets": (*GENERATION, "task", "topic", "partition", "end_offset", "begin_offset", "sampled_ms"),
    "movements": (
        *GENERATION,
        *("task", "from_process", "to_process", "planned", "warm", "held_ms", "gap_ms", "released_ms", "taken_ms"),
    ),
    "balance": (*GENERATION, "scope", "name", "tasks", "least", "most", "skew"),
    "quarantine": ("offsets_partition", "offsets_offset", "time_ms", "kind", "reason", "key", "value"),
    "counts": ("kind", "records"),
}
"""Table -> its columns in order. Maps (``tags``, ``assignors``, ``offset_sums``) are lists of pairs; ids are text."""


def empty_tables() -> Tables:
    """Every table without a row."""
    return {name: {column: [] for column in columns} for name, columns in COLUMNS.items()}


def append_rows(tables: Tables, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Add rows, each in the order of ``COLUMNS[name]``."""
    for column, values in zip(tables[name].values(), zip(*rows, strict=True), strict=False):
        column.extend(values)


def joined_tables(parts: Iterable[Tables]) -> Tables:
    """The rows of all parts, in their order, with the counts of each kind added up."""
    listed = list(parts)
    joined = {
        name: {column: list(chain.from_iterable(part[name][column] for part in listed)) for column in columns}
        for name, columns in COLUMNS.items()
    }
    totals: dict[str, int] = {}
    for kind, records in zip(joined["counts"]["kind"], joined["counts"]["records"], strict=True):
        totals[kind] = totals.get(kind, 0) + records
    joined["counts"] = {"kind": list(totals), "records": list(totals.values())}
    return joined
