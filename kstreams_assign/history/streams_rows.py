"""The rows that a rebalance of a streams group adds to the tables, and those of its movements.

What lives here: values -> rows in the order of ``tables.COLUMNS``. What must not: bytes, memory, how causes are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kstreams_assign.history.balance_rows import evenness
from kstreams_assign.history.causes import Cause
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.seen import Place
from kstreams_assign.history.streams_memory import StoredStreamsMember, StreamsMemory, StreamsMove, Target
from kstreams_assign.history.tables import STREAMS_PROTOCOL, Tables, append_rows


@dataclass(frozen=True)
class StreamsGeneration:
    """A rebalance at its end. ``group`` is of that moment, ``target`` what it was made for."""

    place: Place
    state: str
    target: Target
    group: StreamsMemory

    @cached_property
    def threads(self) -> dict[str, int]:
        """Process -> how many members it has now."""
        counts: dict[str, int] = {}
        for member_id in self.group.current:
            process = self.group.process_of(member_id)
            if process is not None:
                counts[process] = counts.get(process, 0) + 1
        return counts

    @cached_property
    def racks(self) -> dict[str, list[str]]:
        """``tag=value`` -> the processes that carry it."""
        racks: dict[str, list[str]] = {}
        for member_id in self.group.current:
            member = self.group.members.get(member_id)
            for key, value in member.tags if member else ():
                processes = racks.setdefault(f"{key}={value}", [])
                if member is not None and member.process_id not in processes:
                    processes.append(member.process_id)
        return racks


def add_generation(
    tables: Tables,
    seen: StreamsGeneration,
    cause: Cause,
    counted: tuple[int | None, int | None],
    ends: Iterable[EndOffset],
) -> None:
    """Add all rows of a rebalance but its movements. ``counted``: owner changes and adopted tasks."""
    members = seen.target.members
    row = (
        *(*seen.place, seen.state, STREAMS_PROTOCOL, None, None),
        *(len(members), len({member.process_id for member in members.values()}), None),
        *(cause.cause, cause.confidence, cause.evidence, cause.joined, cause.gone),
        *(*counted, None, None, seen.target.began_ms),
    )
    append_rows(tables, "rebalances", [row])
    append_rows(tables, "members", [_member(seen.place, name, member) for name, member in members.items()])
    append_rows(tables, "task_placements", _placements(seen))
    append_rows(tables, "end_offsets", _end_offsets(seen, ends))
    append_rows(tables, "balance", _balance(seen))


def _member(place: Place, member_id: str, member: StoredStreamsMember) -> tuple[object, ...]:
    return (
        *(*place, member_id, member.instance_id, member.client_id, member.client_host, member.process_id, None, None),
        *(member.endpoint, [(key, value) for key, value in member.tags], None, None, None, None, None, None),
    )


def _placements(seen: StreamsGeneration) -> list[tuple[object, ...]]:
    """What each member owns, without what it is to give up: as StreamsGroupDescribe has it."""
    return [
        (*seen.place, task, _number(task), role, True, seen.group.process_of(member_id), member_id, None)
        for member_id, tasks in seen.group.current.items()
        for role in ("active", "standby", "warmup")
        for task in getattr(tasks, role)
    ]


def _number(task: str) -> int | None:
    """The subtopology as a number. The protocol has text there, Kafka Streams writes numbers."""
    name = task.rpartition("_")[0]
    return int(name) if name.isascii() and name.isdecimal() and int(name) < 2**31 else None


def _end_offsets(seen: StreamsGeneration, ends: Iterable[EndOffset]) -> list[tuple[object, ...]]:
    subtopology_of = {topic: name for name, topics in seen.group.changelogs.items() for topic in topics}
    return [
        (
            *seen.place,
            f"{subtopology_of[end.topic]}_{end.partition}" if end.topic in subtopology_of else None,
            *(end.topic, end.partition, end.end, end.begin, end.sampled_ms),
        )
        for end in ends
    ]


def _balance(seen: StreamsGeneration) -> list[tuple[object, ...]]:
    owners: dict[str, str] = {}
    copies: dict[str, list[str]] = {}
    for member_id, tasks in seen.group.current.items():
        process = seen.group.process_of(member_id)
        if process is not None:
            owners |= dict.fromkeys(tasks.active, process)
            for task in (*tasks.standby, *tasks.warmup):
                copies.setdefault(task, []).append(process)
    return [(*seen.place, *row) for row in evenness(seen.threads, owners, copies, seen.racks)]


def add_movements(tables: Tables, moves: Iterable[StreamsMove]) -> None:
    rows = [
        (
            *(move.place or ()),
            *(move.task, move.from_process, move.to_process, move.planned, move.warm, move.held_ms, move.gap_ms),
            *(move.released_ms, move.taken_ms),
        )
        for move in moves
    ]
    append_rows(tables, "movements", rows)
