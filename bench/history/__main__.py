"""The rebalance history of a made fleet on a Spark standalone cluster on this machine, beside Spark's plain read.

    python -m bench.history                          # 1,000 groups of up to 200 members, 10,000 generations
    python -m bench.history --quick                  # a small fleet: does it run at all?
    python -m bench.history --runs 2x1 --groups 100  # two workers of one core each
    python -m bench.history --runs 2x1 --kills --what-if
    python -m bench.history --master spark://HOST:7077

The records go into a topic of a real broker. Executors have an environment with the built wheel. Each run is a driver
of its own; every row of its tables is compared with the pure derivation in one process. Groups that report endpoints
have at most 60 members, so that a default broker can hold their records. The peak memory of an executor is that of its
JVM and its Python workers together. With ``--kills`` the fleet is followed once more on two workers of one core, while
an executor, the broker and the driver are killed. ``--what-if`` replays the last tables on that cluster and without.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq
from confluent_kafka import Producer

from bench.history.kills import BATCHES, follow_with_kills
from bench.history.replays import ask_each
from bench.history.rows import Derived, derive_all, sums_of_folder
from bench.processes import run
from bench.results import Result, show
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.history.generate import Fleet, write_fleet
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.lives import KINDS
from kstreams_assign.local import LocalBroker
from tests.history.cluster import DRIVER, Cluster, spark_cluster
from tests.installed import build_wheel, install_wheel

KINDS_THAT_FIT = tuple(replace(kind, members_max=60) if kind.endpoints else kind for kind in KINDS)
FLEET = Fleet(groups=1_000, members=200, generations=10, kinds=KINDS_THAT_FIT)
QUICK = Fleet(groups=20, members=5, generations=5, partitions=4)
WARM = Fleet(groups=4, members=5, generations=5, seed=1, partitions=4)
RUNS = ("1x1", "1x2", "2x1")
WORKERS = os.cpu_count() or 1
"""Processes that write, derive and compare; none of that is timed by the wall clock."""

MIB = 1 << 20
RECORD_BYTES_MAX = 8 * MIB
SAMPLED_EVERY_S = 0.5


@dataclass(frozen=True)
class Plan:
    """What is measured. ``runs``: workers and cores of each; a ``master`` that runs already is used instead."""

    fleet: Fleet = FLEET
    runs: Sequence[str] = RUNS
    master: str | None = None
    memory: str = "1g"
    kills: bool = False
    what_if: bool = False


class Outcome:
    """The results of all runs, and what differed."""

    def __init__(self, derived: Derived) -> None:
        self.derived = derived
        self.results: list[Result] = []
        self.differing: list[str] = []

    def add(self, name: str, measured: dict[str, Any], out: Path, peak_bytes: int) -> None:
        """Take one run into account."""
        rate, read_rate = (measured["generations"] / measured[seconds] for seconds in ("followed_s", "read_s"))
        self.results.append(Result(f"history generations, {name}", rate, read_rate, "plain read", "1/s"))
        if peak_bytes:
            self.results.append(
                Result(f"history peak memory of an executor, {name}", peak_bytes / MIB, None, "", "MiB")
            )
        self.check(name, measured, out)

    def check(self, name: str, measured: dict[str, Any], out: Path) -> None:
        """Compare the rows of a run with those of the derivation alone, and say what was found."""
        differing = sums_of_folder(Layout(out), WORKERS).differing(self.derived.sums)
        self.differing += [f"{name}: table {table}, group {group}" for table, group in differing]
        equal = f"all {self.derived.sums.rows:,} rows are those of the derivation alone"
        verdict = f"{len(differing)} tables of groups differ" if differing else equal
        totals = {key: round(value, 1) for key, value in measured.items()}
        print(f"{name}: {totals}; {verdict}", flush=True)


def measure(quick: bool) -> list[Result]:
    """The results of ``compare``, for ``python -m bench``. Raises ``RuntimeError`` if a row differs."""
    outcome = compare(Plan(QUICK, runs=("2x1",)) if quick else Plan())
    if outcome.differing:
        raise RuntimeError("\n".join(outcome.differing))
    return outcome.results


def compare(plan: Plan) -> Outcome:
    """Each run in turn on one broker, then what the parts cost without Spark."""
    with tempfile.TemporaryDirectory(prefix="bench-history-", dir=os.environ.get("BENCH_FOLDER")) as folder:
        home = Path(folder)
        write_fleet(home / "fleet", plan.fleet, WORKERS)
        write_fleet(home / "warm", WARM)
        print(f"{plan.fleet.groups:,} groups written; now the derivation without Spark", flush=True)
        outcome = Outcome(derive_all(home / "fleet", WORKERS))
        derived = outcome.derived
        with LocalBroker(data_dir=home / "broker") as broker:
            warm = send(broker.bootstrap_servers, "warm", home / "warm", WARM.partitions)
            fleet = send(broker.bootstrap_servers, "fleet", home / "fleet", plan.fleet.partitions)
            (home / "wheel").mkdir()
            python = install_wheel(build_wheel(home / "wheel"), home / "executors")
            conf = {**DRIVER, "spark.pyspark.python": str(python), "spark.executor.memory": plan.memory}
            for number, name in enumerate(["--master"] if plan.master else plan.runs):
                out = home / f"out-{number}"
                with started(plan, name, home / f"cluster-{number}", python) as (master, cluster):
                    asked = {"master": master, "conf": conf, "out": str(out), "warm": warm, "fleet": fleet}
                    command = [sys.executable, "-m", "bench.history.driver", json.dumps({**asked, "plainly": True})]
                    with Sampled(cluster) as sampled:
                        ((*_, measured), _) = run(command)
                outcome.add(name, measured, out, sampled.peak_bytes)
            if plan.kills or plan.what_if:
                with spark_cluster(home / "cluster", [python, python], memory=plan.memory) as cluster:
                    if plan.kills:
                        records = sum(derived.sums.records.values())
                        in_batches = {**fleet, "records_a_batch": max(1, records // BATCHES)}
                        asked = {"master": cluster.url, "conf": conf, "out": str(home / "killed"), "plainly": False}
                        out, took_s = follow_with_kills(cluster, broker, {**asked, "fleet": in_batches})
                        outcome.check("with kills", {"took_s": took_s}, out)
                    if plan.what_if:
                        print_replays(out, cluster, conf)
        milliseconds = [seconds * 1000 for seconds in (derived.decoding_s, derived.deriving_s)]
        outcome.results.append(Result("history decoding, beside the derivation", *milliseconds, "derivation", "ms"))
        return outcome


def print_replays(out: Path, cluster: Cluster, conf: Mapping[str, str]) -> None:
    """Say how long the what-if of the tables took on the cluster, and on this machine without one."""
    there = ["--master", cluster.url, *(word for pair in conf.items() for word in ("--conf", "=".join(pair)))]
    replays = ask_each(out, {"the cluster": there, "one machine": ["--master", f"local[{WORKERS}]"]})
    took = ", ".join(f"{seconds:.0f} s on {name}" for name, seconds in replays.seconds.items())
    print(f"what-if: {replays.replayed:,} generations, {replays.alternatives} alternatives, equal answers: {took}")


@contextmanager
def started(plan: Plan, name: str, folder: Path, python: Path) -> Iterator[tuple[str, Cluster | None]]:
    """The master's address, and the cluster if it is started here: ``name`` is workers x cores."""
    if plan.master:
        yield plan.master, None
        return
    workers, cores = map(int, name.split("x"))
    with spark_cluster(folder, [python] * workers, cores, plan.memory) as cluster:
        yield cluster.url, cluster


class Sampled:
    """The largest memory of an executor during the block, looked at twice a second."""

    def __init__(self, cluster: Cluster | None) -> None:
        self._cluster = cluster
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        if self._cluster is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._cluster is not None:
            self._thread.join()

    def _look(self) -> None:
        assert self._cluster is not None
        while not self._end.wait(SAMPLED_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, *self._cluster.memory(), 0)


def send(broker: str, topic: str, records: Path, partitions: int) -> dict[str, Any]:
    """Write records into a new topic, each at the offset that its file says; return the source to read it from."""
    configs = {"max.message.bytes": str(RECORD_BYTES_MAX)}
    ClusterAdmin(broker).create_topics({topic: partitions}, 60.0, configs={topic: configs}, replication_factor=1)
    producer = Producer(
        {
            "bootstrap.servers": broker,
            "message.max.bytes": RECORD_BYTES_MAX,
            "enable.idempotence": True,
            "linger.ms": 50,
            "compression.type": "lz4",
        }
    )
    for path in sorted(records.iterdir()):
        for row in pq.read_table(path).to_pylist():
            place = {"partition": row["partition"], "timestamp": row["timestamp_ms"]}
            while True:
                try:
                    producer.produce(topic, row["value"], row["key"], **place)
                    break
                except BufferError:
                    producer.poll(1.0)
            producer.poll(0)
    if producer.flush(600):
        raise RuntimeError(f"{topic}: the broker did not take all records")
    return {"bootstrap_servers": broker, "topic": topic, "partitions": partitions}


def parse(arguments: Sequence[str]) -> Plan:
    """Return the plan that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small fleet, two workers of one core")
    parser.add_argument("--runs", nargs="+", metavar="WORKERSxCORES", help=f"default {' '.join(RUNS)}")
    parser.add_argument("--master", help="a cluster on this machine that runs already, instead of --runs")
    parser.add_argument("--memory", default="1g", help="of each executor's JVM")
    parser.add_argument("--kills", action="store_true", help="kill an executor, the broker and the driver in one run")
    parser.add_argument("--what-if", action="store_true", help="replay the last tables, on a cluster and without")
    parser.add_argument("--groups", type=int)
    parser.add_argument("--members", type=int)
    parser.add_argument("--generations", type=int)
    options = parser.parse_args(arguments)
    sizes = {name: getattr(options, name) for name in ("groups", "members", "generations") if getattr(options, name)}
    runs = options.runs or (("2x1",) if options.quick else RUNS)
    fleet = replace(QUICK if options.quick else FLEET, **sizes)
    return Plan(fleet, runs, options.master, options.memory, kills=options.kills, what_if=options.what_if)


def main(arguments: Sequence[str]) -> None:
    """Measure, print; end with status 1 if a row differs from the derivation alone."""
    outcome = compare(parse(arguments))
    show("The rebalance history of a fleet", outcome.results)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for line in outcome.differing[:20]:
        print(line)
    sys.exit(1 if outcome.differing else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
