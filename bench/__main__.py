"""``python -m bench``: measure, print tables, write ``bench/results.json``.

Without a Java that can compile, one line says so and the peer's column stays empty.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench import assign, codec, java_peer
from bench.results import RESULTS, Result, show, write

SUITES = ("assign", "codec")


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    java = _java()
    results: list[Result] = []
    if "codec" in options.only:
        results += codec.measure(java, options.quick)
        show("Codecs, 1,000 tasks", results)
    if "assign" in options.only:
        settings = assign.Settings(java, options.quick, "_cpu" if options.cpu else "")
        for case in settings.cases:
            found = assign.measure(settings, case)
            show(f"Assignors, {case} (tasks x clients x threads x standbys)", found)
            results += found
    write(results)
    print(f"{len(results)} results in {RESULTS.relative_to(RESULTS.parent.parent)}; {_load()}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ours against the peers, in the same run.")
    parser.add_argument("--quick", action="store_true", help="small problems for a few seconds: does it run at all?")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES)
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
