"""How large a state may be: gigabytes of changelog, restored and taken up again: ``python -m bench.restore.size``.

    python -m bench.restore.size                           # 10 GB of records of 1,000 bytes in four partitions
    python -m bench.restore.size --gigabytes 0.1 --value-bytes 100

One JSON line for each start of a worker: *cold*, on an empty folder; *warm*, on the state that it left. ``seconds`` go
from the assignment to the last task that runs; ``state_mb`` is what the folder takes then. The machine needs three
times as much disk as the state has: for the broker's log, and for the store and its compactions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import processes
from bench.restore.__main__ import fill, ours, run_on
from bench.restore.fill import KEY_BYTES, Changelog
from kstreams_assign.local import LocalBroker

MB = 1_000_000


def main(arguments: Sequence[str]) -> None:
    """Print one JSON line for each start."""
    options = parse(arguments)
    records = round(options.gigabytes * 1000 * MB / (KEY_BYTES + options.value_bytes))
    changelog = Changelog(records, options.partitions, options.value_bytes, alike=False)
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        print(f"writing {changelog}", file=sys.stderr)
        fill(broker.bootstrap_servers, changelog)
        for line in starts(broker.bootstrap_servers, changelog, Path(folder)):
            print(json.dumps(line), flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.restore.size", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--gigabytes", type=float, default=10, help="of keys and values")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    return parser.parse_args(arguments)


def starts(servers: str, changelog: Changelog, folder: Path) -> Iterator[processes.Json]:
    """Start a worker twice on the folder."""
    for start in ("cold", "warm"):
        print(f"a {start} start", file=sys.stderr)
        facts, rss_mib = run_on(str(folder), ours(servers, changelog))
        state = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        yield {
            "start": start,
            "restored": facts["records"],
            "seconds": round(facts["seconds"], 2),
            "peak_rss_mib": round(rss_mib),
            "state_mb": round(state / MB, 1),
        }


if __name__ == "__main__":
    main(sys.argv[1:])
