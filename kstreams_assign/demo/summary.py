"""The facts of a run: the JSON of ``--json`` and the same for people.

Pure. *Rebalance*: a generation. *Round*: a decision that is no follow-up of another. *Owner change*: a task's process differs
from the round before while the old one is still there; an orphan's first placement is *adopted*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from kstreams_assign.demo.app import Row
from kstreams_assign.demo.board import Board, DecisionView
from kstreams_assign.demo.check import Findings, Move, find_moves, longest_silences

Summary = Mapping[str, Any]


def summarize(
    board: Board,
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
    # A decision whose leader had to join again before it heard it back never took effect, and was made anew.
    rounds = [decision for decision in board.decisions if decision.kind == "round" and decision.generation is not None]
    silences = longest_silences(rows, board.rebalances.values())
    moves = find_moves(rows, board.takeovers, board.deaths, acceptable_lag)
    return {
        "broker_version": broker_version,
        "assignor": rounds[-1].assignor if rounds else None,
        "members": max((decision.members for decision in board.decisions), default=0),
        "tasks": tasks,
        "rounds": len(rounds),
        "rebalances": len(board.rebalances),
        "probing_rebalances": sum(rebalance.probing for rebalance in board.rebalances.values()),
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
        "commits_refused": board.counts["commit_refused"],
        "never_in_output": len(findings.never_in_output),
        "unknown": len(findings.unknown),
        "seed": seed,
    }


def lower_bound(rounds: Iterable[DecisionView]) -> int:
    """The fewest owner changes that balance allows, over all changes of who is in the group.

    Rounds that go on to the same aim count once: the first round after a process came or went states the bound.
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
    """Of warm moves between living workers, and of those after a crash; None where there was no such move."""
    warm = [move.gap_ms for move in moves if move.warm and move.cause == "rebalance"]
    crash = [move.gap_ms for move in moves if move.cause == "crash"]
    return {
        "warm_median": median(warm) if warm else None,
        "warm_max": max(warm, default=None),
        "crash_max": max(crash, default=None),
    }


def describe(summary: Summary) -> list[str]:
    """The summary for people, a line a fact."""
    return [f"{name:<18}{fact}" for name, fact in facts(summary).items()]


def facts(summary: Summary) -> dict[str, str]:
    """The summary in words, by what each is about."""
    gaps = summary["gap_ms"]
    moves = summary["moves"]
    return {
        "broker": f"Apache Kafka {summary['broker_version']}, assignor {summary['assignor']}",
        "orders": f"{summary['records_in']} in, {summary['records_counted']} counted",
        "lost": f"{summary['lost']} in the final state, {summary['never_in_output']} never in the output",
        "duplicated": f"{summary['duplicated']} (a crash under at-least-once may repeat)",
        "rebalances": f"{summary['rebalances']}, {summary['probing_rebalances']} probing; {summary['rounds']} rounds",
        "owner changes": f"{summary['owner_changes']}, at least {summary['owner_changes_lower_bound']} were needed",
        "orphans adopted": f"{summary['adopted']}",
        "moves": f"{len(moves)}, {sum(move['warm'] for move in moves)} of them to a warm copy",
        "gap, warm move": f"{_ms(gaps['warm_median'])} median, {_ms(gaps['warm_max'])} at most",
        "gap, after kill": f"{_ms(gaps['crash_max'])} at most",
        "tasks that stayed": (
            f"{_ms(summary['stay_silence_ms_max'])} silent at most; "
            f"without a rebalance {_ms(summary['steady_silence_ms_max'])}"
        ),
        "commits refused": f"{summary['commits_refused']}",
        "time": f"{summary['seconds']} s, seed {summary['seed']}",
    }


def _ms(value: float | None) -> str:
    return "no such move" if value is None else f"{value:.0f} ms"
