"""A command that a signal ends in order: what it has begun is undone first."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kstreams_assign.local.jars import to_stderr


class _Interrupted(KeyboardInterrupt):
    """A signal asked us to end. Not an Exception, so nothing on the way mistakes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def undone_by_signals() -> Iterator[None]:
    """Let the first SIGINT, SIGTERM or SIGHUP end the block, which undoes its work, and then the command.

    The clean-up is not interrupted again. The exit status is 128 plus the signal's number. A signal that is ignored
    already stays so, as SIGHUP does under ``nohup``.
    """
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    heard = [each for each, handler in handlers.items() if handler is not signal.SIG_IGN]

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise _Interrupted(number)

    try:
        for each in heard:
            signal.signal(each, interrupt)
        yield
    except _Interrupted as interrupted:
        to_stderr("interrupted; nothing is left running")
        sys.exit(128 + interrupted.number)
    finally:
        for each in heard:
            signal.signal(each, handlers[each])
