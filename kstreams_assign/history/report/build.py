"""From rows to the view: processes, generations in order, and every figure that a group's section shows. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from kstreams_assign.errors import InvalidTaskId
from kstreams_assign.history.report.bars import Copy, in_lanes, lanes_of, merged
from kstreams_assign.history.report.rows import (
    Balance,
    EndOffset,
    Member,
    Movement,
    Placement,
    Rebalance,
)
from kstreams_assign.history.report.trouble import (
    bucketed,
    busiest_hours,
    flapping,
    open_probing,
    strip_of,
    warmups_of,
)
from kstreams_assign.history.report.view import (
    CAUSES,
    Bar,
    Generation,
    GroupLine,
    GroupView,
    Move,
    Process,
    Role,
    Span,
    TaskRow,
)
from kstreams_assign.history.tables import STREAMS_PROTOCOL
from kstreams_assign.model import TaskId

BUNCHED_SHARE = 0.5
BUNCHED_LENGTH = 0.02
"""Where more than this share of the generations lasts less than this part of a fair share each, time is a bad axis."""

LEAST_BUSY_MS = 1_000
LAST_SHOWN = 0.06
QUIET_AT_MOST = 0.35
QUIET_SHOWN = 0.15
"""Parts of the time from first to last generation: the last one's least width, from when quiet is cut, and to what."""

Place = tuple[int, int]
"""Partition and offset of a generation's record: what identifies it."""


@dataclass(frozen=True)
class GroupRows:
    """All rows of one group, in any order."""

    rebalances: Sequence[Rebalance]
    members: Sequence[Member] = ()
    placements: Sequence[Placement] = ()
    ends: Sequence[EndOffset] = ()
    movements: Sequence[Movement] = ()
    balance: Sequence[Balance] = ()


@dataclass
class _Names:
    """Processes in the order in which they are first met."""

    processes: dict[str, int] = field(default_factory=dict)

    def index(self, process: str | None) -> int | None:
        return None if process is None else self.processes.setdefault(process, len(self.processes))

    def indexes(self, processes: Iterable[str] | None) -> tuple[int, ...]:
        return tuple(self.processes.setdefault(process, len(self.processes)) for process in processes or ())


def place_of(row: Rebalance | Member | Placement | EndOffset | Movement | Balance) -> Place:
    """What identifies the row's generation within its group."""
    return row.offsets_partition, row.offsets_offset


def build_group(rows: GroupRows, span: Span) -> GroupView:
    """The group's section. ``rows.rebalances`` holds at least one."""
    ordered = sorted(rows.rebalances, key=place_of)
    at = {place_of(row): index for index, row in enumerate(ordered)}
    names = _Names()
    unreadable = Counter(place_of(row) for row in rows.members if row.unreadable is not None)
    members = sorted((row for row in rows.members if place_of(row) in at), key=lambda row: at[place_of(row)])
    _name_in_order(names, members)
    generations = _generations(ordered, names, unreadable)
    moves = _moves(rows.movements, at, names)
    tasks, bars = _timeline(rows, at, names, moves)
    times = tuple(generation.time_ms for generation in generations)
    drawn = tuple(accumulate(times, max))  # a clock may be set back, but an axis of time goes on
    line = _line(ordered[0].group, generations, moves, span)
    return GroupView(
        line=line,
        span=span,
        generations=generations,
        processes=_processes(names, members),
        tasks=tasks,
        bars=bars,
        moves=moves,
        warmups=warmups_of(bars, generations, span.end_ms),
        warmups_known=all(bar.role is not Role.COPY for bar in bars),
        skews=_skews(rows.balance, at),
        buckets=bucketed(
            ((generation.time_ms, generation.cause) for generation in generations), Span(min(times), max(times))
        ),
        drawn_ms=drawn,
        drawn_until_ms=drawn_until(drawn, span.end_ms),
        equal_widths=bunched(drawn, span.end_ms),
    )


def _name_in_order(names: _Names, members: Sequence[Member]) -> None:
    """Numbers by generation, and within one by endpoint or client, so that 'w2' comes before 'w10'."""
    for _, of_generation in groupby(members, key=place_of):
        for member in sorted(of_generation, key=lambda row: natural(row.endpoint or row.client_id or "")):
            names.index(member.process_id)


def natural(text: str) -> list[tuple[int, str]]:
    """A key by which numbers in a text count as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def _generations(
    ordered: Sequence[Rebalance], names: _Names, unreadable: Mapping[Place, int]
) -> tuple[Generation, ...]:
    generations: list[Generation] = []
    before: int | None = None
    for row in ordered:
        generations.append(
            Generation(
                number=row.generation,
                time_ms=row.time_ms,
                state=row.state or "stable",
                cause=row.cause if row.cause in CAUSES else "unknown",
                confidence=row.confidence or "",
                evidence=row.evidence or "",
                leader=names.index(row.leader_process),
                members=row.members,
                assignor=row.assignor or row.protocol,
                joined=names.indexes(row.joined),
                gone=names.indexes(row.gone),
                owner_changes=row.owner_changes,
                adopted=row.adopted,
                probing=row.probing,
                next_rebalance_ms=row.next_rebalance_ms,
                missing=missing_between(before, row),
                unreadable=unreadable.get(place_of(row), 0),
                by_broker=row.protocol == STREAMS_PROTOCOL,
                took_ms=between(row.began_ms, row.time_ms),
            )
        )
        # Epochs of a streams group are skipped while members still join: none of them is missing.
        before = None if row.protocol == STREAMS_PROTOCOL else row.generation
    return tuple(generations)


def between(start_ms: int | None, end_ms: int | None) -> int | None:
    """The time from one to the other; None where one is not known, or a clock that was set back makes it negative."""
    return None if start_ms is None or end_ms is None or end_ms < start_ms else end_ms - start_ms


def missing_between(before: int | None, row: Rebalance) -> int:
    """How many generations between the one ``before`` and this one left no record."""
    return 0 if before is None or row.protocol == STREAMS_PROTOCOL else max(0, row.generation - before - 1)


def _processes(names: _Names, members: Sequence[Member]) -> tuple[Process, ...]:
    """Each as its last member reported it."""
    last = {member.process_id: member for member in members}
    processes = []
    for process in names.processes:
        member = last.get(process)
        if member is None:
            processes.append(Process(process, None, None, None, None, None, ()))
        else:
            tags = tuple(sorted(member.tags or ()))
            processes.append(
                Process(
                    process, member.endpoint, member.client_id, member.client_host, member.version, member.ours, tags
                )
            )
    return tuple(processes)


def _moves(rows: Iterable[Movement], at: Mapping[Place, int], names: _Names) -> tuple[Move, ...]:
    known = [row for row in rows if place_of(row) in at]
    return tuple(
        Move(
            generation=at[place_of(row)],
            number=row.generation,
            time_ms=row.time_ms,
            task=row.task,
            source=names.index(row.from_process),
            target=names.index(row.to_process),
            planned=row.planned,
            warm=row.warm,
            held_ms=row.held_ms,
            gap_ms=row.gap_ms,
            handover_ms=between(row.released_ms, row.taken_ms),
        )
        for row in sorted(known, key=lambda row: (at[place_of(row)], task_order(row.task)))
    )


def task_order(task: str) -> tuple[int, int, str]:
    """By subtopology and partition; text that is no task id comes last, by itself."""
    try:
        parsed = TaskId.parse(task)
    except InvalidTaskId:
        return 2**31, 0, task
    return parsed.subtopology, parsed.partition, task


def _timeline(
    rows: GroupRows, at: Mapping[Place, int], names: _Names, moves: Sequence[Move]
) -> tuple[tuple[TaskRow, ...], tuple[Bar, ...]]:
    known = [row for row in rows.placements if place_of(row) in at and row.process_id is not None]
    tasks = {task: index for index, task in enumerate(sorted({row.task for row in known}, key=task_order))}
    ends = _ends(rows.ends)
    copies = []
    for row in sorted(known, key=lambda row: at[place_of(row)]):
        process = names.index(row.process_id)
        assert process is not None
        lag = _lag(row.offset_sum, ends.get((place_of(row), row.task)))
        copies.append(Copy(tasks[row.task], process, at[place_of(row)], _role(row), lag))
    bars = in_lanes(merged(copies))
    lanes = lanes_of(bars, len(tasks))
    moved, hours = Counter(move.task for move in moves), busiest_hours(moves)
    listed = tuple(
        TaskRow(task, max(-1, min(task_order(task)[0], 2**31 - 1)), lanes[index], moved[task], hours.get(task, 0))
        for task, index in tasks.items()
    )
    return listed, tuple(bars)


def _ends(rows: Iterable[EndOffset]) -> Mapping[tuple[Place, str], int]:
    """The sum of each task's changelog ends. If one changelog's task is unknown, no sum of its generation is whole."""
    sums: Counter[tuple[Place, str]] = Counter()
    partial: set[Place] = set()
    for row in rows:
        if row.task is None or row.end_offset is None:
            partial.add(place_of(row))
        else:
            sums[place_of(row), row.task] += row.end_offset
    return {key: total for key, total in sums.items() if key[0] not in partial}


def _role(row: Placement) -> Role:
    if row.role == "standby" and row.warmup_known is False:
        return Role.COPY
    return {"active": Role.ACTIVE, "warmup": Role.WARMUP}.get(row.role, Role.STANDBY)


def _lag(offset_sum: int | None, end: int | None) -> int | None:
    """None for a running task, an unknown position and an end that was not sampled."""
    return None if offset_sum is None or offset_sum < 0 or end is None else max(0, end - offset_sum)


def _skews(rows: Iterable[Balance], at: Mapping[Place, int]) -> dict[str, tuple[tuple[int, float], ...]]:
    """By class; of subtopologies and racks, the worst of each generation."""
    worst: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.skew is not None and place_of(row) in at:
            of_scope = worst.setdefault(row.scope, {})
            index = at[place_of(row)]
            of_scope[index] = max(row.skew, of_scope.get(index, 0.0))
    order = ("active", "standby", "all", "subtopology", "rack")
    return {scope: tuple(sorted(worst[scope].items())) for scope in order if scope in worst}


def drawn_until(times_ms: Sequence[int], until_ms: int) -> int:
    """Where the time axis ends: with the history, unless a long quiet time would leave no room for the rest."""
    last, busy = times_ms[-1], max(times_ms[-1] - times_ms[0], LEAST_BUSY_MS)
    quiet = until_ms - last
    return last + round(QUIET_SHOWN * busy if quiet > QUIET_AT_MOST * busy else max(quiet, LAST_SHOWN * busy))


def bunched(times_ms: Sequence[int], until_ms: int) -> bool:
    """Whether most generations would be too thin to see on an axis of time, so that equal widths show more."""
    if len(times_ms) < 4 or until_ms <= times_ms[0]:
        return False
    fair = (until_ms - times_ms[0]) / len(times_ms)
    lengths = [later - sooner for sooner, later in zip(times_ms, [*times_ms[1:], until_ms], strict=True)]
    thin = sum(length < BUNCHED_LENGTH * fair for length in lengths)
    return thin > BUNCHED_SHARE * len(times_ms)


def group_line(rebalances: Iterable[Rebalance], movements: Iterable[Movement], span: Span) -> GroupLine:
    """A group's line in the overview, from its rows (at least one rebalance)."""
    ordered = sorted(rebalances, key=place_of)
    at = {place_of(row): index for index, row in enumerate(ordered)}
    names = _Names()
    generations = _generations(ordered, names, {})
    return _line(ordered[0].group, generations, _moves(movements, at, names), span)


def _line(group: str, generations: Sequence[Generation], moves: Sequence[Move], span: Span) -> GroupLine:
    return GroupLine(
        group=group,
        rebalances=len(generations),
        per_hour=len(generations) / span.hours,
        owner_changes=sum(generation.owner_changes or 0 for generation in generations),
        adopted=sum(generation.adopted or 0 for generation in generations),
        cold=sum(move.warm is False for move in moves),
        flapping=flapping(moves),
        probing=open_probing(generations, span.end_ms),
        members=generations[-1].members,
        worst_gap_ms=max((move.gap_ms for move in moves if move.gap_ms is not None), default=None),
        last_ms=generations[-1].time_ms,
        strip=strip_of((generation.time_ms for generation in generations), span),
    )
