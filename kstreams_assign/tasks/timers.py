"""Keyed timers of one task: how its store keeps them, and which are due. Pure: entries and times come from the caller.

The store has two entries for a timer. One is ordered by time (``t``, time, name, key), and all that have one are to be
fired. Its value is empty, or the time at which a timer was set whose own time was past by then. The other (``k``, name,
key) says for when the timer is set, so that ``set`` replaces it.

The next timers are also in memory, so that nothing is read while none is due: all entries before a *horizon*. When they
are used up, one range read brings the next ones and moves the horizon; a task that begins reads its first ones so. A
timer that was replaced or cancelled stays in memory until it is the next one, and is skipped then.

Writes are made in an order of which each first part is sound: at least once, a crash may keep only a first part of a
commit's changelog records. A fired timer is deleted *last*, once what its call wrote has arrived.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import NamedTuple, Protocol

TIME_MAX = 2**63 - 1
NAME_BYTES_MAX = 255
AHEAD = 1_000
"""Timers that one range read brings into memory; at most twice as many are kept there."""

_BY_TIME, _BEYOND, _BY_KEY = b"t", b"u", b"k"
_TIME, _NAME = struct.Struct(">Q"), struct.Struct(">B")


class Timer(NamedTuple):
    """A timer of a key: ``at_ms`` on the clock of its subtopology. A key has one timer of each name."""

    key: bytes
    at_ms: int
    name: str = ""


class TakenTimers(list[Timer]):
    """Timers for one call, in the order of their times.

    ``fired``: so many, the first, have fired. That is all, unless the call reads one after the other: then those that
    it has read. ``withdrawn``: those that the call has cancelled, or set for another time, before they fired.
    """

    __slots__ = ("fired", "withdrawn")

    def __init__(self, timers: Iterable[Timer] = ()) -> None:
        super().__init__(timers)
        self.fired = len(self)
        self.withdrawn: set[Timer] = set()


class Entries(Protocol):
    """The store of the timers, with the writes that wait for the commit."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def delete_last(self, key: bytes) -> None:
        """Delete as ``delete`` does; at least once the changelog gets it after all that is committed with it."""
        ...


def time_key(timer: Timer) -> bytes:
    """Return the key of the entry that is ordered by time."""
    return _BY_TIME + _TIME.pack(timer.at_ms) + _named(timer.name, timer.key)


def read_time_key(entry: bytes) -> Timer:
    """Return the timer of an entry that is ordered by time."""
    (at_ms,) = _TIME.unpack_from(entry, 1)
    (length,) = _NAME.unpack_from(entry, 9)
    return Timer(entry[10 + length :], at_ms, entry[10 : 10 + length].decode())


def index_key(key: bytes, name: str) -> bytes:
    """Return the key of the entry that says for when a timer is set."""
    return _BY_KEY + _named(name, key)


def pending(entries: Entries) -> Iterator[Timer]:
    """Yield all timers that a store keeps, in the order of their times."""
    return (read_time_key(key) for key, _ in entries.range(_BY_TIME, _BEYOND))


def _index_of(key: bytes) -> bytes:
    """Return the key of the other entry of a timer."""
    return _BY_KEY + key[9:]


def _named(name: str, key: bytes) -> bytes:
    encoded = name.encode()
    return _NAME.pack(len(encoded)) + encoded + key


class TimerQueue:
    """Set, cancel and take the timers of one task.

    ``done`` deletes a timer that was taken, or the next ``set`` or ``cancel`` of its key. Until it has fired
    (``TakenTimers``), it is set as any other. ``ahead`` is how many timers a range read brings.
    """

    def __init__(self, entries: Entries, ahead: int = AHEAD) -> None:
        self._entries = entries
        self._ahead = ahead
        self._front: list[bytes] = []
        """A heap of time keys, with all of the store's before the horizon."""
        self._horizon = _BY_TIME
        self._gone: set[bytes] = set()
        """Those of the heap that were replaced or cancelled."""
        self._taken: set[bytes] = set()
        self._call = TakenTimers()
        """Those that were taken last."""
        self._alone: set[bytes] = set()
        """Those of the heap, and taken ones, that a crash has left beside a timer of another time."""
        self._is_sure = True
        """What is in memory is what the store has."""
        self._late: dict[bytes, int] = {}
        """When those timers in memory were set whose time was past by then."""

    def set(self, timer: Timer, now_ms: int = 0) -> None:
        """Set a timer in place of the key's earlier one of that name. ``now_ms``: see ``since_ms``."""
        index, new = index_key(timer.key, timer.name), time_key(timer)
        earlier = self._set_for(index, timer)
        if earlier is not None and earlier != new:
            self._delete(earlier)
        self._entries.put(index, _TIME.pack(timer.at_ms))
        self._entries.put(new, _TIME.pack(now_ms) if now_ms > timer.at_ms else b"")
        self._gone.discard(new)
        self._alone.discard(new)
        self._late.pop(new, None)
        if new in self._taken and not self._has_fired(new):  # it keeps its place in the call
            if now_ms > timer.at_ms:
                self._late[new] = now_ms
            return
        self._taken.discard(new)
        if new < self._horizon:
            heappush(self._front, new)
            if now_ms > timer.at_ms:
                self._late[new] = now_ms
            if len(self._front) > 2 * self._ahead:
                self._shorten()

    def cancel(self, key: bytes, name: str) -> bool:
        """Delete a timer; return whether there was one that had not fired."""
        index = index_key(key, name)
        earlier = self._set_for(index, Timer(key, 0, name))
        if earlier is None:
            return False
        is_set = not self._has_fired(earlier) and self._entries.get(earlier) is not None
        self._delete(earlier)
        self._entries.delete(index)
        return is_set

    def _delete(self, key: bytes) -> None:
        if key not in self._taken:
            self._entries.delete(key)
            if key < self._horizon:
                self._gone.add(key)
            return
        if self._has_fired(key):
            self._entries.delete_last(key)
        else:
            self._entries.delete(key)
            self._call.withdrawn.add(read_time_key(key))
        self._taken.remove(key)
        self._late.pop(key, None)

    def _has_fired(self, key: bytes) -> bool:
        """Return whether a timer was taken and has fired; those that were taken before the last call have."""
        call = self._call
        return key in self._taken and (call.fired == len(call) or key < time_key(call[call.fired]))

    def get(self, key: bytes, name: str) -> int | None:
        """Return for when a timer is set, or None.

        It will fire only if the store has its time, too: a process may have died between the two writes.
        """
        earlier = self._set_for(index_key(key, name), Timer(key, 0, name))
        if earlier is None or self._has_fired(earlier) or self._entries.get(earlier) is None:
            return None
        return read_time_key(earlier).at_ms

    def _set_for(self, index: bytes, timer: Timer) -> bytes | None:
        """Return the time key of a timer that is set; it may be taken."""
        at = self._entries.get(index)
        return None if at is None else time_key(timer._replace(at_ms=_TIME.unpack(at)[0]))

    # --- what is due -------------------------------------------------------------------

    def due_ms(self) -> int | None:
        """Return when the next timer is due; None if there is none.

        It reads nothing, so it is 0 while the next timers are not in memory: ``take`` reads them. It may also be the
        time of a timer that was replaced or cancelled and then undone.
        """
        self._drop_gone()
        if self._front:
            return read_time_key(self._front[0]).at_ms
        return 0 if self._horizon < _BEYOND else None

    def first_ms(self) -> int | None:
        """Return a time before which none is due that is not done, taken ones included; by ``since_ms``, not by times.

        0 while the next timers are not in memory, as for ``due_ms``; None if there is no timer.
        """
        due_ms = self.due_ms()
        if not (self._taken or self._late):
            return due_ms
        if not self._front and due_ms is not None:
            return due_ms
        left = (key for key in chain(self._front, self._taken) if key not in self._gone)
        return min(map(self._since_ms, left), default=None)

    def since_ms(self, timer: Timer) -> int:
        """Return since when a timer that was taken is due: its time, or when it was set if its time was past then."""
        return self._since_ms(time_key(timer)) if self._late else timer.at_ms

    def _since_ms(self, key: bytes) -> int:
        since_ms = self._late.get(key)
        return read_time_key(key).at_ms if since_ms is None else since_ms

    def take(self, now_ms: int, timers_max: int) -> TakenTimers:
        """Return the next timers with ``at_ms <= now_ms``, at most so many, ordered by time, then name and key."""
        end = _BY_TIME + _TIME.pack(now_ms + 1)
        taken: list[bytes] = []
        while len(taken) < timers_max:
            next_ones = self._pop(end, timers_max - len(taken))
            if not next_ones:
                break
            if not self._is_sure:
                next_ones = self._stored(next_ones)
            taken += next_ones
        self._taken.update(taken)
        self._call = TakenTimers(map(read_time_key, taken))
        return self._call

    def _stored(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return those that the store has, and forget since when the others are due."""
        values = self._entries.get_many(keys)
        for key in (key for key, value in zip(keys, values, strict=True) if value is None):
            self._late.pop(key, None)
        return [key for key, value in zip(keys, values, strict=True) if value is not None]

    def _pop(self, end: bytes, keys_max: int) -> list[bytes]:
        """Remove the next keys before ``end`` from memory."""
        popped: list[bytes] = []
        if not (self._front or self._taken):
            self._alone.clear()
            self._is_sure = True
        while len(popped) < keys_max:
            self._drop_gone()
            while not self._front and self._horizon < _BEYOND:
                self._read_ahead()
            if not self._front or self._front[0] >= end:
                break
            key = self._pop_first()
            if key not in self._taken:
                popped.append(key)
        return popped

    def done(self, timers: Collection[Timer]) -> int:
        """Delete timers that were taken, as far as they were not set or cancelled since; return how many have fired."""
        keys = [key for key in map(time_key, timers) if key in self._taken]
        self._taken.difference_update(keys)
        alone = self._alone if self._is_sure else self._without_index(keys)
        for key in keys:
            self._late.pop(key, None)
            self._entries.delete_last(key)
            if key not in alone:
                self._entries.delete_last(_index_of(key))
        self._alone.difference_update(keys)
        fired, self._call = len(timers) - len(self._call.withdrawn), TakenTimers()
        return fired

    def _without_index(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """Return those whose key has a timer of another time, or none."""
        times = self._entries.get_many(list(map(_index_of, keys)))
        return [key for key, at in zip(keys, times, strict=True) if at != key[1:9]]

    def take_again(self, timers: Iterable[Timer]) -> None:
        """Take timers that were taken before, also those set again since: that was undone."""
        self._taken.update(map(time_key, timers))
        self._call = TakenTimers()
        self._is_sure = False

    def undo(self) -> None:
        """Writes were undone, and nothing was taken or asked for since before them."""
        self._gone.clear()
        self._is_sure = False

    def forget(self) -> None:
        """Read the store again: writes were undone. What was taken is due again."""
        self._front, self._horizon = [], _BY_TIME
        self._gone.clear()
        self._taken.clear()
        self._call = TakenTimers()
        self._alone.clear()
        self._late.clear()
        self._is_sure = True

    def _drop_gone(self) -> None:
        while self._front and self._front[0] in self._gone:
            key = self._pop_first()
            self._gone.remove(key)
            self._late.pop(key, None)

    def _pop_first(self) -> bytes:
        """Remove the next key from memory, where it may be more than once."""
        key = heappop(self._front)
        while self._front and self._front[0] == key:
            heappop(self._front)
        return key

    def _read_ahead(self) -> None:
        read = list(islice(self._entries.range(self._horizon, _BEYOND), self._ahead + 1))
        self._horizon = read.pop()[0] if len(read) > self._ahead else _BEYOND
        keys = [key for key, _ in read]
        self._front = [key for key in keys if key not in self._taken]
        self._alone.update(self._without_index(keys))
        self._late |= {key: _TIME.unpack(value)[0] for key, value in read if value}

    def _shorten(self) -> None:
        """Keep only the first ones in memory; the others are read again in their turn."""
        kept = sorted(set(self._front))
        if len(kept) > self._ahead:
            self._horizon = kept[self._ahead]
            for key in kept[self._ahead :]:
                self._late.pop(key, None)
        self._front = kept[: self._ahead]
        self._gone.intersection_update(self._front)
        heapify(self._front)
