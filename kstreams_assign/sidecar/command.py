"""The commands ``worker`` (run a sidecar), ``drain`` (move its tasks, then end it) and ``clean`` (its disk)."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_assign.errors import ConfigError, WorkerNotRunning
from kstreams_assign.events import Event
from kstreams_assign.processes.command import CloseTimeout, Drain, Restart, supervise
from kstreams_assign.processes.output import LogLevel, log_to_standard_error, print_json
from kstreams_assign.sidecar.address import numbered_address, refuse_shared_socket
from kstreams_assign.sidecar.local_processes import local_processes

if TYPE_CHECKING:  # not imported for --help
    from kstreams_assign.sidecar.sidecar import Sidecar

DRAIN_SIGNAL = signal.SIGUSR1
RESTART_SIGNAL = signal.SIGHUP
LOOK_S = 0.2

ConfigFile = Annotated[Path | None, typer.Option(help="The worker's settings, as it was started with.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Replace a setting of the file; may be repeated.", metavar="KEY=VALUE"),
]
ApplicationId = Annotated[str | None, typer.Option(help="Without --config: the application_id of a worker in Python.")]
StateDir = Annotated[str | None, typer.Option(help="Without --config: the state_dir of a worker in Python.")]


def worker(
    config: Annotated[Path, typer.Option(help="The settings and the topology, as TOML.")],
    settings: Overrides = None,
    json_log: Annotated[bool, typer.Option("--json-log", help="One line of JSON an event on standard output.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="Least level of the log on standard error.", show_default="info; warning with --json-log"),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Run so many supervised sidecars.", show_default="one, unsupervised")
    ] = None,
    drain: Drain = False,
    restart: Restart = False,
    close_timeout: CloseTimeout = 60,
) -> None:
    """Run the sidecar: the member of the group, for one application at a time, which connects to its socket.

    On SIGTERM or Ctrl-C it commits what the application asked for, closes its tasks, leaves the group (or stays, as
    group_membership_operation says) and ends. On SIGUSR1 it drains first, as kstreams-assign drain does. On SIGHUP, and
    on SIGTERM with --restart or the setting sigterm = "restart", it announces before that it will be back soon, so that
    its tasks wait for it.

    With --processes it is several of them under one supervisor, as kstreams-assign run does it: sidecar N, counted from
    0, listens at the socket with N for {n} (TCP: at the port plus N) and has the state directory STATE_DIR/N. The
    setting http is the address of all. --drain and --close-timeout are for --processes.

    Example: kstreams-assign worker --config worker.toml --set application_server=$HOSTNAME:8080 --json-log
    """
    from kstreams_assign.sidecar.settings import SidecarSettings
    from kstreams_assign.sidecar.sidecar import Sidecar

    given = SidecarSettings.from_toml(config, settings or ())
    if processes is not None:
        from kstreams_assign.processes.child import Job

        refuse_shared_socket(given.address, processes)
        job = Job(
            processes=processes,
            place="kstreams_assign.sidecar.command:make_sidecar",
            arguments={"config": str(config), "settings": settings or []},
            drains=drain,
            restarts=restart or given.config.sigterm == "restart",
            close_ms=round(close_timeout * 1000),
            json_log=json_log,
            log_level=log_level,
        )
        jobs = [replace(job, arguments={**job.arguments, "number": number}) for number in range(processes)]
        supervise(given.config.application_id, jobs, given.config.http_address)
        return
    if drain:
        raise ConfigError("--drain: needs --processes; drain one sidecar with kstreams-assign drain")
    log_to_standard_error(log_level, json_log=json_log)
    sidecar = Sidecar(given, _print_event if json_log else None)
    restarts = restart or given.config.sigterm == "restart"
    _on_signals(sidecar.restart if restarts else sidecar.close, signal.SIGTERM)
    _on_signals(sidecar.close, signal.SIGINT)
    _on_signals(sidecar.restart, RESTART_SIGNAL)
    _on_signals(sidecar.drain, DRAIN_SIGNAL)
    sidecar.run()


def make_sidecar(config: str, settings: list[str], number: int) -> Sidecar:
    """Return the sidecar of process ``number``. Raises what ``Sidecar`` raises."""
    from kstreams_assign.sidecar.settings import SidecarSettings
    from kstreams_assign.sidecar.sidecar import Sidecar

    given = SidecarSettings.from_toml(config, settings)
    return Sidecar(replace(given, address=numbered_address(given.address, number)))


def drain(
    config: ConfigFile = None,
    overrides: Overrides = None,
    application_id: ApplicationId = None,
    state_dir: StateDir = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for its end.")] = 600,
    restart: Annotated[
        bool, typer.Option("--restart", help="It will be back soon: move only tasks with a caught-up replica.")
    ] = False,
) -> None:
    """End a worker of this machine without a gap: other workers warm its tasks up and take them over, then it ends.

    With --restart it ends at once: tasks with a caught-up replica elsewhere move there, the others wait for its return,
    at most scheduled_rebalance_max_delay_ms.

    The command signals the worker that has the state directory of these settings, or every process of run or worker
    --processes, and waits for it. The signal is SIGUSR1, with --restart SIGHUP. A program of yours that calls
    Worker.run() must handle it.

    Exit status 1 if no worker runs there, or if it has not ended in time; then it goes on. 2 for wrong settings, or a
    program that does not handle the signal and would be killed by it.

    Example: kstreams-assign drain --config worker.toml

    Example: kstreams-assign drain --application-id orders --state-dir /var/lib/orders
    """
    processes = local_processes(config, overrides or (), application_id, state_dir)
    number = RESTART_SIGNAL if restart else DRAIN_SIGNAL
    for process in processes:
        _refuse_to_kill(process.pid, number)
    for process in processes:
        signal_worker(process.pid, number)
        typer.echo(f"process {process.pid} {'ends for a restart' if restart else 'drains'}", err=True)
    ended, deadline = threading.Event(), monotonic() + timeout
    for process in processes:
        while process.runs:
            if monotonic() > deadline:
                raise WorkerNotRunning(f"process {process.pid} has not ended in {timeout:.0f} s; it goes on")
            ended.wait(LOOK_S)
        typer.echo(f"process {process.pid} has ended", err=True)


def signal_worker(pid: int, number: signal.Signals) -> None:
    """Send a signal to a worker; one that has ended meanwhile needs none.

    Raises ``ConfigError`` for a worker of another user.
    """
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as cause:
        raise ConfigError(
            f"process {pid}: this user may not signal it; run this command as the user of the worker"
        ) from cause


def _refuse_to_kill(pid: int, number: signal.Signals) -> None:
    """Raise ``ConfigError`` for a process that a signal would kill, as Linux says it: no handler, and nothing waits."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return
    masks = re.findall(r"^Sig(?:Cgt|Blk|Ign):\s*([0-9a-f]+)$", status, re.MULTILINE)
    if masks and not any(int(mask, 16) >> number - 1 & 1 for mask in masks):
        call = "drain()" if number is DRAIN_SIGNAL else "close(restart=True)"
        raise ConfigError(
            f"process {pid}: it does not handle {number.name}, which would kill it; install a handler of "
            f"{number.name} that calls worker.{call}"
        )


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
    """Remove state from a state directory that no process uses; it is restored where it is needed again.

    Without --older-than and --task, all of it is removed, global tables too. The process id stays. So does, unless
    --task names it, a task that has a store without a changelog, as nothing could restore that, or that cannot be read.
    A task's folder itself says which of its stores have a changelog.

    The file "journal" of the directory says what was removed, when and why. Exit status 1 if a process uses the
    directory, a named task has no state there, or something could not be removed; 2 for wrong settings.

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


def _print_event(event: Event) -> None:
    print_json(event.as_dict())
