"""A large group on a real broker: how long its rebalances take, and what they cost.

    python -m bench.large_group                                          # 100 members in two processes, 1,000 tasks
    _JAVA_OPTIONS=-Xmx4g python -m bench.large_group --members 1000 --tasks 8000 --processes 8

The broker of the last one needs more memory than a local broker otherwise gets. It keeps two files open for each task.

Members are ``GroupMember``s without records and stores: what is measured is the group itself. Each changelog has one
record, so a task is warmed up before it moves. One JSON line for each phase: *start* (all members join), *join* (one
more does), *leave* (it leaves), *idle* (nothing happens). ``seconds`` go from the first JoinGroup to the last
assignment of the generation that stays. Not among the suites of ``python -m bench``: it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient, NewPartitions

from bench.large_group.host import APPLICATION, RECORDS, STORE, TOPIC
from bench.processes import Json
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC
from kstreams_assign.local import LocalBroker
from kstreams_assign.wire import GroupMetadataKey, encode_offsets_key
from tests.chaos.reading import Unreadable, records

CHANGELOG = f"{APPLICATION}-{STORE}-changelog"
PATIENCE_S = 600
PIECE = 5_000
"""Partitions that are made by one request: a controller takes none of 10,000."""
IDLE_S = 60.0
RETRY_S = 1.0
"""A broker that refused a read is asked again after so long."""
REST_S = 3.0
"""A group is at rest when for so long nothing has happened after its last assignment."""


def main(arguments: list[str]) -> None:
    """Print one JSON line for each phase."""
    options = parse(arguments)
    with LocalBroker(settings=dict(each.split("=", 1) for each in options.broker)) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, options.tasks)
        with Group(servers, options) as group:
            for phase in (group.start, group.join, group.leave, group.idle):
                print(json.dumps({"phase": phase.__name__, **phase()}), flush=True)
            print(json.dumps({"phase": "record", "largest_bytes": largest_group_record(servers)}), flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.large_group", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=100, help="before one more joins")
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2, help="that the members are spread over")
    parser.add_argument("--assignor", default="least_movement")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of each member, in JSON")
    parser.add_argument("--broker", action="append", default=[], metavar="NAME=VALUE", help="a setting of the broker")
    parser.add_argument("--limit-s", type=float, default=900, help="give up a phase after so long")
    return parser.parse_args(arguments)


def create_topics(servers: str, tasks: int) -> None:
    """Make the input topic and the changelog, with records for every task."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for topic in (TOPIC, CHANGELOG):
        print(f"making {tasks:,} partitions of {topic}", file=sys.stderr)
        ClusterAdmin(servers).create_topics({topic: min(PIECE, tasks)}, PATIENCE_S, replication_factor=1)
        for count in range(2 * PIECE, tasks + PIECE, PIECE):
            admin.create_partitions([NewPartitions(topic, min(count, tasks))])[topic].result(PATIENCE_S)
    print("writing to each", file=sys.stderr)
    with closing(RecordProducer(servers, {}, delivery_timeout_ms=1_000 * PATIENCE_S)) as writer:
        for at in range(tasks * RECORDS):
            writer.produce(CHANGELOG, at % tasks, b"key", b"1")
        writer.flush(PATIENCE_S)


def largest_group_record(servers: str) -> int:
    """Return the bytes of the largest record of the group's metadata that the brokers have written."""
    key = encode_offsets_key(GroupMetadataKey(APPLICATION))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            written = [
                len(message.value() or b"") for message in records(servers, OFFSETS_TOPIC) if message.key() == key
            ]
        except Unreadable as cause:  # a busy broker may refuse once
            if time.monotonic() > deadline:
                raise
            print(f"reading the group's records again: {cause}", file=sys.stderr)
            threading.Event().wait(RETRY_S)
        else:
            return max(written)


class Group:
    """The members' processes, and what was heard of them."""

    def __init__(self, servers: str, options: argparse.Namespace) -> None:
        self._options = options
        given = {name: json.loads(value) for name, value in (each.split("=", 1) for each in options.setting)}
        settings = {
            "assignor": options.assignor,
            "acceptable_recovery_lag": 0,
            "max_warmup_replicas": 1_000,
            "probing_rebalance_interval_ms": 60_000,
            **given,
        }
        command = [sys.executable, "-m", "bench.large_group.host", servers, json.dumps(settings)]
        self._heard: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._hosts = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(options.processes)
        ]
        self._listeners = [threading.Thread(target=self._listen, args=(host,), daemon=True) for host in self._hosts]
        for listener in self._listeners:
            listener.start()
        self._members: set[int] = set()
        self._assigned: dict[int, Json] = {}
        self._usages: list[Json] = []
        self._events: list[Json] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts:
            if error is not None:
                host.kill()
            assert host.stdin is not None
            host.stdin.close()
        for host, listener in zip(self._hosts, self._listeners, strict=True):
            host.wait()
            listener.join()

    def _listen(self, host: subprocess.Popen[str]) -> None:
        assert host.stdout is not None
        with host.stdout as said:
            for line in said:
                self._heard.put(json.loads(line))
        self._heard.put({"what": "ended", "status": host.wait()})

    def _tell(self, number: int, word: str) -> None:
        stdin = self._hosts[number % len(self._hosts)].stdin
        assert stdin is not None
        print(word, number, file=stdin, flush=True)

    # --- phases -------------------------------------------------------------------------

    def start(self) -> Json:
        """All members join."""
        for number in range(self._options.members):
            self._members.add(number)
            self._tell(number, "add")
        return self._until_rest()

    def join(self) -> Json:
        """One more joins."""
        number = len(self._members)
        self._members.add(number)
        self._tell(number, "add")
        return self._until_rest()

    def leave(self) -> Json:
        """It leaves."""
        number = len(self._members) - 1
        self._members.remove(number)
        self._assigned.pop(number, None)
        self._tell(number, "remove")
        return self._until_rest()

    def idle(self) -> Json:
        """Nothing happens: heartbeats are kept, and cost something."""
        before_s = self._cpu_s()
        self._events.clear()
        self._hear(IDLE_S)
        return {"seconds": IDLE_S, **self._counts(), "cores": round((self._cpu_s() - before_s) / IDLE_S, 2)}

    # --- what was heard -----------------------------------------------------------------

    def _until_rest(self) -> Json:
        """Wait until each task has one owner, all are in one generation, and nothing more is due."""
        self._events.clear()
        before_s = self._cpu_s()
        began = reported_at = time.monotonic()
        while not (self._is_at_rest() and self._hear(REST_S) == 0):
            self._hear(0.1)
            now = time.monotonic()
            if now - began > self._options.limit_s:
                raise SystemExit(f"after {now - began:.0f} s the group is not at rest: {self._counts()}")
            if now - reported_at > 10:
                reported_at = now
                print(f"{now - began:6.0f} s: {len(self._assigned)} assigned; {self._counts()}", file=sys.stderr)
        joined, assigned = self._events_of("joining"), self._events_of("assigned")
        cpu_s = self._cpu_s() - before_s
        return {
            "seconds": round(max(event["at"] for event in assigned) - min(event["at"] for event in joined), 2),
            **self._counts(),
            "cpu_s": round(cpu_s, 1),
            "rss_mib": round(sum(each["rss_mib"] for each in self._usages)),
            "threads": sum(each["threads"] for each in self._usages),
        }

    def _is_at_rest(self) -> bool:
        assigned = self._assigned
        return (
            assigned.keys() == self._members
            and len({each["generation"] for each in assigned.values()}) == 1
            and sum(each["active"] for each in assigned.values()) == self._options.tasks
            and not any(each["again"] or each["warmup"] for each in assigned.values())
        )

    def _events_of(self, kind: str) -> list[Json]:
        return [event for event in self._events if event["what"] == kind]

    def _counts(self) -> Json:
        decisions, joins = self._events_of("decision"), self._events_of("joining")
        return {
            "rounds": sum(event["kind"] == "round" for event in decisions),
            "generations": len({event["generation"] for event in self._events_of("assigned")}),
            "joins": len(joins),
            "reasons": dict(Counter(event["reason"].partition(",")[0] for event in joins)),
            "changed": sum(event["changed"] for event in decisions),
            "lost": len(self._events_of("lost")),
        }

    def _cpu_s(self) -> float:
        """Ask the processes of members for their usage, and return the processor time of all."""
        self._usages = []
        for number in range(len(self._hosts)):
            self._tell(number, "usage")
        while len(self._usages) < len(self._hosts):
            self._hear(0.1)
        return float(sum(each["cpu_s"] for each in self._usages))

    def _hear(self, seconds: float) -> int:
        """Take what is heard for so long; return how many events of members there were."""
        until, count = time.monotonic() + seconds, 0
        while (left_s := until - time.monotonic()) > 0:
            try:
                event = self._heard.get(timeout=left_s)
            except queue.Empty:
                break
            match event["what"]:
                case "usage":
                    self._usages.append(event)
                    return count
                case "ended":
                    if event["status"]:
                        raise SystemExit(f"a process of members ended with status {event['status']}")
                case "warning":
                    print(event["member"], event["text"], file=sys.stderr)
                case _:
                    count += 1
                    self._events.append(event)
                    if event["what"] == "assigned" and event["member"] in self._members:
                        self._assigned[event["member"]] = event
        return count


if __name__ == "__main__":
    main(sys.argv[1:])
