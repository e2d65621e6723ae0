"""What a worker's process prints: the log on standard error, events as JSON on standard output, lines of children."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from enum import StrEnum
from typing import IO, Any

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
LINE_BYTES_MAX = 1 << 26
"""A longer line of a child is passed on as several lines: memory is limited, and so is the wait of the other children.
"""


class LogLevel(StrEnum):
    """What ``--log-level`` takes."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def log_to_standard_error(level: LogLevel | None, *, json_log: bool) -> None:
    """Turn the log on, at ``info``, or at ``warning`` beside a log of JSON, unless a level is given.

    The Kafka clients log below WARNING only if their own loggers are set to it (``adapters.client_logs``). Logging that
    the application has set up remains.
    """
    level = level or (LogLevel.warning if json_log else LogLevel.info)
    logging.basicConfig(format=LOG_FORMAT, level=level.upper())


def json_line(facts: Mapping[str, Any]) -> bytes:
    """Return facts as a line of JSON."""
    return json.dumps(facts).encode() + b"\n"


def print_json(facts: Mapping[str, Any]) -> None:
    """Write a line in one piece: other threads report events too, and print() writes the line's end separately."""
    sys.stdout.write(json_line(facts).decode())
    sys.stdout.flush()


class Outlet:
    """A file descriptor that several threads write whole lines to. If its reader ends, later lines are dropped.

    A line that cannot be written for another reason, such as a full disk, is dropped alone.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._is_broken = False
        self._is_cut = False

    def write(self, line: bytes) -> None:
        """Write a line, however long its reader lets it wait."""
        with self._lock:
            if self._is_broken:
                return
            left = whole = memoryview(b"\n" + line if self._is_cut else line)
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except BrokenPipeError:
                self._is_broken = True
            except OSError:
                pass
            if len(left) < len(whole):
                self._is_cut = len(left) > 0

    def pass_on(self, lines: IO[bytes], prefix: bytes) -> None:
        """Write every line of a child, behind a prefix, until there are no more."""
        with lines:
            while line := lines.readline(LINE_BYTES_MAX):
                self.write(prefix + (line if line.endswith(b"\n") else line + b"\n"))
