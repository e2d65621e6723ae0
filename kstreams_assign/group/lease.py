"""The lease: until when a coordinator has surely kept a member, as far as its answers tell. Pure, without a clock.

A coordinator removes a member that was silent for a session. It also removes one that does not follow a rebalance in
the rebalance timeout, whatever its heartbeats: it does not join (classic groups), or does not release tasks that it is
to release (streams groups). The coordinator begins to wait for this after each request that it answers without asking
for it.

Both count from when the answered request was *sent*: the coordinator counts from its answer, which is later. A classic
group waits for the longest rebalance timeout of its members, so a member's own may end earlier, and never later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Lease:
    """The newest requests that were answered; None while this is not a member. In milliseconds of one clock.

    ``answered_ms``: when the newest was sent that was accepted. ``settled_ms``: when the newest of those was sent to
    which the coordinator answered that it waits for nothing.
    """

    answered_ms: int | None = None
    settled_ms: int | None = None

    def renew(self, sent_ms: int, *, settled: bool = True) -> None:
        """Note a request that was accepted; answers may come in another order than their requests."""
        self.answered_ms = sent_ms if self.answered_ms is None else max(sent_ms, self.answered_ms)
        if settled:
            self.settled_ms = sent_ms if self.settled_ms is None else max(sent_ms, self.settled_ms)

    def end(self) -> None:
        """The membership is over."""
        self.answered_ms = self.settled_ms = None

    def ends_ms(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> int | None:
        """Return until when the coordinator surely keeps the member; None while it surely keeps none."""
        if self.answered_ms is None or self.settled_ms is None:
            return None
        return min(self.answered_ms + session_timeout_ms, self.settled_ms + rebalance_timeout_ms)
