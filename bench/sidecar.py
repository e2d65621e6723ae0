"""Count per key through the sidecar's socket, on a real broker: records per second, from first poll to last commit.

    python -m bench.sidecar                         # one partition, 10,000 keys, a million records
    python -m bench.sidecar --library               # the same work as a function of the library, for comparison
    python -m bench.sidecar --profile worker.prof   # where the worker's processing thread spends its time

The worker, the application (this process) and the broker share the machine. Arrays both ways; the commit of a batch is
on its way while the next is polled. The totals are read back from the changelog and compared. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import psutil

from bench.results import Result
from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, RecordProducer
from kstreams_assign.local import LocalBroker
from kstreams_assign.sidecar.client import Pending, SidecarClient

APPLICATION, INPUT, STORE = "count-per-key", "records", "counts"
WITHIN_S = 60.0
MAX_RECORDS = 10_000
QUICK_RECORDS = 50_000
WORKER = """
import cProfile, sys, threading
from kstreams_assign.worker.processing import Processor
from kstreams_assign.cli import main
if sys.argv[1]:
    where, run = sys.argv[1], Processor.run
    def profiled(self):
        profile = cProfile.Profile()
        try:
            profile.runcall(run, self)
        finally:
            profile.dump_stats(where)
    Processor.run = profiled
sys.argv[:2] = ["kstreams-assign"]
main()
"""


@dataclass(frozen=True)
class Work:
    """How much there is to count."""

    records: int
    keys: int

    def stream(self) -> Iterator[bytes]:
        """Keys at random, the same ones each time."""
        chance = Random(self.keys)  # noqa: S311  # no secret
        names = [b"key-%07d" % number for number in range(self.keys)]
        for _ in range(self.records):
            yield names[int(chance.random() * self.keys)]


def main(arguments: list[str]) -> None:
    """Print one JSON line for one run."""
    parser = argparse.ArgumentParser(prog="python -m bench.sidecar", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--library", action="store_true", help="the library's Worker instead of the sidecar")
    parser.add_argument("--profile", type=Path, help="write the worker's profile there; slows it down")
    options = parser.parse_args(arguments)
    measured = run(Work(options.records, options.keys), library=options.library, profile=options.profile)
    print(json.dumps({"records": options.records, "keys": options.keys, **measured}))


def measure(quick: bool) -> list[Result]:
    """The suite ``sidecar`` of ``python -m bench``."""
    work = Work(QUICK_RECORDS if quick else 1_000_000, 1_000 if quick else 10_000)
    rates = {"sidecar": run(work), "library": run(work, library=True)}
    return [
        Result(f"count per key {name}", measured["records_per_s"], None, "", "1/s") for name, measured in rates.items()
    ]


def run(work: Work, *, library: bool = False, profile: Path | None = None) -> dict[str, Any]:
    """Produce, count, read back. Raises ``RuntimeError`` where the counts are wrong."""
    busy = {}
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as name:
        servers, folder = broker.bootstrap_servers, Path(name)
        ClusterAdmin(servers).create_topics({INPUT: 1}, WITHIN_S)
        _produce(servers, work)
        if library:
            seconds = _library(servers, folder, work)
        else:
            with _worker(servers, folder, profile) as worker:
                watched = {"worker": worker, "application": psutil.Process(), "broker": psutil.Process(broker.pid)}
                before = {name: _cpu_s(process) for name, process in watched.items()}
                seconds = _application(folder / "bench.sock", work)
                busy = {f"{name}_cpu_s": round(_cpu_s(p) - before[name], 2) for name, p in watched.items()}
        if _counted(servers) != Counter(work.stream()):
            raise RuntimeError("the counts in the changelog are not those of the input")
    how = "library" if library else "sidecar"
    return {"how": how, "seconds": round(seconds, 2), "records_per_s": round(work.records / seconds), **busy}


def _cpu_s(process: psutil.Process) -> float:
    """Processor time, which tells more than the clock on a machine that others use too."""
    used = process.cpu_times()
    return float(used.user + used.system)


def _produce(servers: str, work: Work) -> None:
    producer = RecordProducer(servers, delivery_timeout_ms=60_000)
    for key in work.stream():
        producer.produce(INPUT, 0, key, b"x")
    producer.flush(WITHIN_S)
    producer.close()


@contextmanager
def _worker(servers: str, folder: Path, profile: Path | None) -> Iterator[psutil.Process]:
    config = folder / "worker.toml"
    config.write_text(
        f'application_id = "{APPLICATION}"\nbootstrap_servers = "{servers}"\nstate_dir = "{folder}/state"\n'
        f'socket = "{folder}/bench.sock"\nbuffered_records_max = {MAX_RECORDS * 4}\n'
        f'[[topology.subtopology]]\nsources = ["{INPUT}"]\nstores = ["{STORE}"]\n',
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-c",
        WORKER,
        str(profile.absolute()) if profile else "",
        "worker",
        "--json-log",
        "--config",
    ]
    with subprocess.Popen([*command, config], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            next(line for line in process.stdout if json.loads(line)["event"] == "running")
            Thread(target=process.stdout.read, daemon=True).start()
            yield psutil.Process(process.pid)
            process.terminate()
            process.wait(WITHIN_S)
        finally:
            process.kill()


def _application(path: Path, work: Work) -> float:
    commits: list[Pending] = []
    with SidecarClient(str(path)) as session:
        began = time.perf_counter()
        left = work.records
        while left:
            for batch in session.poll_columns(MAX_RECORDS):
                left -= len(batch.key)
                counts = Counter(batch.key)
                keys = list(counts)
                before = session.get(batch.task, STORE, keys)  # type: ignore[arg-type]  # every record here has a key
                added = counts.values()
                values = [b"%d" % (int(old or 0) + more) for old, more in zip(before, added, strict=True)]
                session.put(batch.task, STORE, dict(zip(keys, values, strict=True)))  # type: ignore[arg-type]
            commits.append(session.commit_later())
        for commit in commits:
            commit.result()
        return time.perf_counter() - began


def _library(servers: str, folder: Path, work: Work) -> float:
    began = 0.0
    left = work.records

    def count(task: Task, records: list[Record]) -> None:
        nonlocal began, left
        began = began or time.perf_counter()
        counts = Counter(record.key for record in records if record.key is not None)
        store = task.store(STORE)
        keys = list(counts)
        for key, old in zip(keys, store.get_many(keys), strict=True):
            store.put(key, b"%d" % (int(old or 0) + counts[key]))
        left -= len(records)
        if not left:
            worker.close()

    config = Config(application_id=APPLICATION, bootstrap_servers=servers, state_dir=str(folder / "state"))
    worker = Worker(config, [Subtopology(count, sources=[INPUT], stores=[STORE])])  # type: ignore[arg-type]
    worker.run()
    return time.perf_counter() - began


def _counted(servers: str) -> Counter[bytes]:
    admin = ClusterAdmin(servers)
    partition = TopicPartition(f"{APPLICATION}-{STORE}-changelog", 0)
    (end,) = admin.end_offsets([partition], WITHIN_S).values()
    reader = ConfluentChangelogReader(servers, group_id=APPLICATION, admin=admin)
    reader.add({partition: 0})
    measured: Counter[bytes] = Counter()
    at = 0
    while at < end:
        for batch in reader.poll(1):
            measured.update({key: int(value or 0) - measured[key] for key, value in batch.writes})
            at = batch.next_offset
    reader.close()
    return measured


if __name__ == "__main__":
    main(sys.argv[1:])
