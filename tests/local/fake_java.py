"""A Java in the place of a real one: it formats at once, and its broker never answers."""

from __future__ import annotations

import sys
from pathlib import Path

from kstreams_assign.local.jars import locked_jars

STARTED = "a broker that never answers\n"
_JAVA = f"""#!{sys.executable} -IS
import signal, sys
if "-version" in sys.argv:
    print('openjdk version "21.0.1"', file=sys.stderr)
elif "kafka.Kafka" in sys.argv:
    print({STARTED!r}, end="", flush=True)
    signal.pause()
"""


def fake_java(folder: Path) -> dict[str, str]:
    """Make the Java, and a cache with empty jars; return the environment in which a broker uses them."""
    java, jars = folder / "java" / "bin" / "java", folder / "cache" / "jars"
    for each in (java.parent, jars):
        each.mkdir(parents=True)
    java.write_text(_JAVA)
    java.chmod(0o700)
    for jar in locked_jars():
        (jars / jar.file_name).touch()
    return {"JAVA_HOME": str(folder / "java"), "KSTREAMS_ASSIGN_CACHE": str(folder / "cache")}
