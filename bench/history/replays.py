"""The what-if of the whole fleet on a cluster and on one machine: how long each takes, and whether they agree."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kstreams_assign.peer.bench_assign import environment

CHANGES = ("--set", "max_warmup_replicas=2,8", "--assignor", "least_movement")
"""Two alternatives. In a group of 200 members ``high_availability`` takes a hundred rounds, which is hours for all."""


class Replays(NamedTuple):
    """``seconds``: of each master, Spark's start included."""

    replayed: int
    alternatives: int
    seconds: Mapping[str, float]


def ask_each(out: Path, masters: Mapping[str, Sequence[str]]) -> Replays:
    """Ask for the same on each master: its name, and its options. Raises ``RuntimeError`` if the answers differ."""
    answers, seconds = [], {}
    for name, options in masters.items():
        command = [sys.executable, "-m", "kstreams_assign", "history", "what-if", "--out", str(out), "--json"]
        started_s = time.monotonic()
        asked = subprocess.run(
            [*command, *CHANGES, *options], stdout=subprocess.PIPE, text=True, check=False, env=environment()
        )
        if asked.returncode:
            raise RuntimeError(f"history what-if on {name} ended with status {asked.returncode}")
        seconds[name] = time.monotonic() - started_s
        answers.append(json.loads(asked.stdout))
    if any(answer != answers[0] for answer in answers):
        raise RuntimeError(f"history what-if answers differently on {', '.join(masters)}")
    answer: dict[str, Any] = answers[0]
    return Replays(answer["replayed"], len(answer["ranking"]), seconds)
