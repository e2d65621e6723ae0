"""A small but faithful changelog with gaps, markers, open transactions, truncation and outages; stores to restore."""

from __future__ import annotations

from dataclasses import dataclass, field

from kstreams_assign.errors import BrokerUnavailable, StateError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Pacing, Restorer
from kstreams_assign.restore.ports import Bounds, ChangelogBatch

T0, T1 = TaskId(0, 0), TaskId(0, 1)
P0, P1 = TopicPartition("app-s-changelog", 0), TopicPartition("app-s-changelog", 1)
Q0 = TopicPartition("app-t-changelog", 0)
PACING = Pacing(progress_interval_ms=1_000, standby_ends_interval_ms=5_000, standby_budget_records=10, stalled_ms=3_000)


@dataclass
class Log:
    """A changelog partition: ``entries[i]`` is at offset ``first + i``; ``None``: a marker, or compacted away."""

    first: int = 0
    entries: list = field(default_factory=list)
    held_back: int = 0
    """Entries at the end that an open transaction keeps from readers; the high watermark counts them."""
    topic_id: str | None = None
    limit: int | None = None
    """Of a source topic: what the group has committed of it. Nothing behind it is read."""

    @property
    def end(self) -> int:
        return self.first + len(self.entries)

    def append(self, *writes) -> None:
        self.entries += writes

    def truncate_to(self, offset: int) -> None:
        self.entries, self.first = self.entries[offset - self.first :], offset

    def state(self) -> dict:
        return folded(self.entries)


def folded(entries) -> dict:
    """What a store holds that applied exactly these entries."""
    newest = dict(entry for entry in entries if entry)
    return {key: value for key, value in newest.items() if value is not None}


class LogReader:
    """``ChangelogReader`` over ``Log``s, with the clock in its hand: a poll that finds nothing lets time pass."""

    def __init__(self, logs: dict, batch_records: int = 3) -> None:
        self.logs, self.batch_records = logs, batch_records
        self.positions: dict = {}
        self.away = False
        self.bounds_asked: list = []
        self.leaderless: set = set()
        self.late: dict = {}
        """Partition -> an offset asked for before it was added again; the next poll brings the answer: out of range."""
        self.unreadable: dict = {}
        """Partition -> the offset at which its records are damaged."""
        self.now_ms = 0

    def add(self, positions) -> None:
        assert not self.positions.keys() & positions.keys(), "read already"
        self.positions.update(positions)

    def remove(self, partitions) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)  # the reader may have stopped it, which the same poll reports

    def poll(self, timeout_s):
        self._answer()
        late = [self._stopped(partition, at) for partition, at in self.late.items() if partition in self.positions]
        self.late.clear()
        batches = [*late, *(self._batch(partition, at) for partition, at in list(self.positions.items()))]
        ready = [batch for batch in batches if batch is not None]
        if not ready:
            self.now_ms += int(timeout_s * 1_000)
        return ready

    def bounds(self, partitions):
        self._answer()
        self.bounds_asked.append(sorted(partitions))
        there = {name: self.logs[name] for name in partitions if name in self.logs}
        return {
            name: None if name in self.leaderless else Bounds(log.first, log.end, log.topic_id, log.limit)
            for name, log in there.items()
        }

    def close(self) -> None: ...

    def _answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("no broker answers")

    def _stopped(self, partition, asked):
        del self.positions[partition]
        return ChangelogBatch(partition, [], asked, in_range=False)

    def _batch(self, partition, at):
        log = self.logs.get(partition)
        if log is None:
            return None
        if not log.first <= at <= log.end:
            return self._stopped(partition, at)
        readable = log.entries[: min(log.end - log.held_back, log.end if log.limit is None else log.limit) - log.first]
        damaged_at = self.unreadable.get(partition)
        if at == damaged_at:
            del self.positions[partition]
            return ChangelogBatch(partition, [], at, unreadable=f"{partition} is damaged at {at}")
        entries = readable[: None if damaged_at is None else damaged_at - log.first]
        entries = entries[at - log.first :][: self.batch_records]
        if not entries:
            return None
        self.positions[partition] = at + len(entries)
        return ChangelogBatch(partition, [entry for entry in entries if entry], at + len(entries))


class DictStores:
    """``TaskStores`` in memory, as far as the loop uses it. With ``fails`` every write raises it."""

    def __init__(self, offsets=None, data=None) -> None:
        self.held, self.data = dict(offsets or {}), {name: dict(of) for name, of in (data or {}).items()}
        self.fails: StateError | None = None
        self.wipes = 0
        self.ids: dict[str, str] = {}

    def offsets(self):
        return self.held

    def identities(self):
        return self.ids

    def identify(self, identities) -> None:
        self.ids.update(identities)

    def range(self, store):
        return iter(self.data.get(store, {}).items())

    def write(self, writes, offsets) -> None:
        if self.fails:
            raise self.fails
        for store, records in writes.items():
            for key, value in records:
                self.data.setdefault(store, {})[key] = value
        self.data = {name: {k: v for k, v in of.items() if v is not None} for name, of in self.data.items()}
        self.held.update(offsets)

    def wipe(self) -> None:
        self.held, self.data, self.ids, self.wipes = {}, {}, {}, self.wipes + 1


def record(number: int) -> tuple[bytes, bytes]:
    return b"key-%d" % number, b"value-%d" % number


def records(count: int, first: int = 0) -> list:
    return [record(number) for number in range(first, first + count)]


def restorer(reader: LogReader) -> Restorer:
    return Restorer(reader, now_ms=lambda: reader.now_ms, pacing=PACING)


def steps(loop: Restorer, count: int = 30) -> list:
    return [event for _ in range(count) for event in loop.step(0.1)]


def only(kind, events) -> list:
    return [event for event in events if isinstance(event, kind)]
