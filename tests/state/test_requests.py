"""Requests of commands in the state directory: none is lost by another, and none ends the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.state import requests
from kstreams_assign.state.requests import leave_request, take_answer, take_requests, withdraw_request
from kstreams_assign.worker.pauses import Target, Tasks
from kstreams_assign.worker.state_requests import StateRequests


class Loop:
    """Pauses and resumes at once."""

    is_this_thread = False

    def __init__(self) -> None:
        self.asked: list[tuple[Target, bool]] = []

    def pause(self, target: Target, answer: Future[Tasks], *, paused: bool) -> None:
        self.asked.append((target, paused))
        answer.set_result((TaskId(0, 1),))


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def requests_of(tmp_path: Path, loop: Loop) -> StateRequests:
    made = StateRequests(tmp_path, loop, lambda: 0)
    made.start()
    return made


def test_a_request_is_carried_out_once_and_answered(tmp_path: Path, loop: Loop, requests_of: StateRequests) -> None:
    answer = leave_request(tmp_path, {"op": "pause", "which": "0_1"}, 10)
    for _ in range(2):
        requests_of.turn()
    assert loop.asked == [(TaskId(0, 1), True)]
    assert take_answer(answer) == {"tasks": ["0_1"]}


def test_a_request_that_is_withdrawn_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Loop, requests_of: StateRequests
) -> None:
    answers = [leave_request(tmp_path, {"op": op, "which": None}, 10) for op in ("pause", "resume")]
    read: Callable[[Path], dict[str, object]] = requests._read

    def read_while_the_other_is_withdrawn(path: Path) -> dict[str, object]:
        withdraw_request(next(answer for answer in answers if answer.stem != path.stem))
        return read(path)

    monkeypatch.setattr(requests, "_read", read_while_the_other_is_withdrawn)
    requests_of.turn()
    assert len(loop.asked) == 1
    assert take_requests(tmp_path, 0) == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "nothing of the kind",
        json.dumps({"op": "pause", "which": "9" * 5_000, "until_ms": 10}),
        json.dumps({"op": "pause", "which": "9" * 5_000 + "_1", "until_ms": 10}),
        json.dumps({"op": "pause", "which": 1.5, "until_ms": 10}),
    ],
    ids=["deep", "no JSON", "a long number", "a long task", "a fraction"],
)
def test_what_is_no_request_is_removed_and_ends_nothing(
    tmp_path: Path, loop: Loop, requests_of: StateRequests, text: str
) -> None:
    path = tmp_path / requests.REQUESTS_FOLDER / "x.request"
    path.write_text(text, encoding="utf-8")
    requests_of.turn()
    assert (loop.asked, path.exists()) == ([], False)
    answer = take_answer(path.with_suffix(".answer"))
    if answer is not None:
        assert "must be a task such as '0_1'" in answer["error"] or "is not a task id" in answer["error"]
        assert len(answer["error"]) < 200
