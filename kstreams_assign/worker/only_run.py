"""Lets ``run`` of a worker or a sidecar begin once: when it ends, it gives back what the constructor took."""

from __future__ import annotations

import threading

from kstreams_assign.errors import ConfigError


class OnlyRun:
    """The one run of an object; ``kind`` names its class. Any thread may call ``begin``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._left = threading.Lock()  # the first run takes it and keeps it

    def begin(self) -> None:
        """Begin the run. Raises ``ConfigError`` if it has begun before."""
        if not self._left.acquire(blocking=False):
            raise ConfigError(f"run: was called before; each {self._kind} runs once, so make another {self._kind}")
