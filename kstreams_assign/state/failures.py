"""Log a failure of the disk once, though the work that fails is tried every few seconds.

What fails, and when it is tried again, does not belong here.
"""

from __future__ import annotations

import logging
from pathlib import Path

_log = logging.getLogger(__name__)


class RepeatedFailures:
    """The failures that were logged and have not ended, one for each path. Threads may share it."""

    def __init__(self) -> None:
        self._reasons: dict[Path, object] = {}

    def add(self, path: Path, what: str, error: Exception) -> None:
        """Log that the path fails, unless that is logged already with the same reason. ``what`` is what it cannot do.

        The reason is the error's number, since the text may name another file at each try.
        """
        reason = getattr(error, "errno", None) or str(error)
        if self._reasons.get(path) != reason:
            _log.warning("%s %s: %s", path.absolute(), what, error)
        self._reasons[path] = reason

    def end(self, path: Path) -> None:
        """The path works; log its next failure again."""
        self._reasons.pop(path, None)
