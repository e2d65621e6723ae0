"""The fleet followed while an executor, the broker and the driver are killed, each in the middle of a batch.

A second run on the same tables is refused meanwhile. The driver that was killed has a successor with another name,
and the folder stands elsewhere then.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.history.driver import ENDED
from kstreams_assign.local import LocalBroker
from kstreams_assign.peer.bench_assign import environment
from tests.history.cluster import Cluster

BATCHES = 8
"""So many at least has the topic: a kill is in each of the first three, and the others come after all."""

REFUSED = "another run works on it"


class Driver:
    """A running ``bench.history.driver``, which prints a line a batch."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until_batch(self) -> None:
        """Wait for the end of a batch; the next one is under way then."""
        if ENDED in self._line():
            raise RuntimeError("the run ended before all kills: it has too few batches")

    def until_ended(self) -> None:
        while ENDED not in self._line():
            pass

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a driver ended with status {self.process.wait()}")
        return dict(json.loads(line))


@contextmanager
def driver(asked: Mapping[str, Any]) -> Iterator[Driver]:
    """Run one for the block."""
    command = [sys.executable, "-m", "bench.history.driver", json.dumps(asked)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            yield Driver(process)
        finally:
            process.kill()


def follow_with_kills(cluster: Cluster, broker: LocalBroker, asked: Mapping[str, Any]) -> tuple[Path, float]:
    """Follow ``asked["fleet"]`` to its end. Return where the tables are then, and how many seconds it took.

    Raises ``RuntimeError`` where a driver ends by itself, or the second run is not refused.
    """
    out = Path(asked["out"])
    started_s = time.monotonic()
    with driver(asked) as first:
        first.until_batch()
        cluster.executors()[0].kill()
        first.until_batch()
        broker.kill()
        broker.restart()
        refuse_second(asked)
        first.until_batch()
        first.process.kill()
        first.process.wait()
    moved = out.with_name(f"{out.name}-elsewhere")
    out.rename(moved)
    with driver({**asked, "out": str(moved), "conf": {**asked["conf"], "spark.driver.host": "localhost"}}) as again:
        again.until_ended()
    return moved, time.monotonic() - started_s


def refuse_second(asked: Mapping[str, Any]) -> None:
    """Start another run on the same tables. Raises ``RuntimeError`` if it is not refused by name."""
    given = ["--out", asked["out"], "-b", asked["fleet"]["bootstrap_servers"], "--master", asked["master"], "--once"]
    command = [sys.executable, "-m", "kstreams_assign", "history", "follow", *given]
    second = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if second.returncode != 1 or REFUSED not in second.stderr:
        raise RuntimeError(f"a second run on {asked['out']} was not refused: {second.stderr[-500:]}")
