"""Writing a page, or another text, to the file that an option names."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.errors import ConfigError


def write_text(option: str, path: Path, text: str) -> None:
    """Write the file. Raises ``ConfigError``, which names the option, where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as cause:
        raise ConfigError(f"{option} {path.absolute()}: {cause.strerror}; name a file that can be written") from cause
