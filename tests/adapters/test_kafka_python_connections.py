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

import pytest
from kafka.net import KafkaNetSocket

from kstreams_assign.adapters.kafka_python import CommittedMetadata, connections, describes_groups
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
    begun: list[PunctualTransport] = []
    shake_hands = PunctualTransport.handshake

    def begun_known(self: PunctualTransport) -> Any:
        begun.append(self)
        return shake_hands(self)

    def hang_up() -> None:
        with suppress(OSError):  # until it is closed
            while True:
                listener.accept()[0].close()

    monkeypatch.setattr(PunctualTransport, "handshake", begun_known)
    server = threading.Thread(target=hang_up)
    server.start()
    with pytest.raises(BrokerUnavailable), describes_groups(address(listener), CLIENT, timeout_s=1):
        pass
    listener.shutdown(socket.SHUT_RDWR)  # which wakes who accepts
    server.join(PATIENCE_S)
    assert {connection._sock.fileno() for connection in begun} == {-1}
