"""One real Kafka broker as a context manager: ``with LocalBroker() as broker: ...``.

What lives here: the life of one broker process. What must not: fetching (``jars``), brokers that outlive their caller
(``detached``). The idea: wait for conditions, never for time. A start ends when the broker answers as a broker or when its
process has died, and says which.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import leftovers
from kstreams_assign.local.jars import KAFKA_VERSION, Progress, class_path, to_stderr
from kstreams_assign.local.layout import Layout, Ports
from kstreams_assign.local.probe import brokers_known
from kstreams_assign.local.process import ChildProcess

_CLUSTER_ID = "a3N0cmVhbXMtYXNzaWduIQ"  # any 16 bytes in base64; data folders are never shared
_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
_PORT_TRIES = 5
_BETWEEN_PROBES_S = 0.05
_FORMAT_LIMIT_S = 120.0
_STOP_PATIENCE_S = 10.0


class LocalBroker:
    """A KRaft broker and controller in one JVM, on free ports of 127.0.0.1.

    ``data_dir`` names the folder to use and keep; without it a fresh one is made and removed by ``stop``. ``settings`` go
    over the broker's own (``server.properties`` keys). Unless ``outlive`` is set, the JVM dies with this process,
    even when that is killed. Every error is a ``LocalBrokerError``.
    """

    version = KAFKA_VERSION

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        outlive: bool = False,
        start_limit_s: float = 120.0,
        progress: Progress = to_stderr,
    ) -> None:
        self.keeps_data = data_dir is not None
        self._data_dir = data_dir
        self._port = port
        self._settings = dict(settings or {})
        self._outlive = outlive
        self._start_limit_s = start_limit_s
        self._progress = progress
        self._ports: Ports | None = None
        self._process: ChildProcess | None = None
        self._hold: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port``; stays the same over ``restart``."""
        if self._ports is None:
            raise LocalBrokerError("the broker has no address yet: call start() first")
        return f"127.0.0.1:{self._ports.broker}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise LocalBrokerError("the broker does not run: call start() first")
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        if self._data_dir is None:
            raise LocalBrokerError("the broker has no data folder yet: call start() first")
        return self._data_dir

    @property
    def running(self) -> bool:
        return self._process is not None and not self._process.ended.is_set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start and return once the broker answers. A Ctrl-C on the way leaves nothing behind."""
        if self.running:
            raise LocalBrokerError(f"the broker runs already, as process {self.pid}")
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._start_on_free_ports()
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End the process and remove the data folder, unless the caller named it. Does nothing twice."""
        if self._process is not None:
            self._process.terminate(_STOP_PATIENCE_S)
            self._process = None
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None
        if not self.keeps_data and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None

    def kill(self) -> None:
        """End the process at once, as a power cut would; data and ports stay for ``restart``."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Start again on the same ports and data, ending the process first if it still runs."""
        if self._ports is None:
            raise LocalBrokerError("nothing to restart: call start() first")
        if self._process is not None:
            self._process.terminate(_STOP_PATIENCE_S)
        self._launch(self._ports)
        self._await_answer(self._ports)

    def _start_on_free_ports(self) -> None:
        leftovers.sweep()
        if self._data_dir is None:
            self._data_dir = leftovers.fresh_folder()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._hold = leftovers.hold(self._data_dir)
        for last in (number == _PORT_TRIES for number in range(1, _PORT_TRIES + 1)):
            self._ports = _free_ports(self._port)
            try:
                self._launch(self._ports)
                self._await_answer(self._ports)
                return
            except _PortTaken:
                # Somebody took a port between our look and the broker's bind.
                if last or self._port is not None:
                    raise

    def _launch(self, ports: Ports) -> None:
        """Write the settings for ``ports``, format a folder that is new, and start the JVM."""
        layout = Layout(self.data_dir)
        layout.write(ports, self._settings)
        java = [str(find_java()), *_JVM, f"-Dlog4j2.configurationFile={layout.log_settings}", "-cp", self._class_path()]
        if not layout.formatted:
            _format_storage(java, layout)
        layout.log.unlink(missing_ok=True)
        assert self._hold is not None
        command = [*java, "kafka.Kafka", str(layout.properties)]
        self._process = ChildProcess(command, layout.log, tied=not self._outlive, holds=self._hold)

    def _class_path(self) -> str:
        return ":".join(str(jar) for jar in class_path(progress=self._progress))

    def _await_answer(self, ports: Ports) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._start_limit_s
        while not brokers_known(ports.broker):
            if self._process.ended.wait(_BETWEEN_PROBES_S):
                raise self._died(ports)
            if time.monotonic() > deadline:
                raise LocalBrokerError(f"no answer after {self._start_limit_s:.0f} s{self._log_end()}")

    def _died(self, ports: Ports) -> LocalBrokerError:
        taken = "Address already in use" in Layout(self.data_dir).last_lines(1000)
        what = f"port {ports.broker} or {ports.controller} was taken" if taken else "the JVM ended before it answered"
        return (_PortTaken if taken else LocalBrokerError)(f"{what}{self._log_end()}")

    def _log_end(self) -> str:
        layout = Layout(self.data_dir)
        return f"; the end of {layout.log}:\n{layout.last_lines()}"


class _PortTaken(LocalBrokerError):
    """The broker could not bind one of its ports."""


def _free_ports(wanted: int | None) -> Ports:
    """``wanted`` or a free port for the broker, and a free one for its controller."""
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does: a port just closed is free
        try:
            first.bind(("127.0.0.1", wanted or 0))
        except OSError as cause:
            raise LocalBrokerError(f"port {wanted}: cannot listen there: {cause}; name another, or none") from cause
        second.bind(("127.0.0.1", 0))
        return Ports(first.getsockname()[1], second.getsockname()[1])


def _format_storage(java: list[str], layout: Layout) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(layout.properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_LIMIT_S, check=False)
    if done.returncode != 0:
        raise LocalBrokerError(f"formatting {layout.records} failed:\n{done.stdout}{done.stderr}")
