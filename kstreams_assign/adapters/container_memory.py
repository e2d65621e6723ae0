"""The memory limit of the container that this process runs in, as Linux's control groups say it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Of version 2 and of version 1, where a container sees its own group."""
_UNLIMITED_BYTES = 1 << 60
"""Version 1 has a number of nearly 2^63 where there is no limit."""


def container_memory_bytes(files: Sequence[Path] = _FILES) -> int | None:
    """Return the limit; None without one, or where the system does not say."""
    for file in files:
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal() and int(text) < _UNLIMITED_BYTES:
            return int(text)
    return None
