"""``kstreams-assign worker``: the sidecar as a program, until a signal ends it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

TOLD = ("listening", "http_listening", "session_began", "session_ended", "assigned", "running", "lost", "closed")
"""Events that are for people, too."""


def worker(
    config: Annotated[Path, typer.Option(help="The settings and the topology, as TOML.")],
    json_log: Annotated[bool, typer.Option("--json-log", help="One line of JSON an event on standard output.")] = False,
) -> None:
    """Be a member for one application at a time, which speaks msgpack over the socket named in the file.

    Ends on SIGTERM or Ctrl-C: what the application has asked to commit is committed, tasks are closed, the group is left.

    Example: kstreams-assign worker --config worker.toml --json-log
    """
    from kstreams_assign.worker.sidecar.settings import SidecarSettings
    from kstreams_assign.worker.sidecar.sidecar import Sidecar

    sidecar = Sidecar(SidecarSettings.from_toml(config), _print_json if json_log else _tell)
    _close_on_signals(sidecar.close)
    sidecar.run()


def _close_on_signals(close: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: close())


def _print_json(event: Mapping[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def _tell(event: Mapping[str, Any]) -> None:
    if event["event"] in TOLD:
        facts = " ".join(
            f"{key}={value}" for key, value in event.items() if key not in ("event", "time_ms", "process_id")
        )
        typer.echo(f"{event['event']} {facts}".rstrip(), err=True)
