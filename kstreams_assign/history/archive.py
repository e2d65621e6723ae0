"""An archive of Spark's classes, for faster starts of the commands that need Spark (``adapters.cache``).

Spark's own JVM writes it when it ends, after a small history was followed and replayed: those classes are in it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreams_assign.adapters.cache import new_archive
from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import SparkError, missing_extra
from kstreams_assign.history.fleet import alternatives_of, what_if
from kstreams_assign.history.follow import Settings, follow_until_done, following
from kstreams_assign.history.generate import Fleet, write_fleet
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.live import say
from kstreams_assign.history.session import JAVA_OPTIONS, archive_of_spark, spark_session
from kstreams_assign.history.source import Folder

_FLEET = Fleet(groups=4, members=4, generations=4, partitions=4)

_DUMP_LIMIT_S = 300.0
"""Writing 170 MB of classes takes some ten seconds."""


def make_archive() -> Path:
    """Make the archive and return it; once it is there, this takes no time. Spark fetches the Kafka connector for it.

    Raises ``SparkError`` where Spark does not start or makes no archive, ``ExtraMissing``, and ``LocalBrokerError``
    without a Java.
    """
    try:
        archive = archive_of_spark(find_java())
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    if archive.exists():
        return archive
    say("preparing faster starts of Spark (once), which takes up to a minute")
    log = archive.with_suffix(".log")
    with new_archive(archive, SparkError) as written:
        try:
            _record(written, log)
        except KeyboardInterrupt:
            log.unlink(missing_ok=True)
            raise
        if not written.exists():
            raise SparkError(f"Spark's JVM made no archive of its classes; see {log}")
    log.unlink()
    return archive


def _record(archive: Path, log: Path) -> None:
    """Do what the commands do with Spark, in a JVM that writes its classes to ``archive`` at the end."""
    recording = {JAVA_OPTIONS: shlex.quote(f"-XX:ArchiveClassesAtExit={archive}")}
    with TemporaryDirectory() as folder:
        records, layout = Path(folder) / "records", Layout(Path(folder) / "out")
        write_fleet(records, _FLEET)
        with spark_session("local[2]", log=log, settings=recording, end_limit_s=_DUMP_LIMIT_S) as session:
            with following(session, Folder(records), layout, Settings(once=True)) as query:
                follow_until_done(query, layout, lambda _: None)
            what_if(session, layout, alternatives_of(["max_warmup_replicas=1"], []), tasks=2)
