"""The machine's clocks, in milliseconds. Everything else is given a clock and never looks at one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

_SUSPENSION_COUNTED: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def monotonic_ms() -> int:
    """For durations and deadlines: never jumps, means nothing to another process.

    Stands still while the machine is suspended.
    """
    return time.monotonic_ns() // 1_000_000


def suspended_s() -> float:
    """For how long the machine has been suspended since it was started: what ``time.monotonic`` leaves out.

    About 0 where the system does not tell (only Linux does).
    """
    return time.clock_gettime(_SUSPENSION_COUNTED) - time.monotonic() if _SUSPENSION_COUNTED is not None else 0.0


def wall_ms() -> int:
    """For timestamps that others read: milliseconds since 1970, may jump when the clock is set."""
    return time.time_ns() // 1_000_000


class Clocks(NamedTuple):
    """Hold the two clocks of a loop: the machine's, or those of a test driver."""

    monotonic_ms: Callable[[], int] = monotonic_ms
    wall_ms: Callable[[], int] = wall_ms


MACHINE_CLOCKS = Clocks()
