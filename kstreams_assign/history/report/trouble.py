"""What makes a group worth a look: probing without end, flapping tasks, many rebalances; and how they count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.history.report.view import (
    CAUSES,
    FLAP_MOVES,
    FLAP_WINDOW_MS,
    Bar,
    Buckets,
    Generation,
    GroupLine,
    Move,
    Probing,
    Role,
    Span,
    Warmup,
)
from kstreams_assign.history.times import DAY_MS, HOUR_MS, MINUTE_MS

BUCKET_WIDTHS = (
    # up to this span, a bar of the histogram is so wide
    (90 * MINUTE_MS, MINUTE_MS),
    (8 * HOUR_MS, 5 * MINUTE_MS),
    (14 * DAY_MS, HOUR_MS),
    (90 * DAY_MS, 6 * HOUR_MS),
)

STRIP_SLICES = 60
"""Slices of the small strip that shows in the overview when a group rebalanced."""


def most_within(times_ms: Iterable[int], window_ms: int) -> int:
    """The most of ``times_ms`` that lie within any window, both ends included."""
    ordered = sorted(times_ms)
    most = start = 0
    for end, time_ms in enumerate(ordered):
        while time_ms - ordered[start] > window_ms:
            start += 1
        most = max(most, end - start + 1)
    return most


def busiest_hours(moves: Iterable[Move]) -> dict[str, int]:
    """Task -> the most changes of its owner within an hour."""
    times: dict[str, list[int]] = {}
    for move in moves:
        times.setdefault(move.task, []).append(move.time_ms)
    return {task: most_within(of_task, FLAP_WINDOW_MS) for task, of_task in times.items()}


def flapping(moves: Iterable[Move]) -> tuple[str, ...]:
    """The tasks that flap, the worst first."""
    hours = {task: most for task, most in busiest_hours(moves).items() if most >= FLAP_MOVES}
    return tuple(sorted(hours, key=lambda task: (-hours[task], task)))


def open_probing(generations: Sequence[Generation], until_ms: int) -> Probing | None:
    """The probing that has not ended, or None. A generation that does not show whether it probes ends the search.

    It lasts until its next probe is due, or the history ends, whichever is sooner.
    """
    run: list[Generation] = []
    for generation in reversed(generations):
        if not generation.probing:
            break
        run.append(generation)
    if not run:
        return None
    idle = 0
    for generation in run:  # the latest first
        if (generation.owner_changes or 0) + (generation.adopted or 0):
            break
        idle += generation.cause == "probe"
    last, first = run[0], run[-1]
    due = max(last.time_ms, last.next_rebalance_ms or 0)
    lasted = max(0, min(due, until_ms) - first.time_ms)
    return Probing(first.time_ms, lasted, sum(generation.cause == "probe" for generation in run), idle)


def bucket_width_ms(span: Span) -> int:
    """A bar of the histogram: an hour, or less where the history is short, or more where it is long."""
    length = span.end_ms - span.start_ms
    return next((width for longest, width in BUCKET_WIDTHS if length <= longest), DAY_MS)


def bucketed(events: Iterable[tuple[int, str]], span: Span) -> Buckets:
    """(time, cause) of rebalances, counted by time and cause. Bars begin at full hours (minutes, days) of UTC."""
    width = bucket_width_ms(span)
    start = span.start_ms // width * width
    length = (span.end_ms - start) // width + 1
    counts: dict[str, list[int]] = {}
    for time_ms, cause in events:
        index = min(max(0, (time_ms - start) // width), length - 1)
        counts.setdefault(cause, [0] * length)[index] += 1
    return Buckets(start, width, {cause: tuple(counts[cause]) for cause in CAUSES if cause in counts})


def strip_of(times_ms: Iterable[int], span: Span, slices: int = STRIP_SLICES) -> tuple[int, ...]:
    """How many of ``times_ms`` fall into each of equally long slices of the span."""
    length = max(1, span.end_ms - span.start_ms)
    counts = [0] * slices
    for time_ms in times_ms:
        counts[min(slices - 1, max(0, (time_ms - span.start_ms) * slices // length))] += 1
    return tuple(counts)


def warmups_of(bars: Sequence[Bar], generations: Sequence[Generation], until_ms: int) -> tuple[Warmup, ...]:
    """Every warm-up with how long it took and how it ended.

    A task that moves is withheld until the follow-up (KIP-429), so the new owner's replica is a standby for an instant.
    """
    begins = {(bar.task, bar.process, bar.first): bar.role for bar in bars}
    warmups = []
    for bar in bars:
        if bar.role is not Role.WARMUP:
            continue
        after = ended = bar.last + 1
        while after + 1 < len(generations) and generations[after + 1].cause == "follow_up":
            after += 1
        if any(
            begins.get((bar.task, bar.process, generation)) is Role.ACTIVE for generation in range(ended, after + 1)
        ):
            outcome = "handed over"
        elif ended == len(generations):
            outcome = "under way"
        else:
            outcome = "given up" if begins.get((bar.task, bar.process, ended)) is None else "kept as standby"
        until = generations[ended].time_ms if ended < len(generations) else until_ms
        warmups.append(
            Warmup(bar.task, bar.process, bar.first, max(0, until - generations[bar.first].time_ms), outcome)
        )
    return tuple(warmups)


def by_trouble(lines: Iterable[GroupLine]) -> tuple[GroupLine, ...]:
    """Groups that never finish probing first (longest first), then by flapping tasks, rebalances an hour, changes."""

    def trouble(line: GroupLine) -> tuple[float, ...]:
        stuck = line.probing.lasted_ms if line.probing and line.probing.never_finishes else -1
        return (-stuck, -len(line.flapping), -line.per_hour, -line.owner_changes)

    return tuple(sorted(lines, key=lambda line: (trouble(line), line.group)))


def most_frequent(counts: Mapping[str, int]) -> tuple[str, float] | None:
    """The kind with the most and its share of all, or None."""
    total = sum(counts.values())
    if not total:
        return None
    kind = max(counts, key=lambda name: counts[name])
    return kind, counts[kind] / total
