"""A real Kafka Streams application (``StreamsApp.java``) as a process: started, listened to, closed or killed.

Needs the fixture ``java_peer``, which says whether Java can be compiled here. By hand:
``python -m tests.java.streams_app HOST:PORT app-id state-dir topic-a,topic-b 1 max.warmup.replicas=4``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.java_peer import compiled, compiler, jars
from kstreams_assign.local.jars import class_path
from tests.java.app_process import AppProcess, arguments
from tests.releases.releases import QUICK
from tests.releases.releases import command as released

SOURCES = Path(__file__).parent


def command(application: str = "StreamsApp") -> list[str]:
    """Return what precedes the application's arguments; ``application`` is its class."""
    java, path = compiler(), class_path(jars())
    classes = [compiled(java, path, SOURCES), *path]
    return [str(java), *QUICK, "-cp", os.pathsep.join(map(str, classes)), application]


class JavaApp(AppProcess):
    """One instance of an application that can describe its topology."""

    def describe(self) -> str:
        """Return ``Topology.describe()``."""
        self.tell("describe")
        self.until(lambda _: bool(self.named("topology")))
        return str(self.named("topology")[0]["text"])


class StreamsApp(JavaApp):
    """One instance. ``settings`` are Kafka Streams' own.

    With a ``release`` it is ``CountingApp``, which runs on every release from 2.4 on and does the same without
    ``describe``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        state_dir: Path,
        topics: Sequence[str],
        num_standby_replicas: int = 0,
        settings: Mapping[str, object] | None = None,
        release: str | None = None,
    ) -> None:
        own = (",".join(topics), str(num_standby_replicas))
        words = arguments(bootstrap_servers, application_id, state_dir, *own, settings=settings)
        super().__init__([*(released("CountingApp", release) if release else command()), *words])


@contextmanager
def streams_app(*args: Any, **kwargs: Any) -> Iterator[StreamsApp]:
    """Run an instance for the duration of the block."""
    app = StreamsApp(*args, **kwargs)
    try:
        yield app
    finally:
        app.close()


if __name__ == "__main__":
    words = [*command(), *sys.argv[1:]]
    os.execv(words[0], words)
