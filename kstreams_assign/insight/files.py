"""Read the files that the caller of a command names; errors show the whole path."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.errors import ConfigError


def is_file(path: Path) -> bool:
    """Return whether a word on a command line names a file: ``Path.is_file`` fails for one that no file may have."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def read_text(path: Path, argument: str) -> str:
    """Return the text of a file; ``argument`` is how the command calls it. Raises ``ConfigError``."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as cause:
        raise ConfigError(f"{argument} {path.absolute()}: {cause.strerror}; name a file that can be read") from cause
    except UnicodeDecodeError as cause:
        raise ConfigError(f"{argument} {path.absolute()}: the file is not UTF-8 text: {cause}") from cause
