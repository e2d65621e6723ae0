"""Earlier releases of Kafka Streams: their jars, and small Java programs on them (``tests/java/releases``).

The jars come from the embedded broker's cache; ``jars.lock`` adds two for each release (28 MB in all): kafka-streams
and kafka-clients. RocksDB and the compression libraries are left out, as nothing here needs them, and the rest is
shared with 4.3.1. The programs are compiled once, against the oldest release, and run with any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bench.java_peer import compiled, compiler, jars
from kstreams_assign.local.jars import KAFKA_VERSION, class_path, locked_jars

LOCK = Path(__file__).with_name("jars.lock")
SOURCES = Path(__file__).parents[1] / "java" / "releases"
OWN = {"kafka-streams", "kafka-clients"}

LATEST_VERSION: Mapping[str, int] = {"2.4.1": 5, "2.6.3": 8, "2.8.2": 9, "3.1.2": 10, "3.4.1": 11}
"""Release -> the newest user-data version that it supports."""

OLDEST = "2.4.1"
QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def path(release: str) -> list[Path]:
    """Return the jars of one release, fetched first if necessary. Raises ``LocalBrokerError``."""
    if release == KAFKA_VERSION:
        return class_path(jars())
    shared = [jar for jar in jars() if jar.artifact not in OWN]
    return class_path([*(jar for jar in locked_jars(LOCK) if jar.version == release), *shared])


def command(main: str, release: str) -> list[str]:
    """Return what precedes a program's arguments. Raises ``NoJavaPeer`` and ``LocalBrokerError``."""
    java = compiler()
    classes = [compiled(java, path(OLDEST), SOURCES), *path(release)]
    return [str(java), *QUICK, "-cp", os.pathsep.join(map(str, classes)), main]


def fetch_all() -> None:
    """Fetch every jar into the cache and compile, so that no test waits for it. Raises as ``command``."""
    class_path(locked_jars(LOCK))
    command("UserData", OLDEST)
