"""``kstreams-assign worker``: the sidecar as a program, until a signal ends it; ``drain``: empty it first."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Annotated, Any

import typer

from kstreams_assign.errors import NoWorker
from kstreams_assign.worker.events import TOLD, as_line

DRAIN_SIGNAL = signal.SIGUSR1
LOOK_S = 0.2

Told = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE, over what the file says; may be repeated.", metavar="KEY=VALUE"),
]
STAMPS = frozenset({"event", "time_ms", "process_id"})


def worker(
    config: Annotated[Path, typer.Option(help="The settings and the topology, as TOML.")],
    settings: Told = None,
    json_log: Annotated[bool, typer.Option("--json-log", help="One line of JSON an event on standard output.")] = False,
) -> None:
    """Be a member for one application at a time, which speaks msgpack over the socket named in the file.

    Ends on SIGTERM or Ctrl-C: what the application has asked to commit is committed, tasks are closed, the group is left.
    On SIGUSR1 it drains first, as kstreams-assign drain asks it to.

    Example: kstreams-assign worker --config worker.toml --set application_server=$HOSTNAME:8080 --json-log
    """
    from kstreams_assign.worker.sidecar.settings import SidecarSettings
    from kstreams_assign.worker.sidecar.sidecar import Sidecar

    sidecar = Sidecar(SidecarSettings.from_toml(config, settings or ()), _print_json if json_log else _tell)
    _on_signals(sidecar.close, signal.SIGTERM, signal.SIGINT)
    _on_signals(sidecar.drain, DRAIN_SIGNAL)
    sidecar.run()


def drain(
    config: Annotated[Path, typer.Option(help="The worker's settings, as it was started with.")],
    told: Told = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait until it has ended.")] = 600,
) -> None:
    """Let a worker of this machine leave without silence: its tasks are warmed up elsewhere, handed over, then it ends.

    The worker that has the state directory of these settings is asked by a signal, and waited for. Exit status 1 if none
    runs there, or if it has not ended in time; then it goes on draining.

    Example: kstreams-assign drain --config worker.toml
    """
    from kstreams_assign.state.directory import holder_of
    from kstreams_assign.worker.sidecar.settings import SidecarSettings

    settings = SidecarSettings.from_toml(config, told or ()).config
    where = Path(settings.state_dir), settings.application_id
    pid = holder_of(*where)
    if pid is None:
        raise NoWorker(f"no worker of {settings.application_id!r} runs on state_dir = {settings.state_dir!r}")
    os.kill(pid, DRAIN_SIGNAL)
    typer.echo(f"process {pid} drains", err=True)
    ended, deadline = Event(), monotonic() + timeout
    while holder_of(*where) == pid:
        if monotonic() > deadline:
            raise NoWorker(f"process {pid} has not ended in {timeout:.0f} s; it goes on draining")
        ended.wait(LOOK_S)
    typer.echo(f"process {pid} has ended", err=True)


def _on_signals(call: Callable[[], None], *numbers: signal.Signals) -> None:
    for number in numbers:
        signal.signal(number, lambda *_: call())


def _print_json(event: Mapping[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def _tell(event: Mapping[str, Any]) -> None:
    if event["event"] in TOLD:
        typer.echo(as_line(event["event"], {key: value for key, value in event.items() if key not in STAMPS}), err=True)
