"""What was seen of a run, as plain values: all that the checkers get. Bytes are read with the project's
own codecs, and ``restless`` is what ``inspect`` says; nothing else asks the system under test for its opinion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.rows import Row


class Write(NamedTuple):
    """One record of the changelog, in the order of its partition. ``value`` is an entry's bytes, or None for a deletion."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


class Commit(NamedTuple):
    """One committed input offset, in the order of the coordinator's log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Generation:
    """One completed generation: what each member was given, by member id. ``warmups``: by process, as the leader told."""

    number: int
    active: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    warmups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a worker process ended. ``status`` is negative for a signal; ``by_us``: we sent it.

    ``without_broker_s``: how long of the last half minute before its end there was no broker.
    """

    writer: str
    status: int
    by_us: bool
    said: str = ""
    without_broker_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Store:
    """What a process left on disk of a task: all entries, and the next changelog offset that they are up to.

    ``damage``: a block in it cannot be read, which nobody had met before the run ended; ``unread`` are the keys that this
    hides. ``harmed``: files of that state directory had been damaged on purpose.
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
    """Everything of a run. ``slept``: writers that were stopped for longer than the session timeout."""

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
    """Next offsets, with whatever lies there that no reader is given: markers, aborted transactions."""
    restless: tuple[str, ...] = ()
    """Why the group did not come to rest; nothing if it did."""
