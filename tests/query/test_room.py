"""Room for clients at the endpoint: connections that no query uses make way, and those in use stay."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from kstreams_assign.errors import StoreNotAvailable
from kstreams_assign.query import server as server_module
from kstreams_assign.query.client import Connections, QueryClient
from kstreams_assign.query.messages import Answer, Found, Get, Role
from kstreams_assign.query.server import QueryServer
from tests.query.test_sockets import LOOPBACK, TOKEN, await_true, echo, serving

FOUND = Found(b"ba", Role.ACTIVE, 0)


class Held:
    """Answers to the key ``held`` once ``go`` is set; to all others at once."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Semaphore(0), threading.Event()

    def answer(self, get: Get) -> Answer:
        if get.key == b"held":
            self.asked.release()
            self.go.wait(30)
        return echo(get)


@pytest.fixture(autouse=True)
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client waits for room until the slowest machine has noted the end of a query."""
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(server_module, "ROOM_S", 10.0)


def ask(connections: Connections, endpoint: str, key: bytes = b"ab") -> Answer:
    """Ask once: an error is not hidden by asking again."""
    return connections.ask(endpoint, Get("totals", key, None, None, 30_000))


def kept_socket(connections: Connections) -> socket.socket:
    ((kept,),) = connections._idle.values()
    return kept._socket


def is_open(connections: Connections) -> bool:
    """Return whether the server has left the connection open that the client keeps; the client sends nothing."""
    kept_socket(connections).settimeout(0)
    try:
        return kept_socket(connections).recv(1) != b""
    except BlockingIOError:
        return True


def test_the_connection_without_a_query_for_the_longest_time_makes_way_and_its_client_notices_nothing():
    server = QueryServer(LOOPBACK)
    server.start("app", TOKEN, echo, print)

    def ask_until_idle(client: Connections) -> None:
        assert ask(client, f"127.0.0.1:{server.port}") == FOUND
        address = kept_socket(client).getsockname()
        await_true(lambda: [each.getpeername() for each in server._server._idle][-1:] == [address])

    with ExitStack() as closing:
        closing.callback(server.stop)
        first, second, third, fourth = clients = [Connections(TOKEN, None) for _ in range(4)]
        for each in clients:
            closing.callback(each.close)
        for each in (first, second, third, first, fourth):
            ask_until_idle(each)
        await_true(lambda: not is_open(second))
        assert [is_open(each) for each in (first, third, fourth)] == [True] * 3
        ask_until_idle(second)
        await_true(lambda: not is_open(third))
        for each in clients * 3:
            ask_until_idle(each)


def test_a_client_that_was_shut_out_while_it_waited_takes_no_place():
    with ExitStack() as closing:
        pairs = [socket.socketpair() for _ in range(4)]
        for each in (end for pair in pairs for end in pair):
            closing.callback(each.close)
        server = server_module._Server(LOOPBACK)
        closing.callback(server.server_close)
        *others, late = (pair[0] for pair in pairs)
        for each in others:
            server.verify_request(each, None)
            assert server.let_in(each)
        assert not server.let_in(late), "it does not wait any more"
        assert server._open == set(others)


def test_a_connection_whose_query_waits_for_its_answer_stays_open():
    held = Held()
    with (
        serving(held.answer) as endpoint,
        ThreadPoolExecutor(1) as pool,
        QueryClient([endpoint], token=TOKEN) as busy,
        ExitStack() as closing,
    ):
        waiting = pool.submit(ask, busy._connections, endpoint, b"held")
        assert held.asked.acquire(timeout=10)
        for _ in range(5):
            other = Connections(TOKEN, None)
            closing.callback(other.close)
            assert ask(other, endpoint) == FOUND
        held.go.set()
        assert waiting.result(30) == Found(b"dleh", Role.ACTIVE, 0)


def test_a_client_is_turned_away_with_the_reason_only_while_all_connections_are_in_use(monkeypatch):
    held = Held()
    with (
        serving(held.answer) as endpoint,
        ThreadPoolExecutor(4) as pool,
        QueryClient([endpoint], token=TOKEN) as busy,
        QueryClient([endpoint], token=TOKEN) as late,
    ):
        waiting = [pool.submit(busy.query, "totals", b"held", timeout_s=30) for _ in range(3)]
        for _ in waiting:
            assert held.asked.acquire(timeout=10)
        with monkeypatch.context() as patched:
            patched.setattr(server_module, "ROOM_S", 0.05)
            with pytest.raises(ConnectionRefusedError, match=r"^all 3 connections of the process are in use$"):
                ask(late._connections, endpoint)
        waiting.append(pool.submit(late.query, "totals", b"held", timeout_s=30))
        held.go.set()
        assert [each.result(30).value for each in waiting] == [b"dleh"] * 4


def test_a_query_that_finds_no_room_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 0)
    monkeypatch.setattr(server_module, "ROOM_S", 0.05)
    with (
        serving(echo) as endpoint,
        QueryClient([endpoint], token=TOKEN) as client,
        pytest.raises(StoreNotAvailable, match="all 0 connections of the process are in use"),
    ):
        client.query("totals", b"ab", timeout_s=2)


def test_many_clients_at_once_all_have_their_answers():
    keys = [b"key-%d" % n for n in range(40)]

    def ask_all(client: QueryClient) -> list[bytes | None]:
        return [client.query("totals", key, timeout_s=30).value for key in keys]

    with serving(echo) as endpoint, ThreadPoolExecutor(8) as pool, ExitStack() as stack:
        clients = [stack.enter_context(QueryClient([endpoint], token=TOKEN)) for _ in range(8)]
        assert list(pool.map(ask_all, clients)) == [[key[::-1] for key in keys]] * 8
