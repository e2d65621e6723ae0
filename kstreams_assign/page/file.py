"""Writing a page, or another text, to the file that an option names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign.errors import ConfigError


def refuse_unwritable(option: str, path: Path | None) -> None:
    """Raise ``ConfigError`` before long work if its result could not be written; a missing folder is made then.

    ``path``: None if the option is not given.
    """
    if path is None:
        return
    file = path.absolute()
    if file.is_dir():
        raise ConfigError(f"{option} {file}: is a folder; name a file that can be written")
    place = next(each for each in (file, *file.parents) if each.exists())
    if place != file and not place.is_dir():
        raise ConfigError(f"{option} {file}: {place} is no folder; name a file that can be written")
    if not os.access(place, os.W_OK):
        raise ConfigError(f"{option} {file}: not permitted to write there; name a file that can be written")


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
