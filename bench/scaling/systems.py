"""The systems that are compared: how a process of each is started, and what it is started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.count.__main__ import rocksdb_jars
from bench.java_peer import compiled, compiler, jars
from kstreams_assign.local.jars import class_path
from tests.java.app_process import AppProcess
from tests.java.streams_app import SOURCES as SHELL

JAVA = Path(__file__).with_name("java")
HEAP = "-Xmx1g"


@dataclass(frozen=True, slots=True)
class System:
    """One system. ``settings`` have Kafka's dotted names and are those that distinguish it."""

    command: Callable[[], list[str]]
    settings: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = False
    drains: bool = False


def python_command() -> list[str]:
    return [sys.executable, "-m", "bench.scaling.app"]


@cache
def java_command() -> list[str]:
    """Return what precedes the arguments. Raises ``NoJavaPeer`` and ``LocalBrokerError``."""
    java, path = compiler(), class_path([*jars(), *rocksdb_jars()])
    shell = compiled(java, class_path(jars()), SHELL)
    classes = [compiled(java, [*path, shell], JAVA), shell, *path]
    return [str(java), HEAP, "-cp", os.pathsep.join(map(str, classes)), "ScalingApp"]


SYSTEMS: Mapping[str, System] = {
    "ours": System(python_command, drains=True),
    "ours exactly_once_v2": System(
        python_command, {"processing.guarantee": "exactly_once_v2"}, exactly_once=True, drains=True
    ),
    "ours streams": System(python_command, {"group.protocol": "streams"}, drains=True),
    "ours streams cold": System(python_command, {"group.protocol": "streams", "warm.join": "false"}),
    "java classic": System(java_command, {"group.protocol": "classic"}),
    "java streams": System(java_command, {"group.protocol": "streams"}),
}


class ScalingProcess(AppProcess):
    """One process of a system."""

    def __init__(self, system: System, words: list[str]) -> None:
        super().__init__([*system.command(), *words])

    def drain(self) -> None:
        self.tell("drain")

    def start_close(self) -> None:
        """Ask it to leave the group and end; do not wait."""
        self.tell("close")
