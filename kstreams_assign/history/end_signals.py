"""Ctrl-C, and SIGTERM in a block that is to end in order, while Spark starts or runs.

An exception that a signal raises in a call of the JVM leaves the call's answer to be read by the next call, which waits
for it. While Spark starts, it leaves a JVM behind. Here the signal ends the JVM, and so every call; its exception is
raised at the end of the block. What must not live here: a run that ends in order, as that of ``live`` does.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen
from types import FrameType
from typing import Self


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


TAKEN_OVER: Mapping[signal.Signals, Callable[[int, FrameType | None], object]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: _exit,
}
"""The handlers whose place ``EndSignals`` takes, and which it calls at the end."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise ``SystemExit`` in the block, so that it ends as after an error; in the first thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class EndSignals:
    """For a block with a Spark: Ctrl-C ends its JVM, and the block with ``KeyboardInterrupt``.

    So does SIGTERM within ``ended_by_sigterm``, with ``SystemExit``. A handler that the program has set before, or sets
    in the block, is left alone.
    """

    def __init__(self) -> None:
        self._came: signal.Signals | None = None
        self._jvm: Popen[bytes] | None = None
        self._numbers: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._numbers = [number for number, handler in TAKEN_OVER.items() if signal.getsignal(number) is handler]
        self.listen()
        return self

    def listen(self) -> None:
        """Take the place of the handlers that there are now: Spark sets one of its own for Ctrl-C."""
        for number in self._numbers:
            signal.signal(number, self._hear)

    def ends(self, jvm: Popen[bytes]) -> None:
        """Name the JVM that a signal ends: now, if one came before."""
        self._jvm = jvm
        if self._came is not None:
            jvm.terminate()

    def forget_jvm(self) -> None:
        """Let go what belongs to a JVM that has ended."""
        if self._jvm is not None:
            self._jvm.communicate()
            self._jvm = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number in self._numbers:
            if signal.getsignal(number) == self._hear:
                signal.signal(number, TAKEN_OVER[number])
        if self._came is not None and (kind is None or issubclass(kind, Exception)):
            try:
                TAKEN_OVER[self._came](self._came, None)
            except BaseException as ended:
                raise ended from None

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._came = self._came or signal.Signals(number)
        if self._jvm is not None:
            self._jvm.terminate()
