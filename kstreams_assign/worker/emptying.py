"""Empty the trash on a thread of its own: a large store takes a while to delete, and no thread should wait for it.

What must not live here: what is moved to the trash, and when (``state.cleaner``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from kstreams_assign.state.trash import Trash

_log = logging.getLogger(__name__)


class Emptying:
    """Empty the trash, once at a time. ``guarded`` runs it and keeps its errors; errors of the disk are logged."""

    def __init__(self, trash: Trash, guarded: Callable[[Callable[[], None]], None]) -> None:
        self._trash = trash
        self._work = partial(guarded, self._empty)
        self._thread = ThreadPoolExecutor(1, "kstreams-trash")
        self._last: Future[None] | None = None
        self._trouble = ""

    def ask(self) -> None:
        """Empty the trash soon, and once more if that is under way. Used by one thread."""
        if self._last is None or self._last.running() or self._last.done():
            self._last = self._thread.submit(self._work)

    def close(self) -> None:
        """Wait for the emptying, as it writes to the journal while this process owns that."""
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
