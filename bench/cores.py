"""How much more two supervised processes do than one, where the user's function needs the processor.

    python -m bench.cores                            # 1 and 2 processes in turns, three times each
    python -m bench.cores --processes 1 4 --runs 5   # on a machine with more cores

Each run is a group of its own on one broker. When every process has its tasks, the records are sent, and the time runs
until all of them are committed. One JSON line a run, then one with the medians and the median of the ratios of
neighbouring runs. ``cpu_ms_a_record`` is the processor time of the group, with its start: if it is the same for both,
only the machine's other load keeps the ratio below the number of cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets, RecordProducer
from kstreams_assign.local import LocalBroker

ROOT = Path(__file__).parent.parent
PARTITIONS = 8
ROUNDS = 1_000
"""SHA-256 sums for each record; each is so short that Python keeps its lock."""
SETTINGS = "BENCH_CORES_SETTINGS"
LIMIT_S = 300.0


def work(task: Task, records: Sequence[Record]) -> None:
    """Compute something for each record, and emit it."""
    for record in records:
        digest = record.value or b""
        for _ in range(ROUNDS):
            digest = sha256(digest).digest()
        task.emit(f"{record.topic}-out", record.key, digest)


def make_worker() -> Worker:
    """Return the worker of one process."""
    settings = json.loads(os.environ[SETTINGS])
    topic = settings["application_id"]
    return Worker(Config.from_mapping(settings), [Subtopology(work, sources=[topic], sinks=[f"{topic}-out"])])


def main(words: Sequence[str]) -> None:
    """Print a JSON line for each run, and one for the ratio."""
    parser = argparse.ArgumentParser(prog="python -m bench.cores", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", nargs=2, type=int, default=[1, 2], metavar="N", help="the two to compare")
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(words)
    rates: dict[int, list[float]] = {count: [] for count in options.processes}
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        for run in range(options.runs):
            for count in options.processes:
                before_s, name = cpu_s(), f"cores-{count}-{run}"
                rate = measure(broker.bootstrap_servers, name, Path(folder) / name, count, options.records)
                rates[count].append(rate)
                cpu_ms = (cpu_s() - before_s) * 1000 / options.records
                row = {"processes": count, "records_per_s": round(rate), "cpu_ms_a_record": round(cpu_ms, 3)}
                print(json.dumps(row), flush=True)
    fewer, more = (rates[count] for count in options.processes)
    ratio = median(high / low for low, high in zip(fewer, more, strict=True))
    medians = [round(median(each)) for each in (fewer, more)]
    print(json.dumps({"processes": options.processes, "medians": medians, "ratio": round(ratio, 2)}))


def cpu_s() -> float:
    """Return the processor time of all groups that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(servers: str, name: str, folder: Path, processes: int, records: int) -> float:
    """Return records a second of a group with so many processes."""
    ClusterAdmin(servers).create_topics({name: PARTITIONS, f"{name}-out": PARTITIONS}, LIMIT_S)
    settings = {"application_id": name, "bootstrap_servers": servers, "state_dir": str(folder)}
    with supervised(settings, processes) as port:
        await_that(lambda: all_have_tasks(port, processes))
        began = perf_counter()
        send(servers, name, records)
        partitions = [TopicPartition(name, number) for number in range(PARTITIONS)]
        with closing(CommittedOffsets(servers, None, group_id=name)) as committed:
            await_that(lambda: sum(committed.read(partitions, LIMIT_S).values()) == records)
        return records / (perf_counter() - began)


@contextmanager
def supervised(settings: dict[str, Any], processes: int) -> Iterator[int]:
    """Run the group while the block runs; yield the port of its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["run", "bench.cores:make_worker", "--processes", str(processes), "--http", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreams_assign", *command, "--log-level", "warning"],
        cwd=ROOT,
        env={**os.environ, SETTINGS: json.dumps(settings)},
    )
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)


def all_have_tasks(port: int, processes: int) -> bool:
    """Return whether the tasks are spread evenly, and run."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        try:
            connection.request("GET", "/status.json")
            shown = json.loads(connection.getresponse().read())
        except (OSError, HTTPException):
            return False
    tasks = [[task["state"] for task in (each["status"] or {"tasks": []})["tasks"]] for each in shown["processes"]]
    return tasks == [["running"] * (PARTITIONS // processes)] * processes


def send(servers: str, topic: str, records: int) -> None:
    with closing(RecordProducer(servers, delivery_timeout_ms=60_000)) as producer:
        for number in range(records):
            producer.produce(topic, number % PARTITIONS, b"%d" % number, b"%d" % number)
        producer.flush(LIMIT_S)


def await_that(met: Callable[[], bool]) -> None:
    """Wait for a condition. Raises ``TimeoutError``."""
    deadline = perf_counter() + LIMIT_S
    while not met():
        if perf_counter() > deadline:
            raise TimeoutError(f"not met in {LIMIT_S:.0f} s")
        threading.Event().wait(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
