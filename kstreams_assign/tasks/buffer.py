"""The writes of a task between two commits.

They wait here, seen by the task's own reads, until the commit; then they go to the changelog and, as one batch with the
changelog's new offsets, into the store. Until they are there they are still read here, from a second layer, while new
writes go to the first. An application that dies rolls back by not having committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple


class Emitted(NamedTuple):
    """A record on its way to an output topic; ``partition`` None lets Java's partitioner choose by key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class _Absent:
    """Says that the buffer holds nothing for a key, where None says that the key was deleted."""


class Taken(NamedTuple):
    """What a commit takes, by store: values (None deletes) and, for the same keys, the time of each; and the records to send."""

    writes: Mapping[str, Mapping[bytes, bytes | None]]
    times: Mapping[str, Mapping[bytes, int]]
    emitted: Sequence[Emitted]


ABSENT = _Absent()
_KEY_AND_VALUE = itemgetter(Emitted._fields.index("key"), Emitted._fields.index("value"))
_NOTHING: dict[bytes, bytes | None] = {}


@dataclass(slots=True)
class WriteBuffer:
    """Newest write per store and key, and the emitted records in order. ``None`` as a value deletes.

    ``times`` has the milliseconds of each of ``writes``: what its changelog record will carry.
    ``leaving`` is what ``take`` took and ``landed`` has not yet said to be in the store.
    """

    writes: dict[str, dict[bytes, bytes | None]] = field(default_factory=partial(defaultdict, dict))
    times: dict[str, dict[bytes, int]] = field(default_factory=partial(defaultdict, dict))
    leaving: dict[str, dict[bytes, bytes | None]] = field(default_factory=dict)
    emitted: list[Emitted] = field(default_factory=list)

    def put(self, store: str, key: bytes, value: bytes | None, time_ms: int) -> None:
        self.writes[store][key] = value
        self.times[store][key] = time_ms

    def put_many(self, store: str, entries: Mapping[bytes, bytes | None], times_ms: Mapping[bytes, int]) -> None:
        """``times_ms`` has the same keys."""
        self.writes[store].update(entries)
        self.times[store].update(times_ms)

    def get(self, store: str, key: bytes) -> bytes | _Absent | None:
        newest = self.writes.get(store, _NOTHING).get(key, ABSENT)
        return self.leaving.get(store, _NOTHING).get(key, ABSENT) if newest is ABSENT else newest

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | _Absent | None]:
        """As ``get``, for many keys."""
        writes, leaving = self.writes.get(store, _NOTHING), self.leaving.get(store, _NOTHING)
        found: list[bytes | _Absent | None] = list(map(writes.get, keys, repeat(ABSENT)))
        if leaving:
            older = map(leaving.get, keys, repeat(ABSENT))
            return [old if new is ABSENT else new for new, old in zip(found, older, strict=True)]
        return found

    def overlay(
        self,
        store: str,
        stored: Iterator[tuple[bytes, bytes]],
        start: bytes | None,
        end: bytes | None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Stored entries of a range, in the order they come, with this buffer's writes laid over them.

        Reads of ``stored`` no more than is asked for; ``reverse`` says that it comes in the opposite of byte order.
        """
        ours = {**self.leaving.get(store, _NOTHING), **self.writes.get(store, _NOTHING)}
        keys = [k for k in ours if (start is None or start <= k) and (end is None or k < end)]
        written = [(key, ours[key]) for key in sorted(keys, reverse=reverse)]
        hidden = ((key, value) for key, value in stored if key not in ours)
        merged = merge(hidden, written, key=itemgetter(0), reverse=reverse)
        return ((key, value) for key, value in merged if value is not None)

    def take(self) -> Taken:
        """Begin a commit: answer with what is here, which goes on being read until ``landed``."""
        taken = Taken(self.writes, self.times, self.emitted)
        self.leaving = self.writes
        self.drop()
        return taken

    def landed(self) -> None:
        """What ``take`` took is in the store now."""
        self.leaving = {}

    def drop(self) -> None:
        """Forget what no ``take`` took."""
        self.writes, self.times, self.emitted = defaultdict(dict), defaultdict(dict), []

    def size_bytes(self) -> int:
        """Keys and values that no ``take`` took, without headers."""
        keys = chain.from_iterable(self.writes.values())
        values = chain.from_iterable(entries.values() for entries in self.writes.values())
        sent = chain.from_iterable(map(_KEY_AND_VALUE, self.emitted))
        return sum(map(len, filter(None, chain(keys, values, sent))))

    def __len__(self) -> int:
        return sum(map(len, self.writes.values())) + len(self.emitted)
