"""Expiry of a running task's entries: what its functions do not see any more, and what the next commit deletes.

A function reads at the time of the record that it reads, so it never sees an entry that has expired by then. A commit
deletes by the time of the input that it commits: what it deletes does not depend on input that may be rolled back. A
call by stream time reads as of the time since when it is due (``timing``), so a commit deletes nothing that a call
reads which is due and not made yet. Entries are found when a commit begins, and their tombstones are part of it.

What must not live here: the index by which expired entries are found (``tasks.expiry``), when a commit begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kstreams_assign.errors import StateError
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.tasks.batch_size import Amount, CommitSize
from kstreams_assign.tasks.buffer import Taken
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.expiry import ExpiringStores, horizon
from kstreams_assign.tasks.record_cache import behind_cache
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import PartitionTime, StreamTime

EXPIRED_RECORDS_MAX = 20_000
EXPIRED_BYTES_MAX = 8 << 20
"""Of all tasks in one commit: so much is found and deleted in a part of a second."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """The time by which the entries of a store expire, and for how long they live."""

    store: Store
    now_ms: Callable[[], int]

    def horizon(self, now_ms: int | None = None) -> bytes:
        """Return the bytes below which a stored value has expired."""
        assert self.store.ttl_ms is not None
        return horizon(self.now_ms() if now_ms is None else now_ms, self.store.ttl_ms)


class TaskExpiry:
    """Expiry of one running task. ``stream`` is the task's stream time, kept by ``Running`` and its batches."""

    def __init__(
        self,
        shape: SubtopologyShape,
        stores: ExpiringStores,
        times: Mapping[TopicPartition, PartitionTime],
        wall_ms: Callable[[], int],
    ) -> None:
        self.stream = StreamTime(times.values())
        self._stores = stores
        self._times = times
        clocks: Mapping[str, Callable[[], int]] = {"stream": lambda: self.stream.now_ms, "wall": wall_ms}
        self._clocks = {
            store.name: _Clock(store, clocks[store.ttl_clock]) for store in shape.stores if store.ttl_ms is not None
        }
        self.horizons: Mapping[str, Callable[[], bytes]] = {name: clock.horizon for name, clock in self._clocks.items()}
        """By store with a ttl: what to call for the bytes below which a stored value has expired."""
        self.first_call_ms: Callable[[], int | None] = lambda: None
        """Returns a time before which no call by stream time is left to make; None if there is none."""
        self._found: dict[str, Sequence[bytes]] = {}
        self._now_ms: dict[str, int] = {}
        self.more = False
        """Whether the limit was met when entries were last looked for."""

    @property
    def found(self) -> bool:
        """Whether the next commit has entries to delete."""
        return bool(self._found)

    def hides(self, store: str, stored: bytes | None) -> bool:
        """Return whether a stored value has expired."""
        clock = self._clocks.get(store)
        return stored is not None and clock is not None and stored < clock.horizon()

    def look_at_clocks(self, done: Mapping[TopicPartition, int]) -> bool:
        """Note the time as of these input offsets; return whether entries may have expired."""
        known = [until for p, offset in done.items() if (until := self._times[p].until(offset)) is not None]
        stream_ms, first_call_ms = max(known, default=-1), self.first_call_ms()
        if first_call_ms is not None:
            stream_ms = min(stream_ms, first_call_ms)
        self._now_ms = {
            name: stream_ms if clock.store.ttl_clock == "stream" else clock.now_ms()
            for name, clock in self._clocks.items()
        }
        self.more, self._found = False, {}
        return any(self._stores.is_due(name, now_ms) for name, now_ms in self._now_ms.items())

    def find(self, records_max: int, bytes_max: int) -> Amount:
        """Find about so many expired entries; return the tombstones that they need. Raises ``StateError``."""
        for name, now_ms in self._now_ms.items():
            due = self._stores.due(name, now_ms, records_max=records_max, bytes_max=bytes_max)
            self.more |= due.more
            if due.keys:
                self._found[name] = due.keys
        keys = [key for of_store in self._found.values() for key in of_store]
        return Amount(len(keys), sum(map(len, keys)))

    def add_to(self, taken: Taken) -> tuple[Taken, int]:
        """Return what a commit takes with the tombstones of expired entries, its own writes included, and their number.

        A write of the commit that has not expired is newer than the entry that was found.
        """
        found, self._found = self._found, {}
        writes, times, number = dict(taken.writes), dict(taken.times), 0
        for name, clock in self._clocks.items():
            now_ms = self._now_ms.get(name, -1)
            written = taken.writes.get(name, {})
            limit = clock.horizon(now_ms)
            expired = [key for key, value in written.items() if value is not None and value < limit]
            expired += [key for key in found.get(name, ()) if key not in written]
            if expired:
                writes[name] = {**written, **dict.fromkeys(expired)}
                times[name] = {**taken.times.get(name, {}), **dict.fromkeys(expired, max(now_ms, 0))}
                number += len(expired)
        return taken._replace(writes=writes, times=times), number


def task_expiry(
    shape: SubtopologyShape,
    stores: TaskStores | None,
    times: Mapping[TopicPartition, PartitionTime],
    wall_ms: Callable[[], int],
) -> TaskExpiry | None:
    """Return the expiry of a task that begins to run; None if its entries do not expire."""
    expiring = None if stores is None else behind_cache(stores)
    return TaskExpiry(shape, expiring, times, wall_ms) if isinstance(expiring, ExpiringStores) else None


class Expiries:
    """Look for expired entries of all running tasks before a commit, within its limits.

    ``unreadable`` is called with a task whose store could not be read.
    """

    def __init__(self, unreadable: Callable[[TaskId, StateError], None]) -> None:
        self._unreadable = unreadable
        self._size = CommitSize(EXPIRED_RECORDS_MAX, EXPIRED_BYTES_MAX)
        self._in_commit = Amount()
        self.more = False
        """Whether a limit was met, so that the next commit should come at once."""

    def find(self, running: Iterable[tuple[TaskId, TaskExpiry, Mapping[TopicPartition, int]]]) -> None:
        """Find what the commit that begins deletes of these tasks, whose input is worked on up to these offsets."""
        due = [(task, expiry) for task, expiry, done in running if expiry.look_at_clocks(done)]
        self.more, self._in_commit = False, Amount()
        for task, expiry in due:
            try:
                self._in_commit += expiry.find(
                    max(1, self._size.records // len(due)), max(1, self._size.bytes // len(due))
                )
            except StateError as error:
                self._unreadable(task, error)
            self.more |= expiry.more

    def commit_ends(self, end: CommitEnd) -> None:
        """Make the next commit smaller after one that failed."""
        done, self._in_commit = self._in_commit, Amount()
        if end is CommitEnd.DONE:
            self._size.grow(done)
        elif end is CommitEnd.FAILED and done.records:
            self._size.shrink(done)
