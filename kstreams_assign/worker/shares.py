"""What each task brings into a commit, as the records that are sent for it in their order.

What must not live here: sending them, and what becomes of those that are refused (``refusals``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks import dead_letters
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.stamped import value_of
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.running import Work


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a commit. ``landed`` is called once its writes are in the store.

    ``letters``: how many of its records are dead letters.
    ``timestamped`` are names of stores. ``sourced``: input partitions that are also a store's changelog; the store
    holds them up to the committed offset.
    """

    task: TaskId
    stores: TaskStores | None
    changelogs: Mapping[str, TopicPartition]
    timestamped: frozenset[str]
    work: Work
    landed: Callable[[], None]
    sourced: frozenset[TopicPartition] = frozenset()
    letters: int = 0

    def write(self, acknowledged: Mapping[TopicPartition, int]) -> None:
        """Write into the store what the commit took, with the next offsets of its changelogs. Raises ``StateError``."""
        writes = self.work.taken.writes
        if self.stores is not None and (writes or self.sourced):
            mine = set(self.changelogs.values())
            offsets = {p: offset for p, offset in acknowledged.items() if p in mine}
            offsets |= {p: offset for p, offset in self.work.offsets.items() if p in self.sourced}
            self.stores.write({store: entries.items() for store, entries in writes.items()}, offsets)
        self.landed()


def count_letters(rows: Iterable[Row], topic: str | None) -> int:
    """Return how many rows are dead letters to ``topic``; other records that a function emits to it are none."""
    if topic is None:
        return 0
    headers_of_rows = [row[3] for row in rows if row[0] == topic]
    return sum(any(name == dead_letters.TOPIC for name, _ in headers) for headers in headers_of_rows)


def rows_in_order(shares: Sequence[Share], *, last_follow: bool) -> Iterator[tuple[Iterator[Row], bool]]:
    """Yield the records of a commit in order, in runs, and whether the offsets of a run count.

    ``last_follow``: those that follow everything else are left out (``last_rows``).
    """
    for share in shares:
        for store in share.work.taken.writes:
            if store in share.changelogs:
                yield _changelog_rows(share, store, _first_writes(share, store, last_follow=last_follow)), True
        yield islice(share.work.taken.emitted, share.work.taken.ahead, None), False


def last_rows(shares: Sequence[Share]) -> Iterator[Iterator[Row]]:
    """Yield the changelog records that must not arrive unless everything else has."""
    for share in shares:
        for store, keys in share.work.taken.last.items():
            if store in share.changelogs:
                writes = share.work.taken.writes[store]
                yield _changelog_rows(share, store, {key: writes[key] for key in writes if key in keys})


def _first_writes(share: Share, store: str, *, last_follow: bool) -> Mapping[bytes, bytes | None]:
    writes, last = share.work.taken.writes[store], share.work.taken.last.get(store)
    if last is None or not last_follow:
        return writes
    return {key: value for key, value in writes.items() if key not in last}


def _changelog_rows(share: Share, store: str, entries: Mapping[bytes, bytes | None]) -> Iterator[Row]:
    """The time of a write is its record's, so a timestamped store's changelog holds the bare value."""
    topic, partition = share.changelogs[store]
    times = share.work.taken.times[store]
    values: Iterable[bytes | None] = entries.values()
    if store in share.timestamped:
        values = (None if stored is None else value_of(stored) for stored in values)
    return zip(  # C calls only, for each record of a commit
        *(repeat(topic), entries, values, repeat(()), repeat(partition), map(times.__getitem__, entries)), strict=False
    )
