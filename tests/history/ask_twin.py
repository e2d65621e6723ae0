"""The questions of ``history ask`` worked out by plain loops, to compare the SQL with. Slow, and in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Table -> its rows, those that the question sees alone."""

TEN_MINUTES_MS = 600_000


def costly_groups(tables: Rows) -> list[Row]:
    answers = []
    for group in sorted({row["group"] for row in tables["rebalances"]}):
        moves = [row for row in tables["movements"] if row["group"] == group]
        causes: dict[str, int] = {}
        for move in moves:
            if move["gap_ms"]:
                cause = _cause(tables["rebalances"], move)
                causes[cause] = causes.get(cause, 0) + move["gap_ms"]
        main = min(causes, key=lambda cause: (-causes[cause], cause), default=None)
        answers.append(
            {
                "group": group,
                "rebalances": sum(row["group"] == group for row in tables["rebalances"]),
                "moves": len(moves),
                "unplanned_moves": sum(move["planned"] is False for move in moves),
                "cold_moves": sum(move["warm"] is False for move in moves),
                "silent_s": _sum_s(moves),
                "longest_s": _max_s(moves),
                "main_cause": main,
                "main_cause_s": None if main is None else causes[main] / 1000,
            }
        )
    return sorted(answers, key=lambda row: (*_descending(row["silent_s"]), -row["moves"], row["group"]))


def _cause(rebalances: Sequence[Row], move: Row) -> str:
    """Why the task moved: a follow-up or a probe goes on with what a rebalance before it began."""
    own = next((row for row in rebalances if _place(row) == _place(move)), None)
    if own is None:
        return "unknown"
    before = sorted((r for r in rebalances if r["group"] == own["group"] and _order(r) <= _order(own)), key=_order)
    for row in reversed(before):
        if row["cause"] not in {"follow_up", "probe"}:
            return row["cause"] or "unknown"
    return str(own["cause"])


def leaving_processes(tables: Rows) -> list[Row]:
    left: dict[tuple[str, str], list[Row]] = {}
    for row in tables["rebalances"]:
        for process in row["gone"] or ():
            left.setdefault((row["group"], process), []).append(row)
    answers = []
    for (group, process), rows in left.items():
        away: list[int] = []
        moves: dict[int, Row] = {}
        for row in rows:
            back = [
                other["time_ms"]
                for other in tables["rebalances"]
                if other["group"] == group and process in (other["joined"] or ()) and other["time_ms"] >= row["time_ms"]
            ]
            away += [min(back) - row["time_ms"]] if back else []
            moves |= {at: m for at, m in enumerate(tables["movements"]) if _left_behind(m, row, process, back)}
        seen = [m for m in tables["members"] if (m["group"], m["process_id"]) == (group, process) and m["client_host"]]
        last = max(seen, key=lambda member: (member["time_ms"], member["member_id"]), default=None)
        answers.append(
            {
                "group": group,
                "process_id": process,
                "host": None if last is None else last["client_host"],
                "departures": len(rows),
                "returns": len(away),
                "away_s": median(away) / 1000 if away else None,
                "last_left": _time(max(row["time_ms"] for row in rows)),
                "moves": len(moves),
                "cold_moves": sum(move["warm"] is False for move in moves.values()),
                "silent_s": _sum_s(moves.values()),
            }
        )
    return sorted(
        answers, key=lambda row: (-row["departures"], *_descending(row["silent_s"]), row["group"], row["process_id"])
    )


def _left_behind(move: Row, departure: Row, process: str, back: Sequence[int]) -> bool:
    """Whether the process had left the task: while it was away, or as it came back, the task goes to another."""
    if (move["group"], move["from_process"]) != (departure["group"], process):
        return False
    if move["time_ms"] < departure["time_ms"]:
        return False
    return move["planned"] is False or (bool(back) and move["time_ms"] == min(back))


def slow_changelogs(tables: Rows) -> list[Row]:
    restores: dict[tuple[str, str | None], list[tuple[Row, int | None, int | None]]] = {}
    for move in tables["movements"]:
        if move["warm"] is not False or not move["gap_ms"]:
            continue
        sizes: dict[str, int] = {}
        for end in tables["end_offsets"]:
            if _place(end) == _place(move) and end["task"] == move["task"]:
                sizes[end["topic"]] = sizes.get(end["topic"], 0) + end["end_offset"] - end["begin_offset"]
        for topic in sizes or [None]:
            whole = sum(sizes.values()) if sizes else None
            restores.setdefault((move["group"], topic), []).append((move, sizes.get(topic) if topic else None, whole))
    answers = [
        {
            "group": group,
            "topic": topic,
            "cold_moves": len(found),
            "unplanned_moves": sum(move["planned"] is False for move, _, _ in found),
            "records": _median(records for _, records, _ in found),
            "silent_s": median(move["gap_ms"] for move, _, _ in found) / 1000,
            "longest_s": max(move["gap_ms"] for move, _, _ in found) / 1000,
            "records_per_s": _median(whole and whole * 1000 / move["gap_ms"] for move, _, whole in found),
        }
        for (group, topic), found in restores.items()
    ]
    return sorted(
        answers, key=lambda row: (-row["silent_s"], -row["cold_moves"], row["group"], *_ascending(row["topic"]))
    )


def deployments(tables: Rows) -> list[Row]:
    answers = []
    for group in {row["group"] for row in tables["rebalances"]}:
        changes = sorted(
            (r for r in tables["rebalances"] if r["group"] == group and r["cause"] in {"join", "leave", "replace"}),
            key=_order,
        )
        spans: list[list[Row]] = []
        for change in changes:
            if spans and change["time_ms"] - spans[-1][-1]["time_ms"] <= TEN_MINUTES_MS:
                spans[-1].append(change)
            else:
                spans.append([change])
        answers += [answer for span in spans if (answer := _deployment(tables, group, span)) is not None]
    return sorted(answers, key=lambda row: (*_descending(row["silent_s"]), -row["began"].timestamp(), row["group"]))


def _deployment(tables: Rows, group: str, span: Sequence[Row]) -> Row | None:
    began, ended = min(row["time_ms"] for row in span), max(row["time_ms"] for row in span)
    joined = {process for row in span for process in row["joined"] or ()}
    gone = {process for row in span for process in row["gone"] or ()}
    came_back = {process for row in span for process in _came_back(tables, row)}
    changed = max(len(joined), len(gone)) + len(came_back - joined - gone)
    processes = max(row["processes"] for row in span)
    if changed * 2 < processes:
        return None

    def within(table: str) -> list[Row]:
        until = ended + TEN_MINUTES_MS
        return [row for row in tables[table] if row["group"] == group and began <= row["time_ms"] <= until]

    moves = within("movements")
    return {
        "group": group,
        "began": _time(began),
        "lasted_s": (ended - began) / 1000,
        "processes": processes,
        "changed": changed,
        "rebalances": len(within("rebalances")),
        "moves": len(moves),
        "cold_moves": sum(move["warm"] is False for move in moves),
        "silent_s": _sum_s(moves),
        "longest_s": _max_s(moves),
    }


def _came_back(tables: Rows, change: Row) -> set[str]:
    """The processes whose members are all others than in the generation before, if it names none as joined or gone."""
    if change["cause"] != "replace" or change["joined"] or change["gone"]:
        return set()
    before = [r for r in tables["rebalances"] if r["group"] == change["group"] and _order(r) < _order(change)]
    if not before:
        return set()
    old, new = _members(tables, max(before, key=_order)), _members(tables, change)
    return {process for process in old.keys() & new.keys() if not old[process] & new[process]}


def _members(tables: Rows, rebalance: Row) -> dict[str, set[str]]:
    """Process -> its members in this generation."""
    members: dict[str, set[str]] = {}
    for member in tables["members"]:
        if member["process_id"] is not None and _place(member) == _place(rebalance):
            members.setdefault(member["process_id"], set()).add(member["member_id"])
    return members


TWINS: Mapping[str, Callable[[Rows], list[Row]]] = {
    "costly-groups": costly_groups,
    "leaving-processes": leaving_processes,
    "slow-changelogs": slow_changelogs,
    "deployments": deployments,
}


def _place(row: Row) -> tuple[Any, ...]:
    return row["group"], row["generation"], row["offsets_partition"], row["offsets_offset"]


def _order(row: Row) -> tuple[int, int]:
    return row["offsets_partition"], row["offsets_offset"]


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC).replace(tzinfo=None)


def _gaps(moves: Iterable[Row]) -> list[int]:
    return [move["gap_ms"] for move in moves if move["gap_ms"] is not None]


def _sum_s(moves: Iterable[Row]) -> float | None:
    gaps = _gaps(moves)
    return sum(gaps) / 1000 if gaps else None


def _max_s(moves: Iterable[Row]) -> float | None:
    gaps = _gaps(moves)
    return max(gaps) / 1000 if gaps else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _descending(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0)


def _ascending(value: str | None) -> tuple[bool, str]:
    return value is None, value or ""
