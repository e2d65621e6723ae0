"""The ``client`` settings in librdkafka's dotted names, as kafka-python calls them: tables.

SASL and TLS without a counterpart in kafka-python are refused before (``client_settings``). What else is not in the
tables is for the clients that move records (``ONLY_LIBRDKAFKA`` in the tests lists it).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from kstreams_assign.adapters.client_logs import log_in_our_words
from kstreams_assign.adapters.kafka_python.connections import client_that_connects_within
from kstreams_assign.adapters.kafka_python.log_meanings import KAFKA_PYTHON_MEANINGS, LOGGER_NAME
from kstreams_assign.client_settings import is_true, own_name, reconnect_backoff_max_ms

_NEVER_MS = 2**31 - 1


def _never_unless_positive(value: str) -> int:
    """librdkafka's -1 and 0 turn its timer off; kafka-python has no word for that."""
    return int(value) if int(value) > 0 else _NEVER_MS


_NAMES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "topic.metadata.refresh.interval.ms": ("metadata_max_age_ms", _never_unless_positive),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "connections.max.idle.ms": ("connections_max_idle_ms", _never_unless_positive),
    "socket.connection.setup.timeout.ms": (
        "kafka_client",
        lambda value: client_that_connects_within(int(value) / 1000),
    ),
    "client.dns.lookup": ("client_dns_lookup", str.lower),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
    "security.protocol": ("security_protocol", str.upper),
    "sasl.mechanisms": ("sasl_mechanism", str.upper),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", lambda value: value.lower() == "https"),
}


def _switch(value: str) -> int:
    return int(is_true(value))


_SOCKET: Mapping[str, tuple[int, int, Callable[[str], int]]] = {
    "socket.nagle.disable": (socket.IPPROTO_TCP, socket.TCP_NODELAY, _switch),
    "socket.keepalive.enable": (socket.SOL_SOCKET, socket.SO_KEEPALIVE, _switch),
    "socket.send.buffer.bytes": (socket.SOL_SOCKET, socket.SO_SNDBUF, int),
    "socket.receive.buffer.bytes": (socket.SOL_SOCKET, socket.SO_RCVBUF, int),
}
"""Options of sockets. kafka-python 3.0.12 ignores its own ``send_buffer_bytes`` and ``receive_buffer_bytes``."""


def _socket_options(named: Mapping[str, str]) -> list[tuple[int, int, int]]:
    """Options with the value 0 are left to the system."""
    asked = {"socket.nagle.disable": "true", **named}
    values = [(level, option, read(asked.get(name, "0"))) for name, (level, option, read) in _SOCKET.items()]
    return [option for option in values if option[-1]]


def kafka_python_settings(client: Mapping[str, str]) -> dict[str, Any]:
    """What kafka-python is to be given for these settings. What only librdkafka has is left out.

    Prepares kafka-python's log, too: from here on it shows no secret of them.
    """
    log_in_our_words(client, LOGGER_NAME, KAFKA_PYTHON_MEANINGS)
    named = {own_name(name): value for name, value in client.items()}
    translated = {_NAMES[name][0]: _NAMES[name][1](value) for name, value in named.items() if name in _NAMES}
    ours = {"reconnect_backoff_max_ms": reconnect_backoff_max_ms(client), "socket_options": _socket_options(named)}
    return {**ours, **translated}
