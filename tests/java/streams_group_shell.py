"""Java's ``Admin.describeStreamsGroups`` (``StreamsGroupShell.java``) as a process.

Needs the fixture ``java_peer``. By hand: ``echo GROUP | python -m tests.java.streams_group_shell HOST:PORT``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.java.streams_app import command

ENDS_WITHIN_S = 30


class JavaAdmin:
    """Describes groups, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def describe(self, group: str) -> dict[str, Any]:
        """Return the description under the names of Java's methods; tasks as sorted texts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{group}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process ended: see its standard error"
        return dict(json.loads(line))


@contextmanager
def java_admin(bootstrap_servers: str) -> Iterator[JavaAdmin]:
    """Run an admin client for the duration of the block."""
    process = subprocess.Popen(
        [*command("StreamsGroupShell"), bootstrap_servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        with process:
            yield JavaAdmin(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(ENDS_WITHIN_S)
    finally:
        process.kill()


if __name__ == "__main__":
    words = [*command("StreamsGroupShell"), *sys.argv[1:]]
    os.execv(words[0], words)
