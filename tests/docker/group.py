"""A group of workers in containers under load, on the cluster's network, counted by the checkers of ``tests.chaos``."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import time

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos import reading
from tests.chaos.checks import violations
from tests.chaos.facts import Exit, Facts
from tests.chaos.load import Load
from tests.chaos.processes import topics
from tests.chaos.rows import read_row
from tests.chaos.schedule import Settings
from tests.docker.cluster import BOOTSTRAP, INSIDE, Cluster, docker, inspected, until
from tests.docker.images import ROOT, WORKER_IMAGE

WORKERS = 3
SESSION_S = 6.0
SETTINGS = Settings(
    seed=1,
    seconds=0,
    guarantee="exactly_once_v2",
    workers=WORKERS,
    partitions=6,
    inputs_per_s=200,
    standbys=1,
    session_timeout_s=SESSION_S,
)

KNOWN_ABORT = "Invalid transaction state transition"
"""A call of librdkafka ends its process; see "Known defects of libraries" in the limits."""


class Group:
    """One application: topics, load, three workers. ``begin`` is the time of its fault, on the wall clock."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.inputs, self.outputs, self.changelog = topics(name)
        self.workers = [f"{name}-{number}" for number in range(WORKERS)]
        self.slept: set[str] = set()
        admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
        arrival = {"message.timestamp.type": "LogAppendTime"}  # otherwise outputs have their inputs' time
        new = [
            NewTopic(self.inputs, SETTINGS.partitions, 3),
            NewTopic(self.outputs, SETTINGS.partitions, 3, config=arrival),
        ]
        for made in admin.create_topics(new, operation_timeout=30).values():
            made.result(60)
        self._load = Load(BOOTSTRAP, self.inputs, SETTINGS)
        folder.chmod(0o777)  # the image has a different user

    def start(self) -> None:
        """Start load and workers; return once the group is at rest."""
        for worker in self.workers:
            self._run(worker)
        until(lambda: not self.reasons(), 120, "the group is at rest")
        self._load.start()
        until(lambda: len(self._load.acknowledged) > SETTINGS.inputs_per_s, 60, "a second of load")

    def _run(self, worker: str) -> None:
        given = {
            "signature": worker,
            "events": f"/facts/{worker}.events",
            "inputs": self.inputs,
            "outputs": self.outputs,
            "jump_ms": 0,
            "config": {
                "application_id": self.name,
                "bootstrap_servers": INSIDE,
                "state_dir": "/var/lib/kstreams-assign",
                "processing_guarantee": SETTINGS.guarantee,
                "num_standby_replicas": SETTINGS.standbys,
                "session_timeout_ms": int(SESSION_S * 1000),
                "early_probing_floor_ms": 2_000,
                "acceptable_recovery_lag": 200,
            },
        }
        docker(
            *("run", "--detach", "--name", worker, "--network", f"{self.cluster.project}_clients"),
            *("--restart", "on-failure:2"),  # as its supervisor does after an assertion of librdkafka
            *("--volume", f"{ROOT}/tests:/checkout/tests:ro", "--volume", f"{self.folder}:/facts"),
            *("--env", "PYTHONPATH=/checkout", "--env", "PYTHONDONTWRITEBYTECODE=1", "--no-healthcheck"),
            *("--init", "--entrypoint", "python3", WORKER_IMAGE, "-m", "tests.chaos.worker", json.dumps(given)),
        )

    def end(self) -> None:
        """Remove all containers."""
        subprocess.run(["docker", "rm", "--force", "--volumes", *self.workers], capture_output=True, check=False)

    def reasons(self) -> tuple[str, ...]:
        """Return why the group is not at rest, by ``inspect`` and the committed offsets."""
        return reading.look(BOOTSTRAP, self.name, self.inputs, WORKERS).reasons

    def come_to_rest(self) -> None:
        """Stop the load; return once everything is committed, the group is balanced, and all workers have closed."""
        self._load.stop()
        try:
            until(lambda: not self.reasons(), 150, "the group is at rest")
        except AssertionError as never:
            raise AssertionError("\n".join((str(never), *self.reasons(), *self._worker_logs()))) from never
        docker("stop", "--time", "30", *self.workers)

    def violations(self) -> list[str]:
        """Return the checkers' findings on everything that the run left in the brokers."""
        commits, generations = reading.group_records(BOOTSTRAP, self.name, self.inputs)
        facts = Facts(
            guarantee=SETTINGS.guarantee,
            warmups_max=SETTINGS.warmups_max,
            acknowledged=frozenset(self._load.acknowledged),
            inputs=reading.inputs(BOOTSTRAP, self.inputs),
            writes=reading.writes(BOOTSTRAP, self.changelog),
            rows=reading.rows(BOOTSTRAP, self.outputs),
            commits=commits,
            generations=generations,
            exits=tuple(self._exit(worker) for worker in self.workers),
            slept=frozenset(self.slept),
            aborted_transactions=0,
        )
        return [*violations(facts), *self._load.lost, *self._restarted()]

    def _restarted(self) -> Iterator[str]:
        """Name the workers that were restarted for another reason than the known assertion of librdkafka."""
        for worker in self.workers:
            restarts, said = inspected(worker)["RestartCount"], docker("logs", worker).stderr
            if restarts > said.count(KNOWN_ABORT):
                yield f"{worker} ended {restarts} times by itself: {said[-2_000:]}"

    def _exit(self, worker: str) -> Exit:
        said = docker("logs", "--tail", "12", worker)
        return Exit(worker, inspected(worker)["State"]["ExitCode"], by_us=False, said=said.stderr)

    def _worker_logs(self) -> Iterator[str]:
        """Yield the end of each worker's output, to explain a failure."""
        for worker in self.workers:
            said = docker("logs", "--tail", "60", worker)
            yield f"{worker}: {said.stdout}{said.stderr}"

    def silence_s(self, began: float) -> float:
        """Return the longest time without output of a task, from ``began`` (wall clock) on, by output timestamps."""
        times: dict[int, list[float]] = defaultdict(list)
        for message in reading.records(BOOTSTRAP, self.outputs):
            times[read_row(message.value()).partition].append(message.timestamp()[1] / 1000)
        gaps = [
            after - max(before, began)
            for moments in times.values()
            for before, after in pairwise(sorted(moments))
            if after > began
        ]
        return max(gaps)


@contextmanager
def group(cluster: Cluster, name: str, folder: Path) -> Iterator[Group]:
    """Run a group and remove it afterwards."""
    started = Group(cluster, name, folder)
    try:
        started.start()
        yield started
    finally:
        started.end()


def in_network_of(container: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this machine in a container's network."""
    pid = inspected(container)["State"]["Pid"]
    return subprocess.run(
        ["nsenter", "--target", str(pid), "--net", *command], capture_output=True, text=True, check=False
    )


def slow_down(containers: Sequence[str]) -> str:
    """Slow down what these containers send: delayed and lossy if the kernel can, else narrow; return the rule."""
    for rule in (
        ("netem", "delay", "80ms", "20ms", "loss", "1%"),
        ("tbf", "rate", "512kbit", "burst", "16kb", "latency", "400ms"),
    ):
        done = [
            in_network_of(container, "tc", "qdisc", "replace", "dev", "eth0", "root", *rule) for container in containers
        ]
        if not any(result.returncode for result in done):
            return " ".join(rule)
    raise AssertionError(done[0].stderr)


def speed_up(containers: Sequence[str]) -> None:
    """Restore the links."""
    for container in containers:
        in_network_of(container, "tc", "qdisc", "del", "dev", "eth0", "root")


def now() -> float:
    """Return the wall-clock time, which containers share."""
    return time()
