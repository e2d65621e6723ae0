"""What a ttl costs: puts and commits into a store on disk, and reads, in neighbouring runs of each kind of store.

    python -m bench.expiry                    # 20 commits of 5,000 puts, five runs
    python -m bench.expiry --runs 9

A run fills a database of its own through the task's own store and buffer, without a broker: batches of records, a
commit after each. One JSON line for each kind with the medians in microseconds for each record, then the medians of the
ratios of neighbouring runs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from kstreams_assign import Record, Store, TaskId, TopicPartition
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.expiry import store_names, with_expiry
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.expiring import Expiries, task_expiry
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

COMMITS, RECORDS, KEYS = 20, 5_000, 50_000
INPUT = TopicPartition("in", 0)
VALUE = b"v" * 100
KINDS = {
    "plain": Store("s"),
    "timestamped": Store("s", timestamped=True),
    "ttl": Store("s", ttl_ms=24 * 3_600_000),
    "ttl, a tenth expires": Store("s", ttl_ms=COMMITS * RECORDS * 9 // 10),
}


class Cost(NamedTuple):
    """Microseconds for each record: ``put`` in the function, ``commit`` to the store, ``get`` afterwards."""

    put: float
    commit: float
    get: float


def run(store: Store, folder: Path) -> Cost:
    """Fill one database, then read it."""
    shape = SubtopologyShape(("in",), (store,))
    stores = with_expiry(open_task_stores(folder, store_names(shape.stores), timestamped=shape.timestamped), shape)
    times = {INPUT: PartitionTime()}
    expiry = task_expiry(shape, stores, times, lambda: 0)
    workspace = TaskWorkspace(TaskId(0, 0), shape, {}, stores, AtWork(0), times, expiry=expiry)
    running = Running(workspace, InputOffsets({INPUT: 0}), times)
    expiries = Expiries(lambda _task, _error: None)
    batches = [
        [Record("in", 0, at, at, b"key-%08d" % (at * 7919 % KEYS), VALUE, None) for at in range(first, first + RECORDS)]
        for first in range(0, COMMITS * RECORDS, RECORDS)
    ]
    put_s = commit_s = 0.0
    for batch in batches:
        began = perf_counter()
        view = running.task.store("s")
        for record in running.workspace.batch(batch):
            view.put(record.key, record.value)  # type: ignore[arg-type]
        running.saw(INPUT, batch)
        running.seal({INPUT: batch[-1].offset + 1})
        done = perf_counter()
        if expiry is not None:
            expiries.find([(TaskId(0, 0), expiry, running.offsets.done_to())])
        taken = running.take().taken
        stores.write({name: entries.items() for name, entries in taken.writes.items()}, {})
        workspace.landed()
        put_s, commit_s = put_s + done - began, commit_s + perf_counter() - done
    began = perf_counter()
    for record in batches[-1]:
        view.get(record.key)  # type: ignore[arg-type]
    get_s = perf_counter() - began
    stores.close()
    records = COMMITS * RECORDS
    return Cost(put_s / records * 1e6, commit_s / records * 1e6, get_s / RECORDS * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.expiry", description="What a ttl costs.")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    costs: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.runs):
            for kind, store in KINDS.items():
                costs[kind].append(run(store, Path(folder) / f"{kind}-{number}"))
    for kind, runs in costs.items():
        print(
            json.dumps(
                {
                    "store": kind,
                    **{name: round(median(getattr(each, name) for each in runs), 2) for name in Cost._fields},
                }
            )
        )
    for kind in list(KINDS)[1:]:
        pairs = list(zip(costs[kind], costs["plain"], strict=True))
        ratios = {
            name: round(median(getattr(a, name) / getattr(b, name) for a, b in pairs), 2) for name in Cost._fields
        }
        whole = round(median((a.put + a.commit) / (b.put + b.commit) for a, b in pairs), 2)
        print(json.dumps({"store": kind, "beside": "plain", **ratios, "put and commit": whole}))


if __name__ == "__main__":
    main()
