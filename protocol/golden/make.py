"""Make the golden vectors: what Kafka's own classes write and read, kept so that tests need no Java.

    python protocol/golden/make.py PEER

``PEER`` speaks JSON lines: ``PEER encode-subscription``, ``decode-subscription``, ``encode-assignment`` and
``decode-assignment``. One line of ``subscription.jsonl`` and ``assignment.jsonl`` is one case:

``request``     what Kafka's class was built from
``hex``         the bytes that it wrote
``java_reads``  what it reads from them
``ours``        our bytes of the same value, maps sorted, with a trailer; Kafka's class read the same from them
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    AssignmentInfo,
    GroupTrailer,
    MemberTrailer,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

FOLDER = Path(__file__).parent
VERSIONS = range(1, 12)
PROCESSES = ("00000000-0000-0000-0000-000000000000", "f1d2c3b4-a596-8778-695a-4b3c2d1e0fff")
MEMBER_TRAILER = MemberTrailer({"least_movement": 1, "high_availability": 1}, "9f86d081")
GROUP_TRAILER = GroupTrailer(
    assignor="least_movement",
    assignor_version=1,
    warmups={UUID(PROCESSES[1]): (TaskId(0, 1), TaskId(0, 2), TaskId(1, 0))},
    next_probe_ms=1_700_000_000_000,
    followup=True,
    withheld=(TaskId(1, 1),),
    owners={TaskId(0, 1): UUID(PROCESSES[0]), TaskId(1, 0): UUID(PROCESSES[1])},
)

Json = dict[str, Any]
Key = TypeVar("Key")
Item = TypeVar("Item")


def subscriptions() -> Iterable[Json]:
    """What a member may say: nothing, a bit of everything, odd text, many tasks, named topologies."""
    for version in VERSIONS:
        latest = -1 if version < 3 else 11
        base = {"version": version, "latest_supported_version": latest, "process_id": PROCESSES[version % 2]}
        yield base | {"user_end_point": None, "task_offset_sums": {}}
        yield base | {
            "user_end_point": "host-7.example.org:8080",
            "task_offset_sums": {"1_0": -2, "0_2": -3, "0_11": 0, "1_7": 2**63 - 1, "0_1": -2, "12_0": 70_000},
            "unique_field": -128,
            "error_code": 3,
            "client_tags": {"zone": "eu-1", "cluster": "k8s-2", "": ""},
        }
        yield base | {
            "user_end_point": "hôte-\u4e16\u754c-\U0001d11e\u0000:1",
            "task_offset_sums": {f"{n % 7}_{n}": (-2, -3, n * 1_000_003)[n % 3] for n in range(60)},
            "unique_field": 127,
            "error_code": -1,
            "client_tags": {"zône": "\U0001d11e\u0000"},
        }
        if version >= 10:
            named = {"top__0_0": 5, "0_0": -2, "\u4e16\U0001d11e__0_1": -3, "other__0_0": 1}
            yield base | {"user_end_point": "h:1", "task_offset_sums": named}


def assignments() -> Iterable[Json]:
    """What a leader may answer: the same kinds, with topics and hosts that need modified UTF-8."""
    for version in VERSIONS:
        base = {"version": version, "commonly_supported_version": 11 if version > 2 else -1}
        yield base | {"active_tasks": [], "standby_tasks": {}}
        yield base | {
            "active_tasks": ["0_0", "0_0", "1_3"],
            "standby_tasks": {"0_1": [["orders", 1], ["customers", 1]], "12_0": [], "1_0": [["clicks", 0]]},
            "partitions_by_host": [_host("b.example.org", 8080, 6), _host("a.example.org", 1, 0)],
            "standby_partitions_by_host": [_host("c.example.org", 65_535, 3)],
            "err_code": 2,
            "next_rebalance_ms": 1_700_000_000_000,
        }
        yield base | {
            "active_tasks": [f"{n % 5}_{n}" for n in range(40)],
            "standby_tasks": {f"{n % 5}_{n}": [[f"t-{n % 5}", n]] for n in range(40, 60)},
            "partitions_by_host": [_host(f"host-{n}", n, 12) for n in range(5)],
            "next_rebalance_ms": 0,
        }
        odd = "a\u0000b-\u07ff\u4e16-\U0001d11e"
        yield base | {
            "active_tasks": ["0_0"],
            "standby_tasks": {"0_1": [[odd, 1]]},
            "partitions_by_host": [{"host": odd, "port": -1, "partitions": [[odd, 0], ["plain", 2]]}],
            "err_code": -7,
        }
        if version >= 10:
            standbys = {"\u4e16\U0001d11e__0_1": [["t", 1]], "0_1": [["t", 1]], "top__0_1": []}
            yield base | {"active_tasks": ["top__0_0", "0_0", "\U0001d11e__3_1"], "standby_tasks": standbys}


def _host(host: str, port: int, partitions: int) -> Json:
    topics = ("orders", "customers", "repartition-0003", "clicks")
    return {"host": host, "port": port, "partitions": [[topics[n % 4], port + n] for n in range(partitions)]}


def ours_subscription(java: bytes) -> bytes:
    read = decode_subscription(java)
    assert isinstance(read, SubscriptionInfo)
    return encode_subscription(
        replace(
            read,
            task_offset_sums=_by_task(read.task_offset_sums),
            client_tags=dict(sorted(read.client_tags.items())),
            trailer=MEMBER_TRAILER,
        )
    )


def ours_assignment(java: bytes) -> bytes:
    read: AssignmentInfo = decode_assignment(java)
    return encode_assignment(
        replace(
            read,
            standby_tasks=_by_task(read.standby_tasks),
            partitions_by_host=_sorted(read.partitions_by_host),
            standby_partitions_by_host=_sorted(read.standby_partitions_by_host),
            topic_index={},
            trailer=GROUP_TRAILER,
        )
    )


def _by_task(tasks: Mapping[TaskId, Item]) -> dict[TaskId, Item]:
    return dict(sorted(tasks.items(), key=lambda item: (item[0].topology or "", *item[0][:2])))


def _sorted(hosts: Mapping[Key, tuple[Item, ...]]) -> dict[Key, tuple[Item, ...]]:
    return {host: tuple(sorted(held)) for host, held in sorted(hosts.items())}  # type: ignore[type-var]


def ask(peer: str, command: str, requests: list[Json]) -> list[Json]:
    """The peer's answers; ends the program if it refuses one."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([peer, command], input=lines, capture_output=True, text=True, check=True)
    answers: list[Json] = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [answer for answer in answers if "error" in answer]
    if refused or len(answers) != len(requests):
        sys.exit(f"{command}: {len(answers)} answers to {len(requests)} requests; refused: {refused}")
    return answers


def reads(peer: str, kind: str, blobs: list[bytes]) -> list[Json]:
    answers = ask(peer, f"decode-{kind}", [{"hex": blob.hex()} for blob in blobs])
    for answer in answers:
        answer.pop("wire_order", None)
    return answers


def make(peer: str, kind: str, requests: list[Json]) -> None:
    written = [bytes.fromhex(answer["hex"]) for answer in ask(peer, f"encode-{kind}", requests)]
    ours = [(ours_subscription if kind == "subscription" else ours_assignment)(blob) for blob in written]
    read = reads(peer, kind, written)
    with (FOLDER / f"{kind}.jsonl").open("w", encoding="utf-8") as out:
        for request, java, answer, mine, java_reading in zip(
            requests, written, read, ours, reads(peer, kind, ours), strict=True
        ):
            if answer != java_reading:
                sys.exit(f"Java reads our bytes otherwise:\n{answer}\n{java_reading}")
            case = {"request": request, "hex": java.hex(), "java_reads": answer, "ours": mine.hex()}
            out.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(sys.argv[1], "subscription", list(subscriptions()))
    make(sys.argv[1], "assignment", list(assignments()))
