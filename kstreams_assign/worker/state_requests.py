"""The requests that commands leave in the state directory: ``pause`` and ``resume``.

What must not live here: the files (``state.requests``), and what a pause is (``pauses``). Used by one thread, which
waits for nothing: an answer is written when the loop has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from kstreams_assign.errors import ConfigError, KStreamsAssignError
from kstreams_assign.state.requests import StateRequest, forget_requests, take_requests, write_answer
from kstreams_assign.worker.pauses import Loop, Tasks, target_of

OPS = {"pause": True, "resume": False}


class StateRequests:
    """The requests to this process. ``folder`` is the application's."""

    def __init__(self, folder: Path, loop: Loop, now_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._loop = loop
        self._now_ms = now_ms

    def start(self) -> None:
        """Drop what was asked of an earlier process."""
        with suppress(OSError):  # a directory that cannot be written stops tasks, which is reported
            forget_requests(self._folder)

    def turn(self) -> None:
        """Take what was asked since."""
        with suppress(OSError):
            for request in take_requests(self._folder, self._now_ms()):
                self._take(request)

    def _take(self, request: StateRequest) -> None:
        answer: Future[Tasks] = Future()
        answer.add_done_callback(lambda done: _write(request.answer, done))
        op = request.facts.get("op")
        if not isinstance(op, str) or op not in OPS:
            answer.set_exception(ConfigError(f"op = {op!r}: must be {' or '.join(OPS)}"))
            return
        try:
            target = target_of(request.facts.get("which"))
        except ConfigError as error:
            answer.set_exception(error)
            return
        self._loop.pause(target, answer, paused=OPS[op])


def _write(path: Path, done: Future[Tasks]) -> None:
    with suppress(OSError):  # an answer that cannot be written is not waited for
        write_answer(path, _facts(done))


def _facts(done: Future[Tasks]) -> Mapping[str, Any]:
    error = done.exception()
    if error is None:
        return {"tasks": [*map(str, done.result())]}
    wrong = isinstance(error, ConfigError) or not isinstance(error, KStreamsAssignError)
    return {"error": str(error), "wrong": wrong}
