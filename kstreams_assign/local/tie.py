"""Run a command that cannot outlive its parent: ``python tie.py PARENT_PID COMMAND…``.

A script, not a module: it asks Linux for a SIGKILL when its parent ends, then becomes the command. A process of its
own for this, instead of code between fork and exec, is safe in a program with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent_pid: str, *command: str) -> None:
    """Tie this process to its parent, then become ``command``."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(parent_pid):  # else the parent died before the tie was made
        os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
