"""A description as JSON, in the form that scripts rely on (``inspect --json``). Keys are only ever added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kstreams_assign.model import NO_PROBE_MS, TaskId
from kstreams_assign.observe.decoded import DecodedMember, DecodedProcess
from kstreams_assign.observe.describe import Description
from kstreams_assign.observe.lags import Stalled
from kstreams_assign.observe.reasons import reasons


def document(about: Description, slow: Collection[Stalled] = ()) -> dict[str, Any]:
    """Return the document; what the bytes do not contain is null.

    ``warmup`` and ``probing_due_ms`` are null if the leader is not ours, ``balanced`` without members, ``load`` where
    tasks are balanced by number.
    ``next_rebalance_ms`` is the earliest time at which an assignment asks for any rebalance, under any leader; 0 = at
    once. Times are wall-clock milliseconds, lags offsets.
    """
    group, decoded = about.group, about.group.decoded
    snapshot, trailer = decoded.snapshot, decoded.trailer
    return {
        "group": snapshot.group,
        "protocol": "classic",
        "state": snapshot.state,
        "generation": snapshot.generation,
        "leader": snapshot.leader,
        "assignor": trailer.assignor if trailer else None,
        "balanced": about.balanced if decoded.processes else None,
        "probing_due_ms": trailer.next_probe_ms if trailer else None,
        "next_rebalance_ms": decoded.next_rebalance_ms,
        "assigned_ms": snapshot.assigned_ms,
        "taken_ms": snapshot.taken_ms,
        "processes": [_process(about, process) for process in decoded.processes],
        "awaited": {str(process): each.left_ms for process, each in decoded.awaited.items()},
        "paused": {str(task): since_ms for task, since_ms in about.paused.items()},
        "waiting": {str(task): str(process) for task, process in sorted(decoded.waiting.items())},
        "unreadable": {member: list(why) for member, why in decoded.unreadable.items()},
        "next_moves": [
            {"task": str(move.task), "from": str(move.source) if move.source else None, "to": str(move.target)}
            for move in about.next_moves
        ],
        "restored_sooner": [
            {"task": str(move.task), "than": str(move.source), "on": str(move.target)} for move in about.restored_sooner
        ],
        "restore_if_lost": {str(process): task_texts(tasks) for process, tasks in about.restores.items()},
        "restore_risk_if_lost": {str(process): task_texts(tasks) for process, tasks in about.risks.items()},
        "why": reasons(about, slow),
        "assumed": group.assumed,
    }


def _process(about: Description, process: DecodedProcess) -> dict[str, Any]:
    report = process.report
    lags = {task: copy.lag for (holder, task), copy in about.lags.items() if holder == process.process_id}
    return {
        "process_id": str(process.process_id),
        "endpoint": report.user_end_point,
        "ours": process.ours,
        "draining": process.process_id in about.group.decoded.view.draining,
        "version": report.version,
        "latest_supported_version": report.latest_supported_version,
        "tags": dict(report.client_tags),
        "rack": process.rack,
        "load": about.loads.get(process.process_id),
        "active": task_texts(process.active),
        "standby": task_texts(process.standby),
        "warmup": None if process.warmup is None else task_texts(process.warmup),
        "lags": {str(task): lags[task] for task in sorted(lags)},
        "members": [_member(member) for member in process.members],
    }


def _member(member: DecodedMember) -> dict[str, Any]:
    given = member.given
    has_trailer = bool(member.info and member.info.trailer)
    asked_ms = member.info.next_rebalance_ms if member.info else NO_PROBE_MS
    return {
        "member_id": member.member_id,
        "client_id": member.described.client_id,
        "client_host": member.described.client_host,
        "instance_id": member.described.instance_id,
        "active": task_texts(given.active if given else ()),
        "standby": task_texts(given.standby if given else ()),
        "warmup": task_texts(given.warmup) if given and has_trailer else None,
        "next_rebalance_ms": None if asked_ms == NO_PROBE_MS else asked_ms,
        "error_code": member.info.error_code if member.info else None,
    }


def task_texts(tasks: Iterable[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
