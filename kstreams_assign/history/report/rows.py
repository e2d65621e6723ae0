"""Rows of the history's tables, as far as the report reads them.

What lives here: one named tuple a table, its fields the columns of ``protocol/history.md``. What must not: files,
Arrow, and what the rows mean together (``build``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

Columns = Mapping[str, Sequence[Any]]
"""One table: column -> values, all of one length."""


class Rebalance(NamedTuple):
    """A completed generation."""

    group: str
    generation: int
    offsets_partition: int
    offsets_offset: int
    time_ms: int
    state: str | None
    protocol: str | None
    leader_process: str | None
    members: int | None
    processes: int | None
    assignor: str | None
    cause: str | None
    confidence: str | None
    evidence: str | None
    joined: Sequence[str] | None
    gone: Sequence[str] | None
    owner_changes: int | None
    adopted: int | None
    probing: bool | None
    next_rebalance_ms: int | None
    began_ms: int | None = None


class Member(NamedTuple):
    """A consumer of a generation."""

    group: str
    offsets_partition: int
    offsets_offset: int
    client_id: str | None
    client_host: str | None
    process_id: str | None
    version: int | None
    endpoint: str | None
    tags: Sequence[tuple[str, str]] | None
    ours: bool | None
    unreadable: str | None


class Placement(NamedTuple):
    """A copy of a task in a generation."""

    group: str
    offsets_partition: int
    offsets_offset: int
    task: str
    role: str
    warmup_known: bool | None
    process_id: str | None
    offset_sum: int | None


class EndOffset(NamedTuple):
    """Where a changelog partition ended as the generation was seen; ``task`` is None if its task is unknown."""

    group: str
    offsets_partition: int
    offsets_offset: int
    task: str | None
    end_offset: int | None


class Movement(NamedTuple):
    """A task whose active process changed."""

    group: str
    generation: int
    offsets_partition: int
    offsets_offset: int
    time_ms: int
    task: str
    from_process: str | None
    to_process: str | None
    planned: bool | None
    warm: bool | None
    held_ms: int | None
    gap_ms: int | None
    released_ms: int | None = None
    taken_ms: int | None = None


class Balance(NamedTuple):
    """How evenly a class of tasks is spread in a generation."""

    group: str
    offsets_partition: int
    offsets_offset: int
    time_ms: int
    scope: str
    name: str | None
    skew: float | None


class Quarantined(NamedTuple):
    """A record that could not be used (its bytes stay in the table)."""

    offsets_partition: int | None
    offsets_offset: int | None
    time_ms: int | None
    kind: str
    reason: str | None


class Count(NamedTuple):
    """How many records of a kind a batch held."""

    kind: str
    records: int


Row = TypeVar("Row", Rebalance, Member, Placement, EndOffset, Movement, Balance, Quarantined, Count)

TABLES: Mapping[type[Any], str] = {
    Rebalance: "rebalances",
    Member: "members",
    Placement: "task_placements",
    EndOffset: "end_offsets",
    Movement: "movements",
    Balance: "balance",
    Quarantined: "quarantine",
    Count: "counts",
}
"""Kind of row -> the table it stands in."""


def rows_of(kind: type[Row], columns: Columns) -> Iterator[Row]:
    """The table's rows. A column that is not there is all null, as in tables of an earlier version."""
    fields = kind._fields
    length = max((len(columns[field]) for field in fields if field in columns), default=0)
    listed = [columns.get(field, ()) or repeat(None, length) for field in fields]
    return map(kind._make, zip(*listed, strict=False))
