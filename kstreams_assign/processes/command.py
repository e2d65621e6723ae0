"""The command ``run``: an application of this package in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_assign.processes.output import LogLevel

if TYPE_CHECKING:  # not imported for --help
    from kstreams_assign.model import HostInfo
    from kstreams_assign.processes.child import Job

Drain = Annotated[
    bool, typer.Option("--drain", help="On SIGTERM, move the tasks to other machines first; ten minutes at most.")
]
Restart = Annotated[
    bool, typer.Option("--restart", help="On SIGTERM, announce first that the process will be back soon.")
]
Http = Annotated[
    str | None,
    typer.Option(help="Serve health, metrics and the status of all processes there.", metavar="HOST:PORT"),
]
CloseTimeout = Annotated[
    float, typer.Option(min=1, max=86_400, help="Seconds until a process that was asked to close is killed.")
]


def run(
    application: Annotated[
        str,
        typer.Argument(help="The worker: app:worker is the name worker in the module app.", metavar="MODULE:WORKER"),
    ],
    processes: Annotated[int, typer.Option(min=1, help="How many processes; one for each core is a good start.")] = 1,
    http: Http = None,
    drain: Drain = False,
    restart: Restart = False,
    close_timeout: CloseTimeout = 60,
    app_dir: Annotated[Path, typer.Option(help="The folder to import the module from.", show_default="here")] = Path(),
    json_log: Annotated[bool, typer.Option("--json-log", help="One line of JSON an event on standard output.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="Least level of the log on standard error.", show_default="info; warning with --json-log"),
    ] = None,
) -> None:
    """Run a worker of yours in several supervised processes, each a member of the group.

    WORKER is a Worker, or a function without arguments that returns one. Each process imports the module. Process N,
    counted from 0, has the state directory STATE_DIR/N, and adds N to process_name, group_instance_id and the ports of
    application_server and query. The environment variable KSTREAMS_ASSIGN_PROCESS has its number.

    A process that fails is started again after 1 s, then 2 s, and up to 60 s. A wrong setting ends all with exit status
    2. SIGTERM or Ctrl-C closes all processes in order, another one after a second or more kills them. SIGUSR1 drains
    them first. SIGHUP closes them for a restart: their tasks wait for them (close(restart=True)).

    Example: kstreams-assign run app:worker --processes 4 --http 127.0.0.1:8080
    """
    from kstreams_assign.config import read_host
    from kstreams_assign.processes.application import refuse_malformed
    from kstreams_assign.processes.child import Job

    refuse_malformed(application)
    job = Job(
        processes=processes,
        place="kstreams_assign.processes.application:load_worker",
        arguments={"application": application, "folder": str(app_dir)},
        drains=drain,
        restarts=restart,
        close_ms=round(close_timeout * 1000),
        json_log=json_log,
        log_level=log_level,
    )
    supervise(application, [job] * processes, read_host("--http", http))


def supervise(name: str, jobs: Sequence[Job], http: HostInfo | None) -> None:
    """Run each job in a process of its own, and end this command with their exit status.

    Raises ``ConfigError`` and ``ShutdownRequested``.
    """
    from kstreams_assign.processes.output import Outlet, log_to_standard_error
    from kstreams_assign.processes.supervisor import LOOPBACK, Call, Supervisor

    own_http = None if http is None else LOOPBACK
    call = Call(name, tuple(replace(job, http=own_http) for job in jobs), http)
    with closing(Outlet(1)) as out, closing(Outlet(2)) as err:
        log_to_standard_error(jobs[0].log_level, json_log=jobs[0].json_log, outlet=err)
        have_obeyed = Supervisor(call, out, err).run()
    if not have_obeyed:
        raise typer.Exit(1)
