"""The server over real sockets: its answers, and the requests that it refuses."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.events import HttpFailedEvent, HttpListeningEvent
from kstreams_assign.model import HostInfo
from kstreams_assign.status import server as module
from kstreams_assign.status.server import CONNECTIONS_MAX, PATHS, StatusServer
from kstreams_assign.worker.events import EventLog
from tests.status.statuses import settled, warming

WITHIN_S = 60


@contextmanager
def serving(status=settled, host="127.0.0.1"):
    """Yield a server, its port and its events."""
    events = []
    server = StatusServer(HostInfo(host, 0))
    server.start(status, EventLog("process", events.append))
    try:
        yield server.address.port, events
    finally:
        server.stop()


def ask(port, path, method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def reply_to(port, raw):
    """Return all bytes that come back for these."""
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as connection:
        connection.sendall(raw)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_health_is_200_or_503_with_the_reasons():
    with serving(warming) as (port, _):
        answers = {path: ask(port, path) for path in ("/live", "/ready", "/scalable")}
    assert {path: answer.status for path, (answer, _) in answers.items()} == {
        "/live": 200,
        "/ready": 200,
        "/scalable": 503,
    }
    verdict = json.loads(answers["/scalable"][1])
    assert verdict["scalable"] is False
    assert any("0_1 warms up on newcomer:80: lag 41,000" in reason for reason in verdict["reasons"])
    assert json.loads(answers["/ready"][1]) == {"ready": True, "reasons": []}


def test_every_path_answers_and_head_is_the_same_without_a_body():
    with serving() as (port, events):
        for path in PATHS:
            full, body = ask(port, f"{path}?ignored=1")
            brief, nothing = ask(port, path, "HEAD")
            assert (full.status, brief.status, nothing) == (200, 200, b"")
            assert full.headers["Content-Length"] == str(len(body))
            assert brief.headers["Content-Type"] == full.headers["Content-Type"]
        assert [task["task"] for task in json.loads(ask(port, "/tasks")[1])] == ["0_0", "0_1", "0_2"]
        [listening] = events
        assert isinstance(listening, HttpListeningEvent)
        assert listening.url == f"http://127.0.0.1:{port}/"
        assert listening.warnings == ()


def test_other_paths_methods_and_versions_are_refused():
    with serving() as (port, _):
        missing, body = ask(port, "/secrets")
        assert missing.status == 404
        assert "/scalable" in json.loads(body)["error"]
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer, _ = ask(port, "/live", method)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert ask(port, "/live", "BREW")[0].status == 501
        assert reply_to(port, b"GET /live HTTP/9.9\r\n\r\n").startswith(b"505")
        assert reply_to(port, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").startswith(b"400")


@pytest.mark.parametrize(("host", "code"), [("localhost:1", 200), ("127.0.0.1", 200), ("evil.example:80", 421)])
def test_on_loopback_only_names_of_loopback_get_an_answer(host, code):
    with serving() as (port, _):
        assert ask(port, "/live", Host=host)[0].status == code


def test_other_loopback_addresses_are_names_of_loopback_too():
    with serving(host="127.0.0.9") as (port, events):
        with socket.create_connection(("127.0.0.9", port), timeout=WITHIN_S) as connection:
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.9:%d\r\n\r\n" % port)
            assert connection.makefile("rb").readline() == b"HTTP/1.0 200 OK\r\n"
        assert events[0].warnings == ()


def test_on_another_address_any_name_gets_an_answer_and_a_warning_is_reported():
    with serving(host="0.0.0.0") as (port, events):
        assert ask(port, "/live", Host="pod.example:80")[0].status == 200
        assert "no loopback" in events[0].warnings[0]


def test_a_request_that_is_too_long_is_refused_without_being_read():
    with serving() as (port, _):
        assert b" 414 " in reply_to(port, b"GET /" + b"a" * 16_400)
        assert b" 431 " in reply_to(port, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 2_731)


def test_a_client_that_hangs_up_in_the_middle_harms_nothing():
    asked, go_on = threading.Event(), threading.Event()

    def slow():
        asked.set()
        go_on.wait(WITHIN_S)
        return settled()

    with serving(slow) as (port, events):
        for raw in (b"", b"GET /st", b"GET /status.json HTTP/1.1\r\nHo", b"GET /status.json HTTP/1.1\r\n\r\n"):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            connection.sendall(raw)
            if raw.endswith(b"\r\n\r\n"):
                assert asked.wait(WITHIN_S)
            connection.close()
        go_on.set()
        assert ask(port, "/live")[0].status == 200
    assert [type(event) for event in events] == [HttpListeningEvent]


def test_a_silent_client_is_disconnected_and_others_are_served_meanwhile(monkeypatch):
    monkeypatch.setattr(module, "CONNECTION_S", 3.0)  # long enough to open all connections
    monkeypatch.setattr(module._Handler, "timeout", 2 * WITHIN_S)
    with serving() as (port, _):
        idle = [socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) for _ in range(CONNECTIONS_MAX)]
        idle[0].sendall(b"G")
        assert reply_to(port, b"GET /live HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 503")
        started = time.monotonic()
        assert [connection.recv(1) for connection in idle] == [b""] * CONNECTIONS_MAX
        assert time.monotonic() - started < WITHIN_S, "long before each had been silent for too long"
        while ask(port, "/live")[0].status == 503:  # a thread that has just closed its connection still counts
            assert time.monotonic() - started < WITHIN_S
        for connection in idle:
            connection.close()


def test_an_internal_error_is_reported_and_the_next_request_is_answered():
    moments = iter([None, settled()])
    with serving(lambda: next(moments)) as (port, events):
        assert reply_to(port, b"GET /live HTTP/1.0\r\n\r\n") == b""
        assert ask(port, "/live")[0].status == 200
        assert "AttributeError" in next(e for e in events if isinstance(e, HttpFailedEvent)).warnings[0]


def test_the_server_ends_while_a_client_is_connected_and_leaves_no_thread_and_no_port(monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 2 * WITHIN_S)
    before = set(threading.enumerate())
    with serving() as (port, _):
        waiting = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
        ask(port, "/live")
        started = time.monotonic()
    assert time.monotonic() - started < WITHIN_S, "it did not wait until the client had been silent for long"
    assert waiting.recv(1) == b""
    waiting.close()
    assert set(threading.enumerate()) <= before
    with serving(), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_an_address_in_use_is_refused_with_key_value_and_fix():
    with serving() as (port, _), pytest.raises(ConfigError) as refused:
        StatusServer(HostInfo("127.0.0.1", port))
    fix = "the address is in use; choose another port, or port 0 for a free one"
    assert str(refused.value) == f"http = '127.0.0.1:{port}': cannot listen there: {fix}"
