"""Clients waiting by load while their loads change (Kafka: ``ConstrainedPrioritySet`` over ``PriorityQueue``).

In Java a client's load may fall while it waits inside the queue, and another one is offered before it is put right. The
queue can stay out of order after that: who comes next then depends on the array's layout. That is rare, but to be equal
to Java the layout must be had when it counts. So ``ClientsByLoad`` answers from the keys alone where order is certain,
notes what happened, and lets ``Layout`` do it all over, exactly, where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

from kstreams_assign.assign.board import Board, load_units
from kstreams_assign.assign.java_hash_table import may_crowd, spread, table_size, walk_order
from kstreams_assign.assign.java_heap import in_order, poll, remove
from kstreams_assign.assign.java_order import process_hash


class ClientsByLoad:
    """All clients, by copies per thread and then in order.

    A key is one number, as ``load_units`` says.

    ``doubt`` is the range of keys in which a lesser one may stand below a greater one in Java's array; ``None``: nowhere.
    It is enough to widen it where that begins: sifting moves such pairs about, but their keys stay in the range.
    """

    def __init__(self, board: Board) -> None:
        self.count = board.count
        self.units = load_units(board.capacity)
        self.keys = [self._key(client) for client in range(len(board.clients))]
        self.layout = Layout(self.keys, [spread(process_hash(client.process_id)) for client in board.clients])
        self.pending: list[tuple[Callable[..., object], Any]] = []
        self.doubt: tuple[int, int] | None = None
        self.polled: int | None = None

    def _key(self, client: int) -> int:
        return self.count[client] * self.units[client] + client

    def poll(self, eligible: Collection[int]) -> int | None:
        """Take out the first eligible client, if any. The others stay."""
        if eligible:
            self.polled = self._first(eligible)
        else:
            self._refill()
        return self.polled

    def _refill(self) -> None:
        """Nobody is eligible: Java takes all out and puts all in again, which leaves the queue in order."""
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
        """Offer both clients of a movement again after their loads changed. The destination was inside all the time."""
        before, after, key = self.keys[destination], self._key(destination), self._key(source)
        self.keys[source], self.keys[destination] = key, after
        offered = key if source == self.polled else after
        slips = after < before and self._doubt(offered, after, before)
        self.pending.append((self.layout.offer_changed, (source, destination, key, after, slips)))
        self.polled = None

    def _doubt(self, offered: int, after: int, before: int) -> bool:
        """What was offered may have come to rest below the destination, whose new key is less, while a parent's is not."""
        low, high = self.doubt or (offered, before)
        slips = after <= offered < max(before, high)
        if slips:
            self.doubt = (min(low, offered), max(high, before))
        return slips


class Layout:
    """The array of Java's queue. ``heapq`` pops as Java polls while the heap is in order (all keys are distinct)."""

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
        """Take out the first eligible client, which is known."""
        if not self.in_order:
            self.poll((first,))
            return
        passes = sum(map(self.keys[first].__gt__, self.heap))
        passed = list(map(heappop, repeat(self.heap, passes)))
        heappop(self.heap)
        self.polled = first
        self._offer_passed([key % len(self.keys) for key in passed])

    def poll(self, eligible: Container[int]) -> int | None:
        """Take out the first eligible client. Those passed over are offered again in the order of Java's hash set."""
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
        """What a vain poll of a queue in order leaves, whatever the array was before."""
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
        """The bucket of each client in a table of that size."""
        if size not in self.buckets:
            self.buckets[size] = [hashed & (size - 1) for hashed in self.hashes]
        return self.buckets[size]

    def offer_changed(self, change: tuple[int, int, int, int, bool]) -> None:
        """Both get their new keys where they stand, then each is taken out, if inside, and offered.

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
