"""The golden vectors, and our values in the Java peer's field names, so that the two can be compared."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from kstreams_assign.model import TaskId
from kstreams_assign.wire import AssignmentInfo, SubscriptionInfo

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden"

Json = dict[str, Any]


@cache
def cases(kind: str) -> list[Json]:
    """Return one dict per case, as ``protocol/golden/make.py`` describes them."""
    return [json.loads(line) for line in (GOLDEN / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]


def blobs(kind: str) -> list[bytes]:
    """Return all bytes of the golden vectors: Java's, then ours with a trailer."""
    return [bytes.fromhex(case[key]) for key in ("hex", "ours") for case in cases(kind)]


def kafka_cases(kind: str) -> list[Json]:
    """Return ``KafkaVectors.java``'s output of one kind: ``hex``, and the fields that Java reads in ``java_reads``."""
    return [case for case in cases("kafka") if case["kind"] == kind]


def name(case: Json) -> str:
    return f"v{case['request']['version']}"


def subscription_words(info: SubscriptionInfo) -> Json:
    return {
        "version": info.version,
        "latest_supported_version": info.latest_supported_version,
        "process_id": str(info.process_id),
        "user_end_point": info.user_end_point,
        "task_offset_sums": {str(task): total for task, total in info.task_offset_sums.items()},
        "prev_tasks": _tasks(info.prev_tasks),
        "standby_tasks": _tasks(info.standby_tasks),
        "error_code": info.error_code,
        "client_tags": dict(info.client_tags),
        "unique_field": info.unique_field,
    }


def assignment_words(info: AssignmentInfo) -> Json:
    return {
        "version": info.version,
        "commonly_supported_version": info.commonly_supported_version,
        "active_tasks": [str(task) for task in info.active_tasks],
        "standby_tasks": {str(task): _partitions(held) for task, held in info.standby_tasks.items()},
        "partitions_by_host": _hosts(info.partitions_by_host),
        "standby_partitions_by_host": _hosts(info.standby_partitions_by_host),
        "err_code": info.error_code,
        "next_rebalance_ms": info.next_rebalance_ms,
    }


def _tasks(tasks):
    return [str(task) for task in sorted(tasks, key=_java_order)]


def _java_order(task: TaskId):
    # Java's strings compare by UTF-16 units.
    return (task.topology or "").encode("utf-16-be"), task.subtopology, task.partition


def _partitions(held):
    return [list(partition) for partition in sorted(held)]


def _hosts(hosts):
    return [
        {"host": host.host, "port": host.port, "partitions": _partitions(held)} for host, held in sorted(hosts.items())
    ]
