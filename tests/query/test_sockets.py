"""The endpoint and its client over sockets of this machine: answers, tokens, redirects, and hostile peers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat

import pytest

from kstreams_assign.errors import ConfigError, MalformedFrame, QueryRefused, StoreNotAvailable
from kstreams_assign.model import HostInfo
from kstreams_assign.query import server as server_module
from kstreams_assign.query.client import Connections, QueryClient, QueryResult
from kstreams_assign.query.messages import NONCE_BYTES, Answer, Found, Get, Owners, Reason, Role, Unanswered
from kstreams_assign.query.server import QueryServer
from kstreams_assign.wire.framing import Frames, frame

TOKEN = "correct horse battery"
LOOPBACK = HostInfo("127.0.0.1", 0)


@contextmanager
def serving(answer: Callable[[Get], Answer], token: str | None = TOKEN, application_id: str = "app") -> Iterator[str]:
    failures: list[str] = []
    server = QueryServer(LOOPBACK)
    server.start(application_id, token, answer, failures.append)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.stop()
    assert failures == []


def echo(get: Get) -> Answer:
    return Found(get.key[::-1], Role.ACTIVE, 0)


def test_keys_and_values_are_bytes_of_any_kind_and_a_connection_serves_many_queries():
    with serving(echo) as endpoint, QueryClient([endpoint], token=TOKEN) as client:
        for key in (b"", b"\x00\xff", b"k" * 1_000_000, "ключ".encode()):
            assert client.query("totals", key) == QueryResult(key[::-1], "active", 0, endpoint)


def test_several_threads_may_use_one_client():
    with serving(echo) as endpoint, QueryClient([endpoint], token=TOKEN) as client, ThreadPoolExecutor(8) as pool:
        keys = [b"key-%d" % n for n in range(400)]
        assert [result.value for result in pool.map(lambda key: client.query("totals", key), keys)] == [
            key[::-1] for key in keys
        ]


def test_every_field_of_a_query_arrives():
    asked: list[Get] = []
    with (
        serving(lambda get: asked.append(get) or echo(get)) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
    ):
        client.query("totals", b"k", max_lag=7, partition=3)
    ((store, key, partition, max_lag),) = [(get.store, get.key, get.partition, get.max_lag) for get in asked]
    assert (store, key, partition, max_lag) == ("totals", b"k", 3, 7)


@pytest.mark.parametrize("token", ["another horse battery", None])
def test_a_wrong_token_is_refused_and_not_shown(token):
    with (
        serving(echo) as endpoint,
        QueryClient([endpoint], token=token) as client,
        pytest.raises(QueryRefused, match="unauthorized") as refused,
    ):
        client.query("totals", b"k")
    assert refused.value.code == "unauthorized"
    assert TOKEN not in str(refused.value)


def test_a_worker_without_the_token_is_not_believed():
    with (
        serving(echo, token=None) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
        pytest.raises(QueryRefused, match="does not know the query_token"),
    ):
        client.query("totals", b"k")


def test_a_worker_of_another_application_refuses():
    with (
        serving(echo) as endpoint,
        QueryClient([endpoint], token=TOKEN, application_id="other") as client,
        pytest.raises(QueryRefused, match="wrong_application"),
    ):
        client.query("totals", b"k")


def test_a_member_without_the_key_leads_to_the_one_that_has_it_and_a_dead_member_is_passed_over():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"127.0.0.1:{closed.getsockname()[1]}"
    with serving(echo) as owner:
        leads = Unanswered(Reason.NOT_PRESENT, "not here", Owners(1, owner, ()))
        with serving(lambda _: leads) as member, QueryClient([dead, member], token=TOKEN) as client:
            assert client.query("totals", b"ab") == QueryResult(b"ba", "active", 0, owner)
            assert client.query("totals", b"cd").endpoint == owner


@pytest.mark.parametrize("nowhere", ["", "host", "127.0.0.1:x", "127.0.0.1:99999", "." * 300 + ":1"])
def test_an_endpoint_that_is_no_address_is_a_process_that_does_not_answer(nowhere, monkeypatch):
    looks = chain(range(12), repeat(10_000))  # at a clock: then time is up
    monkeypatch.setattr("kstreams_assign.query.client._now_ms", looks.__next__)
    leads = Unanswered(Reason.NOT_PRESENT, "not here", Owners(1, nowhere, ()))
    with (
        serving(lambda _: leads) as member,
        QueryClient([member], token=TOKEN) as client,
        pytest.raises(StoreNotAvailable, match="not here"),
    ):
        client.query("totals", b"ab")


def test_a_move_is_waited_out_and_a_long_one_is_one_error_that_says_when_to_ask_again():
    moving = iter([Unanswered(Reason.NOT_READY, "moving")] * 3)
    with (
        serving(lambda get: next(moving, None) or echo(get)) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
    ):
        assert client.query("totals", b"ab").value == b"ba"
    with (
        serving(lambda _: Unanswered(Reason.NOT_READY, "task 0_1 moves", None, None, 300)) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
        pytest.raises(
            StoreNotAvailable, match=r"'totals'.*within 0.2 s: .*task 0_1 moves.*ask again in 300 ms"
        ) as late,
    ):
        client.query("totals", b"ab", timeout_s=0.2)
    assert late.value.retry_after_ms == 300


def test_a_client_connects_again_to_a_process_that_was_started_again():
    server = QueryServer(LOOPBACK)
    server.start("app", TOKEN, echo, print)
    address = HostInfo("127.0.0.1", server.port)
    with QueryClient([f"127.0.0.1:{server.port}"], token=TOKEN) as client:
        assert client.query("totals", b"ab").value == b"ba"
        server.stop()
        server = QueryServer(address)
        server.start("app", TOKEN, echo, print)
        assert client.query("totals", b"cd").value == b"dc"
        server.stop()


def test_connections_to_processes_that_are_no_longer_asked_are_closed(monkeypatch):
    """Without another query to the same process."""
    monkeypatch.setattr("kstreams_assign.query.client.IDLE_S", 0.0)
    front, owner = QueryServer(LOOPBACK), QueryServer(LOOPBACK)
    leads = Unanswered(Reason.NOT_PRESENT, "not here", Owners(1, f"127.0.0.1:{owner.port}", ()))
    front.start("app", TOKEN, lambda _: leads, print)
    owner.start("app", TOKEN, echo, print)
    with QueryClient([f"127.0.0.1:{front.port}"], token=TOKEN) as client:
        client.query("totals", b"ab")
        await_true(lambda: not front._server._open)
        assert owner._server._open, "the one that was used last is kept"
    front.stop()
    owner.stop()


def await_true(is_so: Callable[[], bool]) -> None:
    pause, deadline_s = threading.Event(), time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline_s
        pause.wait(0.001)


@contextmanager
def hanging(hosts: Sequence[str], port: int = 0) -> Iterator[int]:
    """Addresses that take no more connections, as of machines that have died; yields their port."""
    with ExitStack() as opened:
        for host in hosts:
            server = opened.enter_context(socket.socket())
            server.bind((host, port))
            server.listen(0)
            port = server.getsockname()[1]
            with suppress(TimeoutError):
                while True:
                    opened.enter_context(socket.create_connection((host, port), 0.05))
        yield port


def resolve(monkeypatch, name: str, hosts: Sequence[str]) -> None:
    look_up = socket.getaddrinfo

    def getaddrinfo(host, *rest, **named):
        return [entry for each in (hosts if host == name else [host]) for entry in look_up(each, *rest, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_the_timeout_is_for_all_addresses_of_a_host_together(monkeypatch):
    hosts = [f"127.0.0.{n}" for n in range(2, 22)]
    resolve(monkeypatch, "pods.test", hosts)
    with hanging(hosts) as port, QueryClient([f"pods.test:{port}"]) as client:
        began_s = time.monotonic()
        with pytest.raises(StoreNotAvailable, match="timed out"):
            client.query("totals", b"k", timeout_s=0.5)
        assert time.monotonic() - began_s < 9  # not 10 s: 0.5 s for each


def test_addresses_that_hang_leave_time_for_the_one_that_answers(monkeypatch):
    hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.1"]
    resolve(monkeypatch, "pods.test", hosts)
    with serving(echo) as endpoint:
        port = int(endpoint.rpartition(":")[2])
        with hanging(hosts[:2], port), QueryClient([f"pods.test:{port}"], token=TOKEN) as client:
            began_s = time.monotonic()
            assert client.query("totals", b"ab", timeout_s=4.5).value == b"ba"
            assert time.monotonic() - began_s < 8  # not 9 s: 4.5 s for each that hangs


def test_an_answer_that_does_not_come_holds_up_no_stop(monkeypatch):
    monkeypatch.setattr(server_module, "LAST_ANSWERS_S", 0.05)
    asked, go, answered = threading.Event(), threading.Event(), threading.Event()

    def stuck(get: Get) -> Answer:
        asked.set()
        go.wait(30)
        answered.set()
        return echo(get)

    server = QueryServer(LOOPBACK)
    server.start("app", TOKEN, stuck, print)
    with ThreadPoolExecutor(1) as pool, QueryClient([f"127.0.0.1:{server.port}"], token=TOKEN) as client:
        waiting = pool.submit(client.query, "totals", b"ab", timeout_s=3)
        assert asked.wait(10)
        server.stop()
        assert not answered.is_set()
        with pytest.raises(StoreNotAvailable):
            waiting.result(10)
        go.set()


def test_an_answer_that_is_ready_a_moment_after_the_stop_arrives(monkeypatch):
    monkeypatch.setattr(server_module, "LAST_ANSWERS_S", 10.0)
    asked, go = threading.Event(), threading.Event()

    def slow(get: Get) -> Answer:
        asked.set()
        go.wait(10)
        return echo(get)

    server = QueryServer(LOOPBACK)
    server.start("app", TOKEN, slow, print)
    with ThreadPoolExecutor(2) as pool, QueryClient([f"127.0.0.1:{server.port}"], token=TOKEN) as client:
        waiting = pool.submit(client.query, "totals", b"ab", timeout_s=10)
        assert asked.wait(10)
        with socket.create_connection(("127.0.0.1", server.port), 10) as idle:
            assert idle.recv(4096), "it was accepted"
            stopped = pool.submit(server.stop)
            while idle.recv(4096):
                pass
        assert not stopped.done()
        go.set()
        assert waiting.result(10).value == b"ba"
        stopped.result(10)


def test_a_value_that_no_frame_can_carry_is_refused():
    large = Found(b"v" * (16 << 20), Role.ACTIVE, 0)
    with (
        serving(lambda _: large) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
        pytest.raises(QueryRefused, match="too_large"),
    ):
        client.query("totals", b"k")


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    struct.pack(">I", 2**31),
    struct.pack(">I", 5000) + b"x" * 5000,
    struct.pack(">I", 3) + b"\xc1\xc1\xc1",
    frame({"id": 1, "op": "get", "store": "totals", "key": b"k"}),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_get_one_error_and_a_closed_connection(data):
    with serving(echo) as endpoint, QueryClient([endpoint], token=TOKEN) as client:
        host, port = endpoint.split(":")
        with socket.create_connection((host, int(port)), 10) as hostile:
            hostile.sendall(data)
            frames, errors = Frames(1 << 20), []
            while received := hostile.recv(4096):
                frames.feed(received)
                while (message := frames.next()) is not None:
                    errors += [message["error"]["code"]] if "error" in message else []
        assert errors in (["malformed"], ["unauthorized"])
        assert client.query("totals", b"ab").value == b"ba"


@pytest.mark.parametrize("reply", [{"id": 0, "error": "no"}, {"id": 0, "error": None}])
def test_a_server_of_another_kind_is_a_process_that_does_not_answer_and_no_connection_to_it_stays_open(reply):
    ends: list[bytes] = []

    def greet_and_refuse():
        connection, _ = server.accept()
        with connection:
            connection.sendall(frame({"version": 1, "nonce": b"x" * NONCE_BYTES}))
            connection.recv(4096)
            connection.sendall(frame(reply))
            connection.settimeout(10)
            ends.append(connection.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet_and_refuse, daemon=True)
        thread.start()
        get = Get("totals", b"k", None, None, 10_000)
        with pytest.raises(MalformedFrame, match="does not answer queries"):
            Connections(None, None).ask(f"127.0.0.1:{server.getsockname()[1]}", get)
        thread.join()
    assert ends == [b""]


def test_silent_connections_shut_no_client_out():
    with serving(echo) as endpoint, QueryClient([endpoint], token=TOKEN) as client:
        host, port = endpoint.split(":")
        silent = [socket.create_connection((host, int(port)), 10) for _ in range(3 * server_module.WAITING_MAX)]
        try:
            assert client.query("totals", b"ab").value == b"ba"
            silent[0].settimeout(2)  # less than a greeting may take: it had to make room
            while silent[0].recv(4096):
                pass
        finally:
            for each in silent:
                each.close()


def test_a_connection_that_does_not_greet_in_time_is_closed(monkeypatch):
    monkeypatch.setattr(server_module, "GREETING_S", 0.1)
    with serving(echo) as endpoint:
        host, port = endpoint.split(":")
        with socket.create_connection((host, int(port)), 10) as silent:
            while silent.recv(4096):
                pass


def test_an_address_that_cannot_be_had_is_an_error_of_the_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"query = '127.0.0.1:{port}': cannot listen there: the address is in use"
        ):
            QueryServer(HostInfo("127.0.0.1", port))


@pytest.mark.parametrize("members", [[], "localhost:7000", ["localhost"], ["localhost:x"]])
def test_members_are_addresses(members):
    with pytest.raises(ConfigError, match="members = "):
        QueryClient(members)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "text"},
        {"max_lag": -1},
        {"partition": True},
        *({"timeout_s": value} for value in (float("inf"), float("nan"), 1e306, -1, -0.1, None, "5", True)),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_sent(wrong):
    with QueryClient(["127.0.0.1:1"]) as client, pytest.raises(ConfigError, match=next(iter(wrong))):
        client.query("totals", **{"key": b"k", **wrong})
