"""Restore of one application's changelog, ours and the peers' in turn on the same broker: ``python -m bench.restore``.

    python -m bench.restore                                # three runs of everything: one, four partitions, memory
    python -m bench.restore --records 200000 --runs 1

Ours is a whole worker, from its assignment to the task that runs; Java Streams is timed from its listener's
``onRestoreStart`` to ``onRestoreEnd``; raw is one loop around the two libraries below. Each is a process of its own
with its own defaults, and every one starts with an empty folder. Values have 100 bytes where nothing else is said; each
key is written once. Memory is a process's largest resident set: what may not grow with the changelog, nor with its
values.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import processes
from bench.count.__main__ import FOLDER as COUNT
from bench.java_peer import NoJavaPeer, compiled, compiler, jars
from bench.restore.fill import Changelog
from bench.results import RESULTS, Result, show, write
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.jars import Jar, class_path

FOLDER = Path(__file__).parent
JAVA = "Java Streams 4.3.1"
RAW_READ, RAW_STORE = "raw read of keys and values", "raw read into RocksDB"


@dataclass(frozen=True, slots=True)
class Run:
    """What one process did."""

    per_s: float
    rss_mib: float


def main(arguments: list[str]) -> None:
    """Measure, print a table, write ``bench/results.json``."""
    options = parse(arguments)
    results = compare(options.records, options.runs)
    show(f"Restore of {options.records:,} records, median of {options.runs} runs", results)
    write(results)
    print(f"{len(results)} results in {RESULTS.relative_to(RESULTS.parent.parent)}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.restore", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args(arguments)


def compare(records: int = 1_000_000, runs: int = 3) -> list[Result]:
    """One partition beside everybody, four beside Java, and the memory of ours with less, more and larger records."""
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        results = []
        for changelog in (Changelog(records), Changelog(records, partitions=4)):
            fill(servers, changelog)
            results += beside(servers, changelog, runs)
        results += committed(servers, Changelog(records), runs)
        return results + list(memory(servers, records))


def beside(servers: str, changelog: Changelog, runs: int) -> list[Result]:
    """Ours and the others in turn, so many times."""
    by_name: dict[str, list[Run]] = {}
    for _ in range(runs):
        for name, command in _commands(servers, changelog).items():
            measured = measure(command)
            by_name.setdefault(name, []).append(measured)
            print(f"{changelog}: {name} {measured.per_s:,.0f} records/s, {measured.rss_mib:,.0f} MiB", file=sys.stderr)
    ours, rates = _rate(by_name.pop("ours")), {name: _rate(those) for name, those in by_name.items()}
    pairs = rates.items() or [("", None)]
    return [Result(f"restore {changelog} beside {name}", ours, rate, name, "1/s") for name, rate in pairs]


def committed(servers: str, changelog: Changelog, runs: int) -> list[Result]:
    """Ours reading committed records alone, as exactly once does, beside ours reading all."""
    rates: dict[str, list[Run]] = {"exactly_once_v2": [], "at_least_once": []}
    for _ in range(runs):
        for guarantee, done in rates.items():
            done.append(measure(ours(servers, changelog, guarantee)))
            print(f"{changelog}: ours, {guarantee} {done[-1].per_s:,.0f} records/s", file=sys.stderr)
    once, least = map(_rate, rates.values())
    return [Result(f"restore {changelog}, exactly once", once, least, "ours, at least once", "1/s")]


def memory(servers: str, records: int) -> Iterator[Result]:
    """Yield the peak memory of a worker, for different numbers and sizes of records."""
    usual = None
    for changelog in (
        Changelog(records // 5),
        Changelog(records),
        Changelog(records * 3),
        Changelog(max(1_000, records // 30), value_bytes=10_000),
    ):
        if changelog.records != records:
            fill(servers, changelog)
        mib = memory_of(servers, changelog)
        usual = usual or mib
        yield Result(f"memory, restore {changelog}", mib, usual, "ours, fewest records", "MiB")


def memory_of(servers: str, changelog: Changelog) -> float:
    """The most that a worker took that restored it, in MiB."""
    return measure(ours(servers, changelog)).rss_mib


def _rate(runs: Sequence[Run]) -> float:
    return median(run.per_s for run in runs)


# --- one run ------------------------------------------------------------------------------


def measure(command: Sequence[str]) -> Run:
    """Start it on an empty folder (the word ``FOLDER``) and wait for its line."""
    with tempfile.TemporaryDirectory() as folder:
        facts, rss_mib = run_on(folder, command)
    return Run(facts["records"] / facts["seconds"], rss_mib)


def run_on(folder: str, command: Sequence[str]) -> tuple[processes.Json, float]:
    """Its line, and its peak memory in MiB, on this folder (the word ``FOLDER``)."""
    (facts,), rss_mib = processes.run([folder if word == "FOLDER" else word for word in command])
    return facts, rss_mib


def fill(servers: str, changelog: Changelog) -> None:
    """In a process of its own: a measured one would count the memory of this one."""
    words = (servers, changelog.records, changelog.partitions, changelog.value_bytes, int(changelog.alike))
    processes.text_of([sys.executable, "-m", "bench.restore.fill", *map(str, words)])


# --- commands -------------------------------------------------------------------------------


def _commands(servers: str, changelog: Changelog) -> dict[str, list[str]]:
    """Name -> command; raw reads one partition alone, and Java may not be here."""
    commands = {"ours": ours(servers, changelog)}
    java = _java()
    if java is not None:
        commands[JAVA] = [*java, *_application(servers, changelog)]
    if changelog.partitions == 1:
        raw = [sys.executable, "-m", "bench.restore.raw", servers, changelog.topic, "FOLDER"]
        commands |= {RAW_READ: [*raw, "read"], RAW_STORE: [*raw, "store"]}
    return commands


def ours(servers: str, changelog: Changelog, guarantee: str = "at_least_once") -> list[str]:
    """The command of a worker that restores it; the word FOLDER stands for its folder."""
    return [sys.executable, "-m", "bench.restore.ours", *_application(servers, changelog), guarantee]


def _application(servers: str, changelog: Changelog) -> list[str]:
    return [servers, changelog.application, "FOLDER", changelog.source, str(changelog.partitions)]


def _java() -> list[str] | None:
    lock = (COUNT / "jars.lock").read_text(encoding="utf-8").split("\n")
    more = [Jar(*line.replace(":", " ").split()) for line in lock if line]
    try:
        java, path = compiler(), class_path([*jars(), *more])
        classes = compiled(java, path, FOLDER / "java")
    except (NoJavaPeer, LocalBrokerError) as missing:
        print(f"{JAVA} is left out: {missing}", file=sys.stderr)
        return None
    return [str(java), "-cp", os.pathsep.join(map(str, [classes, *path])), "RestoreApp"]


if __name__ == "__main__":
    main(sys.argv[1:])
