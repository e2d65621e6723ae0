"""Which images the tests run, and how they come here: pulled or built; where neither can be, ``docker/images.sh`` makes stand-ins.

``KSTREAMS_ASSIGN_KAFKA_IMAGE`` and ``KSTREAMS_ASSIGN_IMAGE`` name others; what they name is taken as it is.
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
    """No Docker engine answers, or an image cannot be had."""


@cache
def make_images() -> None:
    """See that the engine answers and both images are here. Raises ``NoImages``."""
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
    """The command of Compose, as a plugin or as a program of its own. Raises ``NoImages``."""
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
