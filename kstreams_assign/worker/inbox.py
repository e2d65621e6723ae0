"""The orders that a thread gets, from others and from itself. What must not live here: what an order does."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Order = Callable[[], None]


class Inbox:
    """Orders in the order in which they came. ``put`` may be called from any thread, all else from the owner's."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Order, bool]] = queue.SimpleQueue()
        self._closing = threading.RLock()  # a signal handler may interrupt a put, and put an order itself
        self._closed = False
        self._thread: int | None = None
        self._own = 0
        """Orders of the owner's own that wait."""

    def put(self, order: Order) -> bool:
        """Leave an order. Return whether it will be carried out: not once the inbox is closed."""
        with self._closing:
            if self._closed:
                return False
            own = self._thread == threading.get_ident()
            if own:
                self._own += 1  # by the owner alone
            self._orders.put((order, own))
            return True

    @property
    def empty(self) -> bool:
        """Whether no order waits; from any thread."""
        return self._orders.empty()

    def carry_out(self, timeout_s: float = 0.0) -> None:
        """Carry out the orders that have come, and wait so many seconds for the first.

        What other threads order meanwhile is left for the next time, as it may go on without end. What an order makes
        the owner order itself is carried out, too, with all that came before it.
        """
        self._thread = threading.get_ident()
        try:
            order = self._take(timeout_s)
        except queue.Empty:
            return
        left = self._orders.qsize()
        order()
        while left > 0 or self._own:
            order = self._take(0.0)
            left -= 1
            order()

    def settle(self) -> None:
        """Carry out all orders, also on another thread once the owner has ended."""
        while not self.empty:
            self._take(0.0)()

    def close(self) -> None:
        """Carry out all orders, as ``settle`` does, and take no more."""
        with self._closing:
            self._closed = True
        self.settle()

    def _take(self, timeout_s: float) -> Order:
        order, own = self._orders.get(timeout=timeout_s) if timeout_s else self._orders.get_nowait()
        if own:
            self._own -= 1
        return order
