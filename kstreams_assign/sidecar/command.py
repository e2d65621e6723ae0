"""The commands ``worker`` (run a sidecar), ``drain`` (move its tasks, then end it) and ``clean`` (its disk)."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from kstreams_assign.errors import WorkerNotRunning
from kstreams_assign.events import Event

DRAIN_SIGNAL = signal.SIGUSR1
LOOK_S = 0.2

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Replace a setting of the file; may be repeated.", metavar="KEY=VALUE"),
]
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


class LogLevel(StrEnum):
    """What ``--log-level`` takes."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def worker(
    config: Annotated[Path, typer.Option(help="The settings and the topology, as TOML.")],
    settings: Overrides = None,
    json_log: Annotated[bool, typer.Option("--json-log", help="One line of JSON an event on standard output.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="Least level of the log on standard error.", show_default="info; warning with --json-log"),
    ] = None,
) -> None:
    """Run the sidecar: the member of the group, for one application at a time, which connects to its socket.

    On SIGTERM or Ctrl-C it commits what the application asked for, closes its tasks, leaves the group (or stays, as
    group_membership_operation says) and ends. On SIGUSR1 it drains first, as kstreams-assign drain does.

    Example: kstreams-assign worker --config worker.toml --set application_server=$HOSTNAME:8080 --json-log
    """
    from kstreams_assign.sidecar.settings import SidecarSettings
    from kstreams_assign.sidecar.sidecar import Sidecar

    _log_to_standard_error(log_level or (LogLevel.warning if json_log else LogLevel.info))
    sidecar = Sidecar(SidecarSettings.from_toml(config, settings or ()), _print_json if json_log else None)
    _on_signals(sidecar.close, signal.SIGTERM, signal.SIGINT)
    _on_signals(sidecar.drain, DRAIN_SIGNAL)
    sidecar.run()


def drain(
    config: Annotated[Path, typer.Option(help="The worker's settings, as it was started with.")],
    overrides: Overrides = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for its end.")] = 600,
) -> None:
    """End a worker of this machine without a gap: other workers warm its tasks up and take them over, then it ends.

    The command signals the worker that has the state directory of these settings, and waits for it. Exit status 1 if no
    worker runs there, or if it has not ended in time; then it goes on draining.

    Example: kstreams-assign drain --config worker.toml
    """
    from kstreams_assign.sidecar.settings import SidecarSettings
    from kstreams_assign.state.directory import holder_of

    settings = SidecarSettings.from_toml(config, overrides or ()).config
    where = Path(settings.state_dir), settings.application_id
    pid = holder_of(*where)
    if pid is None:
        raise WorkerNotRunning(
            f"no worker of {settings.application_id!r} runs on state_dir = {str(where[0].absolute())!r}"
        )
    os.kill(pid, DRAIN_SIGNAL)
    typer.echo(f"process {pid} drains", err=True)
    ended, deadline = threading.Event(), monotonic() + timeout
    while holder_of(*where) == pid:
        if monotonic() > deadline:
            raise WorkerNotRunning(f"process {pid} has not ended in {timeout:.0f} s; it goes on draining")
        ended.wait(LOOK_S)
    typer.echo(f"process {pid} has ended", err=True)


def clean(
    config: Annotated[Path, typer.Option(help="The worker's settings, as it was started with.")],
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed; change nothing.")] = False,
    older_than: Annotated[
        str | None, typer.Option(help="Only state that was not used for so long: 7d, 12h, 30m, 45s.", metavar="AGE")
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task, such as 0_1; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """Remove task state from a state directory that no process uses; changelogs restore it where it is needed again.

    Without --older-than and --task, all of it is removed except stores without a changelog. The process id stays. The
    file "journal" of the directory says what was removed, when and why. Exit status 1 if a process uses the directory,
    a named task has no state there, or something could not be removed; 2 for wrong settings.

    Example: kstreams-assign clean --config worker.toml --dry-run --older-than 7d

    Example: kstreams-assign clean --config worker.toml --task 0_1 --task 0_2
    """
    from kstreams_assign.sidecar import clean as work

    settings, entries = work.clean_up(config, overrides or (), task or (), older_than, dry_run=dry_run)
    if as_json:
        typer.echo(work.as_json(settings, entries, dry_run=dry_run))
    else:
        typer.echo("\n".join(work.as_lines(entries, dry_run=dry_run)))
    work.refuse_left_overs(entries)


def _on_signals(call: Callable[[], None], *numbers: signal.Signals) -> None:
    for number in numbers:
        signal.signal(number, lambda *_: call())


def _print_json(event: Event) -> None:
    """Write a line in one piece: other threads report events too, and print() writes the line's end separately."""
    sys.stdout.write(json.dumps(event.as_dict()) + "\n")
    sys.stdout.flush()


def _log_to_standard_error(level: LogLevel) -> None:
    """The Kafka clients log below WARNING only if their own loggers are set to it (``adapters.client_logs``)."""
    logging.basicConfig(format=LOG_FORMAT, level=level.upper())
