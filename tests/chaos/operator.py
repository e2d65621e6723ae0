"""The operator of a run under exactly once: looks for hanging transactions, and ends them with the product's command.

A broker that is killed while it ends a transaction may forget some of its partitions (it has no metadata of them yet
when it reads its log again). Members cannot end such a transaction; an operator does, with ``kstreams-assign
transactions --end``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

EVERY_S = 30.0
LIMIT_S = 60.0
UNREACHABLE = 3
IN_VAIN_MAX = 5


class Operator:
    """Call ``turn`` from time to time, from one thread; it never waits."""

    def __init__(self, application_id: str, broker: str, outputs: str) -> None:
        words = ["transactions", application_id, "-b", broker, "--topic", outputs, "--end", "--json"]
        self._command = [sys.executable, "-m", "kstreams_assign", *words]
        self._hands = ThreadPoolExecutor(1, "operator")
        self._looking: Future[list[str]] | None = None
        self._next_s = 0.0
        self._in_vain = 0
        self.ended: list[str] = []
        """Descriptions of the transactions ended so far."""

    def turn(self) -> list[str]:
        """Return descriptions of the transactions ended since the last turn."""
        news: list[str] = []
        if self._looking is not None and self._looking.done():
            news, self._looking = self._looking.result(), None
            self.ended += news
        if self._looking is None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._looking = self._hands.submit(self._look)
        return news

    def close(self) -> None:
        self._hands.shutdown(cancel_futures=True)

    def _look(self) -> list[str]:
        """Run the command. The broker may be away, but not for ``IN_VAIN_MAX`` attempts in a row."""
        try:
            done = subprocess.run(self._command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(self._command, UNREACHABLE, "", f"no answer in {LIMIT_S:.0f} s")
        if not done.stdout:
            self._in_vain += 1
            if done.returncode != UNREACHABLE or self._in_vain > IN_VAIN_MAX:
                raise RuntimeError(f"the operator's command ended with {done.returncode}: {done.stderr}")
            return []
        self._in_vain = 0
        return [transaction["text"] for transaction in json.loads(done.stdout)["open"] if transaction["ended"]]
