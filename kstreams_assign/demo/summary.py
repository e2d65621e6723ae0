"""The facts of a run: the JSON of ``--json`` and the same for people.

Pure. ``TERMS`` says what its words mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from kstreams_assign.demo.app import Row
from kstreams_assign.demo.check import Findings, Move, find_moves, longest_silences
from kstreams_assign.demo.fleet_state import DecisionView, FleetState

Summary = Mapping[str, Any]


def summarize(
    fleet_state: FleetState,
    rows: Sequence[Row],
    findings: Findings,
    *,
    broker_version: str,
    seed: int,
    tasks: int,
    orders_in: int,
    acceptable_lag: int,
    seconds: float,
) -> dict[str, Any]:
    """All keys that ``demo --json`` promises, and a few more."""
    # A decision never took effect whose leader had to join again before it was assigned itself.
    rounds = [
        decision for decision in fleet_state.decisions if decision.kind == "round" and decision.generation is not None
    ]
    silences = longest_silences(rows, fleet_state.rebalances.values())
    moves = find_moves(rows, fleet_state.takeovers, fleet_state.deaths, acceptable_lag)
    return {
        "broker_version": broker_version,
        "assignor": rounds[-1].assignor if rounds else None,
        "members": max((decision.members for decision in fleet_state.decisions), default=0),
        "tasks": tasks,
        "rounds": len(rounds),
        "rebalances": len(fleet_state.rebalances),
        "probing_rebalances": sum(rebalance.probing for rebalance in fleet_state.rebalances.values()),
        "owner_changes": sum(len(decision.changed) for decision in rounds),
        "owner_changes_lower_bound": lower_bound(rounds),
        "adopted": sum(len(decision.adopted) for decision in rounds),
        "moves": [_move_facts(move) for move in moves],
        "records_in": orders_in,
        "records_counted": findings.counted,
        "lost": len(findings.lost),
        "duplicated": len(findings.duplicated),
        "seconds": round(seconds, 1),
        "gap_ms": _gaps(moves),
        "stay_silence_ms_max": max((s.ms for s in silences if s.generation is not None), default=0),
        "steady_silence_ms_max": max((s.ms for s in silences if s.generation is None), default=0),
        "stay_silences": [silence._asdict() for silence in silences],
        "commits_refused": fleet_state.counts["commit_refused"],
        "never_in_output": len(findings.never_in_output),
        "unknown": len(findings.unknown),
        "seed": seed,
    }


def lower_bound(rounds: Iterable[DecisionView]) -> int:
    """Return the fewest owner changes that balance allows, over all changes of the group's processes.

    Rounds with the same processes count once: the first of them states the bound.
    """
    total = 0
    processes: frozenset[str] | None = None
    for decision in rounds:
        if decision.processes != processes:
            total += decision.owner_changes_lower_bound
            processes = decision.processes
    return total


def _move_facts(move: Move) -> dict[str, Any]:
    return {
        "task": move.task,
        "from": move.source,
        "to": move.target,
        "warm": move.warm,
        "gap_ms": move.gap_ms,
        "cause": move.cause,
    }


def _gaps(moves: Iterable[Move]) -> dict[str, float | None]:
    """Gaps of warm moves between living workers, and of moves after a crash; None where there was no such move."""
    warm = [move.gap_ms for move in moves if move.warm and move.cause == "rebalance"]
    crash = [move.gap_ms for move in moves if move.cause == "crash"]
    return {
        "warm_median": median(warm) if warm else None,
        "warm_max": max(warm, default=None),
        "crash_max": max(crash, default=None),
    }


class Fact(NamedTuple):
    """A fact for people: what it is about, its number, and what the number means."""

    name: str
    value: str
    meaning: str


def describe(summary: Summary) -> list[str]:
    """The summary for people: a line per fact, the numbers aligned, at most 80 columns."""
    return [f"{fact.name:<20}{fact.value:>10}  {fact.meaning}".rstrip() for fact in facts(summary)]


def facts(summary: Summary) -> list[Fact]:
    """The summary in words."""
    gaps, moves = summary["gap_ms"], summary["moves"]
    warm = sum(move["warm"] for move in moves)
    return [
        Fact("Apache Kafka", summary["broker_version"], f"assignor {summary['assignor']}"),
        Fact("orders produced", f"{summary['records_in']:,}", ""),
        Fact("orders counted", f"{summary['records_counted']:,}", _counted(summary)),
        Fact(
            "orders lost",
            f"{summary['lost']:,}",
            f"in the final state; {summary['never_in_output']:,} never in the output",
        ),
        Fact("orders repeated", f"{summary['duplicated']:,}", "after a kill, as at-least-once allows"),
        Fact("rebalances", f"{summary['rebalances']}", f"generations; {summary['probing_rebalances']} probing"),
        Fact("rounds", f"{summary['rounds']}", "decisions: rebalances without the follow-ups"),
        Fact(
            "owner changes",
            f"{summary['owner_changes']}",
            f"planned; at least {summary['owner_changes_lower_bound']} were needed",
        ),
        Fact("tasks adopted", f"{summary['adopted']}", "had no owner: at the start and after the kill"),
        Fact("moves", f"{len(moves)}", f"of running tasks; {warm} to a caught-up replica"),
        Fact("gap, warm move", _ms(gaps["warm_median"]), f"without output, median; {_ms(gaps['warm_max'])} at most"),
        Fact("gap, after kill", _ms(gaps["crash_max"]), "at most, with the session timeout"),
        Fact(
            "tasks that stayed",
            _ms(summary["stay_silence_ms_max"]),
            f"silent at most; {_ms(summary['steady_silence_ms_max'])} without a rebalance",
        ),
        Fact("commits refused", f"{summary['commits_refused']}", ""),
        Fact("time", f"{summary['seconds']} s", f"seed {summary['seed']}"),
    ]


TERMS = (
    ("gap", "from the last order that the old owner committed to the first that the new owner processed"),
    ("warm", "the new owner held a replica of the task's state that had caught up"),
    ("rebalance", "a new generation of the group; a planned move takes two: the old owner first gives the task up"),
    ("probing", "a rebalance that the leader asks for, to move tasks whose warm-ups have caught up"),
    ("round", "a decision of the leader; the follow-up that completes a move is none"),
    ("owner change", "a task's process differs from the round before, while the old process is still there"),
    ("adopted", "a task without a living owner got one: the first owner, or the one after a kill"),
    ("lost, repeated", "orders missing in the final state, or applied to it twice; compared id by id"),
)
"""What the words of the facts mean."""


def _counted(summary: Summary) -> str:
    missing = summary["records_in"] - summary["records_counted"]
    return f"{missing:,} are missing in the stores" if missing else "all of them, in the stores"


def _ms(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f} ms"
