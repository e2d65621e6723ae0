"""A TLS handshake that ends. kafka-python 3.0.12 waits for ever for a broker that takes a connection and says nothing.

So does a broker that froze: its system goes on taking connections. Whoever asks it would hang, and a member would never
look for another one.
"""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.net import KafkaSSLTransport, manager

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
        except KafkaTimeoutError:
            self._sock.close()  # nobody else knows of it yet
            raise
        finally:
            self._net = net


def mend_handshakes() -> None:
    """For all connections that this process makes with kafka-python."""
    manager.KafkaSSLTransport = PunctualTransport
