"""``bench-assign``: how long our assignors take, one JSON line per case and state, as Java's harness reports it.

Each line comes from its own process (``bench_call``), so that its first call really is a first call. ``first_call_ms``
is the import of the assignors (also in ``import_ms``) and the first decision; ``warm_median_ms`` are later decisions.
Building the cluster is not measured, nor is it in Java's harness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from kstreams_assign.assign import ASSIGNORS
from kstreams_assign.errors import ConfigError, KStreamsAssignError
from kstreams_assign.peer.bench_problem import STATES, Size
from kstreams_assign.peer.info import info
from kstreams_assign.peer.lines import Json


def bench_assign(
    cases: Sequence[str], states: Sequence[str], assignor: str, seconds: float, calls: tuple[int, int]
) -> Iterator[Json]:
    """Yield one row each. ``calls`` are the fewest and the most that are measured, for about ``seconds``.

    Raises ``ConfigError`` for an invalid case, state or assignor.
    """
    if assignor not in ASSIGNORS:
        raise ConfigError(f"assignor is {assignor!r}; it must be one of {', '.join(ASSIGNORS)}")
    if wrong := [state for state in states if state not in STATES]:
        raise ConfigError(f"state is {wrong[0]!r}; it must be one of {', '.join(STATES)}")
    for case in cases:
        Size.parse(case)
    _child("1x1x1x0", assignor, "held")  # writes the bytecode to disk, as an installation does
    for case in cases:
        for state in states:
            held = _child(case, assignor, "held") if state == "join" else ""
            row = json.loads(_child(case, assignor, str(seconds), *map(str, calls), given=held))
            yield {"case": case, "state": state, "assignor": assignor, **row, "about": info()}


def environment() -> dict[str, str]:
    """Return this environment, but keep compiled modules: a leader does not compile them each time."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _child(*arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kstreams_assign.peer.bench_call", *arguments],
        input=given,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=environment(),
    )
    if done.returncode:
        raise KStreamsAssignError(f"timing {' '.join(arguments)} ended with status {done.returncode}")
    return done.stdout
