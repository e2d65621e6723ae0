"""One real Kafka broker as a context manager: ``with LocalBroker() as broker: ...``.

What lives here: the life of one broker: one process, or two with a separate controller. What must not: a single JVM
(``server``), fetching (``jars``), brokers that outlive their caller (``detached``). The idea: wait for conditions,
never for time. A start ends when the broker answers, or with an error when its process has died.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreams_assign.adapters.listening import describe_listen_error
from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import leftovers
from kstreams_assign.local.access import Access, Ports, Role
from kstreams_assign.local.jars import KAFKA_VERSION, Progress, class_path, to_stderr
from kstreams_assign.local.layout import Layout
from kstreams_assign.local.probe import brokers_known
from kstreams_assign.local.server import PortTaken, Server, joined

_PORT_TRIES = 5
_BETWEEN_PROBES_S = 0.05


class LocalBroker:
    """A KRaft broker and controller in one JVM, on free ports of 127.0.0.1.

    ``tls`` names a PEM file with a key and a self-signed certificate of 127.0.0.1: then clients need
    ``security.protocol = SSL`` and that file as ``ssl.ca.location``. With ``users`` (name -> password), they need
    ``SASL_PLAINTEXT`` or ``SASL_SSL``, and PLAIN or SCRAM-SHA-512 as ``sasl.mechanism``; a ``data_dir`` keeps the
    users that it was created with. Users may do everything unless ``settings`` name an ``authorizer.class.name``;
    ``super.users`` must then contain ``User:ANONYMOUS``, the broker itself.

    ``controller_apart`` gives the controller a JVM of its own, which ``kill`` and ``restart`` do not touch. A restarted
    broker is then fenced first, as in a real cluster, and loads its groups once. A killed combined broker may lead, be
    fenced and lead again while it still loads, and so lose a group (Kafka 4.3.1).

    ``data_dir`` names the folder to use and keep; without it a new folder is created, and deleted by ``stop``.
    ``settings`` override the broker's own (``server.properties`` keys). Unless ``outlive`` is set, the JVM dies with
    this process, even if that is killed. Every error is a ``LocalBrokerError``, or ``ExtraMissing`` if the extra
    ``local`` is not installed.
    """

    version = KAFKA_VERSION

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        tls: Path | None = None,
        users: Mapping[str, str] | None = None,
        controller_apart: bool = False,
        outlive: bool = False,
        start_limit_s: float = 120.0,
        progress: Progress = to_stderr,
    ) -> None:
        self.keeps_data = data_dir is not None
        self._data_dir = data_dir
        self._port = port
        self._settings = dict(settings or {})
        self._access = Access(tls, dict(users or {}))
        self._access.refuse_what_cannot_be_written()
        self._apart = controller_apart
        self._outlive = outlive
        self._start_limit_s = start_limit_s
        self._progress = progress
        self._ports: Ports | None = None
        self._server: Server | None = None
        self._controller: Server | None = None
        self._hold: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port``; stays the same over ``restart``."""
        if self._ports is None:
            raise LocalBrokerError("the broker has no address yet: call start() first")
        return f"127.0.0.1:{self._ports.broker}"

    @property
    def pid(self) -> int:
        if self._server is None:
            raise LocalBrokerError("the broker does not run: call start() first")
        return self._server.pid

    @property
    def data_dir(self) -> Path:
        if self._data_dir is None:
            raise LocalBrokerError("the broker has no data folder yet: call start() first")
        return self._data_dir

    @property
    def running(self) -> bool:
        return self._server is not None and not self._server.ended()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start, and return once the broker answers. A Ctrl-C meanwhile leaves nothing behind."""
        if self.running:
            raise LocalBrokerError(f"the broker runs already, as process {self.pid}")
        with ExitStack() as undo:
            undo.callback(self.stop)
            with self._errors_explained():
                self._start_on_free_ports()
            undo.pop_all()
        return self

    def stop(self) -> None:
        """End the processes and delete the data folder, unless the caller named it. A second call does nothing."""
        self._end_servers()
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None
        if not self.keeps_data and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)
            self._data_dir = None

    def kill(self) -> None:
        """End the broker at once, as a power cut would; data and ports stay for ``restart``."""
        if self._server is not None:
            self._server.kill()

    def restart(self) -> None:
        """Start again on the same ports and data, ending the broker first if it still runs."""
        if self._ports is None or self._hold is None:
            raise LocalBrokerError("nothing to restart: call start() first")
        if self._server is not None:
            self._server.stop()
        with self._errors_explained():
            self._launch(self._ports)
            self._await_answer(self._ports)

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, subprocess.TimeoutExpired) as cause:
            raise LocalBrokerError(f"the broker cannot start on {self._data_dir}: {cause}") from cause

    def _start_on_free_ports(self) -> None:
        leftovers.sweep()
        if self._data_dir is None:
            self._data_dir = leftovers.fresh_folder()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        if self._hold is None:
            self._hold = leftovers.hold(self._data_dir)
        for last in (number == _PORT_TRIES for number in range(1, _PORT_TRIES + 1)):
            self._end_servers()  # those of the last try, or a killed broker's controller
            self._ports = _free_ports(self._port)
            try:
                self._launch(self._ports)
                self._await_answer(self._ports)
                return
            except PortTaken:
                # Another program took a port between our check and the JVM's bind.
                if last or self._port is not None:
                    raise

    def _launch(self, ports: Ports) -> None:
        """Start the processes that do not run: a separate controller first, then the broker."""
        layout = Layout(self.data_dir, Role.BROKER if self._apart else Role.COMBINED, self._access)
        if layout.formatted and layout.controller.formatted is not self._apart:
            made = "without" if self._apart else "with"
            raise LocalBrokerError(f"{self.data_dir} was created {made} controller_apart; use it so, or another folder")
        if self._apart and (self._controller is None or self._controller.ended()):
            self._controller = self._serve(layout.controller, ports)
        self._server = self._serve(layout, ports)

    def _serve(self, layout: Layout, ports: Ports) -> Server:
        layout.write(ports, self._settings)
        assert self._hold is not None
        jars, tied = joined(self._class_path()), not self._outlive
        return Server(layout, jars, tied=tied, holds=self._hold, options=self._jvm_options)

    def _class_path(self) -> Sequence[Path]:
        """Return the jars of ``version``, fetched first if they are missing."""
        return class_path(progress=self._progress)

    @property
    def _jvm_options(self) -> Sequence[str] | None:
        """Options that the JVM has instead of those for the archive of its classes."""
        return None

    def _await_answer(self, ports: Ports) -> None:
        assert self._server is not None
        deadline = time.monotonic() + self._start_limit_s
        while not self._answers(ports):
            for server in self._servers():
                if server.ended(_BETWEEN_PROBES_S):
                    raise server.died(ports)
            if time.monotonic() > deadline:
                logs = "".join(server.log_end() for server in self._servers())
                raise LocalBrokerError(f"no answer after {self._start_limit_s:.0f} s{logs}")

    def _answers(self, ports: Ports) -> bool:
        try:
            # Checks the certificate, too, even if clients have to log in.
            known = brokers_known(ports.broker, tls=self._access.tls)
            return (brokers_known(ports.inner) if self._access.users else known) > 0
        except ssl.SSLCertVerificationError as cause:
            raise LocalBrokerError(
                f"tls {self._access.tls}: must be a self-signed certificate for 127.0.0.1: {cause}"
            ) from cause

    def _servers(self) -> list[Server]:
        return [server for server in (self._server, self._controller) if server is not None]

    def _end_servers(self) -> None:
        """End the broker first: without its controller it could not shut down cleanly."""
        for server in self._servers():
            server.stop()
        self._server = self._controller = None


def _free_ports(wanted: int | None) -> Ports:
    """Return ``wanted`` or a free port for the broker, and free ports for its controller and inner listener."""
    with closing(socket.socket()) as first, closing(socket.socket()) as second, closing(socket.socket()) as third:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does: a port just closed is free
        try:
            first.bind(("127.0.0.1", wanted or 0))
        except OSError as cause:
            reason = describe_listen_error(cause, any_port="none")
            raise LocalBrokerError(f"port {wanted}: cannot listen there: {reason}") from cause
        for other in (second, third):
            other.bind(("127.0.0.1", 0))
        return Ports(first.getsockname()[1], second.getsockname()[1], third.getsockname()[1])
