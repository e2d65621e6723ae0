"""The images under test: pulled or built; if neither is possible, ``docker/images.sh`` makes stand-ins.

``KSTREAMS_ASSIGN_KAFKA_IMAGE`` and ``KSTREAMS_ASSIGN_IMAGE`` name other images, which are used unchanged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
KAFKA_IMAGE = os.environ.get("KSTREAMS_ASSIGN_KAFKA_IMAGE") or "apache/kafka:4.3.1"
WORKER_IMAGE = os.environ.get("KSTREAMS_ASSIGN_IMAGE") or "kstreams-assign:tested"


class NoImages(Exception):
    """No Docker engine answers, or an image is unavailable."""


@cache
def make_images() -> None:
    """Check that the engine answers and both images exist. Raises ``NoImages``."""
    if shutil.which("docker") is None:
        raise NoImages("no docker on the path (Debian: apt-get install docker.io docker-compose)")
    _docker("info", "no Docker engine answers")
    compose()
    if not _there(KAFKA_IMAGE):
        _docker(
            f"pull --quiet {KAFKA_IMAGE}", "the broker's image cannot be pulled (docker/images.sh makes a stand-in)"
        )
    if os.environ.get("KSTREAMS_ASSIGN_IMAGE") is None:
        _docker(f"build --quiet --tag {WORKER_IMAGE} {ROOT}", "the worker's image cannot be built")
    elif not _there(WORKER_IMAGE):
        raise NoImages(f"KSTREAMS_ASSIGN_IMAGE = {WORKER_IMAGE!r}: there is no such image here")


@cache
def compose() -> tuple[str, ...]:
    """Return the command of Compose, a plugin or a separate program. Raises ``NoImages``."""
    plugin = ("docker", "compose")
    if subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise NoImages("no Docker Compose (Debian: apt-get install docker-compose)")


def _there(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0


def _docker(words: str, says: str) -> None:
    done = subprocess.run(["docker", *words.split(" ")], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise NoImages(f"{says}: {' '.join(done.stderr.split())[-300:]}")
