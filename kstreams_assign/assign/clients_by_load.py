"""Clients waiting by load while their loads change (Kafka: ``ConstrainedPrioritySet`` over ``PriorityQueue``).

In Java a client's load may fall while it waits inside the queue, and another one is offered before it is put right. The
queue can stay out of order after that: who comes next then depends on the array's layout. That is rare, but to be equal
to Java the layout must be had when it counts. So ``ClientsByLoad`` answers from the keys alone where order is certain,
notes what happened, and lets ``Layout`` do it all over, exactly, where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from functools import partial
from heapq import heappop, heappush
from math import lcm

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.java_hash_table import spread, walk_order
from kstreams_assign.assign.java_heap import in_order, poll, remove
from kstreams_assign.assign.java_order import process_hash


class ClientsByLoad:
    """All clients, by copies per thread and then in order.

    A key is one number: copies times threads' common multiple over threads, then the client. Equal quotients of counts by
    threads are equal doubles in Java and distinct ones are distinct, so the numbers compare as Java's doubles do.

    ``doubt`` is the range of keys in which a lesser one may stand below a greater one in Java's array; ``None``: nowhere.
    It is enough to widen it where that begins: sifting moves such pairs about, but their keys stay in the range.
    """

    def __init__(self, board: Board) -> None:
        common = lcm(*board.capacity)
        self.count = board.count
        self.units = [common // capacity * len(board.clients) for capacity in board.capacity]
        self.keys = [self._key(client) for client in range(len(board.clients))]
        self.layout = Layout(self.keys, [spread(process_hash(client.process_id)) for client in board.clients])
        self.pending: list[Callable[[], object]] = []
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
            self.pending.append(partial(self.layout.poll, ()))
        else:
            self.pending = [partial(self.layout.refill, self.keys.copy())]
        self.doubt = None

    def _first(self, eligible: Collection[int]) -> int | None:
        keys = [self.keys[client] for client in eligible]
        least = min(keys)
        if self.doubt and len(keys) > 1 and least >= self.doubt[0] and sorted(keys)[1] <= self.doubt[1]:
            self._catch_up()
            return self.layout.poll(eligible)
        first = least % len(self.keys)
        self.pending.append(partial(self.layout.poll, (first,)))
        return first

    def _catch_up(self) -> None:
        for step in self.pending:
            step()
        self.pending = []
        if self.layout.in_order:
            self.doubt = None

    def offer_changed(self, source: int, destination: int) -> None:
        """Offer both clients of a movement again after their loads changed. The destination was inside all the time."""
        before, after = self.keys[destination], self._key(destination)
        keys = (self._key(source), after)
        self.pending.append(partial(self.layout.offer_changed, source, destination, keys))
        self.keys[source], self.keys[destination] = keys
        if after < before:
            self._doubt(keys[0] if source == self.polled else after, after, before)
        self.polled = None

    def _doubt(self, offered: int, after: int, before: int) -> None:
        """What was offered may have come to rest below the destination, whose new key is less, while a parent's is not."""
        low, high = self.doubt or (offered, before)
        if after <= offered < max(before, high):
            self.doubt = (min(low, offered), max(high, before))


class Layout:
    """The array of Java's queue. ``heapq`` pops as Java polls while the heap is in order (all keys are distinct)."""

    def __init__(self, keys: Sequence[int], hashes: Sequence[int]) -> None:
        self.keys = list(keys)
        self.hashes = hashes
        self.heap: list[int] = []
        self.in_order = True
        self.polled: int | None = None
        for key in keys:
            heappush(self.heap, key)

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
        for client in walk_order(passed, [self.hashes[client] for client in passed], int):
            heappush(self.heap, self.keys[client])

    def offer_changed(self, source: int, destination: int, keys: tuple[int, int]) -> None:
        """Both get their new keys where they stand, then each is taken out, if inside, and offered."""
        inside = [client != self.polled for client in (source, destination)]
        for client, key, waits in zip((source, destination), keys, inside, strict=True):
            if waits:
                self.heap[self.heap.index(self.keys[client])] = key
            self.keys[client] = key
        for key, waits in zip(keys, inside, strict=True):
            if waits:
                remove(self.heap, self.heap.index(key))
            heappush(self.heap, key)
        self.polled = None
        self.in_order = in_order(self.heap)
