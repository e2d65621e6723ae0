"""A status as JSON, for ``/status.json`` and ``/tasks``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kstreams_assign.status.values import (
    VERDICTS,
    Holder,
    ReplicaProgress,
    Status,
    TaskStatus,
    warm_up_text,
)
from kstreams_assign.status.views import DrainView, JoinView


def as_json(status: Status) -> dict[str, Any]:
    """The whole status. Times are milliseconds; what is not known is null."""
    names = status.names()
    return {
        "application_id": status.application_id,
        "process_id": str(status.process_id),
        "endpoint": str(status.endpoint) if status.endpoint else None,
        "now_ms": status.now_ms,
        "group_protocol": "streams" if status.streams_group else "classic",
        "generation": status.generation,
        "state": status.state.value,
        "leads": status.leads,
        "leader": str(status.leader) if status.leader else None,
        "assignor": status.assignor,
        "verdicts": {name: verdict_json(name, status) for name in VERDICTS},
        "tasks": tasks_json(status),
        "warmups": _warmups(status, names),
        "processes": [_holder(holder, status, names) for holder in status.holders],
        "between_owners": {str(task): names[process] for task, process in status.withheld.items()},
        "next_probe_ms": status.next_probe_ms,
        "early_probing": status.early,
        "follow_up": status.follow_up,
        "warmup_queue": {"order": _texts(status.queue.order), "at_once": status.queue.at_once}
        if status.queue
        else None,
        "draining": status.draining,
        "drain": None if status.drain is None else _drain(status.drain),
        "join": None if status.join is None else _join(status.join),
        "restarting": status.restarting,
        "awaited": {names[process]: each.left_ms for process, each in status.awaited.items()},
        "broker_unavailable": status.outage,
        "warnings": list(status.warnings),
        "records_total": status.records_total,
        "records_out_total": status.records_out_total,
        "commits_total": status.commits_total,
        "transactions_aborted_total": status.transactions_aborted_total,
        "global_tables": [
            {
                "name": table.name,
                "topic": table.topic,
                "ready": table.ready,
                "lag": table.lag,
                "stopped": table.stopped or None,
            }
            for table in status.global_tables
        ],
        "input_lags": {str(partition): lag for partition, lag in sorted(status.input_lags.items())},
    }


def verdict_json(name: str, status: Status) -> dict[str, Any]:
    """``{"scalable": false, "reasons": [...]}``."""
    verdict = VERDICTS[name](status)
    return {name: verdict.ok, "reasons": list(verdict.reasons)}


def tasks_json(status: Status) -> list[dict[str, Any]]:
    """The tasks in this process."""
    return [_task(task) for task in status.tasks]


def _task(status: TaskStatus) -> dict[str, Any]:
    return {
        "task": str(status.task),
        "role": status.role,
        "state": status.state,
        "caught_up": status.caught_up,
        "stopped": status.stopped or None,
        "retry_ms": status.retry_ms,
        "paused_since_ms": status.paused_ms,
        "waits_for": status.waits.text if status.waits else None,
        "has_changelog": status.has_changelog,
        "input_lag": sum(status.inputs.values()) if status.inputs else None,
        **_progress(status.progress),
    }


def _progress(progress: ReplicaProgress | None) -> dict[str, Any]:
    """All null while it is not known."""
    return {
        "lag": progress.lag if progress else None,
        "offsets_per_s": round(progress.offsets_per_s, 1) if progress and progress.offsets_per_s is not None else None,
        "left_ms": progress.left_ms if progress else None,
        "warm": round(progress.warm, 4) if progress and progress.warm is not None else None,
        "changelogs": {str(name): lag for name, lag in progress.changelogs.items()} if progress else {},
    }


def _warmups(status: Status, names: Mapping[UUID, str]) -> list[dict[str, Any]]:
    return [
        {
            "task": str(warmup.task),
            "process_id": str(warmup.process),
            "on": names[warmup.process],
            **_progress(warmup.progress),
            "changelogs": _texts(warmup.changelogs),
            "as_joined": warmup.progress is not None and warmup.progress.as_joined,
            "caught_up": warmup.caught_up,
            "queued": warmup.queued,
            "why": warm_up_text(warmup, names[warmup.process]),
        }
        for warmup in status.warmups
    ]


def _drain(drain: DrainView) -> dict[str, Any]:
    return {str(task): {"member_id": owner, "warm": task in drain.warm} for task, owner in sorted(drain.owners.items())}


def _join(join: JoinView) -> dict[str, Any]:
    return {"tasks": {str(task): {"warm": task in join.warm} for task in sorted(join.tasks)}, "joiners": join.joiners}


def _holder(holder: Holder, status: Status, names: Mapping[UUID, str]) -> dict[str, Any]:
    is_this_process = holder.process == status.process_id
    endpoint = str(holder.endpoint) if holder.endpoint else None
    return {
        "process_id": str(holder.process) if holder.process else None,
        "endpoint": endpoint,
        "name": names[holder.process] if holder.process else endpoint,
        "here": is_this_process,
        "leads": is_this_process and status.leads,
        "active": None if holder.active is None else _texts(holder.active),
        "standby": None if holder.standby is None else _texts(holder.standby),
        "warmup": _texts(holder.warmup),
    }


def _texts(names: Iterable[object]) -> list[str]:
    return [str(name) for name in names]
