"""The rebalance history on Spark: records a second of a made fleet, on one core and on two, and where the time goes.

    python -m bench --only history            # 1,000 groups, 100 members, 10,000 generations; minutes
    python -m bench --only history --quick

Each number of cores is a process of its own with its own JVM. What is timed is the second batch, which has the fleet;
the first, of a few records, has started Spark's Python workers and let the JVM warm up. Beside it, without Spark: the
derivation of the same records on one core, and of that the decoding alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from bench.processes import run
from bench.results import Result
from kstreams_assign.history.derive import derive
from kstreams_assign.history.follow import BatchReport, Settings, follow_until_done, following
from kstreams_assign.history.generate import Fleet, write_fleet
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.records import Kind, RawRecords, key_of
from kstreams_assign.history.seen import Place, read_generation
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.source import Folder
from kstreams_assign.history.staging import COLUMNS, by_group
from kstreams_assign.wire import decode_group_metadata, decode_offset_commit

CORES = (1, 2)
FLEET = Fleet(groups=1_000, members=100, generations=10)
QUICK = Fleet(groups=20, members=5, generations=5)
WARM = Fleet(groups=4, members=5, generations=5, seed=1)


def measure(quick: bool) -> list[Result]:
    """One row for each number of cores, then what the parts cost without Spark."""
    with tempfile.TemporaryDirectory(prefix="bench-history-") as folder:
        big, warm = Path(folder, "fleet"), Path(folder, "warm")
        write_fleet(big, QUICK if quick else FLEET, workers=2)
        write_fleet(warm, WARM)
        runs = [_on_spark(cores, warm, big, Path(folder, f"out-{cores}")) for cores in CORES]
        rates = [run_result["records"] / run_result["seconds"] for run_result in runs]
        deriving_s, decoding_s, records = _without_spark(big)
    return [
        Result("history records, one core of Spark", rates[0], records / deriving_s, "derivation alone", "1/s"),
        Result("history records, two cores of Spark", rates[1], rates[0], "one core", "1/s"),
        Result("history decoding alone", decoding_s * 1000, deriving_s * 1000, "derivation alone", "ms"),
    ]


def _on_spark(cores: int, warm: Path, big: Path, out: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.history", str(cores), str(warm), str(big), str(out)]
    ((runs,), _) = run(command)
    return runs


def follow_two_batches(cores: int, warm: Path, big: Path, out: Path) -> BatchReport:
    """The report of the second batch. Run in a process of its own."""
    layout, records = Layout(out), out.with_name(f"{out.name}-records")
    records.mkdir()
    reports: list[BatchReport] = []
    with spark_session(f"local[{cores}]", log=layout.log, kafka=False) as session:
        for folder in (warm, big):
            for path in folder.iterdir():
                (records / f"{folder.name}-{path.name}").hardlink_to(path)
            with following(session, Folder(records), layout, Settings(once=True), watch=reports.append) as query:
                follow_until_done(query, layout, lambda _: None)
    return reports[-1]


def _without_spark(folder: Path) -> tuple[float, float, int]:
    """Seconds of the derivation, of them for decoding, and how many records that were."""
    deriving_s = decoding_s = 0.0
    records = 0
    for group, own in _groups(folder):
        records += len(own.offset)
        started = time.perf_counter()
        derive(None, own)
        derived = time.perf_counter()
        _decode(group, own)
        deriving_s, decoding_s = deriving_s + derived - started, decoding_s + time.perf_counter() - derived
    return deriving_s, decoding_s, records


def _groups(folder: Path) -> Iterator[tuple[str, RawRecords]]:
    for path in sorted(folder.iterdir()):
        table = pq.read_table(path)
        for group, own in by_group(RawRecords(*(table.column(name).to_pylist() for name in COLUMNS))):
            assert group is not None
            yield group, own


def _decode(group: str, records: RawRecords) -> None:
    for key, value, partition, offset, time_ms in zip(
        records.key, records.value, records.partition, records.offset, records.timestamp_ms, strict=True
    ):
        assert value is not None
        if key_of(key).kind is Kind.OFFSET_COMMIT:
            decode_offset_commit(value)
        else:
            metadata = decode_group_metadata(value)
            read_generation(Place(group, metadata.generation, partition, offset, time_ms), metadata)


def main(cores: str, *folders: str) -> None:
    """Print one JSON line: how many records in how many seconds."""
    import json

    warm, big, out = map(Path, folders)
    report = follow_two_batches(int(cores), warm, big, out)
    print(json.dumps({"records": report.records, "seconds": report.took_ms / 1000}))


if __name__ == "__main__":
    main(*sys.argv[1:])
