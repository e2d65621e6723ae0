"""Kafka's own classes, compiled with a small harness of ours (``bench/java``) and run as a peer.

The jars come from the same cache as the embedded broker's; ``bench/java/jars.lock`` adds kafka-streams. Kafka Streams'
RocksDB is left out: nothing here opens a store. By hand: ``python -m bench.java_peer assign < problems.jsonl``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kstreams_assign.adapters.cache import cache_dir
from kstreams_assign.adapters.java import OLDEST_JAVA, find_java, java_major
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local.jars import KAFKA_VERSION, Jar, class_path, locked_jars

SOURCES = Path(__file__).with_name("java")
LOCK = SOURCES / "jars.lock"
SHARED_JARS = {
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-group-coordinator-api",
    "kafka-server-common",
    "slf4j-api",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
}
MAIN = "org.apache.kafka.streams.processor.internals.assignment.BenchPeer"
NAME = f"Kafka {KAFKA_VERSION}"


class NoJavaPeer(Exception):
    """Why Kafka's classes cannot run here, in one line."""


def command() -> list[str]:
    """The command before the sub-command; compiles the harness if its classes are not cached. Raises ``NoJavaPeer``."""
    try:
        java = compiler()
        path = class_path(jars())
    except LocalBrokerError as missing:
        raise NoJavaPeer(str(missing)) from None
    return [str(java), "-Xmx4g", "-cp", os.pathsep.join(map(str, [compiled(java, path), *path])), MAIN]


def jars() -> list[Jar]:
    """kafka-streams and what it needs to decide, encode and decode."""
    return [*locked_jars(LOCK), *(jar for jar in locked_jars() if jar.artifact in SHARED_JARS)]


def compiler() -> Path:
    """A Java that can compile. A runtime from a wheel cannot."""
    for java in _javas():
        listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
        if "jdk.compiler@" in listed:
            return java
    raise NoJavaPeer(f"no Java {OLDEST_JAVA} or later with a compiler: install a JDK, or set JAVA_HOME to one")


def _javas() -> Iterator[Path]:
    yield find_java()
    javac = shutil.which("javac")
    if javac:
        java = Path(javac).resolve().with_name("java")
        if (java_major(java) or 0) >= OLDEST_JAVA:
            yield java


def compiled(java: Path, path: list[Path], folder: Path = SOURCES) -> Path:
    """Where the classes of the sources in ``folder`` are, named after what they were made from.

    Raises ``NoJavaPeer``.
    """
    sources = sorted(folder.rglob("*.java"))
    made_from = hashlib.sha256(
        b"\0".join(
            [*(jar.name.encode() for jar in path), LOCK.read_bytes(), *(source.read_bytes() for source in sources)]
        )
    )
    classes = cache_dir() / "bench" / f"{made_from.hexdigest()[:16]}-java{java_major(java)}"
    if classes.is_dir():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=classes.parent) as scratch:
        made = Path(scratch) / "classes"
        javac = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(made)]
        done = subprocess.run(
            [*javac, "-cp", os.pathsep.join(map(str, path)), *map(str, sources)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoJavaPeer(f"the harness does not compile: {done.stderr.splitlines()[:1]}")
        try:
            made.rename(classes)
        except OSError as cause:  # another process may have made the same meanwhile
            if cause.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise
    return classes


if __name__ == "__main__":
    words = [*command(), *sys.argv[1:]]
    os.execv(words[0], words)
