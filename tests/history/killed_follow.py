"""``python killed_follow.py OUT RECORDS WHERE``: follow, and die of SIGKILL at WHERE; print child processes first."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil

from kstreams_assign.history.follow import Settings
from kstreams_assign.history.live import Asked, follow


def main(out: str, records: str, where: str) -> None:
    def reached(boundary: str) -> None:
        if boundary == where:
            print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    settings = Settings(once=True, tasks=2)
    follow(Asked(Path(out), records=Path(records), master="local[1]", conf=quick, settings=settings), reached)


if __name__ == "__main__":
    main(*sys.argv[1:])
