"""Run one measured process; return its output and the memory it used.

On Linux the peak memory of a new process starts at that of its parent, so the measuring process has to stay small:
large data is made in processes of its own.
"""

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
    said, rss_mib = text_of(command, given)
    return [json.loads(line) for line in said.splitlines()], rss_mib


def text_of(command: Sequence[str], given: str = "") -> tuple[str, float]:
    """What a process printed, and the memory as ``run``. Raises ``RuntimeError``."""
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
    return said, round(usage.ru_maxrss / RSS_UNIT, 1)
