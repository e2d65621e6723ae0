"""What every librdkafka client here is configured with, in which order settings win, and where its log lines go.

The caller's ``client`` settings (SASL, TLS, buffers) override tuning, and the settings that correctness needs override
both. ``client_settings`` defines which of the caller's settings are refused, so that none is overridden silently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Producer

from kstreams_assign.adapters.client_logs import OncePerHalfMinute, log_in_our_words
from kstreams_assign.adapters.confluent.faults import fault
from kstreams_assign.adapters.confluent.log_meanings import LIBRDKAFKA_MEANINGS, LOGGER_NAME
from kstreams_assign.client_settings import (
    ClientRole,
    for_client,
    own_name,
    reconnect_backoff_max_ms,
    secrets_of,
    without_secrets,
)

Client = TypeVar("Client")
Setting = str | int | float | bool

_EVERYWHERE: Mapping[str, Setting] = {
    "socket.nagle.disable": True,
}


_SILENT: Mapping[str, Setting] = {"log_level": 0}


logger = logging.getLogger(LOGGER_NAME)
"""Takes librdkafka's own log lines, which would otherwise go to standard error. Handed over during polls."""
logger.addFilter(OncePerHalfMinute())


def merged(
    role: ClientRole,
    bootstrap_servers: str,
    client: Mapping[str, str] | None,
    tuning: Mapping[str, Setting],
    needed: Mapping[str, Setting],
) -> dict[str, Setting]:
    """Return the settings of one client, by their own names.

    ``needed`` overrides those of the caller's ``client`` that concern it, and these override ``tuning``.
    """
    asked = for_client(client or {}, role)
    ours = {**_EVERYWHERE, "reconnect.backoff.max.ms": reconnect_backoff_max_ms(asked), **tuning}
    return {
        **{own_name(name): value for name, value in ours.items()},
        **asked,
        **{own_name(name): value for name, value in needed.items()},
        "bootstrap.servers": bootstrap_servers,
    }


def made(
    make: Callable[..., Client], settings: Mapping[str, object], client: Mapping[str, str] | None, about: str
) -> Client:
    """Return a client of librdkafka that logs to ``logger``.

    Raises the project's own errors, without a secret of ``client`` in their text.
    """
    log_in_our_words(client or {}, LOGGER_NAME, LIBRDKAFKA_MEANINGS)
    try:
        return make(dict(settings), logger=logger)
    except KafkaException as raised:
        error = raised.args[0]
    # Not from ``raised``: its own text may repeat what the client was given.
    refused = fault(error, about)
    raise type(refused)(without_secrets(str(refused), secrets_of(client or {})))


def refuse_what_librdkafka_refuses(client: Mapping[str, str]) -> None:
    """Make a consumer and a producer without brokers, to try the settings out.

    librdkafka refuses some settings only in combination with others. Raises ``ConfigError``.
    """
    tried: tuple[tuple[ClientRole, Callable[..., Consumer | Producer], Mapping[str, Setting]], ...] = (
        (ClientRole.CONSUMER, Consumer, {"group.id": "tried out", **_SILENT}),
        (ClientRole.PRODUCER, Producer, _SILENT),
    )
    client = {name: value for name, value in client.items() if name != "debug"}
    for role, make, needed in tried:
        settings = merged(role, "", client, {}, needed)
        if settings.keys() & {own_name(name) for name in client}:
            made(make, settings, client, "client").close()
