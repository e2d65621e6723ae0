"""Corrects kafka-python's connections (3.0.12): handshakes have a deadline, no socket stays open, outages end.

kafka-python waits for ever for a broker that accepts a connection and sends nothing. A broker that froze does so: its
operating system goes on accepting connections. A member would hang there and never try another broker.

A connection that is closed with a request in its buffer closes its socket once the request is sent. A client that is
closed at that moment ends its loop before, so the socket stayed open.

Two outages would last for ever. An error that is not kafka-python's own, as of a CA file that is away for a moment,
ends its heartbeats and its look-ups of metadata. And it asks the ``bootstrap_servers`` only once, though all brokers
may come back under other addresses (KIP-899).
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net import KafkaNetSocket, manager
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager, KafkaSSLTransport  # from there, as it is replaced there
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

HANDSHAKE_S = 10.0
"""Kafka's own ``socket.connection.setup.timeout.ms``, which kafka-python observes before the handshake and after it."""

_HANDSHAKE_S = "handshake_s"
"""The attribute of a loop whose connections have another limit than ``HANDSHAKE_S``."""

_TLS_FILES = "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"


class PunctualTransport(KafkaSSLTransport):  # type: ignore[misc]
    """kafka-python's, whose handshake fails if it takes longer than the limit. Its errors name the TLS files."""

    _net: Any

    def __init__(self, net: NetworkSelector, sock: socket.socket, host: str | None = None, **configs: Any) -> None:
        try:
            super().__init__(net, sock, host=host, **configs)
        except (OSError, ValueError) as cause:
            sock.close()  # nothing else refers to it yet
            files = ", ".join(str(configs[name]) for name in _TLS_FILES if configs.get(name))
            raise KafkaConnectionError(f"TLS ({files or 'no files'}): {cause}") from cause

    async def handshake(self) -> None:
        net = self._net
        until = time.monotonic() + vars(net).get(_HANDSHAKE_S, HANDSHAKE_S)
        self._net = SimpleNamespace(
            wait_read=partial(net.wait_read, timeout_at=until), wait_write=partial(net.wait_write, timeout_at=until)
        )
        try:
            await super().handshake()
        except BaseException:
            self._sock.close()  # nothing else refers to it yet
            raise
        finally:
            self._net = net


def _tidy(connect: Callable[..., Awaitable[socket.socket]]) -> Callable[..., Awaitable[socket.socket]]:
    """A socket that was refused would be open until the next collection of garbage, and an outage has many."""

    @wraps(connect)
    async def tidied(self: KafkaNetSocket, net: object, sock: socket.socket, *arguments: Any, **named: Any) -> Any:
        try:
            return await connect(self, net, sock, *arguments, **named)
        except BaseException:
            sock.close()
            raise

    return tidied


_SOCKETS = "sockets_carried"
"""The attribute of a loop that has the sockets of its connections."""


def _noted(make: Callable[..., None]) -> Callable[..., None]:
    """Note each connection's socket at the loop that carries it."""

    @wraps(make)
    def made(self: KafkaTCPTransport, net: NetworkSelector, sock: socket.socket, **named: Any) -> None:
        make(self, net, sock, **named)
        vars(net).setdefault(_SOCKETS, WeakSet()).add(sock)

    return made


def _final(close: Callable[[NetworkSelector], None]) -> Callable[[NetworkSelector], None]:
    """Close the sockets that still have something to send when their loop ends."""

    @wraps(close)
    def closed(self: NetworkSelector) -> None:
        close(self)
        for sock in vars(self).pop(_SOCKETS, ()):
            sock.close()

    return closed


def _in_own_errors(lose: Callable[..., None]) -> Callable[..., None]:
    """Each connection reports its end here; its users expect kafka-python's errors alone."""

    @wraps(lose)
    def lost(self: KafkaConnection, error: BaseException | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, KafkaError):
            error = KafkaConnectionError(f"{type(error).__name__}: {error}")
        lose(self, error)

    return lost


def _or_bootstrap(choose: Callable[[KafkaConnectionManager], Any]) -> Callable[[KafkaConnectionManager], Any]:
    """Where all known brokers wait for their next try, choose a bootstrap server that does not."""

    @wraps(choose)
    def chosen(self: KafkaConnectionManager) -> Any:
        node, known = choose(self), self.cluster.brokers()
        if node is not None or not known or not all(self.connection_delay(broker.node_id) for broker in known):
            return node
        servers = [server.node_id for server in self.cluster.bootstrap_brokers()]
        ready = [server for server in servers if not self.connection_delay(server)]
        return random.choice(ready) if ready else None  # noqa: S311  # no secret

    return chosen


def client_that_connects_within(timeout_s: float) -> Callable[..., KafkaNetClient]:
    """Return the ``kafka_client`` whose connections are made within the time, for TCP, TLS and SASL each.

    kafka-python's consumers and admin clients do not take the time by its name.
    """
    time_ms = round(timeout_s * 1000)

    def make(**settings: Any) -> KafkaNetClient:
        times = {"socket_connection_setup_timeout_ms": time_ms, "socket_connection_setup_timeout_max_ms": time_ms}
        loop = NetworkSelector(**settings)
        vars(loop)[_HANDSHAKE_S] = timeout_s
        return KafkaNetClient(loop, **settings, **times)

    return make


@contextmanager
def closed_unless_made(client: object) -> Iterator[None]:
    """Close thread and sockets of one of kafka-python's clients whose constructor raises in the block."""
    try:
        yield
    except BaseException:
        if (connected := vars(client).get("_client")) is not None:
            connected.close()
        raise


def mend_connections() -> None:
    """For all connections that this process makes with kafka-python, once."""
    KafkaTCPTransport.__init__ = _noted(KafkaTCPTransport.__init__)
    NetworkSelector.close = _final(NetworkSelector.close)
    manager.KafkaSSLTransport = PunctualTransport
    KafkaConnection.connection_lost = _in_own_errors(KafkaConnection.connection_lost)
    KafkaConnectionManager.least_loaded_node = _or_bootstrap(KafkaConnectionManager.least_loaded_node)
    KafkaNetSocket.sock_connect = _tidy(KafkaNetSocket.sock_connect)
