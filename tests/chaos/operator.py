"""The operator of a chaos run under exactly once: looks for hanging transactions now and then, and ends them as the product does.

A broker that is killed while it ends a transaction may forget some of its partitions (it has no metadata of them yet when it
reads its log again). No member can do anything about that, so somebody has to look; ``kstreams-assign transactions --end`` is for that.
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
    """``turn`` now and then, from one thread; it never waits."""

    def __init__(self, application_id: str, broker: str, outputs: str) -> None:
        words = ["transactions", application_id, "-b", broker, "--topic", outputs, "--end", "--json"]
        self._command = [sys.executable, "-m", "kstreams_assign", *words]
        self._hands = ThreadPoolExecutor(1, "operator")
        self._looking: Future[list[str]] | None = None
        self._next_s = 0.0
        self._in_vain = 0
        self.ended: list[str] = []
        """What was ended so far, in words."""

    def turn(self) -> list[str]:
        """What was ended since the turn before."""
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
        """The broker may be away, or go away meanwhile; never to be told anything is no operator's life."""
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
        return [one["text"] for one in json.loads(done.stdout)["open"] if one["ended"]]
