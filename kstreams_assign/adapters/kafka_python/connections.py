"""Corrects kafka-python's connections (3.0.12): a TLS handshake has a deadline, and no socket stays open.

kafka-python waits for ever for a broker that accepts a connection and sends nothing. A broker that froze does so: its
operating system goes on accepting connections. A member would hang there and never try another broker.

A connection that is closed with a request in its buffer closes its socket once the request is sent. A client that is
closed at that moment ends its loop before, so the socket stayed open.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from kafka.net import KafkaNetSocket, manager
from kafka.net.manager import KafkaSSLTransport  # from there, as it is replaced there
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

HANDSHAKE_S = 10.0
"""Kafka's own ``socket.connection.setup.timeout.ms``, which kafka-python observes before the handshake and after it."""


class PunctualTransport(KafkaSSLTransport):  # type: ignore[misc]
    """kafka-python's, whose handshake fails if it takes longer than ``HANDSHAKE_S``."""

    _net: Any

    async def handshake(self) -> None:
        net, until = self._net, time.monotonic() + HANDSHAKE_S
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
    KafkaNetSocket.sock_connect = _tidy(KafkaNetSocket.sock_connect)
