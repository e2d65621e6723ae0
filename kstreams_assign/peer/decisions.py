"""``assign`` and ``assign-threads``: turn a request into a cluster, and write the plan as Java's harness does.

No decision is made here. Assignors are looked up by the name in the request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from kstreams_assign.assign import (
    ASSIGNORS,
    AssignConfig,
    Assignor,
    Client,
    Cluster,
    PartitionRacks,
    Plan,
    TaskLags,
    ThreadTasks,
    common_rack,
    distribute,
    find_previous_tasks,
    sort_by_lag,
)
from kstreams_assign.assign.java_order import sorted_tasks, text_order
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId, process_order
from kstreams_assign.peer import fields
from kstreams_assign.peer.lines import Json


def assign(request: Json) -> Json:
    """Return a placement for every process. Raises ``ConfigError``."""
    assignor = _assignor(request)
    config = _config(fields.members(request, "config"))
    cluster = _cluster(request)
    plan = assignor(cluster, config)
    answer: Json = {"clients": placements(plan, request.get("split_warmups") is True)}
    answer["probing_rebalance"] = plan.probing
    if request.get("explain") is True:
        answer["explain"] = {str(client.process_id): _explained(client) for client in _ordered(cluster)}
    return answer


def placements(plan: Plan, split_warmups: bool = False) -> Json:
    """Return processes in Java's order, tasks sorted. Without ``split_warmups`` warm-ups are among the standbys."""
    by_process: Json = {}
    for process in sorted(plan.placements, key=process_order):
        placed = plan.placements[process]
        standby = placed.standby if split_warmups else placed.standby | placed.warmup
        by_process[str(process)] = {"active": _texts(placed.active), "standby": _texts(standby)}
        if split_warmups:
            by_process[str(process)]["warmup"] = _texts(placed.warmup)
    return by_process


def assign_threads(request: Json) -> Json:
    """Return one process's tasks by thread. Raises ``ConfigError``."""
    for key in ("consumers", "task_end_offset_sums"):
        fields.need(request, key)
    consumers = [fields.mapping(consumer, "consumers") for consumer in fields.items(request, "consumers")]
    ends = fields.longs(request, "task_end_offset_sums")
    sums_by_consumer = {_consumer_id(consumer): fields.longs(consumer, "task_offset_sums") for consumer in consumers}
    lags = TaskLags(ends, _later_counts(fields.longs(consumer, "task_offset_sums") for consumer in consumers))
    active, standby = fields.tasks(request, "active"), fields.tasks(request, "standby")
    _each_once(active + standby)
    if not sums_by_consumer and active + standby:
        raise ConfigError("consumers is empty; tasks need at least one")
    previous = {consumer: sort_by_lag(sums, lags) for consumer, sums in sums_by_consumer.items()}
    stateful = [task for task in active if task in ends]
    stateless = [task for task in active if task not in ends]
    dealt = distribute(stateful, standby, stateless, sums_by_consumer, previous) if sums_by_consumer else {}
    return {"consumers": {name: _thread(dealt[name]) for name in sorted(dealt, key=text_order)}}


def _thread(tasks: ThreadTasks) -> Json:
    return {
        "stateful_active": list(map(str, tasks.stateful_active)),
        "standby": list(map(str, tasks.standby)),
        "stateless_active": list(map(str, tasks.stateless_active)),
    }


def _assignor(request: Json) -> Assignor:
    name = fields.text(fields.need(request, "assignor"), "assignor")
    if name not in ASSIGNORS:
        raise ConfigError(f"assignor is {name!r}; it must be one of {', '.join(ASSIGNORS)}")
    return ASSIGNORS[name]


def _config(settings: Json) -> AssignConfig:
    """Return the settings, with Kafka's defaults where a key is missing."""
    default = AssignConfig()
    tags = fields.items(settings, "rack_aware_assignment_tags")
    return AssignConfig(
        acceptable_recovery_lag=fields.number_or(settings, "acceptable_recovery_lag", default.acceptable_recovery_lag),
        max_warmup_replicas=fields.number_or(
            settings, "max_warmup_replicas", default.max_warmup_replicas, fields.INT32_MAX
        ),
        num_standby_replicas=fields.number_or(
            settings, "num_standby_replicas", default.num_standby_replicas, fields.INT32_MAX
        ),
        probing_rebalance_interval_ms=fields.number_or(
            settings, "probing_rebalance_interval_ms", default.probing_rebalance_interval_ms
        ),
        rack_aware_assignment_tags=tuple(fields.text(tag, "rack_aware_assignment_tags") for tag in tags),
        rack_aware_assignment_strategy=fields.text(
            settings.get("rack_aware_assignment_strategy", default.rack_aware_assignment_strategy),
            "rack_aware_assignment_strategy",
        ),
        rack_aware_assignment_traffic_cost=settings.get("rack_aware_assignment_traffic_cost"),
        rack_aware_assignment_non_overlap_cost=settings.get("rack_aware_assignment_non_overlap_cost"),
    )


def _cluster(request: Json) -> Cluster:
    stateful, stateless = fields.tasks(request, "stateful_tasks"), fields.tasks(request, "stateless_tasks")
    _each_once(stateful + stateless)
    fields.need(request, "clients")
    described = [fields.mapping(entry, "clients") for entry in fields.items(request, "clients")]
    if "task_end_offset_sums" not in request:
        clients = tuple(map(_from_lags, described))
    else:
        ends = fields.longs(request, "task_end_offset_sums")
        known = frozenset(stateful + stateless)
        clients = tuple(_from_offset_sums(client, ends, known) for client in described)
    racks = fields.members(request, "partition_racks")
    return Cluster(
        tuple(replace(client, rack=_rack(entry)) for client, entry in zip(clients, described, strict=True)),
        frozenset(stateful),
        frozenset(stateless),
        _partition_racks(racks, "source"),
        _partition_racks(racks, "changelog"),
    )


def _rack(client: Json) -> str | None:
    """Return the rack from ``rack``, or from ``consumer_racks`` where consumers report different racks."""
    reported_racks = fields.items(client, "consumer_racks") if "consumer_racks" in client else [client.get("rack")]
    return common_rack(None if rack is None else fields.text(rack, "rack") for rack in reported_racks)


def _partition_racks(racks: Json, kind: str) -> PartitionRacks:
    """Return the tasks of which each partition has replicas, each with a rack."""
    racks_by_task = {
        fields.task(name): fields.items(fields.members(racks, kind), name) for name in fields.members(racks, kind)
    }
    return {
        task: tuple(
            frozenset(fields.text(rack, f"partition_racks.{kind}") for rack in replicas) for replicas in partitions
        )
        for task, partitions in racks_by_task.items()
        if all(partitions) and not any(None in replicas for replicas in partitions)
    }


def _from_lags(client: Json) -> Client:
    """Read the lag form: every value is taken unchanged."""
    for key in ("task_offset_sums", "consumers"):
        fields.refuse(client, key, "needs the top-level task_end_offset_sums")
    return Client(
        process_id=fields.process_id(client),
        capacity=fields.number_or(client, "threads", 1, fields.INT32_MAX),
        prev_active=frozenset(fields.tasks(client, "prev_active")),
        prev_standby=frozenset(fields.tasks(client, "prev_standby")),
        lags=fields.longs(client, "task_lags"),
        tags=fields.texts(client, "tags"),
    )


def _from_offset_sums(client: Json, ends: dict[TaskId, int], known: frozenset[TaskId]) -> Client:
    """Read the offset-sum form: what the leader sees. A task that is not in the topology is not ``prev_active``."""
    fields.refuse(client, "task_lags", "cannot go with the top-level task_end_offset_sums")
    fields.refuse(client, "prev_standby", "is derived from task_offset_sums when task_end_offset_sums is given")
    consumers = _consumers(client)
    sums = _later_counts(fields.longs(consumer, "task_offset_sums") for consumer in consumers)
    owned = {task for consumer in consumers for task in fields.tasks(consumer, "prev_active")}
    active, standby = find_previous_tasks(owned & known, sums)
    return Client(
        process_id=fields.process_id(client),
        capacity=fields.number_or(client, "threads", len(consumers), fields.INT32_MAX),
        prev_active=active,
        prev_standby=standby,
        lags=TaskLags(ends, sums),
        tags=fields.texts(client, "tags"),
    )


def _consumers(client: Json) -> list[Json]:
    """Return one entry per thread; the flat form is a client with one consumer."""
    if "consumers" not in client:
        return [{key: client[key] for key in ("prev_active", "task_offset_sums") if key in client}]
    for key in ("task_offset_sums", "prev_active"):
        fields.refuse(client, key, "belongs inside consumers")
    consumers = [fields.mapping(consumer, "consumers") for consumer in fields.items(client, "consumers")]
    for consumer in consumers:
        _consumer_id(consumer)
    return consumers


def _consumer_id(consumer: Json) -> str:
    return fields.text(fields.need(consumer, "id"), "id")


def _later_counts(reported_sums: Iterable[dict[TaskId, int]]) -> dict[TaskId, int]:
    """Return all reported sums; where two consumers report a task, the later one counts."""
    return {task: total for sums in reported_sums for task, total in sums.items()}


def _each_once(tasks: Collection[TaskId]) -> None:
    if len(set(tasks)) < len(tasks):
        raise ConfigError("a task is listed twice")
    if len({task.topology is None for task in tasks}) > 1:
        raise ConfigError("some tasks belong to a named topology and some do not; name all topologies or none")


def _ordered(cluster: Cluster) -> list[Client]:
    return sorted(cluster.clients, key=lambda client: process_order(client.process_id))


def _explained(client: Client) -> Json:
    return {
        "prev_active": _texts(client.prev_active),
        "prev_standby": _texts(client.prev_standby),
        "task_lags": {str(task): client.lags[task] for task in sorted_tasks(client.lags.keys())},
    }


def _texts(tasks: Collection[TaskId]) -> list[str]:
    return list(map(str, sorted_tasks(tasks)))
