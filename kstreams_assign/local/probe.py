"""Ask a broker whether it answers, with one request packed by hand.

An open port is not enough: a broker that is still fenced accepts connections and refuses topics. Its Metadata response
lists itself once it is ready for work (Metadata v1 with an empty topic list; Kafka's protocol guide).
"""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path

_METADATA = 3
_METADATA_VERSION = 1
_NO_TOPICS = struct.pack(">i", 0)


def brokers_known(port: int, timeout_s: float = 1.0, tls: Path | None = None) -> int:
    """Return how many brokers the broker on 127.0.0.1 at ``port`` knows, itself included; 0 without an answer.

    ``tls``: the PEM file with its certificate, if it speaks TLS. Raises ``ssl.SSLCertVerificationError`` if it differs.
    """
    try:
        with _connected(port, timeout_s, tls) as connection:
            connection.sendall(_request())
            return _broker_count(_response(connection))
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, struct.error):
        return 0


def _connected(port: int, timeout_s: float, tls: Path | None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout_s)
    if tls is None:
        return plain
    with plain:  # what wraps it takes it over, and it is closed where that fails
        return ssl.create_default_context(cafile=tls).wrap_socket(plain, server_hostname="127.0.0.1")


def _request() -> bytes:
    header = struct.pack(">hhih", _METADATA, _METADATA_VERSION, 1, -1)  # correlation id 1, no client id
    body = header + _NO_TOPICS
    return struct.pack(">i", len(body)) + body


def _response(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def _broker_count(response: bytes) -> int:
    _correlation, count = struct.unpack_from(">ii", response)
    return int(count)
