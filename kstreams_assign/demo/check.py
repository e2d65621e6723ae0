"""What was proven: orders compared with stores and output, id by id, and how long each hand-over took.

Pure. Never a difference of two sums: one order lost and another one applied twice are two findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import inf
from operator import attrgetter
from typing import NamedTuple

from kstreams_assign.demo.app import Account, Row
from kstreams_assign.demo.fleet_state import Rebalance, Takeover
from kstreams_assign.demo.orders import Order


class Findings(NamedTuple):
    """Order ids by what is wrong with them. ``counted``: how many produced orders the final state holds."""

    counted: int
    lost: tuple[int, ...]
    duplicated: tuple[int, ...]
    never_in_output: tuple[int, ...]
    unknown: tuple[int, ...]

    @property
    def good(self) -> bool:
        """Nothing is missing anywhere. Duplicates are allowed: at-least-once promises no more."""
        return not (self.lost or self.never_in_output or self.unknown)


def compare(
    orders: Iterable[Order], stores: Mapping[int, Account], changelogs: Mapping[int, Account], rows: Iterable[Row]
) -> Findings:
    """The final state is what the last owners' stores hold; their changelogs must hold it too.

    ``lost``: missing in a store or in its changelog. ``duplicated``: applied more than once. ``unknown``: applied to a
    customer who never ordered it.
    """
    wanted = {(order.customer, order.id) for order in orders}
    stored, logged = _applied(stores), _applied(changelogs)
    seen = {(row.customer, row.order_id) for row in rows}
    missing = {order for order in wanted if order not in stored or order not in logged}
    return Findings(
        counted=len(wanted) - len(missing),
        lost=_ids(missing),
        duplicated=_ids(order for order in wanted if stored[order] > 1 or logged[order] > 1),
        never_in_output=_ids(wanted - seen),
        unknown=_ids((stored.keys() | logged.keys() | seen) - wanted),
    )


def _applied(accounts: Mapping[int, Account]) -> Counter[tuple[int, int]]:
    """(customer, order id) -> how often it was applied."""
    return Counter((customer, order) for customer, account in accounts.items() for order in account.order_ids)


def _ids(orders: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(sorted({order for _, order in orders}))


class Move(NamedTuple):
    """A task went on in another process.

    ``gap_ms``: from the last record that the old owner committed to the first that the new one processed. ``warm``: the
    new owner held a copy that was caught up.
    """

    task: str
    source: str
    target: str
    cause: str
    warm: bool
    gap_ms: int


def find_moves(
    rows: Iterable[Row], takeovers: Sequence[Takeover], deaths: Sequence[tuple[str, int]], acceptable_lag: int
) -> list[Move]:
    """Every change of process in the output, oldest first. ``deaths`` are workers and when they died."""
    moves: list[tuple[int, Move]] = []
    for partition, history in _by_partition(rows).items():
        for before, after in pairwise(_by_owner(history)):
            move = _move(f"0_{partition}", before, after, takeovers, deaths, acceptable_lag)
            moves.append((after[0].processed_ms, move))
    return [move for _, move in sorted(moves, key=lambda dated: dated[0])]


def _move(
    task: str,
    before: Sequence[Row],
    after: Sequence[Row],
    takeovers: Sequence[Takeover],
    deaths: Sequence[tuple[str, int]],
    acceptable_lag: int,
) -> Move:
    source, target, first = before[0].process, after[0].process, after[0]
    died = any(name == source and before[-1].processed_ms <= at <= first.processed_ms for name, at in deaths)
    return Move(
        task=task,
        source=source,
        target=target,
        cause="crash" if died else "rebalance",
        warm=_restored(takeovers, target, task, first.processed_ms) <= acceptable_lag,
        gap_ms=first.processed_ms - _last_committed(before, first).processed_ms,
    )


def _last_committed(before: Sequence[Row], first: Row) -> Row:
    """The new owner starts at the committed offset, so what the old one wrote from there on was not committed."""
    committed = [row for row in before if row.offset < first.offset]
    return max(committed, key=attrgetter("offset")) if committed else before[0]


def _restored(takeovers: Sequence[Takeover], worker: str, task: str, by_ms: int) -> float:
    """Changelog offsets that the worker read before it processed the task; endless where it never reported them."""
    fitting = [t for t in takeovers if t.worker == worker and t.task == task and t.time_ms <= by_ms]
    return max(fitting, key=attrgetter("time_ms")).restored if fitting else inf


class Span(NamedTuple):
    """A worker processed a task's records, and no other did meanwhile. Wall-clock milliseconds."""

    task: str
    process: str
    from_ms: int
    to_ms: int


def find_spans(rows: Iterable[Row]) -> list[Span]:
    """Who worked on each task when: by task, then in the order of time."""
    return [
        Span(f"0_{partition}", span[0].process, span[0].processed_ms, span[-1].processed_ms)
        for partition, history in sorted(_by_partition(rows).items())
        for span in _by_owner(history)
    ]


class Silence(NamedTuple):
    """A task that stayed with its owner let waiting input lie. ``generation`` is None outside of rebalances."""

    generation: int | None
    task: str
    process: str
    ms: int


def longest_silences(rows: Iterable[Row], rebalances: Iterable[Rebalance], after_ms: int = 1_000) -> list[Silence]:
    """Return the longest silence of each rebalance, and last, for comparison, the longest between rebalances.

    A rebalance counts from its first join to ``after_ms`` behind its last adoption. A record waits from when it was
    written, or from when the one before it was processed, to when it is processed.
    """
    spans = [(rebalance, rebalance.end_ms + after_ms) for rebalance in rebalances]
    longest: dict[int | None, Silence] = {}
    for partition, history in _by_partition(rows).items():
        for earlier, later, ms in _waits(history):
            during = [
                r.generation for r, end in spans if r.start_ms <= later.processed_ms and earlier.processed_ms <= end
            ]
            for generation in during or (None,):
                if generation not in longest or longest[generation].ms < ms:
                    longest[generation] = Silence(generation, f"0_{partition}", later.process, ms)
    return sorted(longest.values(), key=lambda silence: inf if silence.generation is None else silence.generation)


def _waits(history: Sequence[Row]) -> Iterator[tuple[Row, Row, int]]:
    """Neighbours that the same process handled, and how long the later one waited for it, if it did."""
    for earlier, later in pairwise(history):
        ms = later.processed_ms - max(earlier.processed_ms, later.input_ms)
        if ms > 0 and earlier.process == later.process:
            yield earlier, later, ms


def _by_partition(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Input partition -> its rows in the order in which they were processed (one machine, one clock)."""
    histories: dict[int, list[Row]] = {}
    for row in rows:
        histories.setdefault(row.partition, []).append(row)
    for history in histories.values():
        history.sort(key=attrgetter("processed_ms"))  # stable: the log's order within a millisecond
    return histories


def _by_owner(history: Iterable[Row]) -> list[list[Row]]:
    """A partition's rows, cut where another process goes on."""
    return [list(span) for _, span in groupby(history, key=attrgetter("process"))]
