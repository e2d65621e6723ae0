"""The facts of a run, as plain values: the only input of the checkers.

Bytes are read with the project's own codecs, and ``restless`` comes from ``inspect``; nothing else is asked of the
system under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.rows import Row


class Write(NamedTuple):
    """A changelog record, in the order of its partition. ``value``: an entry's bytes, or None for a deletion."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


class Commit(NamedTuple):
    """A committed input offset, in the order of the coordinator's log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A completed generation: partitions by member id. ``warmups``: by process, from the leader's trailer."""

    number: int
    active: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    warmups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a worker process. ``status`` is negative for a signal; ``by_us``: we sent it.

    ``without_broker_s``: the seconds without a broker in the last half minute before its end.
    """

    writer: str
    status: int
    by_us: bool
    said: str = ""
    without_broker_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Store:
    """A task's store on disk after the run: all entries, and their next changelog offset.

    ``damage``: a block cannot be read, and was not read before the run ended; ``unread``: the keys that it hides.
    ``harmed``: files of that state directory were damaged on purpose.
    """

    writer: str
    partition: int
    offset: int
    entries: Mapping[bytes, bytes]
    damage: str = ""
    unread: frozenset[bytes] = frozenset()
    harmed: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of a run. ``slept``: writers that were stopped for longer than the session timeout."""

    guarantee: str
    warmups_max: int
    acknowledged: frozenset[int]
    inputs: tuple[int, ...]
    writes: tuple[Write, ...]
    rows: tuple[Row, ...]
    commits: tuple[Commit, ...]
    generations: tuple[Generation, ...]
    exits: tuple[Exit, ...]
    slept: frozenset[str]
    aborted_transactions: int
    stores: tuple[Store, ...] = ()
    changelog_ends: Mapping[int, int] = field(default_factory=dict)
    """Next offsets, including markers and aborted transactions, which readers never get."""
    restless: tuple[str, ...] = ()
    """Why the group did not come to rest; empty if it did."""
    protocol: str = "classic"
