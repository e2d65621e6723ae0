"""Reads requests of the peer's JSON lines into this room's values, and writes our answers as the peer does.

The format is in ``peer``'s help: offset-sum form (``task_end_offset_sums``) and lag form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    PartitionRacks,
    Plan,
    TaskLags,
    common_rack,
    distribute,
    find_previous_tasks,
    high_availability,
    sort_by_lag,
)
from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.model import TaskId, process_order

Json = dict[str, Any]


def answer_assign(request: Json) -> Json:
    """Return our answer to an ``assign`` request for the assignor ``high_availability``."""
    return write_plan(high_availability(read_cluster(request), read_config(request)))


def answer_threads(request: Json) -> Json:
    """Return our answer to an ``assign-threads`` request."""
    end = read_longs(request["task_end_offset_sums"])
    sums: dict[TaskId, int] = {}
    for consumer in request["consumers"]:
        sums |= read_longs(consumer["task_offset_sums"])
    lags = TaskLags(end, sums)
    active = read_tasks(request["active"])
    previous = {
        consumer["id"]: sort_by_lag(read_longs(consumer["task_offset_sums"]), lags) for consumer in request["consumers"]
    }
    dealt = distribute(
        [task for task in active if task in end],
        read_tasks(request["standby"]),
        [task for task in active if task not in end],
        previous,
        previous,
    )
    return {
        "consumers": {
            name: {
                "stateful_active": list(map(str, tasks.stateful_active)),
                "standby": list(map(str, tasks.standby)),
                "stateless_active": list(map(str, tasks.stateless_active)),
            }
            for name, tasks in dealt.items()
        }
    }


def read_config(request: Json) -> AssignConfig:
    config = dict(request.get("config", {}))
    config["rack_aware_assignment_tags"] = tuple(config.get("rack_aware_assignment_tags", ()))
    return AssignConfig(**config)


def read_cluster(request: Json) -> Cluster:
    end = read_longs(request["task_end_offset_sums"]) if "task_end_offset_sums" in request else None
    clients = tuple(
        replace(read_client(client, end), rack=common_rack(client.get("consumer_racks", [client.get("rack")])))
        for client in request["clients"]
    )
    racks = request.get("partition_racks", {})
    return Cluster(
        clients,
        read_tasks(request.get("stateful_tasks", ())),
        read_tasks(request.get("stateless_tasks", ())),
        read_racks(racks.get("source", {})),
        read_racks(racks.get("changelog", {})),
    )


def read_racks(racks_by_task: Json) -> PartitionRacks:
    """Return the racks of tasks for which every replica of every partition has a rack."""
    return {
        TaskId.parse(task): tuple(map(frozenset, partitions))
        for task, partitions in racks_by_task.items()
        if all(partitions) and not any(None in racks for racks in partitions)
    }


def read_client(client: Json, end: dict[TaskId, int] | None) -> Client:
    process_id, threads, tags = UUID(client["process_id"]), client.get("threads", 1), client.get("tags", {})
    owned = read_tasks(client.get("prev_active", ()))
    if end is None:
        prev_standby = read_tasks(client.get("prev_standby", ()))
        return Client(process_id, threads, owned, prev_standby, read_longs(client.get("task_lags", {})), tags)
    sums = read_longs(client.get("task_offset_sums", {}))
    active, standby = find_previous_tasks(owned, sums)
    return Client(process_id, threads, active, standby, TaskLags(end, sums), tags)


def read_tasks(texts: Any) -> frozenset[TaskId]:
    return frozenset(map(TaskId.parse, texts))


def read_longs(texts: Json) -> dict[TaskId, int]:
    return {TaskId.parse(task): number for task, number in texts.items()}


def write_plan(plan: Plan) -> Json:
    """Write as the peer: clients in order, tasks sorted, warm-ups among the standbys."""
    clients = {}
    for process in sorted(plan.placements, key=process_order):
        placed = plan.placements[process]
        copies = sorted_tasks(placed.standby | placed.warmup)
        clients[str(process)] = {
            "active": list(map(str, sorted_tasks(placed.active))),
            "standby": list(map(str, copies)),
        }
    return {"clients": clients, "probing_rebalance": plan.probing}
