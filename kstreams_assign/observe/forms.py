"""User-data as JSON: one form for people, for scripts and for the comparison with Java.

Tasks as ``0_3``, partitions as ``["topic", 3]``, everything in Kafka's order. Our trailer has a form of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kstreams_assign.assign.java_order import sorted_tasks, text_order
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.wire import (
    AssignmentInfo,
    AwaitedProcess,
    GroupTrailer,
    KipSubscription,
    MemberTrailer,
    SubscriptionInfo,
)
from kstreams_assign.wire.assignment_info import PartitionsByHost

Json = dict[str, Any]


def subscription_form(info: SubscriptionInfo) -> Json:
    """Return every field that Java has."""
    return {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
        "process_id": str(info.process_id),
        "user_end_point": info.user_end_point,
        "task_offset_sums": numbers(info.task_offset_sums),
        "prev_tasks": texts(ordered(info.prev_tasks)),
        "standby_tasks": texts(ordered(info.standby_tasks)),
        "error_code": info.error_code,
        "client_tags": {key: info.client_tags[key] for key in sorted(info.client_tags, key=text_order)},
        "unique_field": info.unique_field,
    }


def kip_subscription_form(info: KipSubscription) -> Json:
    """Return every field of the layouts in the KIP's text."""
    return {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
        "process_id": str(info.process_id),
        "user_end_point": info.user_end_point,
        "prev_tasks": texts(ordered(info.prev_tasks)),
        "standby_tasks": texts(ordered(info.standby_tasks)),
        "task_lags": numbers(info.task_lags),
        "store_lags": dict(info.store_lags),
    }


def assignment_form(info: AssignmentInfo) -> Json:
    """Return every field that Java has."""
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": texts(info.active_tasks),
        "standby_tasks": {str(task): pairs(info.standby_tasks[task]) for task in ordered(info.standby_tasks)},
        "partitions_by_host": hosts(info.partitions_by_host),
        "standby_partitions_by_host": hosts(info.standby_partitions_by_host),
        "err_code": info.error_code,
        "next_rebalance_ms": info.next_rebalance_ms,
    }


def trailer_form(trailer: MemberTrailer | GroupTrailer | None) -> Json | None:
    """Return the trailer that our members and leaders append; None without."""
    if trailer is None:
        return None
    if isinstance(trailer, MemberTrailer):
        form = {"assignors": dict(trailer.assignors), "settings_digest": trailer.settings_digest}
        awaited = None if trailer.awaited is None else awaited_form(trailer.awaited)
        leaving = {"draining": trailer.draining, "restarting": trailer.restarting}
        last = {"awaited": awaited, "generation": trailer.generation}
        balance = {"balance_by": trailer.balance_by, "loads": numbers(trailer.loads)}
        return {**form, **leaving, **last, "exactly_once": trailer.exactly_once, **balance}
    return {
        "assignor": trailer.assignor,
        "assignor_version": trailer.assignor_version,
        "warmups": {str(process): texts(tasks) for process, tasks in trailer.warmups.items()},
        "at_once": {str(process): number for process, number in trailer.at_once.items()},
        "next_probe_ms": trailer.next_probe_ms,
        "draining": list(map(str, trailer.draining)),
        "followup": trailer.followup,
        "withheld": texts(trailer.withheld),
        "owners": {str(task): str(process) for task, process in trailer.owners.items()},
        "partitions": trailer.partitions,
        "awaited": awaited_form(trailer.awaited),
        "loads": numbers(trailer.loads),
    }


def awaited_form(awaited: Mapping[UUID, AwaitedProcess]) -> Json:
    """Return the processes that restart: what they had, and for how long their tasks wait, in milliseconds."""
    return {
        str(process): {"left_ms": each.left_ms, "active": texts(each.active), "standby": texts(each.standby)}
        for process, each in awaited.items()
    }


def ordered(tasks: Iterable[TaskId]) -> list[TaskId]:
    return sorted_tasks(list(tasks))


def texts(tasks: Iterable[TaskId]) -> list[str]:
    return list(map(str, tasks))


def numbers(number_by_task: Mapping[TaskId, int]) -> dict[str, int]:
    return {str(task): number_by_task[task] for task in ordered(number_by_task)}


def pairs(held: Iterable[TopicPartition]) -> list[list[str | int]]:
    sorted_pairs = sorted(set(held), key=lambda partition: (text_order(partition.topic), partition.partition))
    return [[partition.topic, partition.partition] for partition in sorted_pairs]


def hosts(by_host: PartitionsByHost) -> list[Json]:
    in_order = sorted(by_host, key=lambda host: (text_order(host.host), host.port))
    return [{"host": host.host, "port": host.port, "partitions": pairs(by_host[host])} for host in in_order]
