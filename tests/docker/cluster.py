"""``docker-compose.yml`` as a value: up, down, and faults of single containers and of the network between them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

from tests.docker.images import KAFKA_IMAGE, ROOT, WORKER_IMAGE, compose

BROKERS = ("kafka-1", "kafka-2", "kafka-3")
BOOTSTRAP = "127.0.0.1:29092,127.0.0.1:29093,127.0.0.1:29094"
INSIDE = "kafka-1:9092,kafka-2:9092,kafka-3:9092"


class Cluster:
    """One Compose project; ``with`` takes it down again with its volumes in any case."""

    def __init__(self, project: str, *services: str) -> None:
        self.project = project
        self._services = services

    def __enter__(self) -> Self:
        try:
            self.up(*self._services)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self, *services: str) -> None:
        self._compose("up", "--detach", "--no-build", *services)

    def down(self) -> None:
        self._compose("down", "--volumes", "--timeout", "1", "--remove-orphans")

    def logs(self, service: str) -> str:
        """Return standard output and standard error since the container was created."""
        done = docker("logs", self.container(service))
        return done.stdout + done.stderr

    def container(self, service: str) -> str:
        """Return the id of a service's only container."""
        wanted = (f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}")
        filters = [word for label in wanted for word in ("--filter", f"label={label}")]
        (container_id,) = docker("ps", "--all", "--quiet", "--no-trunc", *filters).stdout.split()
        return container_id

    def run(self, service: str, *command: str) -> str:
        """Return the output of a command in a running container."""
        return docker("exec", self.container(service), *command).stdout

    def cut(self, service: str, network: str) -> None:
        """Disconnect a container from a network: its packets are dropped, and no connection is closed."""
        docker("network", "disconnect", f"{self.project}_{network}", self.container(service))

    def mend(self, service: str, network: str, alias: str) -> None:
        """Connect the container to the network again, under an alias."""
        docker("network", "connect", "--alias", alias, f"{self.project}_{network}", self.container(service))

    def _compose(self, *words: str) -> None:
        settings = {"KSTREAMS_ASSIGN_KAFKA_IMAGE": KAFKA_IMAGE, "KSTREAMS_ASSIGN_IMAGE": WORKER_IMAGE}
        command = (*compose(), "--project-name", self.project, "--file", str(ROOT / "docker-compose.yml"), *words)
        done = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=110
        )
        assert done.returncode == 0, done.stderr[-3_000:]


def docker(*words: str | Path, timeout_s: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the client; on failure the error contains its output, unless failure is allowed (``check=False``)."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=timeout_s)
    assert done.returncode == 0 or not check, f"docker {' '.join(map(str, words))}: {done.stderr}"
    return done


def inspected(container: str) -> dict[str, Any]:
    """Return what the engine knows of a container."""
    (facts,) = json.loads(docker("inspect", container).stdout)
    return dict(facts)


def until(true: Callable[[], object], timeout_s: float, about: str) -> float:
    """Wait until the condition holds; return the time in seconds. Fails with ``about`` after the limit."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < timeout_s, f"not within {timeout_s:.0f} s: {about}"
        Event().wait(0.1)
    return time.monotonic() - began
