"""Ends a run in which a test hangs.

A test's own time limit is a signal, and a call that never comes back to Python sees none. pytest can end such a run,
too, but starts and ends a thread with each test; ten thousand tests then wait for ten thousand threads.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from time import monotonic

import pytest

LONGEST_S = 600
"""No test may have a higher limit of its own."""
AGAIN_S = 60
HANGS_S = LONGEST_S + AGAIN_S + 60


class Watch:
    """A plugin of pytest: ends the process, with the stacks of all threads, once its tests have stood still for long.

    The limit is ``HANGS_S`` seconds, or up to ``AGAIN_S`` less.
    """

    def __init__(self) -> None:
        assert sys.__stderr__ is not None
        self._stderr = os.dup(sys.__stderr__.fileno())  # a test's own is captured
        self._since_s = float("-inf")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Refuse a test that may take longer than this waits."""
        for item in session.items:
            mark = item.get_closest_marker("timeout")
            if mark is not None and mark.args[0] > LONGEST_S:
                raise pytest.UsageError(f"{item.nodeid}: its limit is {mark.args[0]} s; {LONGEST_S} at most")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin to count again, as a test begins."""
        if monotonic() - self._since_s > AGAIN_S:
            self._count_again()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Begin to count again, as a test has failed: pytest has just ended it, for those who debug."""
        self._count_again()

    def _count_again(self) -> None:
        faulthandler.dump_traceback_later(HANGS_S, exit=True, file=self._stderr)
        self._since_s = monotonic()

    def pytest_unconfigure(self) -> None:
        """Stop counting."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)
