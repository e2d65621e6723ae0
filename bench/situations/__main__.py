"""The simulator's situations on a real broker, with real processes, and what both say that they cost.

    python -m bench.situations                                     # all, without and with a standby: 90 minutes
    python -m bench.situations --only bounce rolling_restart --standbys 1

The group is that of ``kstreams-assign simulate policies``: four processes and twelve tasks of 100,000 records. A quota
of the broker lets each process read as many records a second as there. One JSON line for each situation; each value is
the real one, then the simulator's: seconds in which no process works on a task, records restored, and the cost of both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event as Signal
from threading import Thread
from typing import Self

from bench.situations.costs import Costs, Event, costs
from bench.situations.process import RESTART, STORE, TOPIC
from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.adapters.java import find_java
from kstreams_assign.demo.fleet import Fleet
from kstreams_assign.demo.fleet_state import FleetState
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.jars import class_path
from kstreams_assign.model import TopicPartition
from kstreams_assign.sim.policies import least_movement
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.situations import GROUP, SITUATIONS, Situation

APPLICATION = "situations"
CHANGELOG = f"{APPLICATION}-{STORE}-changelog"
COMMAND = (sys.executable, "-m", "bench.situations.process")
LIMIT_S = 900.0
WINDOWS = 2
"""Seconds over which the broker measures a rate. An answer has what may be read in all but one of them, and the next is
refused until the first is forgotten: twice as long. So half of a quota is read, at steps of two seconds here."""
OF_A_QUOTA = 0.5
CLOSE_S = 60.0


def main(arguments: list[str]) -> None:
    """Print one JSON line for each situation."""
    names = [situation.name for situation in SITUATIONS]
    parser = argparse.ArgumentParser(prog="python -m bench.situations", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--standbys", nargs="+", type=int, choices=(0, 1), default=(0, 1))
    options = parser.parse_args(arguments)
    asked = [situation for situation in SITUATIONS if situation.name in options.only]
    folder = Path(tempfile.mkdtemp(prefix="situations-"))  # it stays after an error, which names it
    with LocalBroker(settings={"quota.window.num": str(WINDOWS)}) as broker:
        servers = broker.bootstrap_servers
        with Place(servers, folder, GROUP) as place:
            bytes_a_record = place.fill(Path(broker.data_dir))
        for situation in asked:
            for standbys in options.standbys:
                group = replace(GROUP, standbys=standbys)
                with Place(servers, folder, group) as place:
                    real, settled_s = place.play(situation, bytes_per_s=group.restored_per_s * bytes_a_record)
                print(json.dumps(row(situation, group, real, settled_s)), flush=True)
    shutil.rmtree(folder)


def row(situation: Situation, group: Scenario, real: Costs, settled_s: float) -> dict[str, object]:
    """The real costs and those of the simulator; a cost is the downtime and what was restored, at the quota's rate."""
    simulated = measure(least_movement.POLICY, situation, group)
    cost_s = [each.downtime_s + each.restored / group.restored_per_s for each in (real, simulated)]
    return {
        "situation": situation.name,
        "standbys": group.standbys,
        "downtime_s": [round(real.downtime_s, 1), round(simulated.downtime_s, 1)],
        "restored": [real.restored, simulated.restored],
        "cost_s": [round(each, 1) for each in cost_s],
        "settled_s": [round(settled_s, 1), round(simulated.settled_s, 1)],
    }


class Place:
    """The processes of a group, a folder for the state of each, and all that they report."""

    def __init__(self, servers: str, folder: Path, group: Scenario) -> None:
        self._servers, self._folder, self._group = servers, folder, group
        self._fleet = Fleet(COMMAND, folder)
        self._state = FleetState()
        self._events: list[Event] = []
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._fleet)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # --- what is done -----------------------------------------------------------------------

    def fill(self, data: Path) -> float:
        """Give each task its records; return the bytes of one in the changelog."""
        group = self._group
        ClusterAdmin(self._servers).create_topics({TOPIC: group.partitions}, LIMIT_S)
        with closing(RecordProducer(self._servers, {}, delivery_timeout_ms=120_000)) as producer:
            for number in range(group.first_records):
                for partition in range(group.partitions):
                    producer.produce(TOPIC, partition, b"%d" % number, b"")
        self._start(0)
        self._await(lambda: self._processed >= group.first_records * group.partitions, "all records are processed")
        self._stop(0)
        changelogs = [TopicPartition(CHANGELOG, number) for number in range(group.partitions)]
        written = sum(ClusterAdmin(self._servers).end_offsets(changelogs, LIMIT_S).values())
        files = [file for changelog in changelogs for file in data.rglob(f"{changelog}/*.log")]
        return sum(file.stat().st_size for file in files) / written

    def play(self, situation: Situation, bytes_per_s: float) -> tuple[Costs, float]:
        """From rest to the next rest; return the costs, and how many seconds that took."""
        for slot in range(self._group.processes):
            shutil.rmtree(self._folder / f"state-{slot}", ignore_errors=True)
        with _records(self._servers, self._group), _limit(self._servers, round(bytes_per_s / OF_A_QUOTA)):
            for slot in situation.before:  # within the limit, too, or the first would restore everything
                self._start(slot)
            if situation.before:
                self._await_rest()
            began_ms = self._inflict(situation)
            ended_ms = wall_ms() if situation.ends else self._await_rest()
        self._fleet.stop([worker.name for worker in self._state.alive], CLOSE_S)
        spent = costs(self._events, began_ms, ended_ms, self._group.partitions)
        return spent, (ended_ms - began_ms) / 1_000

    def _inflict(self, situation: Situation) -> int:
        began_ms = wall_ms()
        for event in situation.events:
            due_ms = began_ms + 1_000 * event.at_s
            self._await(lambda due_ms=due_ms: wall_ms() >= due_ms, event.kind)  # type: ignore[misc]
            print(f"{event.at_s:4} s: {event.kind} {event.slot}", file=sys.stderr)
            match event.kind:
                case "start":
                    self._start(event.slot)
                case "restart":
                    self._fleet.tell(_name(event.slot), RESTART)
                case "leave":
                    Thread(target=self._stop, args=(event.slot,)).start()
                case "wreck":
                    self._fleet.kill(_name(event.slot))
                    shutil.rmtree(self._folder / f"state-{event.slot}")
                case _:
                    raise AssertionError(event)
        return began_ms

    def _start(self, slot: int) -> None:
        group = self._group
        settings = {
            "application_id": APPLICATION,
            "bootstrap_servers": self._servers,
            "state_dir": str(self._folder / f"state-{slot}"),
            "assignor": "least_movement",
            "num_standby_replicas": group.standbys,
            "max_warmup_replicas": group.max_warmup_replicas,
            "acceptable_recovery_lag": group.acceptable_recovery_lag,
            "commit_interval_ms": group.commit_interval_ms,
            "session_timeout_ms": group.session_timeout_ms,
            "heartbeat_interval_ms": group.heartbeat_interval_ms,
            "probing_rebalance_interval_ms": group.probing_rebalance_interval_ms,
            "early_probing": group.early_probing,
            "early_probing_floor_ms": group.early_probing_floor_ms,
        }
        self._fleet.start(_name(slot), [json.dumps(settings)])

    def _stop(self, slot: int) -> None:
        self._fleet.stop([_name(slot)], CLOSE_S)

    # --- what is seen -----------------------------------------------------------------------

    @property
    def _working(self) -> int:
        return len(self._state.owners)

    @property
    def _processed(self) -> int:
        return sum(worker.records_total for worker in self._state.alive)

    @property
    def _at_rest(self) -> bool:
        views = [view for worker in self._state.alive for view in worker.tasks.values()]
        far = any((view.lag or 0) > self._group.acceptable_recovery_lag for view in views)
        return self._state.converged and self._working == self._group.partitions and not far

    def _await_rest(self) -> int:
        """Wait until the group has been at rest for two sessions; return since when."""
        quiet_ms = 2 * self._group.session_timeout_ms
        since_ms = wall_ms()

        def rested() -> bool:
            nonlocal since_ms
            if not self._at_rest:
                since_ms = wall_ms()
            return wall_ms() - since_ms >= quiet_ms

        self._await(rested, "the group is at rest")
        return since_ms

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            for event in self._fleet.heard(0.1):
                self._state.hear(event)
                self._events.append(event)
            if time.monotonic() > deadline:
                sys.exit(f"after {LIMIT_S:.0f} s it was still not so: {what}; see the logs in {self._folder}")


@contextmanager
def _records(servers: str, group: Scenario) -> Iterator[None]:
    """Send new records to each partition for the block."""
    ends, random = Signal(), Random(1)  # noqa: S311  # repeatable, not secret

    def send() -> None:
        with closing(RecordProducer(servers, {}, delivery_timeout_ms=60_000)) as producer:
            while not ends.wait(1 / group.records_per_s):
                for partition in range(group.partitions):
                    producer.produce(TOPIC, partition, b"%d" % random.randrange(group.first_records), b"")

    sender = Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ends.set()
        sender.join()


@contextmanager
def _limit(servers: str, bytes_per_s: int) -> Iterator[None]:
    """Let each client id read so many bytes a second for the block."""
    _change_quota(servers, "--add-config", f"consumer_byte_rate={bytes_per_s}")
    try:
        yield
    finally:
        _change_quota(servers, "--delete-config", "consumer_byte_rate")


def _change_quota(servers: str, *change: str) -> None:
    jars = ":".join(map(str, class_path()))
    command = [str(find_java()), "-cp", jars, "kafka.admin.ConfigCommand", "--bootstrap-server", servers, "--alter"]
    done = subprocess.run(
        [*command, *change, "--entity-type", "clients", "--entity-default"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _name(slot: int) -> str:
    return f"process-{slot}"


if __name__ == "__main__":
    main(sys.argv[1:])
