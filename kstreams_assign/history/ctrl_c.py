"""Ctrl-C while Spark starts or runs.

With pyspark alone it leaves a JVM behind if that has just begun to start, and later breaks a call of the JVM, whose
answer the next call then reads. Here it ends the JVM, and so every call. What must not live here: a run that ends in
order, as that of ``live`` does.
"""

from __future__ import annotations

import signal
import threading
from subprocess import Popen
from types import FrameType
from typing import Self


class CtrlC:
    """For a block with a Spark: Ctrl-C ends its JVM, and the block with ``KeyboardInterrupt``.

    A handler that the program has set before, or sets in the block, is left alone.
    """

    def __init__(self) -> None:
        self._came = False
        self._jvm: Popen[bytes] | None = None
        self._takes_over = False

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        self._takes_over = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self.listen()
        return self

    def listen(self) -> None:
        """Take the place of the handler that there is now: Spark sets one of its own."""
        if self._takes_over:
            signal.signal(signal.SIGINT, self._hear)

    def ends(self, jvm: Popen[bytes]) -> None:
        """Name the JVM that it ends: now, if it came before."""
        self._jvm = jvm
        if self._came:
            jvm.terminate()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._takes_over and signal.getsignal(signal.SIGINT) == self._hear:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._came and (kind is None or issubclass(kind, Exception)):
            raise KeyboardInterrupt from None

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._jvm is not None:
            self._jvm.terminate()
