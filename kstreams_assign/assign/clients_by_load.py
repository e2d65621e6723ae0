"""Clients waiting by load while their loads change (Kafka: ``ConstrainedPrioritySet`` over ``PriorityQueue``).

In Java the queue is out of order between a change of load and the next offer, and that can stay so: who comes next then
depends on the array's layout. So the layout is kept as Java has it, as fast as the standard library allows.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush
from math import lcm

from kstreams_assign.assign.board import Board
from kstreams_assign.assign.java_heap import in_order, poll, remove
from kstreams_assign.assign.java_order import process_hash, spread, table_size


class ClientsByLoad:
    """All clients, by copies per thread and then in order.

    A key is one number: copies times threads' common multiple over threads, then the client. Equal quotients of counts by
    threads are equal doubles in Java and distinct ones are distinct, so the numbers compare as Java's doubles do.
    """

    def __init__(self, board: Board) -> None:
        common = lcm(*board.capacity)
        self.count = board.count
        self.clients = len(board.clients)
        self.units = [common // capacity * self.clients for capacity in board.capacity]
        self.hashes = [spread(process_hash(client.process_id)) for client in board.clients]
        self.keys = [self._key(client) for client in range(self.clients)]
        self.heap: list[int] = []
        self.in_order = True
        self.polled: int | None = None
        for key in self.keys:
            heappush(self.heap, key)

    def _key(self, client: int) -> int:
        return self.count[client] * self.units[client] + client

    def poll(self, eligible: Container[int]) -> int | None:
        """Take out the first eligible client. Those passed over are offered again in the order of Java's hash set."""
        passed: list[int] = []
        self.polled = None
        take = heappop if self.in_order else poll
        while self.heap and self.polled is None:
            client = take(self.heap) % self.clients
            if client in eligible:
                self.polled = client
            else:
                passed.append(client)
        mask = table_size(len(passed)) - 1
        passed.sort(key=lambda client: self.hashes[client] & mask)
        for client in passed:
            heappush(self.heap, self.keys[client])
        self.in_order = self.in_order or in_order(self.heap)
        return self.polled

    def offer_changed(self, source: int, destination: int) -> None:
        """Offer both clients of a movement again, after their loads have changed; both may be inside or polled."""
        fell = self._key(destination) < self.keys[destination]
        inside = [client for client in (source, destination) if client != self.polled]
        for client in inside:
            self._change_inside(client)
        for client in (source, destination):
            if client in inside:
                remove(self.heap, self.heap.index(self.keys[client]))
            self.keys[client] = self._key(client)
            heappush(self.heap, self.keys[client])
        self.polled = None
        if fell or not self.in_order:
            self.in_order = in_order(self.heap)

    def _change_inside(self, client: int) -> None:
        """A client's new load shows where it stands: nothing moves."""
        key = self._key(client)
        self.heap[self.heap.index(self.keys[client])] = key
        self.keys[client] = key
