"""Tables to report on: lives played through the real leader, written as records, derived, and stored as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.history.derive import derive
from kstreams_assign.history.generate import Name, RawRecord, named_records
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.lives import Kind, Life
from kstreams_assign.history.played import FleetGroup, PlayedCommit, PlayedGeneration
from kstreams_assign.history.records import EndOffset, RawRecords
from kstreams_assign.history.schemas import arrow_table
from kstreams_assign.history.staging import COUNTS, NEWEST, Staged, write_file
from kstreams_assign.history.tables import Tables, joined_tables
from kstreams_assign.history.writing import HistoryWriter
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape

NOON_MS = 1_795_262_400_000
"""2026-11-21 12:00 UTC."""


class Story:
    """A group that a test controls: processes start and stop, and every rebalance is recorded with its commits."""

    def __init__(
        self, tasks: dict[str, int], *, ours: bool = True, standbys: int = 0, warmups: int = 2, start_ms: int = NOON_MS
    ) -> None:
        self.kind = Kind(ours=ours, standbys=standbys, endpoints=True)
        topology = TopologyShape(tuple(SubtopologyShape((topic,), (Store("totals"),)) for topic in tasks))
        config = AssignConfig(num_standby_replicas=standbys, max_warmup_replicas=warmups)
        assignor = "least_movement" if ours else "high_availability"
        self.group = FleetGroup("app", topology, dict(tasks), config, assignor, now_ms=start_ms)
        self.events: list[PlayedGeneration | PlayedCommit] = []

    def start(self, number: int) -> None:
        process = UUID(int=number << 96 | 0x4000_8000_0000_0000_0000)
        self.group.start(process, endpoint=f"{process}.example.org:8080", ours=self.kind.ours)

    def stop(self, number: int) -> None:
        self.group.stop(UUID(int=number << 96 | 0x4000_8000_0000_0000_0000))

    def ends(self, now_ms: int) -> list[EndOffset]:
        """Where the changelogs end, as a sample would show it."""
        sizes = enumerate(self.group.counts.values())
        return [
            EndOffset(f"app-totals-{number}-changelog", partition, self.group.end, 0, now_ms)
            for number, size in sizes
            for partition in range(size)
        ]

    def rebalance(self) -> None:
        self.events += self.group.commits()
        self.events.append(self.group.rebalance())
        self.group.wait(120)
        self.events += self.group.commits()

    def settle(self, generations: int, *, offsets_per_s: int = 10_000) -> None:
        """Follow-ups and probes as they come, until there is none to come or so many generations have been."""
        for _ in range(generations):
            if self.group.withheld:
                self.group.wait(400, offsets_per_s)
            elif self.group.probe_ms is not None:
                self.group.wait(max(0, self.group.probe_ms - self.group.now_ms) + 700, offsets_per_s)
            else:
                return
            self.rebalance()


def derived(group: str, story: Story, *, mask: int = 0, sampled: bool = True) -> Tables:
    """The tables of one group, named ``group``; the ends of its changelogs are sampled as each record is seen.

    Endpoints become short: ``w1:8080`` is the process that was started as number 1.
    """
    life = Life(story.kind, tuple(story.events))
    parts: list[Tables] = []
    state = None
    for offset, record in enumerate(named_records(life, Name(group, mask, 0))):
        ends = story.ends(record.time_ms) if sampled else []
        state, part = derive(state, _raw([record], offset), ends)
        parts.append(part)
    tables = joined_tables(parts)
    endpoints = tables["members"]["endpoint"]
    endpoints[:] = [
        None if endpoint is None else f"w{(int(endpoint[:8], 16) ^ mask >> 96)}:8080" for endpoint in endpoints
    ]
    return tables


def _raw(records: Sequence[RawRecord], offset: int) -> RawRecords:
    return RawRecords(
        [record.partition for record in records],
        [offset + index for index in range(len(records))],
        [record.time_ms for record in records],
        [record.key for record in records],
        [record.value for record in records],
    )


def write_tables(folder: Path, tables: Tables, *, day: str = "2026-11-21", batch: int = 0) -> Path:
    """The tables as ``history follow`` writes them, with all rows on one day."""
    layout = Layout(folder)
    staged = [
        write_file(layout, name, day, batch, arrow_table(name, columns))
        for name, columns in tables.items()
        if name != COUNTS and next(iter(columns.values()))
    ]
    counts = zip(tables[COUNTS]["kind"], tables[COUNTS]["records"], strict=True)
    staged += [Staged(COUNTS, kind, "", records) for kind, records in counts]
    HistoryWriter(layout).publish(batch, [*staged, Staged(NEWEST, "", "", NOON_MS)])
    return folder
