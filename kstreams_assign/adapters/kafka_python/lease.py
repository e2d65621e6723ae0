"""The lease: since when the broker has surely kept this member, as far as its answers tell.

kafka-python counts a session from when an answer was *read*. A process that slept reads, on waking, an answer that lay in its socket all the
while, and would take its session for alive; so here it counts from when the answered request was *sent*. The broker restarts the
session when it answers Heartbeat and SyncGroup, which is later. Looking for the coordinator restarts nothing, whatever kafka-python notes then.
"""

from __future__ import annotations

import time
from typing import Any


class Lease:
    """Watches a coordinator's heartbeats and SyncGroups. Make it before the member joins."""

    def __init__(self, coordinator: Any, session_timeout_s: float) -> None:
        self._session_timeout_s = session_timeout_s
        self._answered_s: float | None = None
        heartbeat, process_sync = coordinator.heartbeat, coordinator._process_sync_group_response
        received = heartbeat.received_heartbeat

        def received_heartbeat() -> None:
            received()
            self._renew(heartbeat.last_send)

        def process_sync_group_response(response: Any, send_time: float) -> Any:
            assignment = process_sync(response, send_time)  # raises for a refusal
            self._renew(send_time)
            return assignment

        heartbeat.received_heartbeat = received_heartbeat
        coordinator._process_sync_group_response = process_sync_group_response

    def left_s(self) -> float:
        """Seconds until the broker may have given this member's tasks away; negative once it may have, 0 before the first join."""
        if self._answered_s is None:
            return 0.0
        return self._answered_s + self._session_timeout_s - time.monotonic()

    def _renew(self, sent_s: float) -> None:
        self._answered_s = max(sent_s, self._answered_s or sent_s)
