"""One HTTP endpoint for all processes: which path answers what.

A process is asked for its own answer, over loopback, when the endpoint is asked: once, and all at the same time, so
that the answer for all comes in time although one hangs. What must not live here: the server (``status.server``), and
how a process is asked (``asking``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from http import HTTPStatus
from typing import Any, NamedTuple

from kstreams_assign.processes.overview import overview
from kstreams_assign.processes.supervision import State
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.merged import ACCEPT, merged_exposition
from kstreams_assign.status.page import PAGE, POLICY
from kstreams_assign.status.server import PATHS, Answer, json_answer
from kstreams_assign.status.values import VERDICTS

ONE_PROCESS = "/processes/"
ROUND_S = 5.0
"""How long all processes together are waited for. The server hangs up twice as late."""


class Reply(NamedTuple):
    """What a process answers."""

    code: int
    content_type: str
    body: bytes


Ask = Callable[[str, str, str], Reply | None]
"""Ask a process's URL for a path, with an ``Accept`` header; None if it does not answer in time."""


class Endpoint:
    """Answers for all processes. ``view`` returns them as they are now; ``ask`` asks one."""

    def __init__(self, view: Callable[[], SupervisorView], ask: Ask) -> None:
        self._view = view
        self._ask = ask

    def answer(self, path: str, accept: str) -> Answer:
        """Return the answer to GET. Call it from any thread."""
        name = path.removeprefix("/")
        if path.startswith(ONE_PROCESS):
            return self._answer_of_one(path.removeprefix(ONE_PROCESS), accept)
        if name in VERDICTS:
            view = self._view()
            replies = self._replies(path, view)
            verdict = _verdict(name, view, {number: _parsed(reply) for number, reply in replies.items()})
            return json_answer(verdict, HTTPStatus.OK if verdict[name] else HTTPStatus.SERVICE_UNAVAILABLE)
        answers: Mapping[str, Callable[[], Answer]] = {
            "/": self._overview,
            "/metrics": lambda: self._metrics(accept),
            "/tasks": lambda: json_answer(self._tasks()),
            "/status.json": lambda: json_answer(self._status()),
        }
        return answers[path]() if path in answers else _no_such_path((*PATHS, f"{ONE_PROCESS}N/"))

    def _answer_of_one(self, rest: str, accept: str) -> Answer:
        """Return what one process answers at ``N/PATH``."""
        number, slash, path = rest.partition("/")
        urls = {str(process.number): process.url for process in self._view().processes}
        if number not in urls or not slash or f"/{path}" not in PATHS:
            return _no_such_path([f"{ONE_PROCESS}{known}{each}" for known in urls for each in PATHS])
        if not path:
            return Answer(HTTPStatus.OK, "text/html; charset=utf-8", PAGE, {"Content-Security-Policy": POLICY})
        url = urls[number]
        reply = None if url is None else self._ask(url, f"/{path}", accept)
        if reply is None:
            return json_answer({"error": f"process {number} does not answer"}, HTTPStatus.SERVICE_UNAVAILABLE)
        return Answer(HTTPStatus(reply.code), reply.content_type, reply.body)

    def _overview(self) -> Answer:
        view = self._view()
        statuses = self._json_of_all("/status.json", view, _is_status)
        page, policy = overview(view, statuses, _verdicts(view, statuses))
        return Answer(HTTPStatus.OK, "text/html; charset=utf-8", page, {"Content-Security-Policy": policy})

    def _tasks(self) -> list[dict[str, Any]]:
        tasks = self._json_of_all("/tasks", self._view(), _are_tasks)
        return [{"process": number, **task} for number, own in tasks.items() for task in own]

    def _metrics(self, accept: str) -> Answer:
        view = self._view()
        replies = self._replies("/metrics", view, ACCEPT)
        texts = {n: reply.body.decode(errors="replace") for n, reply in replies.items() if reply.code == HTTPStatus.OK}
        states = {process.number: process.state.value for process in view.processes}
        restarts = {process.number: process.restarts for process in view.processes}
        body, content_type = merged_exposition(texts, states, restarts, accept)
        return Answer(HTTPStatus.OK, content_type, body)

    def _status(self) -> dict[str, Any]:
        view = self._view()
        statuses = self._json_of_all("/status.json", view, _is_status)
        return {
            "ending": view.ending,
            "verdicts": _verdicts(view, statuses),
            "processes": [
                {
                    "process": process.number,
                    "state": process.state.value,
                    "pid": process.pid,
                    "restarts": process.restarts,
                    "restart_in_ms": process.restart_in_ms,
                    "status": statuses.get(process.number),
                }
                for process in view.processes
            ],
        }

    def _json_of_all(self, path: str, view: SupervisorView, is_ours: Callable[[Any], bool]) -> dict[int, Any]:
        replies = self._replies(path, view)
        values = {n: _parsed(reply) for n, reply in replies.items() if reply.code == HTTPStatus.OK}
        return {number: value for number, value in values.items() if is_ours(value)}

    def _replies(self, path: str, view: SupervisorView, accept: str = "") -> Mapping[int, Reply]:
        """Ask all processes at the same time; one that does not answer within ``ROUND_S`` is left out."""
        urls = {process.number: process.url for process in view.processes if process.url is not None}
        if not urls:
            return {}
        pool = ThreadPoolExecutor(len(urls))
        asked = {number: pool.submit(self._ask, url, path, accept) for number, url in urls.items()}
        answered, _ = wait(asked.values(), ROUND_S)
        pool.shutdown(wait=False)
        replies = {number: future.result() for number, future in asked.items() if future in answered}
        return {number: reply for number, reply in replies.items() if reply is not None}


def _no_such_path(paths: Sequence[str]) -> Answer:
    return json_answer({"error": f"no such path; there are {', '.join(paths)}"}, HTTPStatus.NOT_FOUND)


def _parsed(reply: Reply) -> Any:
    """Return the JSON of an answer, or None if it is not JSON: another program may have the port by now."""
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def _verdicts(view: SupervisorView, statuses: Mapping[int, Any]) -> dict[str, dict[str, Any]]:
    """Return all verdicts, from the ``/status.json`` of the processes that answer."""
    own = {number: status["verdicts"] for number, status in statuses.items()}
    return {name: _verdict(name, view, {number: each.get(name) for number, each in own.items()}) for name in VERDICTS}


def _verdict(name: str, view: SupervisorView, own: Mapping[int, Any]) -> dict[str, Any]:
    """Return whether it holds for every process, by their ``own`` verdicts.

    Processes that were closed on their own do not count.
    """
    reasons = ["all processes were asked to close"] if view.ending and name != "live" else []
    for process in view.processes:
        of_process = _reasons(name, process, own.get(process.number))
        reasons += [f"process {process.number}: {reason}" for reason in of_process]
    return {name: not reasons, "reasons": reasons}


def _is_status(value: Any) -> bool:
    """Return whether this is a worker's ``/status.json``, as far as the overview shows it."""
    match value:
        case {
            "application_id": str(),
            "state": str(),
            "generation": int() | None,
            "records_total": int(),
            "verdicts": dict(),
            "input_lags": dict(lags),
            "tasks": tasks,
        }:
            return _are_tasks(tasks) and all(isinstance(lag, int) for lag in lags.values())
    return False


def _are_tasks(value: Any) -> bool:
    """Return whether this is a worker's ``/tasks``, as far as the overview shows them."""
    return isinstance(value, list) and all(
        isinstance(task, dict) and isinstance(task.get("role"), str) for task in value
    )


def _reasons(verdict: str, process: ProcessView, own: Any) -> list[str]:
    if process.state is State.ENDED:
        return []
    match own:
        case {"reasons": list(reasons), **rest} if isinstance(rest.get(verdict), bool):
            return [str(reason) for reason in reasons]
    if process.url is not None:
        return ["it does not answer"]
    if verdict == "live":
        return []  # the supervisor has it in hand
    if process.state is State.RESTING:
        return [f"it failed, and starts again in {(process.restart_in_ms or 0) / 1000:.0f} s"]
    return ["it is starting"]
