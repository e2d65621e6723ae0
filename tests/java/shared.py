"""A real Kafka Streams application that shares its state (``Shared.java``) as a process, and what it says of its stores.

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
    """Both stores, the task's stream time, and what the processor noted in the commits' metadata (None: nothing)."""

    plain: Mapping[bytes, bytes]
    stamped: Mapping[bytes, tuple[bytes, int]]
    time_ms: int
    note: int | None


class SharedApp(AppProcess):
    """One instance. ``settings`` are Kafka Streams' own, dots and all."""

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
        """Give a command and wait for its answer."""
        before = len(self.named(event))
        self.tell(command)
        self.until(lambda _: len(self.named(event)) > before)
        return self.named(event)[-1]

    def stores(self) -> Shown:
        told = self.ask("stores", "stores")
        plain = {bytes.fromhex(key): bytes.fromhex(value) for key, value in told["plain"].items()}
        stamped = {bytes.fromhex(key): (bytes.fromhex(value), at) for key, (value, at) in told["stamped"].items()}
        return Shown(plain, stamped, told["time"], told["note"])

    def decode(self, text: str) -> tuple[int, bytes]:
        """Partition time and the rest, as Java reads a commit's metadata."""
        told = self.ask(f"decode {text}".strip(), "metadata")
        return told["time"], bytes.fromhex(told["rest"])

    def encode(self, time_ms: int, notes: Mapping[str, int]) -> str:
        """A commit's metadata as Java writes it."""
        words = [f"{name}={number}" for name, number in notes.items()]
        return str(self.ask(" ".join(["encode", str(time_ms), *words]), "encoded")["text"])

    def partitions(self, keys: Sequence[bytes], count: int) -> list[int]:
        """Where Java's producer puts these keys."""
        words = [f"k{key.hex()}" for key in keys]
        return list(self.ask(" ".join(["partitions", str(count), *words]), "partitions")["chosen"])


if __name__ == "__main__":
    words = [*command("Shared"), *sys.argv[1:]]
    os.execv(words[0], words)
