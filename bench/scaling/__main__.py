"""Measure live scaling from outside: ``python -m bench.scaling``.

A steady load flows through two processes of a system; then one joins, one leaves, one drains (ours alone) and one is
killed. A reader of the output topic measures the latency of each input, and the gaps in the output of each task.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.java_peer import NoJavaPeer
from bench.scaling import plot
from bench.scaling.report import Result, print_json, show
from bench.scaling.scenario import EVENTS, QUICK, Plan, Scenario
from bench.scaling.systems import SYSTEMS
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker

EXAMPLES = """\
examples:
  python -m bench.scaling --quick                              # little state, ours alone: some 40 seconds
  python -m bench.scaling --json > rows.json                   # all four systems: some 20 minutes
  python -m bench.scaling --systems ours "java classic" --records-per-partition 20000 300000
  python -m bench.scaling --systems ours --events join kill --plot latency.svg

A row of --json:
  moved_gap_ms        longest time between two outputs of a task that has another owner after the event
  staying_gap_ms      the same, of tasks that stay; of all tasks in the row "steady"
  peak_latency_ms     longest time from sending an input until its output arrived at the reader
  average_latency_ms  mean of that time from the event to the end of its effect (duration_s)
  duration_s          from the event until all latencies are within twice the steady 99th percentile again, and each
                      moved task works at its new owner
  latency_ms          only in the row "steady"
"""


def main(words: Sequence[str]) -> int:
    """Measure on a broker of its own; return the exit status."""
    options = parse(words)
    with LocalBroker(settings=options.plans[0].broker_settings) as broker, TemporaryDirectory() as folder:
        return run(broker.bootstrap_servers, options, Path(folder))


def run(servers: str, options: argparse.Namespace, folder: Path) -> int:
    """Measure, and print rows or a table; return the exit status: 1 if a system failed, or lost inputs or state."""
    results: list[Result] = []
    failed = False
    for plan, name in product(options.plans, options.systems):
        try:
            results.append(measure(servers, name, folder, plan, options.events))
        except (NoJavaPeer, LocalBrokerError) as missing:
            _log(f"{name} is left out: {missing}")
        except AssertionError as failure:
            _log(f"{name} failed: {failure}")
            failed = True
        else:
            for line in (*results[-1].moves(), results[-1].counts()):
                _log(line)
    if options.json:
        print_json(results)
    else:
        show(results)
    if options.plot is not None:
        plot.write([(result.title, result.run) for result in results], options.plot)
    return 1 if failed or not all(result.correct for result in results) else 0


def measure(servers: str, name: str, folder: Path, plan: Plan, events: Sequence[str]) -> Result:
    """Run one system. Raises ``AssertionError`` where its group does not come to balance."""
    system = SYSTEMS[name]
    application = f"scaling-{name.replace(' ', '-')}-{plan.records_per_partition}"
    fitting = [event for event in events if event != "drain" or system.drains]
    scenario = Scenario(servers, application, system, folder / application, plan, lambda line: _log(f"{name}: {line}"))
    with closing(scenario):
        run = scenario.run(fitting)
    return Result(name, plan.records_per_partition, run)


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scaling",
        description=(__doc__ or "").partition("\n")[2].strip(),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--records-per-partition", nargs="+", type=int, default=[300_000], metavar="N")
    parser.add_argument("--events", nargs="+", choices=EVENTS, default=EVENTS, help="each once, in this order")
    parser.add_argument("--quick", action="store_true", help="500 records a partition, short times; ours alone")
    parser.add_argument("--json", action="store_true", help="print rows as JSON in place of a table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw latency over time into FILE.svg or FILE.html")
    options = parser.parse_args(words)
    if options.systems is None:
        options.systems = ["ours"] if options.quick else list(SYSTEMS)
    if options.plot is not None and options.plot.suffix not in plot.SUFFIXES:
        parser.error(f"--plot {options.plot}: must end in {' or '.join(plot.SUFFIXES)}; png would need matplotlib")
    if min(options.records_per_partition) < 1:
        parser.error("--records-per-partition: must be at least 1")
    options.events = list(dict.fromkeys(options.events))
    options.plans = [QUICK] if options.quick else [Plan(records) for records in options.records_per_partition]
    return options


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
