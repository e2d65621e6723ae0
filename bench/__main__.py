"""``python -m bench``: measure, print tables, write ``bench/results.json``.

Without a Java that can compile, one line says so and the peer's column stays empty.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from bench import assign, codec, java_peer, leader
from bench.results import RESULTS, Result, show, write

SUITES = ("assign", "codec", "leader")
ASKED_FOR = ("history", "sidecar", "count", "restore")
"""Suites that run only when they are named: they take minutes."""

LEADERS_WORK = (
    "codec leader reads 1,000 subscriptions",
    "assign 1000x1000x1x1 join",
    "codec leader writes 1,000 assignments",
)


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
            found = assign.measure(settings, case)
            show(f"Assignors, {case} (tasks x clients x threads x standbys)", found)
            results += found
    if "leader" in options.only:
        found = leader.measure(options.quick, clock)
        show("A leader's whole rebalance, in a new process", found)
        results += found
    if "history" in options.only:
        from bench import history  # large: a process counts the memory of the one that started it

        found = history.measure(options.quick)
        show("The rebalance history of a fleet", found)
        results += found
    if "sidecar" in options.only:
        from bench import sidecar

        found = sidecar.measure(options.quick)
        show("Count per key on one partition, 10,000 keys", found)
        results += found
    if "count" in options.only:
        from bench.count import __main__ as count

        found = count.compare(records=50_000, runs=1) if options.quick else count.compare()
        show("Count per key, beside the peers", found)
        results += found
    if "restore" in options.only:
        from bench.restore import __main__ as restore

        found = restore.compare(records=50_000, runs=1) if options.quick else restore.compare()
        show("Restore of a changelog, a whole worker beside the peers", found)
        results += found
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
    parser.add_argument("--only", nargs="+", choices=SUITES + ASKED_FOR, default=SUITES)
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
