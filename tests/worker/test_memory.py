"""What a worker holds of large records: its batches and what waits for its commits are bounded in bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.events import StatusEvent

RECORDS, RECORD_BYTES = 12_000, 100_000
PEAK_MIB = 900
"""Below the 1,144 MiB of all values: 256 MiB for RocksDB's write buffers, 64 MiB each for fetched input and for what
waits for commits, copies on the way to the broker, and the libraries themselves: some 500 in all. 2,100 to 2,500
without a bound in bytes."""
PATIENCE_S = 240.0


def keep(task: Task, records: Sequence[Record]) -> None:
    """Store each value."""
    pages = task.store("pages")
    for record in records:
        assert record.key is not None
        pages.put(record.key, record.value)


def peak_mib() -> float:
    """The most memory that this process ever had resident."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main(broker: str, name: str, state: str, guarantee: str) -> None:
    """Be the worker's process: end when all is done, and print the peak."""

    def hear(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.records_total == RECORDS:
            worker.close()

    config = Config(
        application_id=name,
        bootstrap_servers=broker,
        state_dir=state,
        processing_guarantee=guarantee,
        client={"compression.type": "zstd"},
    )
    worker = Worker(config, [Subtopology(keep, sources=[name], stores=["pages"])], on_event=hear)
    worker.run()
    print(peak_mib())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_records_of_100_kilobytes_are_not_all_held_at_once(broker: str, tmp_path: Path, guarantee: str) -> None:
    name = f"large-{guarantee.replace('_', '-')}"
    ClusterAdmin(broker).create_topics({name: 1}, 60)
    with closing(RecordProducer(broker, {"compression.type": "zstd"}, delivery_timeout_ms=120_000)) as producer:
        for number in range(RECORDS):
            producer.produce(name, 0, b"key-%d" % number, os.urandom(RECORD_BYTES // 10) * 10)
        producer.flush(120)
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.test_memory", broker, name, str(tmp_path / "state"), guarantee],
        cwd=Path(__file__).parent.parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert float(done.stdout) < PEAK_MIB


if __name__ == "__main__":
    main(*sys.argv[1:])
