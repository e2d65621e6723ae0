"""Corrects kafka-python's connections (3.0.12): a TLS handshake has a deadline, and a failed one leaves no socket.

kafka-python waits for ever for a broker that accepts a connection and sends nothing. A broker that froze does so: its
operating system goes on accepting connections. A member would hang there and never try another broker.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

from kafka.net import KafkaNetSocket, manager
from kafka.net.manager import KafkaSSLTransport  # from there, as it is replaced there

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


def mend_connections() -> None:
    """For all connections that this process makes with kafka-python, once."""
    manager.KafkaSSLTransport = PunctualTransport
    KafkaNetSocket.sock_connect = _tidy(KafkaNetSocket.sock_connect)
