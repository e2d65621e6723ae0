"""The machine's clocks, in milliseconds. Everything else is given a clock and never looks at one."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    """For durations and deadlines: never jumps, means nothing to another process."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """For timestamps that others read: milliseconds since 1970, may jump when the clock is set."""
    return time.time_ns() // 1_000_000
