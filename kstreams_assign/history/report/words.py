"""Figures in words: what each plot shows, as its title. Pure; the text is plain, escaping is the page's business."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kstreams_assign.history.phrases import CAUSE_WORDS, many
from kstreams_assign.history.report.trouble import most_frequent
from kstreams_assign.history.report.view import (
    FLAP_MOVES,
    STUCK_PROBES,
    Buckets,
    FleetView,
    GroupLine,
    GroupView,
    Probing,
)
from kstreams_assign.history.times import DAY_MS, HOUR_MS, MINUTE_MS, duration

BUCKET_WORDS = {MINUTE_MS: "minute", 5 * MINUTE_MS: "5 minutes", HOUR_MS: "hour", 6 * HOUR_MS: "6 hours", DAY_MS: "day"}


@dataclass(frozen=True, slots=True)
class Headline:
    """A card of the overview. ``tone``: ``bad``, ``warn``, ``good`` or ``plain``; ``groups``: whom it is about."""

    tone: str
    text: str
    detail: str
    groups: tuple[str, ...] = ()


def per_hour(rate: float) -> str:
    """Two digits that matter."""
    return f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}" if rate >= 0.95 else f"{rate:.2f}"


def probing_words(probing: Probing) -> str:
    """How long, and why it is called never finishing."""
    text = duration(probing.lasted_ms)
    if probing.idle_probes >= STUCK_PROBES:
        return f"{text}; the last {probing.idle_probes} probes moved nothing"
    return text


def headlines(fleet: FleetView) -> tuple[Headline, ...]:
    """What to look at first: probing without end, flapping, the restless, the cold, the unreadable."""
    lines = fleet.lines
    if not lines:
        return ()
    cards = [
        _never_finish(lines),
        _flapping(lines),
        _restless(lines),
        _cold(lines),
        _longest_gap(lines),
        _damaged(fleet),
    ]
    return tuple(headline for headline in cards if headline)


def _names(lines: Sequence[GroupLine]) -> tuple[str, ...]:
    return tuple(line.group for line in lines)


def _never_finish(lines: Sequence[GroupLine]) -> Headline:
    stuck = [line for line in lines if line.probing and line.probing.never_finishes]
    if not stuck:
        probing = sum(line.probing is not None for line in lines)
        detail = (
            f"{many(probing, 'group')} still probing as the history ends" if probing else "none is probing as it ends"
        )
        return Headline("good", "No group probes without end", detail)
    worst = max(stuck, key=lambda line: line.probing.lasted_ms if line.probing else 0)
    assert worst.probing
    text = f"{many(len(stuck), 'group')} never {'finishes' if len(stuck) == 1 else 'finish'} probing"
    return Headline("bad", text, f"the longest: {probing_words(worst.probing)}", _names(stuck))


def _flapping(lines: Sequence[GroupLine]) -> Headline:
    flapping = [line for line in lines if line.flapping]
    if not flapping:
        return Headline("good", "No task flaps", f"none moved {FLAP_MOVES} times within an hour")
    tasks = sum(len(line.flapping) for line in flapping)
    text = f"{many(tasks, 'task')} {'flaps' if tasks == 1 else 'flap'} in {many(len(flapping), 'group')}"
    return Headline("bad", text, f"moved {FLAP_MOVES} times or more within an hour", _names(flapping))


def _restless(lines: Sequence[GroupLine]) -> Headline:
    line = max(lines, key=lambda line: line.rebalances)
    total = sum(line.rebalances for line in lines)
    if len(lines) == 1:
        return Headline("plain", many(total, "rebalance"), f"{per_hour(line.per_hour)} an hour", _names([line]))
    text = f"{many(total, 'rebalance')} in {many(len(lines), 'group')}"
    return Headline(
        "plain", text, f"the most in one group: {line.rebalances:,}, {per_hour(line.per_hour)} an hour", _names([line])
    )


def _cold(lines: Sequence[GroupLine]) -> Headline | None:
    cold, changes = sum(line.cold for line in lines), sum(line.owner_changes for line in lines)
    if cold:
        guilty = sorted((line for line in lines if line.cold), key=lambda line: -line.cold)
        return Headline(
            "warn", f"{many(cold, 'task')} moved cold", f"of {many(changes, 'owner change')}", _names(guilty)
        )
    if changes:
        return Headline("good", "No task is known to have moved cold", many(changes, "owner change"))
    return None


def _longest_gap(lines: Sequence[GroupLine]) -> Headline | None:
    worst = max(lines, key=lambda line: line.worst_gap_ms or -1)
    if worst.worst_gap_ms is None:
        return None
    tone = "warn" if worst.worst_gap_ms >= MINUTE_MS else "plain"
    detail = "from the old owner's last commit to the new owner's first"
    return Headline(tone, f"Longest gap of a move: {duration(worst.worst_gap_ms)}", detail, (worst.group,))


def _damaged(fleet: FleetView) -> Headline | None:
    records = sum(damage.records for damage in fleet.damage)
    if not records:
        return None
    return Headline("warn", f"{many(records, 'record')} could not be read", "see the end of the page")


def causes_title(buckets: Buckets, who: str = "rebalances") -> str:
    """Which cause makes the most."""
    totals = {cause: sum(counts) for cause, counts in buckets.counts.items()}
    most = most_frequent(totals)
    if most is None:
        return "No rebalance"
    cause, share = most
    whole = many(sum(totals.values()), who.removesuffix("s"))
    return f"{totals[cause]:,} of {whole} were {CAUSE_WORDS[cause]}" + (f" ({share:.0%})" if share < 1 else "")


def timeline_title(view: GroupView) -> str:
    """How much moved."""
    moved = sum(task.moves > 0 for task in view.tasks)
    flap = sum(task.flaps for task in view.tasks)
    if not view.tasks:
        return "No task was placed, or no member's assignment could be read"
    if not moved:
        return f"{many(len(view.tasks), 'task')} and none moved in {many(len(view.generations), 'generation')}"
    text = f"{moved} of {many(len(view.tasks), 'task')} moved, {many(len(view.moves), 'time')} in all"
    return text + (f"; {flap} {'flaps' if flap == 1 else 'flap'}" if flap else "")


def skew_title(view: GroupView) -> str:
    """How uneven, at worst and now."""
    active = view.skews.get("active") or view.skews.get("all")
    if not active:
        return "Nothing is known of how even the tasks are spread"
    worst, last = max(skew for _, skew in active), active[-1][1]
    if worst <= 1:
        return f"Active tasks were even all the time (at most {worst:g} a thread apart)"
    return f"Active tasks: {worst:g} a thread apart at worst, {last:g} at the end"


def warmups_title(view: GroupView) -> str:
    """How long, and what came of them."""
    if not view.warmups:
        if not view.warmups_known:
            held = [move.held_ms for move in view.moves if move.held_ms]
            half = (
                f"; half of the copies handed over had been held for {duration(median(held))} or less" if held else ""
            )
            return f"This leader does not report which copies are warm-ups{half}"
        return "No warm-up"
    outcomes = Counter(warmup.outcome for warmup in view.warmups)
    done = [warmup.lasted_ms for warmup in view.warmups if warmup.outcome == "handed over"]
    text = many(len(view.warmups), "warm-up")
    if done:
        text += f": half of those handed over took {duration(median(done))} or less"
    return text + "".join(
        f", {outcomes[outcome]} {outcome}" for outcome in ("given up", "under way") if outcomes[outcome]
    )


def moves_title(view: GroupView) -> str:
    """How many, how cold, how long the silence."""
    if not view.moves:
        return "No task changed its owner"
    cold = sum(move.warm is False for move in view.moves)
    gaps = [move.gap_ms for move in view.moves if move.gap_ms is not None]
    text = f"{many(len(view.moves), 'move')}, {cold or 'none'} known to be cold"
    return text + (
        f"; gap {duration(median(gaps))} median, {duration(max(gaps))} at most" if gaps else "; no gap known"
    )


def flapping_title(view: GroupView) -> str:
    """How many tasks go to and fro."""
    flap = [task for task in view.tasks if task.flaps]
    if not flap:
        return f"No task flaps: none moved {FLAP_MOVES} times within an hour"
    worst = max(flap, key=lambda task: task.busiest_hour)
    flapping = f"{many(len(flap), 'task')} {'flaps' if len(flap) == 1 else 'flap'}"
    return f"{flapping}; {worst.task} moved {worst.busiest_hour} times within an hour"


def rebalances_title(view: GroupView) -> str:
    """How many, and what is missing between them."""
    missing = sum(generation.missing for generation in view.generations)
    unreadable = sum(generation.unreadable for generation in view.generations)
    text = many(len(view.generations), "generation")
    if missing:
        text += f"; {many(missing, 'more is', 'more are')} in no record (compacted away, or never completed)"
    if unreadable:
        text += f"; the user-data of {many(unreadable, 'member')} could not be read"
    return text
