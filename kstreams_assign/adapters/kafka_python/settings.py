"""The ``client`` settings (SASL, TLS) in librdkafka's dotted names, as kafka-python calls them: one table.

Which of them are refused because kafka-python has no counterpart is decided before (``client_settings``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kstreams_assign.adapters.client_logs import log_in_our_words
from kstreams_assign.adapters.kafka_python.log_meanings import KAFKA_PYTHON_MEANINGS, LOGGER_NAME
from kstreams_assign.client_settings import own_name, reconnect_backoff_max_ms


def _unless_0(value: str) -> int | None:
    """librdkafka's 0 leaves it to the system, as kafka-python's None does."""
    return int(value) or None


_NEVER_MS = 2**31 - 1


def _never_unless_positive(value: str) -> int:
    """librdkafka's -1 and 0 turn its timer off; kafka-python would ask without a pause."""
    return int(value) if int(value) > 0 else _NEVER_MS


_NAMES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "topic.metadata.refresh.interval.ms": ("metadata_max_age_ms", _never_unless_positive),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "socket.send.buffer.bytes": ("send_buffer_bytes", _unless_0),
    "socket.receive.buffer.bytes": ("receive_buffer_bytes", _unless_0),
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


def kafka_python_settings(client: Mapping[str, str]) -> dict[str, Any]:
    """What kafka-python is to be given for these settings. Tuning of librdkafka has no counterpart and is left out.

    Prepares kafka-python's log, too: from here on it shows no secret of them.
    """
    log_in_our_words(client, LOGGER_NAME, KAFKA_PYTHON_MEANINGS)
    named = {own_name(name): value for name, value in client.items()}
    translated = {_NAMES[name][0]: _NAMES[name][1](value) for name, value in named.items() if name in _NAMES}
    return {"reconnect_backoff_max_ms": reconnect_backoff_max_ms(client), **translated}
