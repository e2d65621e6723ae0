"""A child process whose parent is interrupted while it starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_assign.local.process import ChildProcess


def test_ctrl_c_while_a_child_starts_ends_the_child(tmp_path: Path) -> None:
    command = [sys.executable, "-ISc", "import signal; signal.pause()"]
    children: list[subprocess.Popen[bytes]] = []

    class Interrupted(ChildProcess):
        """Ctrl-C comes when the child runs and its parent still waits for it."""

        def _start(self) -> subprocess.Popen[bytes]:
            children.append(super()._start())
            os.kill(os.getpid(), signal.SIGINT)
            return children[0]

    with (tmp_path / "held").open("w") as held, pytest.raises(KeyboardInterrupt):
        Interrupted(command, tmp_path / "log", tied=False, holds=held.fileno())
    (child,) = children
    try:
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
