"""Units of time in milliseconds, and a length of time in words."""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def duration(milliseconds: float) -> str:
    """The two units that matter at most: ``111 ms``, ``10.4 s``, ``9 min``, ``15 h``, ``2 d 3 h``."""
    ms = round(milliseconds)
    if ms < 1000:
        return f"{ms} ms"
    if ms < MINUTE_MS:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    for unit, name, smaller, smaller_name in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", 1000, "s"),
    ):
        if ms >= unit:
            rest = ms % unit // smaller
            return f"{ms // unit} {name}" + (f" {rest} {smaller_name}" if rest and ms < 10 * unit else "")
    raise AssertionError
