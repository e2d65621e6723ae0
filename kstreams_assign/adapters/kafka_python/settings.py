"""The ``client`` settings (SASL, TLS) in librdkafka's dotted names, as kafka-python calls them: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kstreams_assign.errors import ConfigError

_NAMES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "client.id": ("client_id", str),
    "topic.metadata.refresh.interval.ms": ("metadata_max_age_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "security.protocol": ("security_protocol", str.upper),
    "sasl.mechanism": ("sasl_mechanism", str.upper),
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
_OURS = {"reconnect_backoff_max_ms": 1_000}
"""Java's. kafka-python's own is 30 s: after an outage of twenty seconds a member may sleep until its session is over."""
_MUST_BE_UNDERSTOOD = ("sasl.", "ssl.")


def kafka_python_settings(client: Mapping[str, str]) -> dict[str, Any]:
    """What kafka-python is to be given for these settings. Tuning of librdkafka has no counterpart and is left out.

    Raises ``ConfigError`` for a setting of SASL or TLS that cannot be handed over.
    """
    strange = [key for key in client if key.startswith(_MUST_BE_UNDERSTOOD) and key not in _NAMES]
    if strange:
        known = ", ".join(key for key in _NAMES if key.startswith(_MUST_BE_UNDERSTOOD))
        raise ConfigError(f"client setting {strange[0]} = {client[strange[0]]!r}: must be one of {known}")
    known_here = {key: _NAMES[key] for key in client if key in _NAMES}
    return _OURS | {name: read(client[key]) for key, (name, read) in known_here.items()}
