"""Count per key through the sidecar's socket, with columns. Arguments: see ``count.py``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from kstreams_assign.errors import SidecarDisconnected
from kstreams_assign.sidecar.client import Columns, SidecarClient

CONFIG = """
application_id = "{application}"
bootstrap_servers = "{servers}"
state_dir = "{state}"
socket = "{socket}"

[[topology.subtopology]]
sources = ["{source}"]
stores = [{{name = "counts"}}]
sinks = ["{sink}"]
"""


def main(servers: str, application: str, state: str, source: str, sink: str) -> None:
    """Run until SIGTERM, with the worker as a child that ends with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(state)
    folder.mkdir(parents=True, exist_ok=True)
    socket, config = folder / "s.sock", folder / "worker.toml"
    config.write_text(
        CONFIG.format(
            application=application, servers=servers, state=folder / "state", socket=socket, source=source, sink=sink
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "kstreams_assign", "worker", "--config", str(config)]
    with suppress(KeyboardInterrupt), subprocess.Popen(command) as worker:
        try:
            with connected(str(socket)) as session:
                while True:
                    for columns in session.poll_columns(max_records=20_000):
                        count(session, columns, sink)
                    session.commit()
        finally:
            worker.terminate()


def connected(socket: str, limit_s: float = 20.0) -> SidecarClient:
    """A session, once the worker listens."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return SidecarClient(socket)
        except SidecarDisconnected:
            if time.monotonic() > deadline:
                raise


def count(session: SidecarClient, columns: Columns, sink: str) -> None:
    """A running count of each record goes out; a key's last count of the batch goes into the store."""
    keys = list(dict.fromkeys(columns.key))
    counts = {key: int(old or 0) for key, old in zip(keys, session.get(columns.task, "counts", keys), strict=True)}
    values = []
    for key in columns.key:
        counts[key] += 1
        values.append(b"%d" % counts[key])
    session.put(columns.task, "counts", {key: b"%d" % count for key, count in counts.items()})
    session.emit(columns.task, sink, columns.key, values)


if __name__ == "__main__":
    main(*sys.argv[1:])
