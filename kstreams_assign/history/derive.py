"""From a group's records to the rows of every table: the one entrance of the derivation, without I/O, clock or Spark.

Records are given by group, in the order of their offsets, any number at a time; what a later call needs to know of them
is returned as ``state``. The same state and the same records always give the same rows, so a batch may be repeated, and
it makes no difference where one batch ends and the next begins. No content of a record raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.history import rows
from kstreams_assign.history.causes import cause_of, remembered
from kstreams_assign.history.changelogs import changelogs_of, subtopologies_of, tasks_there
from kstreams_assign.history.memory import Memory, closed, opened
from kstreams_assign.history.movements import Rows, commit, expired, move, note_state, without_gap
from kstreams_assign.history.records import EndOffset, Kind, RawRecords, RecordKey, key_of, sampled_near
from kstreams_assign.history.seen import Generation, Place, read_generation
from kstreams_assign.history.streams_derive import StreamsGroup
from kstreams_assign.history.streams_memory import StreamsMemory
from kstreams_assign.history.tables import Tables, append_rows, empty_tables
from kstreams_assign.wire import (
    GroupMetadata,
    StreamsKey,
    decode_group_metadata,
    decode_offset_commit,
    decode_streams_value,
)

TOMBSTONE, DUPLICATE, LATE, NOT_STREAMS = "tombstone", "duplicate", "late", "not_streams"
DAMAGED_VALUE, DAMAGED_USER_DATA = "damaged_value", "damaged_user_data"


class Record(NamedTuple):
    """One row of ``RawRecords``."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def derive(state: bytes | None, records: RawRecords, ends: Iterable[EndOffset] = ()) -> tuple[bytes, Tables]:
    """The rows that ``records``, all of one group (``key_of``) and in the order of their offsets, add to the tables.

    ``state`` is what the previous call returned, ``None`` at first; empty bytes need not be kept. ``ends`` are the ends
    of the group's changelogs, sampled when these records were read; a generation uses those sampled within 60 s of it.
    Raises ``StateError`` for a state that another release wrote, and nothing else.
    """
    group = _Group(opened(state), tuple(ends))
    for record in _each(records):
        group.take(record)
    append_rows(group.tables, "counts", group.counts.items())
    return closed(group.memory), group.tables


def derive_strangers(records: RawRecords) -> Tables:
    """The rows of records about no group of Kafka Streams: counted, and quarantined where the key is damaged."""
    tables = empty_tables()
    counts: Counter[str] = Counter()
    for record in _each(records):
        about = key_of(record.key)
        counts[about.kind.value] += 1
        if about.kind is Kind.DAMAGED_KEY:
            _quarantine(tables, record, about.kind.value, about.reason, record.value)
    append_rows(tables, "counts", counts.items())
    return tables


def _each(records: RawRecords) -> Iterable[Record]:
    columns = (records.partition, records.offset, records.timestamp_ms, records.key, records.value)
    return map(Record, *columns)


def _quarantine(tables: Tables, record: Record, kind: str, reason: str, value: bytes | None) -> None:
    row = (record.partition, record.offset, record.timestamp_ms, kind, reason, record.key, value)
    append_rows(tables, "quarantine", [row])


class _Group:
    """One group while its records pass. Each record counts under one kind; a member's damage counts besides."""

    def __init__(self, memory: Memory, ends: Sequence[EndOffset]) -> None:
        self.memory = memory
        self.tables = empty_tables()
        self.counts: Counter[str] = Counter()
        self._ends = ends

    def take(self, record: Record) -> None:
        if self.memory.seen(record.partition, record.offset):
            self.counts[DUPLICATE] += 1
            return
        self.memory.partition, self.memory.offset = record.partition, record.offset
        about = key_of(record.key)
        try:
            self.counts[self._kind(record, about)] += 1
        except MalformedUserData as wrong:
            self.counts[DAMAGED_VALUE] += 1
            _quarantine(self.tables, record, DAMAGED_VALUE, str(wrong), record.value)
            return  # its time counts for nothing, either: the commit behind it may end a gap
        self._moved(expired(self.memory, record.timestamp_ms))
        if self.memory.streams is not None:
            self._streams(about).expire(record.timestamp_ms)

    def _kind(self, record: Record, about: RecordKey) -> str:
        """Use one record; how it counts. Raises ``MalformedUserData`` where its value cannot be read."""
        if about.streams is not None:
            return self._streams_record(record, about, about.streams)
        if record.value is None:
            if about.kind is Kind.GROUP_METADATA and self.memory.streams is None:
                self._forget(record)
            return TOMBSTONE
        if about.kind is Kind.OFFSET_COMMIT:
            self._commit(record, about, record.value)
            return about.kind.value
        metadata = decode_group_metadata(record.value)
        if self.memory.streams is not None:
            self._forget(record)  # the streams group was deleted, and this is a classic one of the same name
        return self._generation(record, about.group or "", metadata)

    def _commit(self, record: Record, about: RecordKey, value: bytes) -> None:
        """Note an owner's commit. While the group has no members, it is an operator who sets offsets."""
        decode_offset_commit(value)
        partition = f"{about.topic}-{about.partition}"
        if self.memory.streams is not None:
            if self.memory.streams.members:
                self._streams(about).commit(partition, record.timestamp_ms, record.offset)
        elif self.memory.last is not None and self.memory.last.members:
            self._moved(commit(self.memory, partition, record.timestamp_ms, record.offset))

    def _generation(self, record: Record, group: str, metadata: GroupMetadata) -> str:
        last = self.memory.last
        place = Place(group, metadata.generation, record.partition, record.offset, record.timestamp_ms)
        if last is not None and metadata.generation < last.generation:
            if record.timestamp_ms <= last.time_ms:
                return LATE
            self._forget(record)  # deleted and created again, and the tombstone is not there any more
        seen = read_generation(place, metadata)
        if seen is None or (not seen.members and self.memory.last is None):
            self._forget(record)
            return NOT_STREAMS
        self._stream(record, seen)
        return Kind.GROUP_METADATA.value

    def _stream(self, record: Record, seen: Generation) -> None:
        for damage in seen.damage:
            self.counts[DAMAGED_USER_DATA] += 1
            _quarantine(self.tables, record, DAMAGED_USER_DATA, damage.reason, damage.data)
        memory = self.memory
        cause, known_before = cause_of(seen, memory), memory.last is not None
        note_state(memory, seen)
        ends = sampled_near(self._ends, seen.place.time_ms)
        subtopologies = subtopologies_of(ends, tasks_there(memory, seen), memory.stateful)
        moved = move(memory, seen, changelogs_of(ends, subtopologies))
        memory.last = remembered(seen, memory.last)
        counted = (moved.owner_changes, moved.adopted) if known_before else (None, None)
        rows.add_rebalance(self.tables, seen, cause, *counted)
        rows.add_members(self.tables, seen)
        rows.add_placements(self.tables, seen)
        rows.add_end_offsets(self.tables, seen, ends, subtopologies)
        rows.add_balance(self.tables, seen)
        self._moved(moved.rows)

    def _moved(self, done: Rows) -> None:
        if done:
            append_rows(self.tables, "movements", done)

    def _streams_record(self, record: Record, about: RecordKey, key: StreamsKey) -> str:
        """A record of a streams group; how it counts."""
        place = (record.partition, record.offset)
        if record.value is None:
            if self.memory.streams is not None and self._streams(about).delete(key, place, record.timestamp_ms):
                self._forget(record)
            return TOMBSTONE
        value = decode_streams_value(key.type, record.value)
        if self.memory.last is not None:
            self._forget(record)  # it was a classic group
        group = self._streams(about)
        used = group.take(key, value, place, record.timestamp_ms)
        self.memory.streams = group.memory
        return Kind.STREAMS_GROUP.value if used else LATE

    def _streams(self, about: RecordKey) -> StreamsGroup:
        return StreamsGroup(about.group or "", self.memory.streams or StreamsMemory(), self.tables, self._ends)

    def _forget(self, record: Record) -> None:
        """The group was deleted, or is no Kafka Streams group: its past does not explain what comes next."""
        if self.memory.streams is not None:
            self._streams(key_of(record.key)).forget((record.partition, record.offset), record.timestamp_ms)
        self._moved(without_gap(self.memory, self.memory.pending))
        self.memory = Memory(self.memory.partition, self.memory.offset)
