"""The trash is emptied on a thread of its own: a large store takes a while to delete, and nobody is to wait for that.

What must not be here: what goes into the trash, and when (``state.cleaner``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from kstreams_assign.state.trash import Trash

_log = logging.getLogger(__name__)


class Emptying:
    """One emptying at a time. ``guarded`` calls its argument, and is told of its errors; a disk's are named in the log here."""

    def __init__(self, trash: Trash, guarded: Callable[[Callable[[], None]], None]) -> None:
        self._trash = trash
        self._work = partial(guarded, self._empty)
        self._thread = ThreadPoolExecutor(1, "kstreams-trash")
        self._last: Future[None] | None = None
        self._trouble = ""

    def ask(self) -> None:
        """Empty it soon. What came too late for an emptying that is under way goes with one more behind it. By one thread."""
        if self._last is None or self._last.running() or self._last.done():
            self._last = self._thread.submit(self._work)

    def close(self) -> None:
        """Wait for what was asked for: it writes into the journal, which must be this process's until then."""
        self._thread.shutdown()

    def _empty(self) -> None:
        trouble = ""
        try:
            self._trash.empty()
        except OSError as error:
            trouble = str(error)
            if trouble != self._trouble:
                _log.warning("the trash %s is not emptied: %s", self._trash.path, trouble)
        self._trouble = trouble
