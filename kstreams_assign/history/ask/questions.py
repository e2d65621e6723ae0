"""The questions: what each asks, in words and as SQL, and the sentence that its rows come to.

What lives here: texts. What must not: tables, DuckDB, pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kstreams_assign.history.phrases import CAUSE_WORDS, many
from kstreams_assign.history.times import duration

Row = Mapping[str, Any]

UNKNOWN = CAUSE_WORDS["unknown"]
"""Also of a cause that a later release knows."""


@dataclass(frozen=True, slots=True)
class Bars:
    """A plot with a bar a row. ``names``: the columns that name the row. ``length``: the column that is drawn."""

    names: tuple[str, ...]
    length: str
    title: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question. ``days``: how far back it looks, if the caller names no time."""

    name: str
    text: str
    days: int
    bars: Bars
    sentence: Callable[[Sequence[Row]], str]

    @property
    def query(self) -> str:
        """One statement in SQL over the tables of ``protocol/history.md``."""
        return _query(self.name)


@cache
def _query(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name.replace('-', '_')}.sql").read_text(encoding="utf-8")


def _costly_groups(rows: Sequence[Row]) -> str:
    if not rows:
        return "No group rebalanced."
    worst, rebalances = rows[0], sum(row["rebalances"] for row in rows)
    if worst["main_cause"] is None or not worst["silent_s"]:
        return f"No task is known to have been silent in {many(rebalances, 'rebalance')} of {many(len(rows), 'group')}."
    cause = CAUSE_WORDS.get(worst["main_cause"], UNKNOWN)
    after = f"rebalances {cause}" if cause is UNKNOWN else cause
    share = worst["main_cause_s"] / worst["silent_s"]
    others = sum(row["silent_s"] or 0 for row in rows[1:])
    return (
        f"{worst['group']} lost most: its tasks were silent for {_seconds(worst['silent_s'])} in all, "
        f"{_seconds(worst['longest_s'])} at most, over {many(worst['moves'], 'move')}; {share:.0%} of it after {after}"
        + (f". All other groups together: {_seconds(others)}." if len(rows) > 1 else ".")
    )


def _leaving_processes(rows: Sequence[Row]) -> str:
    if not rows:
        return "No process left."
    worst = rows[0]
    if worst["departures"] == 1:
        return f"{many(len(rows), 'process', 'processes')} left, none of them twice."
    back = f"came back {many(worst['returns'], 'time')}"
    if worst["returns"]:
        back += f", after {_seconds(worst['away_s'])}" + (" (median)" if worst["returns"] > 1 else "")
    who = f"{worst['process_id']} ({worst['host']})" if worst["host"] else worst["process_id"]
    silent = worst["silent_s"]
    costs = "" if silent is None else f"; its tasks were silent for {_seconds(silent)} in all"
    return f"Process {who} of {worst['group']} left {worst['departures']:,} times and {back}{costs}."


def _slow_changelogs(rows: Sequence[Row]) -> str:
    if not rows:
        return "No task is known to have moved cold with a silence."
    worst = rows[0]
    moves = f"{many(worst['cold_moves'], 'cold move')} ({worst['unplanned_moves']:,} unplanned)"
    if worst["topic"] is None:
        return (
            f"Tasks of {worst['group']} were silent longest, {_seconds(worst['silent_s'])} (median of {moves}); "
            "the ends of their changelogs were not sampled."
        )
    return (
        f"{worst['topic']} of {worst['group']} restores slowest: its tasks were silent for "
        f"{_seconds(worst['silent_s'])} (median of {moves}), with {worst['records']:,.0f} records a partition."
    )


def _deployments(rows: Sequence[Row]) -> str:
    if not rows:
        return "No deployment is to be seen: no group changed half of its processes."
    worst = rows[0]
    processes = f"{worst['changed']:,} of {many(worst['processes'], 'process', 'processes')}"
    when = f"{worst['began']:%Y-%m-%d %H:%M} UTC"
    moved = f"moved {many(worst['moves'], 'task')} ({worst['cold_moves'] or 'none'} known to be cold)"
    silent = (
        "with no silence known"
        if worst["silent_s"] is None
        else f"which were silent for {_seconds(worst['silent_s'])} in all, {_seconds(worst['longest_s'])} at most"
    )
    which = "The deployment" if len(rows) == 1 else f"The costliest of {len(rows):,} deployments"
    return f"{which}, {worst['group']} at {when} ({processes} in {_seconds(worst['lasted_s'])}), {moved}, {silent}."


def _seconds(seconds: float) -> str:
    return duration(seconds * 1000)


def _savings(rows: Sequence[Row]) -> str:
    parts = []
    for row in rows:
        moves, cold = row["owner_changes_saved"] or 0, row["cold_moves_saved"] or 0
        silent = row["silent_s_saved"]
        if moves > 0 or cold:
            less = many(moves, "owner change") if moves > 0 else many(cold, "cold move")
            parts.append(f"{row['change']}: {less}" + (f", about {_seconds(silent)} of silence" if silent else ""))
    return (
        f"Saved would have been, with {'; with '.join(parts)}." if parts else "None of these changes would have helped."
    )


SAVINGS = Question(
    "savings",
    "What would least_movement, a standby or more warm-ups have saved?",
    7,
    Bars(("change",), "silent_s_saved", "Seconds of silence that a change would have saved, about"),
    _savings,
)
"""Its SQL has only what moves cost; ``savings`` makes the rows."""

QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        Question(
            "costly-groups",
            "Which groups lost most time to rebalances, and after what?",
            7,
            Bars(("group",), "silent_s", "Seconds in which moved tasks were silent"),
            _costly_groups,
        ),
        Question(
            "leaving-processes",
            "Which process keeps leaving?",
            7,
            Bars(("group", "process_id"), "departures", "How often a process left"),
            _leaving_processes,
        ),
        Question(
            "slow-changelogs",
            "Which changelogs restore slowest?",
            7,
            Bars(("group", "topic"), "silent_s", "Seconds of silence of a task that moved cold (median)"),
            _slow_changelogs,
        ),
        Question(
            "deployments",
            "What did the last deployments cost?",
            1,
            Bars(("group", "began"), "silent_s", "Seconds in which moved tasks were silent"),
            _deployments,
        ),
        SAVINGS,
    )
}

BY_SQL = tuple(question for question in QUESTIONS.values() if question is not SAVINGS)
"""Those whose rows are found by SQL alone."""
