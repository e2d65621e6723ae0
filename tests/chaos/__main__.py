"""``python -m tests.chaos --seed 7 --seconds 120``: run a real group under load and faults, and check its guarantees.

It ends by itself, at most 90 seconds after ``--seconds``. The last line on standard output is JSON. Exit status 1: a
check failed; then standard error names the folder with logs, state and the broker's data.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path
from secrets import randbelow
from tempfile import mkdtemp

from kstreams_assign.allowed_values import GROUP_PROTOCOLS, GUARANTEES
from tests.chaos.run import Run, log, planned
from tests.chaos.schedule import Kind, draw_settings


def main() -> int:
    given = _parser().parse_args()
    seed = randbelow(2**31) if given.seed is None else given.seed
    settings = draw_settings(seed, given.seconds, given.guarantee, given.without, given.protocol)
    log(planned(settings))
    if given.plan:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = given.keep or Path(mkdtemp(prefix=f"chaos-{seed}-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.txt").write_text(planned(settings), encoding="utf-8")
    keep = given.keep is not None
    try:
        result = Run(settings, folder).run()
        keep = keep or bool(result["violations"])
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        (folder / "result.json").write_text(json.dumps(result, indent=2), encoding="utf-8")
        log(f"logs, state and the broker's data are in {folder}")
    for violation in result["violations"]:
        log(f"VIOLATION {violation}")
    print(json.dumps(result), flush=True)
    return 1 if result["violations"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="determines settings and faults (default: random, printed first)")
    parser.add_argument("--seconds", type=float, default=600.0, help="duration of faults and recovery (600)")
    parser.add_argument("--guarantee", choices=GUARANTEES, default="at_least_once")
    parser.add_argument("--protocol", choices=GROUP_PROTOCOLS, default="classic", help="of the group")
    parser.add_argument(
        "--without", nargs="*", type=Kind, default=[], choices=list(Kind), help="kinds of faults to leave out"
    )
    parser.add_argument(
        "--keep", type=Path, help="keep logs, events, state directories and the broker's data in this new folder"
    )
    parser.add_argument("--plan", action="store_true", help="print the settings and the planned faults, and exit")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # all processes have ended, and there is no result
