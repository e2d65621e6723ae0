"""Brokers that outlive the command that started them, and how a later command finds them again.

Each running broker has a JSON file in ``running/`` of the cache, named by its process id, from the moment it has one:
a start that is killed leaves a broker that can be found. A file whose process has ended is deleted when read; the
command line shows whether another program has got the process id.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from kstreams_assign.adapters.cache import cache_dir
from kstreams_assign.errors import ConfigError, LocalBrokerError
from kstreams_assign.local.access import Ports
from kstreams_assign.local.broker import LocalBroker
from kstreams_assign.local.jars import Progress, to_stderr
from kstreams_assign.local.layout import Layout

_STOP_PATIENCE_MS = 10_000
_UNWRITABLE = re.compile(r"[,\\\x00-\x1f\x7f]")


class DetachedBroker(NamedTuple):
    """The record of a broker that runs by itself."""

    bootstrap_servers: str
    version: str
    pid: int
    data_dir: Path
    keeps_data: bool

    def facts(self) -> dict[str, str | int]:
        """The four facts that ``broker start --json`` prints."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "version": self.version,
            "pid": self.pid,
            "data_dir": str(self.data_dir),
        }

    @property
    def runs(self) -> bool:
        """Whether the process still runs and is still this broker."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(Layout(self.data_dir).properties) in words


class _RecordedBroker(LocalBroker):
    """A broker with a record for as long as its process runs."""

    @property
    def record(self) -> DetachedBroker:
        return DetachedBroker(self.bootstrap_servers, self.version, self.pid, self.data_dir, self.keeps_data)

    def _launch(self, ports: Ports) -> None:
        super()._launch(ports)
        _remember(self.record)

    def _end_servers(self) -> None:
        pids = [server.pid for server in self._servers()]
        super()._end_servers()
        for pid in pids:
            _delete_record(pid)


def start_detached(
    data_dir: Path | None = None,
    port: int | None = None,
    progress: Progress = to_stderr,
    prepare: Callable[[str], None] = lambda _: None,
) -> DetachedBroker:
    """Start a broker that outlives this process.

    Returns once the broker answers and ``prepare`` has returned. Any failure ends the broker, and
    deletes the folder that was made for it.
    """
    with ExitStack() as undo:
        folder = _usable_folder(data_dir, undo) if data_dir else None
        for other in running_brokers():
            if other.data_dir == folder:
                raise ConfigError(
                    f"--data-dir {folder}: the broker {other.pid} runs on it; stop it or name another folder"
                )
            if other.bootstrap_servers.endswith(f":{port}"):
                raise ConfigError(
                    f"--port {port}: the broker with process id {other.pid} on {other.data_dir} listens there; end it "
                    f"with kstreams-assign broker stop --pid {other.pid}, or name another port"
                )
        broker = _RecordedBroker(data_dir=folder, port=port, outlive=True, progress=progress)
        undo.callback(broker.stop)
        broker.start()
        prepare(broker.bootstrap_servers)
        undo.pop_all()
    return broker.record


def _usable_folder(data_dir: Path, undo: ExitStack) -> Path:
    """Return the folder, made if it was missing; ``undo`` deletes what was made. Raises ``ConfigError``."""
    try:
        folder = data_dir.resolve()
        if _UNWRITABLE.search(str(folder)):
            raise ConfigError(
                f"--data-dir {folder}: "
                "Kafka's settings cannot hold a path with a comma, a backslash or a control character"
            )
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        if missing:
            undo.callback(shutil.rmtree, missing[-1], ignore_errors=True)
        with TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as cause:  # RuntimeError: links that go round in a circle
        raise ConfigError(
            f"--data-dir {data_dir.absolute()}: cannot be used: {cause}; name a folder that this user can write to"
        ) from cause


def stop_detached(data_dir: Path | None = None, pid: int | None = None) -> DetachedBroker | None:
    """End a broker: the only one that runs, or the one on ``data_dir``, or the process ``pid``.

    Return the ended broker, or None if there was none. Raises ``ConfigError`` if several match.
    """
    folder = data_dir.resolve() if data_dir else None
    meant = [
        broker
        for broker in running_brokers()
        if (folder is None or broker.data_dir == folder) and (pid is None or broker.pid == pid)
    ]
    if len(meant) > 1:
        names = ", ".join(f"{broker.pid} on {broker.data_dir}" for broker in meant)
        raise ConfigError(f"several brokers run ({names}): name one with --pid or --data-dir")
    for broker in meant:
        _end(broker)
        return broker
    return None


def running_brokers() -> list[DetachedBroker]:
    """Return this user's running detached brokers, by process id; delete the records of ended ones."""
    brokers = []
    for path in _records_folder().glob("*.json"):
        broker = _recall(path)
        if broker is None:
            continue
        if broker.runs:
            brokers.append(broker)
        else:
            _forget(broker)
    return sorted(brokers, key=lambda broker: broker.pid)


def _end(broker: DetachedBroker) -> None:
    """Send SIGTERM, wait, send SIGKILL; a process descriptor cannot point at another program with the same id."""
    try:
        descriptor = os.pidfd_open(broker.pid)
    except ProcessLookupError:  # it has just ended
        _forget(broker)
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        if not ended.poll(_STOP_PATIENCE_MS):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ended.poll()
    finally:
        os.close(descriptor)
    _forget(broker)


def _remember(broker: DetachedBroker) -> None:
    record = broker.facts() | {"keeps_data": broker.keeps_data}
    path = _record(broker.pid)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record), encoding="utf-8")
    except OSError as cause:
        raise LocalBrokerError(
            f"the record of the running broker cannot be written: {cause}; "
            "name another folder with KSTREAMS_ASSIGN_CACHE"
        ) from cause


def _recall(path: Path) -> DetachedBroker | None:
    """Read a record; None if it is damaged or another command has just deleted it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return DetachedBroker(**{**record, "data_dir": Path(record["data_dir"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _forget(broker: DetachedBroker) -> None:
    if not broker.keeps_data:
        shutil.rmtree(broker.data_dir, ignore_errors=True)
    _delete_record(broker.pid)


def _delete_record(pid: int) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):  # none was written
        _record(pid).unlink()


def _record(pid: int) -> Path:
    return _records_folder() / f"{pid}.json"


def _records_folder() -> Path:
    return cache_dir() / "running"
