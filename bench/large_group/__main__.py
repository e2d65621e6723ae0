"""A large group on a real broker: how long its rebalances take, and what they cost.

    python -m bench.large_group                                          # 100 members in two processes, 1,000 tasks
    python -m bench.large_group --members 1000 --tasks 10000 --processes 4

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

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.large_group.host import APPLICATION, RECORDS, STORE, TOPIC
from bench.processes import Json
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.local import LocalBroker

CHANGELOG = f"{APPLICATION}-{STORE}-changelog"
IDLE_S = 60.0
REST_S = 3.0
"""A group is at rest when for so long nothing has happened after its last assignment."""
GROUP_KEY = 2
"""Version of the keys of classic groups in ``__consumer_offsets``."""


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
    ClusterAdmin(servers).create_topics({TOPIC: tasks, CHANGELOG: tasks}, 300.0, replication_factor=1)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for partition in range(tasks):
        for _ in range(RECORDS):
            producer.produce(CHANGELOG, b"1", b"key", partition)
    producer.flush()


def largest_group_record(servers: str) -> int:
    """Return the bytes of the largest record of the group's metadata that the brokers have written."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": "true"}
    with closing(Consumer(settings)) as consumer:
        counts = consumer.list_topics("__consumer_offsets").topics["__consumer_offsets"].partitions
        consumer.assign([TopicPartition("__consumer_offsets", partition, 0) for partition in counts])
        largest, ended = 0, 0
        while ended < len(counts):
            message = consumer.poll(10)
            if message is None or message.error():
                ended += 1
            elif (key := message.key()) and int.from_bytes(key[:2]) == GROUP_KEY and APPLICATION.encode() in key:
                largest = max(largest, len(message.value() or b""))
        return largest


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
        before = self._usage()
        self._events.clear()
        self._hear(IDLE_S)
        cpu_s = sum(after["cpu_s"] - each["cpu_s"] for after, each in zip(self._usage(), before, strict=True))
        return {"seconds": IDLE_S, **self._counts(), "cores": round(cpu_s / IDLE_S, 2)}

    # --- what was heard -----------------------------------------------------------------

    def _until_rest(self) -> Json:
        """Wait until each task has one owner, all are in one generation, and nothing more is due."""
        self._events.clear()
        before = self._usage()
        began = reported_at = time.monotonic()
        while not (self._is_at_rest() and self._hear(REST_S) == 0):
            self._hear(0.1)
            now = time.monotonic()
            if now - began > self._options.limit_s:
                raise SystemExit(f"after {now - began:.0f} s the group is not at rest: {self._counts()}")
            if now - reported_at > 10:
                reported_at = now
                print(f"{now - began:6.0f} s: {len(self._assigned)} assigned; {self._counts()}", file=sys.stderr)
        joins = [event["at"] for event in self._events if event["what"] == "joining"]
        assigned = [event["at"] for event in self._events if event["what"] == "assigned"]
        usages = self._usage()
        return {
            "seconds": round(max(assigned) - min(joins), 2),
            **self._counts(),
            "cpu_s": round(sum(after["cpu_s"] - each["cpu_s"] for after, each in zip(usages, before, strict=True)), 1),
            "rss_mib": round(sum(each["rss_mib"] for each in usages)),
            "threads": sum(each["threads"] for each in usages),
        }

    def _is_at_rest(self) -> bool:
        assigned = self._assigned
        return (
            assigned.keys() == self._members
            and len({each["generation"] for each in assigned.values()}) == 1
            and sum(each["active"] for each in assigned.values()) == self._options.tasks
            and not any(each["again"] or each["warmup"] for each in assigned.values())
        )

    def _counts(self) -> Json:
        events = self._events
        decisions = [event for event in events if event["what"] == "decision"]
        joins = [event for event in events if event["what"] == "joining"]
        return {
            "rounds": sum(event["kind"] == "round" for event in decisions),
            "generations": len({event["generation"] for event in events if event["what"] == "assigned"}),
            "joins": len(joins),
            "reasons": dict(Counter(event["reason"].partition(",")[0] for event in joins)),
            "changed": sum(event["changed"] for event in decisions),
            "lost": sum(event["what"] == "lost" for event in events),
        }

    def _usage(self) -> list[Json]:
        self._usages = []
        for number in range(len(self._hosts)):
            self._tell(number, "usage")
        while len(self._usages) < len(self._hosts):
            self._hear(0.1)
        return sorted(self._usages, key=lambda each: each["cpu_s"])

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
