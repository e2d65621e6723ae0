"""What keyed timers by stream time cost: sums per key in neighbouring runs, without timers and with one for each key.

    python -m bench.timers                    # 200,000 records, five runs
    python -m bench.timers --records 50000 --runs 9

Each application counts records of 10,000 keys with a RocksDB store, a changelog and one output record for each input
record, at least once. With timers, each record sets its key's timer again, and a third of the timers fire before the
next record of their key and delete its count. ``distinct``: each to its own millisecond; ``by the minute``: rounded up.
One JSON line for each kind with the processor time of a record in microseconds, the process's start included, and the
ratio to ``none``: the medians of the runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median

from bench.count.__main__ import measure
from kstreams_assign import Config, Record, Subtopology, Task, Timer, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.local import LocalBroker

KEYS = 10_000
APART_MS = 10
"""Stream time between two records."""
IDLE_MS = KEYS * APART_MS
"""As long as a key waits for its next record, on average."""
ROUNDED_TO_MS = {"none": 0, "distinct": 1, "by the minute": 60_000}


def application(kind: str, servers: str, name: str, state: str, source: str, sink: str) -> None:
    """Run until it is killed."""
    rounded_to_ms = ROUNDED_TO_MS[kind]

    def count(task: Task, records: Sequence[Record]) -> None:
        counts = task.store("counts")
        for record in records:
            assert record.key is not None
            total = b"%d" % (int(counts.get(record.key) or 0) + 1)
            counts.put(record.key, total)
            task.emit(sink, record.key, total)
            if rounded_to_ms:
                task.timers.set(record.key, -(-(record.timestamp_ms + IDLE_MS) // rounded_to_ms) * rounded_to_ms)

    def forget(task: Task, due: Sequence[Timer]) -> None:
        counts = task.store("counts")
        for timer in due:
            counts.delete(timer.key)

    config = Config(application_id=name, bootstrap_servers=servers, state_dir=state)
    timers = forget if rounded_to_ms else None
    Worker(config, [Subtopology(count, sources=[source], stores=["counts"], sinks=[sink], timers=timers)]).run()


def fill(servers: str, topic: str, records: int) -> None:
    """Write the input, with keys by chance and times that are evenly apart."""
    ClusterAdmin(servers).create_topics({topic: 1}, 20)
    producer, chance = RecordProducer(servers, delivery_timeout_ms=60_000), Random(7)  # noqa: S311  # no secret
    for number in range(records):
        key = b"key-%d" % chance.randrange(KEYS)
        producer.produce(topic, 0, key, b"1", timestamp_ms=1_000_000_000 + number * APART_MS)
    producer.flush(60)
    producer.close()


def used_s() -> float:
    """Return the processor time of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(records: int, runs: int) -> None:
    """Measure each kind in turn and print a line for each."""
    costs: dict[str, list[float]] = {kind: [] for kind in ROUNDED_TO_MS}
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        servers = broker.bootstrap_servers
        fill(servers, "timed", records)
        for run in range(runs):
            for number, kind in enumerate(ROUNDED_TO_MS):
                command = [sys.executable, "-m", "bench.timers", "--application", kind]
                before_s = used_s()
                per_s = measure(servers, command, "timed", Path(folder, f"{number}-{run}"), records)
                costs[kind].append((used_s() - before_s) / records * 1e6)
                print(f"run {run + 1}: {kind} {costs[kind][-1]:.1f} us, {per_s:,.0f} records/s", file=sys.stderr)
    for kind, each_us in costs.items():
        ratio = median(each / none for each, none in zip(each_us, costs["none"], strict=True))
        print(json.dumps({"timers": kind, "us": round(median(each_us), 1), "beside none": round(ratio, 2)}))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.timers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    compare(options.records, options.runs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--application"]:
        application(*sys.argv[2:])
    else:
        main(sys.argv[1:])
