"""TLS with a server that accepts the connection and sends nothing, and with a server that answers."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError
from kafka.net import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from kstreams_assign.adapters.kafka_python import CommittedMetadata, GroupClient, connections, describes_groups
from kstreams_assign.adapters.kafka_python.connections import PunctualTransport
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition

PATIENCE_S = 60.0
PEM = Path(__file__).parent.with_name("tls.pem")
CLIENT = {"security.protocol": "SSL", "ssl.ca.location": str(PEM)}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """As a broker that froze: its operating system accepts connections, and no program answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.2)


def address(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_hangs_on_a_broker_that_takes_the_connection_and_says_nothing(listener: socket.socket) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="connect to the brokers"):
        CommittedMetadata(address(listener), CLIENT, group_id="g", timeout_s=1).read([TopicPartition("t", 0)])
    with (
        pytest.raises(BrokerUnavailable, match="connect to the brokers"),
        describes_groups(address(listener), CLIENT, timeout_s=1),
    ):
        pass
    assert time.monotonic() - began < PATIENCE_S


def test_a_handshake_that_is_answered_goes_through(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    timeout_s = 5  # for the handshake, too, on a slow machine
    monkeypatch.setattr(connections, "HANDSHAKE_S", timeout_s)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    asked: list[bytes] = []

    def answer() -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
            asked.append(connection.recv(4))
            while connection.recv(1_000):  # until it is given up
                pass

    server = threading.Thread(target=answer)
    server.start()
    with pytest.raises(BrokerUnavailable):
        CommittedMetadata(address(listener), CLIENT, group_id="g", timeout_s=timeout_s).read([TopicPartition("t", 0)])
    server.join(PATIENCE_S)
    assert int.from_bytes(asked[0], "big") > 0, "a request came over it"


def test_a_connection_that_is_refused_leaves_no_socket_open(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, made, make = address(listener), [], KafkaNetSocket.socket

    def made_known(self: KafkaNetSocket, *arguments: Any) -> socket.socket:
        made.append(make(self, *arguments))
        return made[-1]

    listener.close()
    monkeypatch.setattr(KafkaNetSocket, "socket", made_known)
    with pytest.raises(BrokerUnavailable), describes_groups(at, timeout_s=1):
        pass
    assert {connection.fileno() for connection in made} == {-1}


def test_a_handshake_that_fails_leaves_no_socket_open(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side hangs up, as a load balancer does for a broker that is away."""
    left: list[int] = []
    shake_hands = PunctualTransport.handshake

    async def left_known(self: PunctualTransport) -> None:
        try:
            await shake_hands(self)
        finally:
            left.append(self._sock.fileno())

    def hang_up() -> None:
        with suppress(OSError):  # until it is closed
            while True:
                listener.accept()[0].close()

    monkeypatch.setattr(PunctualTransport, "handshake", left_known)
    server = threading.Thread(target=hang_up)
    server.start()
    with pytest.raises(BrokerUnavailable), describes_groups(address(listener), CLIENT, timeout_s=1):
        pass
    listener.shutdown(socket.SHUT_RDWR)  # which wakes who accepts
    server.join(PATIENCE_S)
    assert set(left) == {-1}


@pytest.mark.parametrize("closed_first", ["connection", "loop"])
def test_a_connection_with_something_to_send_is_closed_with_its_loop(closed_first: str) -> None:
    """A heartbeat may be on its way when a member closes its client."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop = NetworkSelector()
    with theirs:
        transport = KafkaTCPTransport(loop, ours)
        transport.write(b"heartbeat")
        if closed_first == "connection":
            transport.close()
        loop.close()
        assert ours.fileno() == -1


@pytest.mark.parametrize("fails", ["connect", "subscribe"])
def test_a_member_that_cannot_be_made_leaves_no_thread(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    settings = {"client_id": f"member-{fails}", "session_timeout_ms": 30_000, "bootstrap_timeout_ms": 100}
    if fails == "subscribe":  # no broker is asked about before

        def ask(*_arguments: object, **_named: object) -> None:
            raise KafkaConnectionError

        monkeypatch.setattr(KafkaConsumer, "subscribe", ask)
        settings["api_version"] = (3, 9)
    with pytest.raises(BrokerUnavailable):
        GroupClient(
            group_id="g",
            bootstrap_servers=address(listener),
            topics=["t"],
            protocol_name="stream",
            protocolist=Mock(),
            settings=settings,
        )
    assert [thread.name for thread in threading.enumerate() if f"member-{fails}" in thread.name] == []
