"""Writing a page, or another text, to the file that an option names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign.errors import ConfigError

_FIX = "name a file that can be written"


def refuse_unwritable(option: str, path: Path | None) -> None:
    """Raise ``ConfigError`` before long work if its result could not be written; a missing folder is made then.

    ``path``: None if the option is not given.
    """
    if path is None:
        return
    try:
        _check_place(option, path.absolute())
    except OSError as cause:
        raise _refused(option, path, cause) from cause


def _check_place(option: str, file: Path) -> None:
    if file.is_dir():
        raise ConfigError(f"{option} {file}: is a folder; {_FIX}")
    place = next(each for each in (file, *file.parents) if each.exists())
    if place != file and not place.is_dir():
        raise ConfigError(f"{option} {file}: {place} is no folder; {_FIX}")
    if not os.access(place, os.W_OK):
        raise ConfigError(f"{option} {file}: not permitted to write there; {_FIX}")


def _refused(option: str, path: Path, cause: OSError) -> ConfigError:
    return ConfigError(f"{option} {path.absolute()}: {cause.strerror or cause}; {_FIX}")


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
        raise _refused(option, path, cause) from cause
