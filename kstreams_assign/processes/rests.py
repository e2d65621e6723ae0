"""How long a process that failed rests before it is started again. Pure.

The rest doubles with each failure, so that a lasting trouble does not keep the machine and the group busy. A process
that had run for a while begins with the shortest rest again. (Kubernetes restarts containers by a similar rule.)
"""

from __future__ import annotations

REST_MIN_MS = 1_000
REST_MAX_MS = 60_000
RECOVERED_MS = 300_000
"""A process that ran at least this long had recovered from the failure before."""


def next_rest_ms(last_rest_ms: int, ran_ms: int) -> int:
    """Return the rest after a failure; ``last_rest_ms`` is the rest before this run, 0 if there was none."""
    if last_rest_ms == 0 or ran_ms >= RECOVERED_MS:
        return REST_MIN_MS
    return min(2 * last_rest_ms, REST_MAX_MS)
