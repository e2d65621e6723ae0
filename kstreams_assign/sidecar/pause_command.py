"""The commands ``pause`` and ``resume``: they ask every process of an application on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kstreams_assign.errors import BrokerUnavailable, ConfigError, TaskNotLocal, WorkerNotRunning
from kstreams_assign.processes.output import print_json
from kstreams_assign.sidecar.command import ApplicationId, ConfigFile, Overrides, StateDir
from kstreams_assign.sidecar.local_processes import LocalProcess, local_processes

LOOK_S = 0.05

Which = Annotated[
    list[str] | None,
    typer.Argument(
        help="Tasks such as 0_1, or subtopologies by their numbers.",
        metavar="[TASK|SUBTOPOLOGY]...",
        show_default="all",
    ),
]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds to wait until it is committed.")]
AsJson = Annotated[bool, typer.Option("--json", help="The facts as JSON.")]


def pause(
    which: Which = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    application_id: ApplicationId = None,
    state_dir: StateDir = None,
    timeout: Timeout = 30,
    as_json: AsJson = False,
) -> None:
    """Pause tasks: their input is not read until kstreams-assign resume.

    A paused task keeps its place in the group, its state and its standbys. It stays paused when its process ends, and
    when it moves to another member of this package. A subtopology is paused as far as its tasks are active on this
    machine; run the command on each machine, or name tasks. The command asks the process that has the state directory
    of these settings, or every process of run or worker --processes, and prints the tasks once that is committed.

    Exit status 1 if no worker runs there or a task is active elsewhere, 2 for a wrong argument, 3 if it is not
    committed in time; then the worker goes on trying.

    Example: kstreams-assign pause 0_1 --config worker.toml

    Example: kstreams-assign pause 0 --application-id orders --state-dir /var/lib/orders
    """
    _change("pause", which or (), local_processes(config, overrides or (), application_id, state_dir), timeout, as_json)


def resume(
    which: Which = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    application_id: ApplicationId = None,
    state_dir: StateDir = None,
    timeout: Timeout = 30,
    as_json: AsJson = False,
) -> None:
    """End the pause of tasks, wherever it began: they go on behind their last commit.

    It takes the same arguments and has the same exit statuses as kstreams-assign pause.

    Example: kstreams-assign resume 0_1 --config worker.toml
    """
    _change(
        "resume", which or (), local_processes(config, overrides or (), application_id, state_dir), timeout, as_json
    )


def _change(op: str, which: Sequence[str], processes: list[LocalProcess], timeout: float, as_json: bool) -> None:
    """Ask all processes for each task and subtopology, and print the tasks. Raises what the docstring above says."""
    deadline = time.monotonic() + timeout
    tasks: list[str] = []
    names: Sequence[str | None] = which or [None]
    for name in names:
        answers = _ask(op, name, processes, deadline, timeout)
        if wrong := [each["error"] for each in answers if each.get("wrong")]:
            raise ConfigError(wrong[0])
        changed = [task for each in answers for task in each.get("tasks", ())]
        refused = [each["error"] for each in answers if "error" in each]
        if refused and (not changed or len(processes) == 1 or _is_whole(name)):
            raise TaskNotLocal("; ".join(dict.fromkeys(refused)))
        tasks += [task for task in changed if task not in tasks]
    verb = {"pause": "paused", "resume": "resumed"}[op]
    if as_json:
        print_json({verb: tasks})
    else:
        typer.echo("\n".join(f"{task} {verb}" for task in tasks) or f"no active task here to be {verb}")


def _is_whole(name: str | None) -> bool:
    """Whether every process has to answer: a subtopology, or everything."""
    return name is None or "_" not in name


def _ask(
    op: str, name: str | None, processes: list[LocalProcess], deadline: float, timeout: float
) -> list[Mapping[str, Any]]:
    from kstreams_assign.state.requests import leave_request, take_answer, withdraw_request

    until_ms = round((time.time() + max(0.0, deadline - time.monotonic())) * 1000)
    waiting: dict[Path, LocalProcess] = {}
    for process in processes:
        try:
            waiting[leave_request(process.folder, {"op": op, "which": name}, until_ms)] = process
        except FileNotFoundError as cause:
            raise WorkerNotRunning(
                f"process {process.pid} takes no requests: it is starting, or of an older version"
            ) from cause
        except OSError as cause:
            raise ConfigError(f"{process.folder}: {cause}; run this command as the user of the worker") from cause
    answers: list[Mapping[str, Any]] = []
    pause = threading.Event()
    while waiting:
        for path, process in list(waiting.items()):
            answer = take_answer(path)
            if answer is not None:
                answers.append(answer)
            elif process.runs:
                continue
            else:
                answers.append({"error": f"process {process.pid} has ended"})
            del waiting[path]
        if waiting and time.monotonic() > deadline:
            for path in waiting:
                withdraw_request(path)
            pids = ", ".join(str(process.pid) for process in waiting.values())
            raise BrokerUnavailable(f"{op}: process {pids} has not committed it in {timeout:.0f} s; it goes on trying")
        pause.wait(LOOK_S)
    return answers
