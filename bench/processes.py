"""One measured process: what it said, and the memory it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from kstreams_assign.peer.bench_assign import environment

Json = dict[str, Any]

RSS_UNIT = 1 << 20 if sys.platform == "darwin" else 1 << 10  # bytes there, KiB elsewhere


def run(command: Sequence[str], given: str = "") -> tuple[list[Json], float]:
    """The JSON lines that a process printed, and its largest resident memory in MiB. Raises ``RuntimeError``."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(given)
        process.stdin.close()
        said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[-4:])} ended with status {process.returncode}")
    return [json.loads(line) for line in said.splitlines()], round(usage.ru_maxrss / RSS_UNIT, 1)
