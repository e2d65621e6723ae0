"""A queue of clients by load, whose loads change while they wait (Kafka: ``ConstrainedPrioritySet``).

In Java a client's load may fall while it waits in the queue, and another client is offered before its place is
corrected. The queue can stay out of order after that, and then the next client depends on the array's layout. This is
rare, but equality with Java requires the layout in these cases. ``ClientsByLoad`` uses the keys alone while the order
is certain, records the operations, and lets ``Layout`` repeat them exactly where the order is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

from kstreams_assign.assign.java.hash_table import may_crowd, spread, table_size, walk_order
from kstreams_assign.assign.java.heap import in_order, poll, remove
from kstreams_assign.assign.java.plan_table import PlanTable, load_units
from kstreams_assign.assign.java_order import process_hash


class ClientsByLoad:
    """All clients, by replicas per thread and then in order. A key is one number, as in ``load_units``.

    ``doubt`` is the range of keys in which a smaller key may be below a larger key in Java's array; ``None``: no such
    range. It has to grow only where disorder begins: sifting moves such pairs, but their keys stay in the range.
    """

    def __init__(self, table: PlanTable) -> None:
        self.count = table.count
        self.units = load_units(table.capacity)
        self.keys = [self._key(client) for client in range(len(table.clients))]
        self.layout = Layout(self.keys, [spread(process_hash(client.process_id)) for client in table.clients])
        self.pending: list[tuple[Callable[..., object], Any]] = []
        self.doubt: tuple[int, int] | None = None
        self.polled: int | None = None

    def _key(self, client: int) -> int:
        return self.count[client] * self.units[client] + client

    def poll(self, eligible: Collection[int]) -> int | None:
        """Remove and return the first eligible client, or None. The others stay."""
        if eligible:
            self.polled = self._first(eligible)
        else:
            self._refill()
        return self.polled

    def _refill(self) -> None:
        """Handle a poll without eligible clients: Java removes and re-inserts all, which puts the queue in order."""
        self.polled = None
        if self.doubt:
            self.pending.append((self.layout.poll, ()))
        else:
            self.pending = [(self.layout.refill, self.keys.copy())]
        self.doubt = None

    def _first(self, eligible: Collection[int]) -> int | None:
        keys = [self.keys[client] for client in eligible]
        least = min(keys)
        if self.doubt and len(keys) > 1 and least >= self.doubt[0] and sorted(keys)[1] <= self.doubt[1]:
            self._catch_up()
            return self.layout.poll(eligible)
        first = least % len(self.keys)
        self.pending.append((self.layout.take, first))
        return first

    def _catch_up(self) -> None:
        for step, what in self.pending:
            step(what)
        self.pending = []
        if self.layout.in_order:
            self.doubt = None

    def offer_changed(self, source: int, destination: int) -> None:
        """Offer both clients of a movement again after their loads changed. The destination never left the queue."""
        before, after, key = self.keys[destination], self._key(destination), self._key(source)
        self.keys[source], self.keys[destination] = key, after
        offered = key if source == self.polled else after
        slips = after < before and self._doubt(offered, after, before)
        self.pending.append((self.layout.offer_changed, (source, destination, key, after, slips)))
        self.polled = None

    def _doubt(self, offered: int, after: int, before: int) -> bool:
        """Return whether the offered client may be below the destination, whose new key is smaller; widen ``doubt``."""
        low, high = self.doubt or (offered, before)
        slips = after <= offered < max(before, high)
        if slips:
            self.doubt = (min(low, offered), max(high, before))
        return slips


class Layout:
    """The array of Java's queue. While the heap is in order, ``heapq`` pops as Java polls (all keys are distinct)."""

    def __init__(self, keys: Sequence[int], hashes: Sequence[int]) -> None:
        self.keys = list(keys)
        self.hashes = hashes
        self.crowds = may_crowd(hashes)
        self.buckets: dict[int, list[int]] = {}
        self.heap: list[int] = []
        self.in_order = True
        self.polled: int | None = None
        for key in keys:
            heappush(self.heap, key)

    def take(self, first: int) -> None:
        """Remove ``first``, which is known to be the first eligible client."""
        if not self.in_order:
            self.poll((first,))
            return
        passes = sum(map(self.keys[first].__gt__, self.heap))
        passed = list(map(heappop, repeat(self.heap, passes)))
        heappop(self.heap)
        self.polled = first
        self._offer_passed([key % len(self.keys) for key in passed])

    def poll(self, eligible: Container[int]) -> int | None:
        """Remove the first eligible client. Skipped clients are offered again in the order of Java's hash set."""
        passed: list[int] = []
        self.polled = None
        take = heappop if self.in_order else poll
        while self.heap and self.polled is None:
            client = take(self.heap) % len(self.keys)
            if client in eligible:
                self.polled = client
            else:
                passed.append(client)
        self._offer_passed(passed)
        self.in_order = self.in_order or in_order(self.heap)
        return self.polled

    def refill(self, keys: list[int]) -> None:
        """Rebuild the array as a poll without result leaves it, whatever it was before."""
        self.keys, self.heap, self.polled, self.in_order = keys, [], None, True
        self._offer_passed([key % len(keys) for key in sorted(keys)])

    def _offer_passed(self, passed: list[int]) -> None:
        if self.crowds:
            passed = walk_order(passed, [self.hashes[client] for client in passed], int)
        else:
            passed.sort(key=self._buckets(table_size(len(passed))).__getitem__)
        for key in map(self.keys.__getitem__, passed):
            heappush(self.heap, key)

    def _buckets(self, size: int) -> list[int]:
        """Return the bucket of each client in a table of this size."""
        if size not in self.buckets:
            self.buckets[size] = [hashed & (size - 1) for hashed in self.hashes]
        return self.buckets[size]

    def offer_changed(self, change: tuple[int, int, int, int, bool]) -> None:
        """Give both clients their new keys in place, then remove each, if inside, and offer it again.

        ``change``: source and destination, their keys, and whether the queue may get out of order.
        """
        source, destination, key, after, slips = change
        heap, keys = self.heap, self.keys
        waits = source != self.polled
        if waits:
            heap[heap.index(keys[source])] = key
        heap[heap.index(keys[destination])] = after
        keys[source], keys[destination] = key, after
        if waits:
            remove(heap, heap.index(key))
        heappush(heap, key)
        remove(heap, heap.index(after))
        heappush(heap, after)
        self.polled = None
        self.in_order = (self.in_order and not slips) or in_order(heap)
