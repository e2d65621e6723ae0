"""The endpoint for all processes, with processes that answer, are silent, rest or have ended."""

from __future__ import annotations

import json
import re
import socket
import threading
from base64 import b64encode
from collections import Counter
from hashlib import sha256

import pytest

from kstreams_assign.processes import asking
from kstreams_assign.processes import endpoint as module
from kstreams_assign.processes.endpoint import Endpoint, Reply
from kstreams_assign.processes.overview import overview
from kstreams_assign.processes.supervision import State
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.page import PAGE
from kstreams_assign.status.server import BUSY, answer
from tests.status.statuses import settled, warming

RUNNING = {
    number: ProcessView(number, State.RUNNING, 0, pid=100 + number, url=f"http://{number}/") for number in (0, 1)
}
RESTING = ProcessView(1, State.RESTING, 3, restart_in_ms=4_000)
STARTING = ProcessView(1, State.RUNNING, 0, pid=9)
ENDED = ProcessView(1, State.ENDED, 0)


def endpoint(*processes, statuses=None, ending=False):
    """Answer for these processes, each of which answers with a status of its own."""
    by_url = statuses or {"http://0/": settled, "http://1/": settled}

    def ask(url, path, accept):
        if url not in by_url:
            return None
        own = answer(path, by_url[url], accept)
        return Reply(own.code, own.content_type, own.body)

    return Endpoint(lambda: SupervisorView(processes, ending=ending), ask)


def verdict(asked, name):
    reply = asked.answer(f"/{name}", "")
    body = json.loads(reply.body)
    assert reply.code == (200 if body[name] else 503)
    return body["reasons"]


@pytest.mark.parametrize("name", ["live", "ready", "scalable"])
def test_two_settled_processes_are_all_that_is_asked_for(name):
    assert verdict(endpoint(*RUNNING.values()), name) == []


def test_the_reasons_of_a_process_have_its_number():
    reasons = verdict(endpoint(*RUNNING.values(), statuses={"http://0/": settled, "http://1/": warming}), "scalable")
    assert reasons
    assert all(reason.startswith("process 1: ") for reason in reasons)


@pytest.mark.parametrize(
    ("process", "live", "ready"),
    [
        (RESTING, [], ["process 1: it failed, and starts again in 4 s"]),
        (STARTING, [], ["process 1: it is starting"]),
        (ENDED, [], []),
        (
            ProcessView(1, State.RUNNING, 0, pid=9, url="http://silent/"),
            ["process 1: it does not answer"],
            ["process 1: it does not answer"],
        ),
    ],
    ids=["resting", "starting", "ended", "silent"],
)
def test_a_process_that_does_not_answer_counts_by_its_state(process, live, ready):
    asked = endpoint(RUNNING[0], process)
    assert (verdict(asked, "live"), verdict(asked, "ready"), verdict(asked, "scalable")) == (live, ready, ready)


def test_while_they_close_they_are_live_and_not_ready():
    asked = endpoint(*RUNNING.values(), ending=True)
    assert verdict(asked, "live") == []
    assert verdict(asked, "ready") == ["all processes were asked to close"]


def test_tasks_and_status_have_the_number_of_their_process():
    asked = endpoint(RUNNING[0], RESTING)
    tasks = json.loads(asked.answer("/tasks", "").body)
    assert [(task["process"], task["task"]) for task in tasks] == [(0, "0_0"), (0, "0_1"), (0, "0_2")]
    status = json.loads(asked.answer("/status.json", "").body)
    assert [(p["process"], p["state"], p["pid"], p["restarts"], p["restart_in_ms"]) for p in status["processes"]] == [
        (0, "running", 100, 0, None),
        (1, "resting", None, 3, 4_000),
    ]
    assert status["processes"][0]["status"]["state"] == "stable"
    assert status["processes"][1]["status"] is None
    assert status["verdicts"]["ready"]["ready"] is False


JSON = "application/json"
STATUS = json.loads(answer("/status.json", settled, "").body)
STRANGE = {
    "empty": Reply(503, "text/plain", b""),
    "not JSON": Reply(200, "text/html", b"<html>\xff"),
    "another kind of JSON": Reply(200, JSON, b'"no"'),
    "an object": Reply(404, JSON, b'{"error": "no such path"}'),
    "reasons of another kind": Reply(503, JSON, b'{"reasons": 7}'),
    "reasons of no verdict": Reply(200, JSON, b'{"reasons": []}'),
    "an object with 200": Reply(200, JSON, b'{"threads": 3}'),
    "an empty object": Reply(200, JSON, b"{}"),
    "an empty list": Reply(200, JSON, b"[]"),
    "a list": Reply(200, JSON, b"[1, null]"),
    "a deep list": Reply(200, JSON, b"[" * 100_000),
    "values of another kind": Reply(200, JSON, json.dumps({**STATUS, "tasks": 3, "input_lags": []}).encode()),
    "tasks of another kind": Reply(200, JSON, json.dumps({**STATUS, "tasks": [7]}).encode()),
    "numbers of another kind": Reply(200, JSON, json.dumps({**STATUS, "records_total": "many"}).encode()),
}


@pytest.mark.parametrize("name", STRANGE)
def test_an_answer_that_no_worker_gives_does_not_fail_the_answer_for_all(name):
    def ask(url, path, accept):
        if url == "http://1/":
            return STRANGE[name]
        own = answer(path, settled, accept)
        return Reply(own.code, own.content_type, own.body)

    asked = Endpoint(lambda: SupervisorView(tuple(RUNNING.values())), ask)
    assert verdict(asked, "ready") == ["process 1: it does not answer"]
    assert {task["process"] for task in json.loads(asked.answer("/tasks", "").body)} == {0}
    assert json.loads(asked.answer("/status.json", "").body)["processes"][0]["status"]["state"] == "stable"
    assert json.loads(asked.answer("/status.json", "").body)["processes"][1]["status"] is None
    assert b'kstreams_assign_live{process="0"} 1.0' in asked.answer("/metrics", "").body
    page = asked.answer("/", "")
    assert page.code == 200
    assert "process 1: it does not answer" in page.body.decode()


@pytest.mark.parametrize(
    ("answered", "reply"),
    [
        (BUSY, None),
        (b"HTTP/1.0 503 no\r\nContent-Type: a/b\r\n\r\n12345678", Reply(503, "a/b", b"12345678")),
        (b"HTTP/1.0 520 no\r\nContent-Type: a/b\r\n\r\n12345678", None),
        (b"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\n123456789", None),
        (b"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\nContent-Length: 6\r\n\r\n123456", Reply(200, "a/b", b"123456")),
        (b"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\nContent-Length: 7\r\n\r\n123456", None),
        (b"SSH-2.0\r\n", None),
    ],
    ids=[
        "busy",
        "the longest that is taken",
        "a code that Python lacks",
        "too long",
        "whole",
        "cut off",
        "another protocol",
    ],
)
def test_a_process_that_is_busy_or_answers_as_no_worker_does_does_not_answer(answered, reply, monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_BYTES_MAX", 8)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answered)

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        assert asking.ask(f"http://127.0.0.1:{server.getsockname()[1]}/", "/ready", "") == reply
        thread.join()


WITHIN_S = 30


@pytest.mark.parametrize("path", ["/", "/status.json", "/live", "/ready", "/scalable", "/tasks", "/metrics"])
def test_each_process_is_asked_once_for_an_answer(path):
    """One that hangs takes four seconds for each question, and the server hangs up after ten."""
    asked = Counter()

    def ask(url, *_):
        asked[url] += 1

    Endpoint(lambda: SupervisorView(tuple(RUNNING.values())), ask).answer(path, "")
    assert asked == {"http://0/": 1, "http://1/": 1}


def test_many_processes_are_asked_at_the_same_time(monkeypatch):
    monkeypatch.setattr(module, "ROUND_S", WITHIN_S)
    processes = [ProcessView(n, State.RUNNING, 0, pid=100 + n, url=f"http://{n}/") for n in range(40)]
    all_are_asked = threading.Barrier(len(processes), timeout=WITHIN_S)

    def ask(_url, path, accept):
        all_are_asked.wait()
        own = answer(path, settled, accept)
        return Reply(own.code, own.content_type, own.body)

    assert verdict(Endpoint(lambda: SupervisorView(tuple(processes)), ask), "ready") == []


def test_a_process_that_answers_too_slowly_does_not_hold_the_answer_for_all_up(monkeypatch):
    monkeypatch.setattr(module, "ROUND_S", 3.0)
    may_answer, late = threading.Event(), []

    def ask(url, path, accept):
        if url == "http://1/":
            may_answer.wait(WITHIN_S)
            late.append(url)
        own = answer(path, settled, accept)
        return Reply(own.code, own.content_type, own.body)

    status = json.loads(Endpoint(lambda: SupervisorView(tuple(RUNNING.values())), ask).answer("/status.json", "").body)
    assert late == []
    may_answer.set()
    assert [process["status"] is None for process in status["processes"]] == [False, True]
    assert status["verdicts"]["live"]["reasons"] == ["process 1: it does not answer"]


def test_one_process_can_be_asked_through_the_endpoint():
    asked = endpoint(RUNNING[0], RESTING)
    assert asked.answer("/processes/0/", "").body == PAGE
    assert asked.answer("/processes/0/tasks", "").body == answer("/tasks", settled, "").body
    assert asked.answer("/processes/1/tasks", "").code == 503
    for path in ("/processes/0", "/processes/2/", "/processes/0/no", "/processes/x/tasks", "/no"):
        assert asked.answer(path, "").code == 404, path


def test_the_page_lists_every_process_and_escapes_what_it_shows():
    statuses = {0: {**json.loads(answer("/status.json", settled, "").body), "application_id": "<b>{rows}"}}
    verdicts = {name: {name: name == "live", "reasons": ["<i>"]} for name in ("live", "ready", "scalable")}
    page, policy = overview(SupervisorView((RUNNING[0], RESTING)), statuses, verdicts)
    text = page.decode()
    assert '<h1 id="application">&lt;b&gt;{rows}</h1>' in text
    assert "<li>&lt;i&gt;</li>" in text
    assert '<a href="processes/0/">0</a>' in text
    assert "failed, starts again in 4 s" in text
    assert "processes: 1 resting, 1 running" in text
    assert text.count("<tr><td") == 2
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}';" in policy
    assert "unsafe" not in policy
