"""Count per key, ours and the peers' in turn on the same broker: ``python -m bench.count``.

    python -m bench.count      # all applications, 500,000 records, three runs
    python -m bench.count --only library java --records 200000 --runs 1

The applications: library, columns (the library with whole batches), sidecar, a loop by hand, Java Streams, Quix, Faust.

Each application counts the same records (10,000 keys, one partition) with a RocksDB store, a changelog and one output
record for each input record, at least once, with its own defaults. The rate is taken from the broker's clock: output
records after the first batch, over the time between the first and the last. Faust, far slower, gets a tenth of the
records. What the peers need is installed into an environment of their own, next to the project's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.java_peer import NoJavaPeer, compiled, compiler, jars
from bench.results import RESULTS, Result, show, write
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.jars import Jar, class_path
from kstreams_assign.model import TopicPartition

FOLDER = Path(__file__).parent
PEERS = FOLDER / "peers.txt"
PEERS_VENV = FOLDER.parent.parent / ".venv" / "peers"
KEYS = 10_000
LIMIT_S = 300.0
SLOWER = {"faust": 10}
"""Who gets only so small a part of the records."""

MODULES = {
    "library": "bench.count.ours",
    "columns": "bench.count.columns",
    "sidecar": "bench.count.sidecar",
    "by_hand": "bench.count.by_hand",
}
OURS = ("library", "columns", "sidecar")
NAMES = {"by_hand": "a loop by hand", "java": "Java Streams 4.3.1", "quix": "Quix Streams", "faust": "Faust"}
EVERYBODY = (*OURS, *NAMES)


def main(arguments: list[str]) -> None:
    """Measure, print a table, write ``bench/results.json``."""
    options = parse(arguments)
    results = compare(options.only, options.records, options.runs)
    show(f"Count per key, {options.records:,} records, median of {options.runs} runs", results)
    write(results)
    print(f"{len(results)} results in {RESULTS.relative_to(RESULTS.parent.parent)}")


def compare(only: Sequence[str] = EVERYBODY, records: int = 500_000, runs: int = 3) -> list[Result]:
    """Each of ours beside each peer: the medians of so many runs, in turn."""
    commands = {name: command for name in only if (command := _command(name)) is not None}
    rates: dict[str, list[float]] = {name: [] for name in commands}
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        servers = broker.bootstrap_servers
        _produce(servers, "count-in", records)
        for run in range(runs):
            for name, command in commands.items():
                wanted = records // SLOWER.get(name, 1)
                source = _slower(servers, name, wanted) if name in SLOWER else "count-in"
                rate = measure(servers, command, source, Path(folder, f"{name}-{run}"), wanted)
                rates[name].append(rate)
                print(f"run {run + 1}: {name} {rate:,.0f} records/s", file=sys.stderr)
    return list(_compared({name: median(runs_per_s) for name, runs_per_s in rates.items()}))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.count", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=EVERYBODY, default=EVERYBODY)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args(arguments)


def _compared(rates: Mapping[str, float]) -> list[Result]:
    """Each of ours beside each peer; alone where there is none."""
    peers = {NAMES[name]: rate for name, rate in rates.items() if name in NAMES}
    results = []
    for ours in [name for name in OURS if name in rates]:
        pairs = peers.items() or [("", None)]
        results += [
            Result(f"count per key, {ours} beside {name}", rates[ours], rate, name, "1/s") for name, rate in pairs
        ]
    return results


# --- one run ------------------------------------------------------------------------------


def measure(servers: str, command: list[str], source: str, state: Path, wanted: int) -> float:
    """Records a second of one application from the first output to the last, by the broker's clock."""
    application = f"count-{uuid4().hex[:8]}"
    sink = f"{application}-out"
    ClusterAdmin(servers).create_topics({sink: 1}, 20, configs={sink: {"message.timestamp.type": "LogAppendTime"}})
    with _running([*command, servers, application, str(state), source, sink], state) as process:
        return _rate(servers, sink, wanted, process)


def _rate(servers: str, sink: str, wanted: int, process: subprocess.Popen[bytes]) -> float:
    reader = InputConsumer(servers, group_id="count-reader")
    reader.add({TopicPartition(sink, 0): 0})
    deadline = time.monotonic() + LIMIT_S
    seen = first_batch = 0
    first_ms = last_ms = None
    while seen < wanted:
        for records in reader.poll(50_000, 0.2).values():
            for record in records:
                if first_ms is None:
                    first_ms = record.timestamp_ms
                first_batch += record.timestamp_ms == first_ms
                last_ms = record.timestamp_ms
            seen += len(records)
        if time.monotonic() > deadline or process.poll() is not None:
            sys.exit(f"{sink}: {seen} of {wanted} records came out (exit status {process.poll()})")
    reader.close()
    assert first_ms is not None
    assert last_ms is not None
    return (seen - first_batch) * 1000 / max(1, last_ms - first_ms)


@contextmanager
def _running(command: list[str], state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application's process, killed in the end; what it says goes into a file beside its state."""
    with (
        state.with_suffix(".log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=FOLDER.parent.parent) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _produce(servers: str, topic: str, count: int) -> None:
    ClusterAdmin(servers).create_topics({topic: 1}, 20)
    producer = RecordProducer(servers, delivery_timeout_ms=60_000)
    for number in range(count):
        producer.produce(topic, 0, b"key-%d" % (number * 7919 % KEYS), b"1")
    producer.flush(60)
    producer.close()


def _slower(servers: str, name: str, count: int) -> str:
    topic = f"count-in-{name}"
    if not ClusterAdmin(servers).partition_counts([topic], 20):
        _produce(servers, topic, count)
    return topic


# --- commands -------------------------------------------------------------------------------


def _command(name: str) -> list[str] | None:
    """How to start it, before the five arguments: servers, application, state directory, source, sink."""
    if name in MODULES:
        return [sys.executable, "-m", MODULES[name]]
    if name == "java":
        return _java()
    script = "quix.py" if name == "quix" else "faust_app.py"
    return [str(_peers_python()), str(FOLDER / script)]


def _java() -> list[str] | None:
    try:
        java, path = compiler(), class_path([*jars(), *rocksdb_jars()])
    except (NoJavaPeer, LocalBrokerError) as missing:
        print(f"Java Streams is left out: {missing}", file=sys.stderr)
        return None
    classes = [compiled(java, path, FOLDER / "java"), *path]
    return [str(java), "-cp", os.pathsep.join(map(str, classes)), "CountApp"]


def rocksdb_jars() -> list[Jar]:
    """Return what Java Streams needs for a RocksDB store, in addition to ``jars``."""
    lock = (FOLDER / "jars.lock").read_text(encoding="utf-8").split("\n")
    return [Jar(*line.replace(":", " ").split()) for line in lock if line]


def _peers_python() -> Path:
    """The peers' own environment, made once."""
    python, ready = PEERS_VENV / "bin" / "python", PEERS_VENV / ".ready"
    if not ready.is_file() or ready.read_text(encoding="utf-8") != PEERS.read_text(encoding="utf-8"):
        print(f"installing {PEERS.name} into {PEERS_VENV.name}", file=sys.stderr)
        venv.create(PEERS_VENV, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", PEERS], check=True)
        ready.write_text(PEERS.read_text(encoding="utf-8"), encoding="utf-8")
    return python


if __name__ == "__main__":
    main(sys.argv[1:])
