"""The global tables of one process: when each may be read, when it is built again, and what it waits for.

``GlobalTables.handle(event, now_ms)`` takes what the restore loop and the readers of tables report, and returns effects
that a shell carries out in order. An effect that is answered at once is the last one of its table.

A table may be read once it holds what its topic held when the reading began: the end offsets as first looked up are its
*goal*. Where a topic loses its last records, as in an unclean election, the goal goes back with its end. A table that
was emptied, or whose database is damaged, is built from the start of its topic, and may not be read until it has
reached a goal again. What must not live here: a clock, a database, a Kafka client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from kstreams_assign.engine import stops
from kstreams_assign.engine.stops import Stop
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TopicPartition
from kstreams_assign.restore.progress import TaskProgress

MISSING_RETRY_MS = 1_000

# --- events ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Added:
    """The process begins to keep a table of a topic with so many partitions."""

    table: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The database of a table is open."""

    table: str


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The database of a table cannot be opened."""

    table: str
    error: StateError


@dataclass(frozen=True, slots=True)
class Discarded:
    """The folder of a table was moved to the trash."""

    table: str
    cause: StateError


@dataclass(frozen=True, slots=True)
class DiscardFailed:
    """The folder of a table cannot be moved."""

    table: str
    error: StateError


@dataclass(frozen=True, slots=True)
class Progressed:
    """A table has read its topic to here."""

    table: str
    progress: TaskProgress


@dataclass(frozen=True, slots=True)
class StartedOver:
    """A table did not fit its topic. It was emptied and is read from the start of the topic."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoresFailed:
    """The restore loop cannot write a table, and has given it back."""

    table: str
    error: StateError


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """A reader cannot read a table, or the database of a table that is complete cannot be prepared for readers."""

    table: str
    error: StateError


@dataclass(frozen=True, slots=True)
class ReadsAllowed:
    """Readers may read the table from now on."""

    table: str


@dataclass(frozen=True, slots=True)
class TopicMissed:
    """The topic of a table has not existed for a while."""

    table: str
    topic: str


@dataclass(frozen=True, slots=True)
class Counted:
    """The topic of a table has so many partitions now; 0 if it does not exist."""

    table: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Woke:
    """The time of ``due_ms`` has come."""


Event = (
    Added
    | Opened
    | OpenFailed
    | Discarded
    | DiscardFailed
    | Progressed
    | StartedOver
    | StoresFailed
    | ReadFailed
    | ReadsAllowed
    | TopicMissed
    | Counted
    | Woke
)

# --- effects --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenDatabase:
    """Open the database of a table; report ``Opened`` or ``OpenFailed``."""

    table: str


@dataclass(frozen=True, slots=True)
class CloseDatabase:
    """Close the database of a table, which is in the thread's hands."""

    table: str


@dataclass(frozen=True, slots=True)
class DiscardFolder:
    """Move the folder of a table to the trash; report ``Discarded`` or ``DiscardFailed``."""

    table: str
    cause: StateError


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """Give the table to the restore loop, to read this many partitions of its topic."""

    table: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TakeFromRestorer:
    """Read no more for a table, and take its database back."""

    table: str


@dataclass(frozen=True, slots=True)
class AllowReads:
    """Let readers read the table; report ``ReadsAllowed`` or ``ReadFailed``."""

    table: str


@dataclass(frozen=True, slots=True)
class RefuseReads:
    """Let readers of the table fail with this reason."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceReady:
    """A table may be read; ``offsets`` were read for that since it was opened or emptied."""

    table: str
    offsets: int


@dataclass(frozen=True, slots=True)
class AnnounceStopped:
    """A table cannot be kept; it is tried again after ``retry_ms``."""

    table: str
    reason: str
    retry_ms: int


@dataclass(frozen=True, slots=True)
class AnnounceRebuilt:
    """A table is built again from the start of its topic."""

    table: str
    reason: str


Effect = (
    OpenDatabase
    | CloseDatabase
    | DiscardFolder
    | ReadTopic
    | TakeFromRestorer
    | AllowReads
    | RefuseReads
    | AnnounceReady
    | AnnounceStopped
    | AnnounceRebuilt
)

# --- one table ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table. ``goal``: the end offsets at which it may be read, the lowest since it was opened or emptied.

    ``reading``: the restore loop has its database.
    """

    partitions: int
    reading: bool = False
    goal: Mapping[TopicPartition, int] | None = None
    progress: TaskProgress | None = None
    ready: bool = False
    stop: Stop | None = None

    def behind(self) -> int | None:
        """Return the offsets up to the end of its topic; None if unknown."""
        return None if self.progress is None else self.progress.remaining


class GlobalTables:
    """The machine. Times are milliseconds of one clock, from the caller. Any thread may call what only looks."""

    def __init__(self) -> None:
        self._tables: dict[str, TableEntry] = {}

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event and return the effects in order."""
        return self._REACTIONS[type(event)](self, event, now_ms)

    # --- looking ---------------------------------------------------------------------

    def entries(self) -> dict[str, TableEntry]:
        """Return all tables."""
        return dict(self._tables)

    @property
    def all_ready(self) -> bool:
        """Whether every table may be read."""
        return all(entry.ready for entry in self.entries().values())

    @property
    def missed(self) -> bool:
        """Whether a topic does not exist."""
        return any(entry.reading and _waits_for_its_topic(entry.stop) for entry in self.entries().values())

    def due_ms(self) -> int | None:
        """Return when ``Woke`` has something to do; None: never."""
        known = self.entries().values()
        return min((e.stop.retry_at_ms for e in known if e.stop and e.stop.retry_at_ms is not None), default=None)

    # --- opening and reading ------------------------------------------------------------

    def _added(self, event: Added, _now_ms: int) -> list[Effect]:
        self._tables[event.table] = TableEntry(event.partitions)
        return [OpenDatabase(event.table)]

    def _opened(self, event: Opened, _now_ms: int) -> list[Effect]:
        self._change(event.table, reading=True)
        return [ReadTopic(event.table, self._tables[event.table].partitions)]

    def _progressed(self, event: Progressed, _now_ms: int) -> list[Effect]:
        entry, at = self._tables[event.table], event.progress.partitions
        known = entry.goal or {}
        goal = {name: min(each.end, known.get(name, each.end)) for name, each in at.items()}
        self._change(event.table, progress=event.progress, goal=goal)
        if entry.ready or any(at[name].position < end for name, end in goal.items()):
            return []
        return [AllowReads(event.table)]

    def _reads_allowed(self, event: ReadsAllowed, _now_ms: int) -> list[Effect]:
        entry = self._tables[event.table]
        self._change(event.table, ready=True, stop=None)
        partitions = () if entry.progress is None else entry.progress.partitions.values()
        return [AnnounceReady(event.table, sum(at.position - at.start for at in partitions))]

    def _counted(self, event: Counted, _now_ms: int) -> list[Effect]:
        """Read more partitions of a topic that has grown. One that was created again is recognised by its id."""
        table, entry = event.table, self._tables[event.table]
        if not event.partitions:
            return []
        if entry.reading and _waits_for_its_topic(entry.stop):
            self._change(table, stop=None)
        if event.partitions == entry.partitions:
            return []
        goal = entry.goal if entry.ready else None
        self._change(table, partitions=event.partitions, goal=goal, progress=None)
        return [TakeFromRestorer(table), ReadTopic(table, event.partitions)] if entry.reading else []

    # --- building it again --------------------------------------------------------------

    def _started_over(self, event: StartedOver, _now_ms: int) -> list[Effect]:
        self._change(event.table, goal=None, progress=None, ready=False, stop=None)
        return [RefuseReads(event.table, event.reason), AnnounceRebuilt(event.table, event.reason)]

    def _topic_missed(self, event: TopicMissed, _now_ms: int) -> list[Effect]:
        """Keep what the table holds: readers go on with it, as they do while no broker answers."""
        reason = f"its topic {event.topic} does not exist; create it again"
        self._change(event.table, stop=stops.wait_for_changelog(self._tables[event.table].stop, reason))
        return [AnnounceStopped(event.table, reason, MISSING_RETRY_MS)]

    def _open_failed(self, event: OpenFailed, now_ms: int) -> list[Effect]:
        return self._fail(event.table, event.error, now_ms, [])

    def _stores_failed(self, event: StoresFailed, now_ms: int) -> list[Effect]:
        return self._fail(event.table, event.error, now_ms, [CloseDatabase(event.table)])

    def _read_failed(self, event: ReadFailed, now_ms: int) -> list[Effect]:
        """Ignore a failure of a database that is closed by now: several readers may report the same one."""
        table = event.table
        if not self._tables[table].reading:
            return []
        return self._fail(table, event.error, now_ms, [TakeFromRestorer(table), CloseDatabase(table)])

    def _fail(self, table: str, error: StateError, now_ms: int, closing: Iterable[Effect]) -> list[Effect]:
        """Throw a damaged database away; for any other reason try the same one again, after a pause."""
        stop = self._tables[table].stop
        self._tables[table] = TableEntry(self._tables[table].partitions, stop=stop)
        effects = [RefuseReads(table, str(error)), *closing]
        if isinstance(error, StoreDamaged):
            return [*effects, DiscardFolder(table, error)]
        return effects + self._pause(table, error, now_ms)

    def _discarded(self, event: Discarded, now_ms: int) -> list[Effect]:
        """Build the table at once, once; if that fails, too, pause."""
        table, reason = event.table, str(event.cause)
        announced: list[Effect] = [AnnounceRebuilt(table, reason)]
        if self._tables[table].stop is not None:
            return announced + self._pause(table, event.cause, now_ms)
        self._change(table, stop=Stop(reason))
        return [*announced, OpenDatabase(table)]

    def _discard_failed(self, event: DiscardFailed, now_ms: int) -> list[Effect]:
        return self._pause(event.table, event.error, now_ms)

    def _pause(self, table: str, error: StateError, now_ms: int) -> list[Effect]:
        """Try the table again later. It is news once."""
        before, reason = self._tables[table].stop, str(error)
        stop, pause_ms = stops.pause(before, reason, now_ms)
        self._change(table, stop=stop)
        known = before is not None and before.reported
        return [] if known else [AnnounceStopped(table, reason, pause_ms)]

    def _woke(self, _event: Woke, now_ms: int) -> list[Effect]:
        due = [table for table, entry in self._tables.items() if stops.is_due(entry.stop, now_ms)]
        for table in due:
            self._change(table, stop=stops.try_again(self._tables[table].stop))
        return [OpenDatabase(table) for table in due]

    def _change(self, table: str, **fields: object) -> None:
        self._tables[table] = replace(self._tables[table], **fields)  # type: ignore[arg-type]

    _REACTIONS: ClassVar[Mapping[type, Callable[..., list[Effect]]]] = {
        Added: _added,
        Opened: _opened,
        OpenFailed: _open_failed,
        Discarded: _discarded,
        DiscardFailed: _discard_failed,
        Progressed: _progressed,
        StartedOver: _started_over,
        StoresFailed: _stores_failed,
        ReadFailed: _read_failed,
        ReadsAllowed: _reads_allowed,
        TopicMissed: _topic_missed,
        Counted: _counted,
        Woke: _woke,
    }


def _waits_for_its_topic(stop: Stop | None) -> bool:
    return stop is not None and stop.reported and not stop.trying and stop.retry_at_ms is None
