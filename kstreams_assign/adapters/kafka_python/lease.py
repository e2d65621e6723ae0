"""Renews the lease of a member of a classic group (``group.lease``) by the answers that kafka-python gets.

A rebalance begins after each request that the broker answers without ``REBALANCE_IN_PROGRESS``: a heartbeat, or
SyncGroup. Its timeout is ``max_poll_interval_ms``.

kafka-python counts a session from when an answer was *read*. A process that slept reads, on waking, an answer that lay
in its socket all the while, and would take its session for alive. Looking for the coordinator restarts nothing,
whatever kafka-python notes then.

kafka-python's times are ``time.monotonic``'s, which stands still while the machine is suspended; the broker's go on. So
what a suspension took is added, from when it was noticed: a moment that may lie before it or behind it is taken for the
earlier one.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.errors import RebalanceInProgressError

from kstreams_assign.adapters.clock import suspended_s
from kstreams_assign.group.lease import Lease

_NEWS_S = 0.1
"""Two clocks are not read at the same time; a suspension is longer."""


class WatchedLease:
    """Watches a coordinator's heartbeats and SyncGroups. Make it before the member joins."""

    def __init__(self, coordinator: Any, session_timeout_s: float, rebalance_timeout_s: float) -> None:
        self._timeouts_ms = int(session_timeout_s * 1000), int(rebalance_timeout_s * 1000)
        self._lease = Lease()
        """By a clock that goes on while the machine is suspended."""
        self._suspensions: list[tuple[float, float]] = [(0.0, suspended_s())]  # noticed when, and the sum by then
        sent = coordinator.heartbeat.sent_heartbeat
        handle, process_sync = coordinator._handle_heartbeat_response, coordinator._process_sync_group_response

        def sent_heartbeat() -> None:
            self._notice_suspension()
            sent()

        def handle_heartbeat_response(response: Any, send_time: float) -> None:
            try:
                handle(response, send_time)  # raises for an error code
            except RebalanceInProgressError:
                self._renew(send_time, rebalances=True)
                raise
            self._renew(send_time)

        def process_sync_group_response(response: Any, send_time: float) -> Any:
            assignment = process_sync(response, send_time)  # raises for a refusal
            self._renew(send_time)
            return assignment

        coordinator.heartbeat.sent_heartbeat = sent_heartbeat
        coordinator._handle_heartbeat_response = handle_heartbeat_response
        coordinator._process_sync_group_response = process_sync_group_response

    def left_s(self) -> float:
        """Seconds until the broker may give the tasks away; negative once it may have, 0 before the first join."""
        ends_ms = self._lease.ends_ms(*self._timeouts_ms)
        return 0.0 if ends_ms is None else ends_ms / 1000 - time.monotonic() - self._notice_suspension()

    def _renew(self, sent_s: float, *, rebalances: bool = False) -> None:
        before_s = next(total_s for at_s, total_s in reversed(self._suspensions) if at_s <= sent_s)
        self._lease.renew(int((sent_s + before_s) * 1000), settled=not rebalances)

    def _notice_suspension(self) -> float:
        """For how long the machine has been suspended by now."""
        total_s = suspended_s()
        if total_s > self._suspensions[-1][1] + _NEWS_S:
            self._suspensions.append((time.monotonic(), total_s))
        return total_s
