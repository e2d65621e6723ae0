"""An archive of the broker's classes, which the JVM maps into its memory: starts then take about half of the time.

What lives here: how the archive is made: whole, since a JVM crashes on one that is cut off. What must not: whether it
fits. The JVM passes over one that another Java has made, or one of other jars. (Kafka's own image has such an archive,
too.)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local.broker import LocalBroker
from kstreams_assign.local.jars import Progress, class_path, to_stderr
from kstreams_assign.local.server import JVM, archive_of, joined

_DUMP_LIMIT_S = 300.0


class _Recorder(LocalBroker):
    """A broker whose JVM lists the classes that it loads."""

    def __init__(self, classes: Path, progress: Progress) -> None:
        super().__init__(progress=progress)
        self._classes = classes

    @property
    def _jvm_options(self) -> Sequence[str]:
        return [f"-XX:DumpLoadedClassList={self._classes}"]


def make_archive(progress: Progress = to_stderr) -> Path:
    """Fetch the broker's jars, make the archive, and return it; once it is there, this takes no time.

    A broker is started for it and ended, which takes some ten seconds. Raises ``LocalBrokerError``, and
    ``ExtraMissing`` if the extra ``local`` is not installed.
    """
    java, jars = find_java(), joined(class_path(progress=progress))
    archive = archive_of(java, jars)
    if archive.exists():
        return archive
    progress("preparing faster starts of the broker (once)")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial-", dir=archive.parent) as folder:
            classes, written = Path(folder) / "classes", Path(folder) / archive.name
            with _Recorder(classes, progress):
                pass
            _dump(java, jars, classes, written)
            written.rename(archive)  # another process may have done the same
    except OSError as error:
        raise LocalBrokerError(
            f"{archive} cannot be written: {error}; name another folder with KSTREAMS_ASSIGN_CACHE"
        ) from error
    return archive


def _dump(java: Path, jars: str, classes: Path, archive: Path) -> None:
    """Write the archive of these classes to the disk."""
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"]
    command = [str(java), *JVM, *options, "-cp", jars]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DUMP_LIMIT_S, check=False)
    if done.returncode != 0 or not archive.exists():
        said = (done.stdout + done.stderr).strip()
        raise LocalBrokerError(f"{java} makes no archive of the broker's classes: {said}")
    with archive.open("rb") as file:
        os.fsync(file.fileno())
