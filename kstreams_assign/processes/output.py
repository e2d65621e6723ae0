"""What a worker's process prints: the log on standard error, events as JSON on standard output, lines of children."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from time import monotonic
from typing import IO, Any

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
LINE_BYTES_MAX = 1 << 26
"""A longer line of a child is passed on as several lines: memory is limited, and so is the wait of the other children.
"""
CHILDREN_BACKLOG_BYTES_MAX = 1 << 20
"""Children wait while so many bytes are to be written."""
BACKLOG_BYTES_MAX = 1 << 24
"""Other lines are dropped while so many bytes are to be written: more than children alone leave, so they rarely are."""
STALLED_S = 1.0
"""A reader that takes no line for so long has stalled."""
LAST_LINES_S = 2.0
"""How long ``Outlet.close`` waits for a reader that takes nothing."""
LAST_LINES_MAX_S = 30.0
"""How long it waits for a slow one."""


class LogLevel(StrEnum):
    """What ``--log-level`` takes."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def log_to_standard_error(level: LogLevel | None, *, json_log: bool, outlet: Outlet | None = None) -> None:
    """Turn the log on, at ``info``, or at ``warning`` beside a log of JSON, unless a level is given.

    ``outlet``: that of standard error; without it a log line waits for the reader. The Kafka clients log below WARNING
    only if their own loggers are set to it (``adapters.client_logs``). Logging that the application has set up remains.
    """
    level = level or (LogLevel.warning if json_log else LogLevel.info)
    handlers = None if outlet is None else [_OutletHandler(outlet)]
    logging.basicConfig(format=LOG_FORMAT, level=level.upper(), handlers=handlers)


def json_line(facts: Mapping[str, Any]) -> bytes:
    """Return facts as a line of JSON."""
    return json.dumps(facts).encode() + b"\n"


def print_json(facts: Mapping[str, Any]) -> None:
    """Write a line in one piece: other threads report events too, and print() writes the line's end separately."""
    sys.stdout.write(json_line(facts).decode())
    sys.stdout.flush()


class LineWriter:
    """A file descriptor that one thread writes whole lines to. If its reader ends, later lines are dropped.

    A line that cannot be written for another reason, such as a full disk, is dropped alone.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_broken = False
        self._is_cut = False

    def write(self, line: bytes) -> None:
        """Write a line, however long its reader lets it wait."""
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


class Outlet:
    """A file descriptor that several threads write whole lines to; a thread of its own waits for the reader.

    Not a ``logging.handlers.QueueListener``: its ``stop`` waits for the reader, however long that takes.
    """

    def __init__(self, descriptor: int) -> None:
        self._writer = LineWriter(descriptor)
        self._lines: deque[bytes] = deque()
        self._backlog_bytes = 0  # with the line that is being written
        self._moved_s = 0.0
        self._is_closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_lines, name=f"output-{descriptor}", daemon=True).start()

    def write(self, line: bytes) -> None:
        """Add a line without waiting for the reader; drop it if the reader is far behind."""
        with self._changed:
            if self._backlog_bytes < BACKLOG_BYTES_MAX:
                self._add(line)

    def pass_on(self, lines: IO[bytes], prefix: bytes, ends: threading.Event) -> None:
        """Write every line of a child, behind a prefix, until there are no more.

        The child waits for a reader that is behind. Once ``ends`` is set, lines that a stalled reader has no room for
        are dropped: a child that waits cannot close.
        """
        with lines:
            while line := lines.readline(LINE_BYTES_MAX):
                self._add_of_child(prefix + (line if line.endswith(b"\n") else line + b"\n"), ends)

    def close(self) -> None:
        """Wait until all is written, as long as the reader takes some; lines that are added later may be lost."""
        began_s = monotonic()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            while self._backlog_bytes:
                now_s = monotonic()
                left_s = min(max(began_s, self._moved_s) + LAST_LINES_S, began_s + LAST_LINES_MAX_S) - now_s
                if left_s <= 0:
                    return
                self._changed.wait(left_s)

    def _add_of_child(self, line: bytes, ends: threading.Event) -> None:
        with self._changed:
            while self._backlog_bytes >= CHILDREN_BACKLOG_BYTES_MAX:
                if ends.is_set() and monotonic() - self._moved_s >= STALLED_S:
                    return
                self._changed.wait(STALLED_S)
            self._add(line)

    def _add(self, line: bytes) -> None:
        if not self._backlog_bytes:
            self._moved_s = monotonic()
        self._lines.append(line)
        self._backlog_bytes += len(line)
        self._changed.notify_all()

    def _write_lines(self) -> None:
        while line := self._next_line():
            self._writer.write(line)
            with self._changed:
                self._backlog_bytes -= len(line)
                self._moved_s = monotonic()
                self._changed.notify_all()

    def _next_line(self) -> bytes | None:
        """Return the next line as soon as there is one; None once it is closed and has no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            return self._lines.popleft() if self._lines else None


class _OutletHandler(logging.Handler):
    """Writes the log to an outlet."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        self._outlet.write(self.format(record).encode(errors="backslashreplace") + b"\n")
