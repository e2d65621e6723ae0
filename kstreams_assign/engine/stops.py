"""Why a task cannot work here, and when it is tried again. Rules over values, for ``engine.restoring``.

A damaged store is discarded and restored at once, the first time. A task that fails again, or for want of what only an
operator can mend (space, rights), stops: it is tried after 1 s, then after twice as long each time, at most after a
minute. What must not live here: a clock, a store, a collection of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_PAUSE_MS = 1_000
PAUSE_MAX_MS = 60_000

_DOUBLINGS_MAX = 10


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a task does not work. ``pauses``: how many it has had.

    ``retry_at_ms`` (monotonic) is None while the task is tried, or if it waits for something that is looked for all the
    time. ``reported``: the task is known as stopped.
    """

    reason: str
    pauses: int = 0
    retry_at_ms: int | None = None
    reported: bool = False
    trying: bool = False


def waits(stop: Stop | None) -> bool:
    """Return whether the task is tried again later."""
    return stop is not None and stop.retry_at_ms is not None


def is_due(stop: Stop | None, now_ms: int) -> bool:
    """Return whether the task is to be tried again now."""
    return stop is not None and stop.retry_at_ms is not None and stop.retry_at_ms <= now_ms


def pause(stop: Stop | None, reason: str, now_ms: int, first_pause_ms: int = FIRST_PAUSE_MS) -> tuple[Stop, int]:
    """Stop a task, or keep it stopped; return the pause, too, in milliseconds."""
    pauses = 0 if stop is None else stop.pauses
    pause_ms = min(first_pause_ms << min(pauses, _DOUBLINGS_MAX), PAUSE_MAX_MS)
    return Stop(reason, pauses + 1, now_ms + pause_ms, reported=True), pause_ms


def wait_for_changelog(stop: Stop | None, reason: str) -> Stop:
    """Stop a task that waits for something that is looked for all the time."""
    return replace(stop or Stop(reason), reason=reason, reported=True, trying=False)


def try_again(stop: Stop | None) -> Stop | None:
    """Return the stop of a task that is tried now; it no longer waits."""
    return None if stop is None else replace(stop, retry_at_ms=None, trying=True)
