"""Groups played by the real leader, as the columns of records that ``derive`` takes; and its tables as rows."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import cache
from itertools import count
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.history.derive import derive
from kstreams_assign.history.generate import Name, RawRecord, named_records
from kstreams_assign.history.lives import Kind, Life, play
from kstreams_assign.history.played import FleetGroup
from kstreams_assign.history.records import EndOffset, RawRecords, key_of
from kstreams_assign.history.records import Kind as RecordKind
from kstreams_assign.history.tables import joined_tables
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape
from kstreams_assign.wire import decode_group_metadata, encode_group_metadata

GROUP = "app"
OURS, JAVA = Kind(), Kind(ours=False)
A_SECOND, TEN_MINUTES = 1_000, 600_000
ORDERS, CLICKS = SubtopologyShape(("orders",), (Store("totals"),)), SubtopologyShape(("clicks",))
P1, P2, P3 = (UUID(int=number) for number in (1, 2, 3))


def group(kind: Kind = OURS, *, partitions: int = 4, stateless: bool = True, **settings) -> FleetGroup:
    """A group with one stateful and, if so, one stateless subtopology, without members."""
    topology = TopologyShape((ORDERS, CLICKS) if stateless else (ORDERS,))
    counts = {"orders": partitions, "clicks": partitions}
    assignor = "least_movement" if kind.ours else "high_availability"
    return FleetGroup(GROUP, topology, counts, AssignConfig(**settings), assignor, now_ms=1_000_000_000)


class RecordedGroup:
    """A played group and all of its records, in order."""

    def __init__(self, played: FleetGroup, kind: Kind = OURS) -> None:
        self.played = played
        self.kind = kind
        self.events = []

    def start(self, *processes: UUID, threads: int = 1, **about) -> None:
        for process in processes:
            self.played.start(process, threads, ours=self.kind.ours, **about)

    def rebalance(self, after_ms: int = A_SECOND, **wait) -> None:
        self.played.wait(after_ms, **wait)
        self.events.append(self.played.rebalance())

    def commit(self, after_ms: int = 100, only: Container[int] = range(1000)) -> None:
        """Every process commits its active tasks, or those of the partitions ``only``."""
        self.played.wait(after_ms)
        self.events += [commit for commit in self.played.commits() if commit.partition.partition in only]

    def settle(self) -> None:
        """Follow-ups, and probes when they are due, until there is nothing to do."""
        self.rebalance()
        while self.played.withheld or self.played.probe_ms is not None:
            due_ms = A_SECOND if self.played.withheld else self.played.probe_ms - self.played.now_ms + 500
            self.commit()
            self.rebalance(due_ms)

    def records(self) -> list[RawRecord]:
        return list(named_records(Life(self.kind, tuple(self.events)), Name(GROUP, 0, 0)))

    def rows(self, name: str, ends=()) -> list[dict]:
        return rows(derived(self.records(), ends), name)


def columns(records: list[RawRecord], first_offset: int = 0) -> RawRecords:
    """With offsets counted on."""
    return RawRecords(
        [record.partition for record in records],
        [offset for offset, _ in zip(count(first_offset), records, strict=False)],
        [record.time_ms for record in records],
        [record.key for record in records],
        [record.value for record in records],
    )


def derived(records: list[RawRecord], ends=()):
    return derive(None, columns(records), ends)[1]


def derived_in_parts(records: list[RawRecord], size: int):
    """As if every ``size`` records were a batch."""
    state, parts = None, []
    for first in range(0, len(records), size):
        state, tables = derive(state, columns(records[first : first + size], first))
        parts.append(tables)
    return state, joined_tables(parts)


def rows(tables, name: str) -> list[dict]:
    table = tables[name]
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def changed(record: RawRecord, **fields) -> RawRecord:
    """A group's metadata with other fields; ``members`` may be a function of a member."""
    metadata = decode_group_metadata(record.value)
    if callable(fields.get("members")):
        fields["members"] = tuple(map(fields["members"], metadata.members))
    return record._replace(value=encode_group_metadata(replace(metadata, **fields)))


def counted_on(record, generations: int):
    """The record, as if the group had had so many generations before."""
    if key_of(record.key).kind is not RecordKind.GROUP_METADATA:
        return record
    return changed(record, generation=decode_group_metadata(record.value).generation + generations)


def end_offsets(time_ms: int, end: int = 50_000, partitions: int = 4) -> list[EndOffset]:
    return [EndOffset("app-totals-changelog", partition, end, 0, time_ms) for partition in range(partitions)]


def scaled_out(kind=JAVA, **settings) -> RecordedGroup:
    """One process, then a second, played until no member asks for a rebalance, with commits in between."""
    recorded = RecordedGroup(group(kind, stateless=False, **settings), kind)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.start(P2)
    recorded.settle()
    recorded.commit()
    return recorded


def scaled_out_template():
    recorded = RecordedGroup(group(JAVA), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    return recorded.records()[0]


@cache
def life_records(kind, members=12, generations=12):
    return list(named_records(play(kind, members, generations, 3), Name("fleet", 0, 0)))
