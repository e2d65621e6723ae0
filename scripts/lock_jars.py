"""Write ``kstreams_assign/local/jars.lock``: every jar of the embedded broker with its SHA-256.

Run by hand when the broker's version changes: ``python scripts/lock_jars.py 4.3.1 2.25.4`` (Kafka, log4j). A third word
names another file: ``python scripts/lock_jars.py 4.4.0 2.25.4 tests/releases/newer_broker.lock``.
It resolves the dependencies with jgo, fetches the jars into a temporary folder and hashes them.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import jgo
import truststore
from jgo.maven import MavenContext

LOCK = Path(__file__).parent.parent / "kstreams_assign" / "local" / "jars.lock"


def locked_lines(endpoint: str, folder: Path) -> list[str]:
    """One line per jar, ``group:artifact:version sha256``, sorted."""
    context = MavenContext(repo_cache=folder)
    lines = []
    for dependency in jgo.resolve(endpoint):
        jar = (
            context.project(dependency.groupId, dependency.artifactId)
            .at_version(dependency.version)
            .artifact()
            .resolve()
        )
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        lines.append(f"{dependency.groupId}:{dependency.artifactId}:{dependency.version} {digest}")
    return sorted(lines)


def main(kafka: str, log4j: str, lock: str | Path = LOCK) -> None:
    """Lock the broker and the log4j binding that it needs to say anything at all."""
    endpoint = f"org.apache.kafka:kafka_2.13:{kafka}+org.apache.logging.log4j:log4j-slf4j-impl:{log4j}!"
    truststore.inject_into_ssl()
    with tempfile.TemporaryDirectory() as folder:
        lines = locked_lines(endpoint, Path(folder))
    Path(lock).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} jars locked in {Path(lock).name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
