"""``python killed_follow.py OUT RECORDS WHERE [CONFIG]``: follow, and die of SIGKILL at WHERE; print children first.

A line has the child's process id and command line.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from kstreams_assign.history.address import read_out
from kstreams_assign.history.follow import Settings
from kstreams_assign.history.live import Asked, follow
from kstreams_assign.history.secrets import read_settings


def main(out: str, records: str, where: str, config: str | None = None) -> None:
    def reached(boundary: str) -> None:
        if boundary == where:
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has ended
                    print(child.pid, *child.cmdline(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    conf = quick if config is None else read_settings(Path(config)).conf
    settings = Settings(once=True, tasks=2)
    follow(Asked(read_out(out), records=Path(records), master="local[1]", conf=conf, settings=settings), reached)


if __name__ == "__main__":
    main(*sys.argv[1:])
