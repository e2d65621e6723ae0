"""A real Kafka Streams application that shares its state (``Shared.java``) as a process, and what its stores contain.

Needs the fixture ``java_peer``. By hand: ``python -m tests.java.shared HOST:PORT app-id state-dir topic``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.java.app_process import AppProcess, Event, arguments
from tests.java.streams_app import command


class Shown(NamedTuple):
    """Both stores, the task's stream time, and what the processor stored in the commits' metadata (None: nothing)."""

    plain: Mapping[bytes, bytes]
    stamped: Mapping[bytes, tuple[bytes, int]]
    time_ms: int
    note: int | None


class SharedApp(AppProcess):
    """One instance. ``settings`` are Kafka Streams' own."""

    def __init__(
        self, bootstrap_servers: str, application_id: str, state_dir: Path, topic: str, **settings: object
    ) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        super().__init__(
            [*command("Shared"), *arguments(bootstrap_servers, application_id, state_dir, topic, settings=dotted)]
        )

    def until_running(self) -> None:
        self.until(lambda _: self.running)

    def ask(self, command: str, event: str) -> Event:
        """Send a command and wait for its answer."""
        before = len(self.named(event))
        self.tell(command)
        self.until(lambda _: len(self.named(event)) > before)
        return self.named(event)[-1]

    def stores(self) -> Shown:
        answer = self.ask("stores", "stores")
        plain = {bytes.fromhex(key): bytes.fromhex(value) for key, value in answer["plain"].items()}
        stamped = {bytes.fromhex(key): (bytes.fromhex(value), at) for key, (value, at) in answer["stamped"].items()}
        return Shown(plain, stamped, answer["time"], answer["note"])

    def decode(self, text: str) -> tuple[int, bytes]:
        """Return partition time and the rest, as Java reads a commit's metadata."""
        answer = self.ask(f"decode {text}".strip(), "metadata")
        return answer["time"], bytes.fromhex(answer["rest"])

    def encode(self, time_ms: int, notes: Mapping[str, int]) -> str:
        """Return a commit's metadata as Java writes it."""
        words = [f"{name}={number}" for name, number in notes.items()]
        return str(self.ask(" ".join(["encode", str(time_ms), *words]), "encoded")["text"])

    def partitions(self, keys: Sequence[bytes], count: int) -> list[int]:
        """Return the partitions that Java's producer chooses for these keys."""
        words = [f"k{key.hex()}" for key in keys]
        return list(self.ask(" ".join(["partitions", str(count), *words]), "partitions")["chosen"])


if __name__ == "__main__":
    words = [*command("Shared"), *sys.argv[1:]]
    os.execv(words[0], words)
