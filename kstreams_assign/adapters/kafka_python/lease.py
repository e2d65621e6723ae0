"""The lease: until when the broker has surely kept this member, as far as its answers tell.

A broker removes a member that was silent for a session, and one that has not joined a rebalance within the rebalance
timeout (``max_poll_interval_ms``). Heartbeats go on meanwhile, so the second does not follow from the first. A
rebalance begins after each request that the broker answers without ``REBALANCE_IN_PROGRESS``: a heartbeat, or
SyncGroup. The timeout is the longest of the group's members, so this member's own may end earlier, and never later.

kafka-python counts a session from when an answer was *read*. A process that slept reads, on waking, an answer that lay
in its socket all the while, and would take its session for alive; so here both count from when the answered request was
*sent*. The broker restarts the session when it answers Heartbeat and SyncGroup, which is later. Looking for the
coordinator restarts nothing, whatever kafka-python notes then.

kafka-python's times are ``time.monotonic``'s, which stands still while the machine is suspended; the broker's go on. So
what a suspension took is added, from when it was noticed: a moment that may lie before it or behind it is taken for the
earlier one.
"""

from __future__ import annotations

import time
from math import inf
from typing import Any

from kafka.errors import RebalanceInProgressError

from kstreams_assign.adapters.clock import suspended_s

_NEWS_S = 0.1
"""Two clocks are not read at the same time; a suspension is longer."""


class Lease:
    """Watches a coordinator's heartbeats and SyncGroups. Make it before the member joins."""

    def __init__(self, coordinator: Any, session_timeout_s: float, rebalance_timeout_s: float) -> None:
        self._session_timeout_s, self._rebalance_timeout_s = session_timeout_s, rebalance_timeout_s
        self._answered_s = self._settled_s = -inf
        """When the newest request was sent that was answered; and that was answered without a rebalance."""
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
        if self._settled_s == -inf:
            return 0.0
        ends_s = min(self._answered_s + self._session_timeout_s, self._settled_s + self._rebalance_timeout_s)
        return ends_s - time.monotonic() - self._notice_suspension()

    def _renew(self, sent_s: float, *, rebalances: bool = False) -> None:
        before_s = next(total_s for at_s, total_s in reversed(self._suspensions) if at_s <= sent_s)
        self._answered_s = max(sent_s + before_s, self._answered_s)
        if not rebalances:
            self._settled_s = max(sent_s + before_s, self._settled_s)

    def _notice_suspension(self) -> float:
        """For how long the machine has been suspended by now."""
        total_s = suspended_s()
        if total_s > self._suspensions[-1][1] + _NEWS_S:
            self._suspensions.append((time.monotonic(), total_s))
        return total_s
