"""Writing a page, or another text, to the file that an option names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign.errors import ConfigError


def write_text(option: str, path: Path, text: str) -> None:
    """Write the file. Raises ``ConfigError``, which names the option, where it cannot be written."""
    with writable(option, path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def writable(option: str, path: Path) -> Iterator[None]:
    """Make the file's folder, for a block that writes the file. Raises as ``write_text``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as cause:
        why = cause.strerror or cause
        raise ConfigError(f"{option} {path.absolute()}: {why}; name a file that can be written") from cause
