"""The lease: since when the broker has surely kept this member, as far as its answers tell.

kafka-python counts a session from when an answer was *read*. A process that slept reads, on waking, an answer that lay
in its socket all the while, and would take its session for alive; so here it counts from when the answered request was
*sent*. The broker restarts the session when it answers Heartbeat and SyncGroup, which is later. Looking for the
coordinator restarts nothing, whatever kafka-python notes then.

kafka-python's times are ``time.monotonic``'s, which stands still while the machine is suspended; the broker's go on. So
what a suspension took is added, from when it was noticed: a moment that may lie before it or behind it is taken for the
earlier one.
"""

from __future__ import annotations

import time
from typing import Any

from kstreams_assign.adapters.clock import suspended_s

_NEWS_S = 0.1
"""Two clocks are not read at the same time; a suspension is longer."""


class Lease:
    """Watches a coordinator's heartbeats and SyncGroups. Make it before the member joins."""

    def __init__(self, coordinator: Any, session_timeout_s: float) -> None:
        self._session_timeout_s = session_timeout_s
        self._answered_s: float | None = None
        self._suspensions: list[tuple[float, float]] = [(0.0, suspended_s())]  # noticed when, and the sum by then
        heartbeat, process_sync = coordinator.heartbeat, coordinator._process_sync_group_response
        received, sent = heartbeat.received_heartbeat, heartbeat.sent_heartbeat

        def sent_heartbeat() -> None:
            self._notice_suspension()
            sent()

        def received_heartbeat() -> None:
            received()
            self._renew(heartbeat.last_send)

        def process_sync_group_response(response: Any, send_time: float) -> Any:
            assignment = process_sync(response, send_time)  # raises for a refusal
            self._renew(send_time)
            return assignment

        heartbeat.sent_heartbeat, heartbeat.received_heartbeat = sent_heartbeat, received_heartbeat
        coordinator._process_sync_group_response = process_sync_group_response

    def left_s(self) -> float:
        """Seconds until the broker may give the tasks away; negative once it may have, 0 before the first join."""
        if self._answered_s is None:
            return 0.0
        now_s = time.monotonic()
        return self._answered_s + self._session_timeout_s - now_s - self._notice_suspension()

    def _renew(self, sent_s: float) -> None:
        before_s = next(total_s for at_s, total_s in reversed(self._suspensions) if at_s <= sent_s)
        self._answered_s = max(sent_s + before_s, self._answered_s or 0.0)

    def _notice_suspension(self) -> float:
        """For how long the machine has been suspended by now."""
        total_s = suspended_s()
        if total_s > self._suspensions[-1][1] + _NEWS_S:
            self._suspensions.append((time.monotonic(), total_s))
        return total_s
