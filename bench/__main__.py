"""``python -m bench``: measure, print tables, write ``bench/results.json``.

Without a Java that can compile, one line says so and the peer's column stays empty.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from bench import assign, codec, java_peer, leader
from bench.results import RESULTS, Result, show, write

SUITES = ("assign", "codec", "leader")
LEADERS_WORK = (
    "codec leader reads 1,000 subscriptions",
    "assign 1000x1000x1x1 join",
    "codec leader writes 1,000 assignments",
)


def _history(quick: bool) -> list[Result]:
    from bench.history import __main__ as history  # large, as the others: a process counts its parent's memory

    return history.measure(quick)


def _sidecar(quick: bool) -> list[Result]:
    from bench import sidecar

    return sidecar.measure(quick)


def _count(quick: bool) -> list[Result]:
    from bench.count import __main__ as count

    return count.compare(records=50_000, runs=1) if quick else count.compare()


def _restore(quick: bool) -> list[Result]:
    from bench.restore import __main__ as restore

    return restore.compare(records=50_000, runs=1) if quick else restore.compare()


def _racks(quick: bool) -> list[Result]:
    from bench import racks

    return racks.measure(quick)


def _migration(quick: bool) -> list[Result]:
    from bench import migration

    return migration.compare(migration.QUICK if quick else migration.Plan())


ASKED_FOR: Mapping[str, tuple[str, Callable[[bool], list[Result]]]] = {
    "history": ("The rebalance history of a fleet", _history),
    "sidecar": ("Count per key on one partition, 10,000 keys", _sidecar),
    "count": ("Count per key, beside the peers", _count),
    "restore": ("Restore of a changelog, a whole worker beside the peers", _restore),
    "racks": ("Traffic between racks: partitions read from another one, and one decision", _racks),
    "migration": ("Three Java instances replaced, one at a time: silence of a task", _migration),
}
"""Suites that run only when they are named: they take minutes. Each with its title, and how it is measured."""


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    java = _java()
    results: list[Result] = []
    clock = "_cpu" if options.cpu else ""
    if "codec" in options.only:
        results += codec.measure(java, options.quick, clock)
        show("Codecs, 1,000 tasks", results)
    if "assign" in options.only:
        settings = assign.Settings(java, options.quick, clock)
        for case in settings.cases:
            measured = assign.measure(settings, case)
            show(f"Assignors, {case} (tasks x clients x threads x standbys)", measured)
            results += measured
    if "leader" in options.only:
        measured = leader.measure(options.quick, clock)
        show("A leader's whole rebalance, in a new process", measured)
        results += measured
    for name in [name for name in ASKED_FOR if name in options.only]:
        title, measure = ASKED_FOR[name]
        measured = measure(options.quick)
        show(title, measured)
        results += measured
    total = leaders_total(results)
    if total:
        show("A leader of 1,000 members, warm: read every subscription, decide, write every assignment", [total])
        results.append(total)
    write(results)
    print(f"{len(results)} results in {RESULTS.relative_to(RESULTS.parent.parent)}; {_load()}")


def leaders_total(results: Sequence[Result]) -> Result | None:
    """What one rebalance of 1,000 members costs their leader, if all its parts were measured. ``None`` otherwise."""
    parts = [result for result in results if result.work in LEADERS_WORK]
    if len(parts) < len(LEADERS_WORK):
        return None
    peers = [result.peer for result in parts if result.peer is not None]
    peer = sum(peers) if len(peers) == len(parts) else None
    return Result("leader of 1,000 members", sum(result.ours for result in parts), peer, parts[0].peer_name, "ms")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ours against the peers, in the same run.")
    parser.add_argument("--quick", action="store_true", help="small problems for a few seconds: does it run at all?")
    parser.add_argument("--only", nargs="+", choices=(*SUITES, *ASKED_FOR), default=SUITES)
    parser.add_argument("--cpu", action="store_true", help="processor time of the call instead of wall time")
    return parser.parse_args(arguments)


def _java() -> list[str] | None:
    try:
        return java_peer.command()
    except java_peer.NoJavaPeer as missing:
        print(f"{java_peer.NAME} is left out: {missing}", file=sys.stderr)
        return None


def _load() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


if __name__ == "__main__":
    main(sys.argv[1:])
