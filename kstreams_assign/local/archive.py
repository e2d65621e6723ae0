"""An archive of the broker's classes, for faster starts (``adapters.cache``). Kafka's own image has one, too."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.adapters.cache import archive_of, new_archive
from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local.broker import LocalBroker
from kstreams_assign.local.jars import Progress, class_path, to_stderr
from kstreams_assign.local.server import JVM, joined

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
    with new_archive(archive, LocalBrokerError) as written:
        classes = written.with_name("classes")
        with _Recorder(classes, progress):
            pass
        _dump(java, jars, classes, written)
    return archive


def _dump(java: Path, jars: str, classes: Path, archive: Path) -> None:
    """Write the archive of these classes to the disk."""
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"]
    command = [str(java), *JVM, *options, "-cp", jars]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DUMP_LIMIT_S, check=False)
    if done.returncode != 0 or not archive.exists():
        said = (done.stdout + done.stderr).strip()
        raise LocalBrokerError(f"{java} makes no archive of the broker's classes: {said}")
