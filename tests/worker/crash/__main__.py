"""Kill a worker at its I/O calls, one run a call, on a broker of its own, and print the outcomes.

    python -m tests.worker.crash --guarantee at_least_once --phase commit --all

Without --all each call site is taken once, and once more while another process takes over. Exit status 1 if anything
was lost, applied twice or left wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp

from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.local import LocalBroker
from tests.worker.crash.stage import cluster_at
from tests.worker.crash.sweep import PHASES, SCENARIOS, WORDS, Outcome, Scenario, Sweep, chosen


def main() -> int:
    options = _options()
    folder = Path(mkdtemp(prefix="crash-"))
    print(f"logs and state of each run: {folder}", file=sys.stderr)
    began = time.monotonic()
    wanted = frozenset(options.phase or PHASES)
    scenarios = [scenario for scenario in SCENARIOS if wanted.intersection(scenario.phases)]
    with LocalBroker() as broker, cluster_at(broker.bootstrap_servers) as cluster:
        sweep = Sweep(cluster, folder, options.guarantee, options.at_once, until_s=began + options.seconds)
        outcomes, planned = _run(sweep, scenarios, wanted, everything=options.all)
    print(table(outcomes))
    facts = {
        "guarantee": options.guarantee,
        "points": len(outcomes),
        "left_out": planned - len(outcomes),
        **Counter(outcome.word.replace(" ", "_") for outcome in outcomes),
        "sites": len({outcome.point.site for outcome in outcomes}),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(facts))
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _run(
    sweep: Sweep, scenarios: Sequence[Scenario], wanted: frozenset[str], *, everything: bool
) -> tuple[list[Outcome], int]:
    """Return the outcome of each point, and the number of points."""
    recordings = [(scenario, sweep.record(scenario)) for scenario in scenarios]
    kept = [(scenario, {at: n for at, n in seen.items() if at[0] in wanted}) for scenario, seen in recordings]
    plan = chosen(kept, everything=everything)
    outcomes: list[Outcome] = []
    for scenario, points in plan:
        for outcome in sweep.play_until_reached(scenario, points):
            outcomes.append(outcome)
            print(line(outcome), file=sys.stderr, flush=True)
    return outcomes, sum(len(points) for _, points in plan)


def line(outcome: Outcome) -> str:
    wrong = "".join(f"\n    {finding}" for finding in outcome.wrong)
    where = f"\n    {outcome.folder}" if wrong else ""
    return f"{outcome.word:<12}{outcome.seconds:5.1f} s  {outcome.point}; then {outcome.successor}{where}{wrong}"


def table(outcomes: Iterable[Outcome]) -> str:
    """Count the points and their outcomes by phase and site."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault((outcome.point.phase, outcome.point.site), Counter())[outcome.word] += 1
    width = max((len(site) for _, site in counts), default=4)
    head = f"{'phase':<10} {'call site':<{width}} {'points':>6} " + " ".join(f"{word:>11}" for word in WORDS)
    rows = [
        f"{phase:<10} {site:<{width}} {ends.total():>6} " + " ".join(f"{ends[word]:>11}" for word in WORDS)
        for (phase, site), ends in counts.items()
    ]
    total = sum(counts.values(), Counter())
    last = f"{'all':<10} {'':<{width}} {total.total():>6} " + " ".join(f"{total[word]:>11}" for word in WORDS)
    return "\n".join([head, *rows, last])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantee", choices=GUARANTEES, default=GUARANTEES[0])
    parser.add_argument("--phase", action="append", choices=PHASES, help="only these; may be given more than once")
    parser.add_argument("--all", action="store_true", help="each class of occurrence, before and after")
    parser.add_argument("--seconds", type=float, default=600, help="begin nothing after so long")
    parser.add_argument("--at-once", type=int, default=4, help="so many runs side by side")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
