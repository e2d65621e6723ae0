"""kafka-python's retries (3.0.12), mended: the time between them grows, as in Java (KIP-580).

The client asks a coordinator that did not answer again after ``retry_backoff_ms``, always the same. It is short here,
because most failures last a moment. But a coordinator may be away for long, or load its groups for long, and then all
members of a large group would ask so often that the broker has no time for anything else. So it is asked less and less
often, down to once a second. Each wait differs by up to a fifth, so that the members do not ask all at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from kafka.errors import KafkaError, RetriableError, UnknownError

Ask = Callable[[], Awaitable[Any]]

FIRST_S, LONGEST_S = 0.02, 1.0
SPREAD = 0.2


class Retries:
    """When the coordinator may be asked again. Times are those of one clock, in seconds."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pause_s = FIRST_S
        self._due_s = 0.0

    def fail(self, now_s: float) -> None:
        """Let the next try wait twice as long as the last one."""
        self._due_s = now_s + self._pause_s * self._random.uniform(1 - SPREAD, 1 + SPREAD)
        self._pause_s = min(2 * self._pause_s, LONGEST_S)

    def succeed(self) -> None:
        """Begin again with short waits: a join or a heartbeat was answered."""
        self._pause_s, self._due_s = FIRST_S, 0.0

    def left_s(self, now_s: float) -> float:
        """Return how many seconds the next try has to wait still."""
        return max(0.0, self._due_s - now_s)


def space_retries(coordinator: Any) -> None:
    """Let joins, heartbeats and the search for the coordinator wait. Before ``finish_joins``, which repeats a result.

    They wait as parts of the client's own tasks on its I/O thread, so a caller may run out of time meanwhile. That the
    coordinator was found ends no wait: one that is found may not answer.
    """
    retries, sleep = Retries(Random()), coordinator._manager._net.sleep  # noqa: S311  # no secret

    def spaced(ask: Ask, answered: Callable[[], None]) -> Ask:
        async def ask_in_time() -> Any:
            if left_s := retries.left_s(time.monotonic()):
                await sleep(left_s)
            try:
                answer = await ask()
            except (RetriableError, UnknownError):
                retries.fail(time.monotonic())
                raise
            except KafkaError:  # it is an answer, too
                answered()
                raise
            answered()
            return answer

        return ask_in_time

    coordinator._send_group_coordinator_request = spaced(coordinator._send_group_coordinator_request, lambda: None)
    coordinator._do_join_and_sync_async = spaced(coordinator._do_join_and_sync_async, retries.succeed)
    coordinator._send_heartbeat_request = spaced(coordinator._send_heartbeat_request, retries.succeed)
