"""Codecs: ours and Kafka's on the same messages. The ``leader`` rows are what one rebalance of all members costs."""

from __future__ import annotations

import sys

from bench import java_peer
from bench.processes import Json, run
from bench.results import Result


def measure(java: list[str] | None, quick: bool, clock: str) -> list[Result]:
    """``clock`` is empty for wall time, ``_cpu`` for processor time of the whole process, its collector's too."""
    seconds, members = ("0.05", "20") if quick else ("1.5", "1000")
    call = [sys.executable, "-m", "kstreams_assign", "peer", "bench-codec", "--seconds", seconds, "--members", members]
    ours, _ = run(call)
    theirs = {row["what"]: row for row in run([*java, "bench-codec", seconds, members])[0]} if java else {}
    return [_result(row, theirs.get(row["what"]), f"median_ops_per{clock}_s") for row in ours]


def _result(ours: Json, theirs: Json | None, key: str = "median_ops_per_s") -> Result:
    """A rate for one message, milliseconds for a whole group."""
    work, rate = ours["what"], ours[key]
    peer: float | None = theirs[key] if theirs else None
    if work.startswith("leader"):
        return Result(f"codec {work}", 1000 / rate, peer and 1000 / peer, java_peer.NAME, "ms")
    return Result(f"codec {work}", rate, peer, java_peer.NAME, "1/s")
