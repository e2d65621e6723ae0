"""What all runs on a machine share: the package's cache folder, and in it archives of the classes of Java programs.

A JVM maps such an archive into its memory, and then starts in about half of the time. It passes over one that another
Java has made, or one of other jars. What lives here: where archives are, and that they are whole, since a JVM crashes
on one that is cut off. What must not: which classes are in them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreams_assign.errors import KStreamsAssignError


def cache_dir() -> Path:
    """Return this package's cache: ``KSTREAMS_ASSIGN_CACHE``, else the user's cache folder."""
    named = os.environ.get("KSTREAMS_ASSIGN_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kstreams-assign"


def archive_of(java: Path, class_path: str) -> Path:
    """Return where the archive of these classes for this Java is, if there is one."""
    java = java.resolve()
    made_of = f"{java} {java.stat().st_mtime_ns} {class_path}"
    return cache_dir() / "archives" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"


def archive_options(archive: Path) -> list[str]:
    """Return the options of a JVM that is to use the archive: none if it is not there."""
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


@contextmanager
def new_archive(archive: Path, failure: type[KStreamsAssignError]) -> Iterator[Path]:
    """Yield a path in a folder of its own, to which the block writes the archive; then move it into place.

    Raises ``failure`` where the system refuses to write.
    """
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=archive.parent) as folder:
            written = Path(folder) / archive.name
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            written.rename(archive)  # another process may have done the same
    except OSError as error:
        raise failure(
            f"{archive} cannot be written: {error}; name another folder with KSTREAMS_ASSIGN_CACHE"
        ) from error
