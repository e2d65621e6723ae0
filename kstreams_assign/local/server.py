"""One Kafka JVM on one data folder: formatted, started, ended, and the cause of its death.

What lives here: a process and its folder. What must not: the choice of ports, and when a broker is ready.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from kstreams_assign.adapters.cache import archive_of, archive_options
from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local.access import Ports
from kstreams_assign.local.layout import Layout
from kstreams_assign.local.process import ChildProcess

_CLUSTER_ID = "a3N0cmVhbXMtYXNzaWduIQ"  # any 16 bytes in base64; data folders are never shared
JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
_FORMAT_LIMIT_S = 120.0
_STOP_PATIENCE_S = 10.0


def joined(jars: Iterable[Path]) -> str:
    """Return the jars as a class path."""
    return os.pathsep.join(map(str, jars))


class PortTaken(LocalBrokerError):
    """The JVM could not bind one of its ports."""


class Server:
    """A running ``kafka.Kafka`` on a folder whose settings are written. Formats a new folder.

    ``options`` of the JVM: None lets it use the archive of the broker's classes, if there is one. ``holds``: a file
    descriptor that it keeps open; ``tied``: it dies with this process. Every error is a ``LocalBrokerError``.
    """

    def __init__(
        self, layout: Layout, class_path: str, *, tied: bool, holds: int, options: Sequence[str] | None = None
    ) -> None:
        self.layout = layout
        program = find_java()
        if options is None:
            options = archive_options(archive_of(program, class_path))
        java = [str(program), *JVM, *options, f"-Dlog4j2.configurationFile={layout.log_settings}", "-cp", class_path]
        if not layout.formatted:
            _format_storage(java, layout)
        layout.log.unlink(missing_ok=True)
        self._process = ChildProcess([*java, "kafka.Kafka", str(layout.properties)], layout.log, tied=tied, holds=holds)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self, within_s: float = 0.0) -> bool:
        """Whether the process has ended, or ends within so many seconds."""
        return self._process.ended.wait(within_s)

    def kill(self) -> None:
        """End it at once, as a power cut would. Returns when it has ended."""
        self._process.kill()

    def stop(self) -> None:
        """Send SIGTERM; kill it if it does not end. Returns when it has ended."""
        self._process.terminate(_STOP_PATIENCE_S)

    def died(self, ports: Ports) -> LocalBrokerError:
        """Return why it ended by itself: ``PortTaken``, or an error with the end of its log."""
        if "Address already in use" in self.layout.last_lines(1000):
            return PortTaken(f"port {' or '.join(map(str, ports))} was taken{self.log_end()}")
        return LocalBrokerError(f"the JVM ended before it answered{self.log_end()}")

    def log_end(self) -> str:
        """Return the end of its log, as the end of a sentence."""
        return f"; the end of {self.layout.log}:\n{self.layout.last_lines()}"


def _format_storage(java: list[str], layout: Layout) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(layout.properties)]
    command += layout.access.credentials
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_LIMIT_S, check=False)
    if done.returncode != 0:
        raise LocalBrokerError(f"formatting {layout.records} failed:\n{done.stdout}{done.stderr}")
