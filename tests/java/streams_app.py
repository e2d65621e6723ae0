"""A real Kafka Streams application (``StreamsApp.java``) as a process: started, listened to, closed or killed.

Needs the fixture ``java_peer``, which says whether Java can be compiled here. By hand:
``python -m tests.java.streams_app HOST:PORT app-id state-dir topic-a,topic-b 1 max.warmup.replicas=4``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.java_peer import compiled, compiler, jars
from kstreams_assign.local.jars import class_path

SOURCES = Path(__file__).parent
Event = Mapping[str, Any]


def command() -> list[str]:
    """What to put before the application's arguments."""
    java, path = compiler(), class_path(jars())
    classes = [compiled(java, path, SOURCES), *path]
    quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return [str(java), *quick, "-cp", os.pathsep.join(map(str, classes)), "StreamsApp"]


class StreamsApp:
    """One instance. ``settings`` are Kafka Streams' own, dots and all."""

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        state_dir: Path,
        topics: Sequence[str],
        num_standby_replicas: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        pairs = [f"{key}={value}" for key, value in (settings or {}).items()]
        words = [bootstrap_servers, application_id, str(state_dir), ",".join(topics), str(num_standby_replicas), *pairs]
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [*command(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def active(self) -> list[str]:
        return self._tasks("active")

    @property
    def standby(self) -> list[str]:
        """Standbys and warm-ups: Java does not tell them apart."""
        return self._tasks("standby")

    def until(self, wanted: Callable[[Sequence[Event]], bool], timeout_s: float = 40) -> None:
        """Wait until the events say so."""
        with self._news:
            assert self._news.wait_for(lambda: wanted(self.events), timeout_s), self.events[-3:]

    def until_tasks(self, *, active: int, standby: int = 0) -> None:
        self.until(lambda _: self.running and (len(self.active), len(self.standby)) == (active, standby))

    @property
    def running(self) -> bool:
        states = [event["state"] for event in self.events if event["event"] == "state"]
        return states[-1:] == ["RUNNING"]

    def describe(self) -> str:
        """``Topology.describe()``."""
        self._say("describe")
        self.until(lambda events: any(event["event"] == "topology" for event in events))
        return next(str(event["text"]) for event in self.events if event["event"] == "topology")

    def close(self) -> None:
        """Leave the group and end."""
        if self._process.poll() is None:
            self._say("close")
        self._end()

    def kill(self) -> None:
        """End without a word, as a machine that fails."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join(10)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()

    def _tasks(self, role: str) -> list[str]:
        told = [event[role] for event in self.events if event["event"] == "tasks"]
        return list(told[-1]) if told else []


@contextmanager
def streams_app(*args: Any, **kwargs: Any) -> Iterator[StreamsApp]:
    """An instance for as long as the block."""
    app = StreamsApp(*args, **kwargs)
    try:
        yield app
    finally:
        app.close()


if __name__ == "__main__":
    words = [*command(), *sys.argv[1:]]
    os.execv(words[0], words)
