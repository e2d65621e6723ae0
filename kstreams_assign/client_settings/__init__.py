"""What a caller may set under ``client``: pure tables and checks, for every command and every kind of member alike.

``names`` lists librdkafka's settings, ``rules`` defines which of them are passed on and which are refused, ``texts``
how an error shows a setting, ``addresses`` checks where the brokers are. What must not live here: a Kafka client, or
the names that kafka-python has for these settings (``adapters.kafka_python``).
"""

from __future__ import annotations

from kstreams_assign.client_settings.addresses import refuse_incomplete_addresses
from kstreams_assign.client_settings.misspelt import check_arguments, unknown_key
from kstreams_assign.client_settings.rules import (
    MESSAGE_BYTES_MAX,
    ClientRole,
    MemberTimes,
    client_pairs,
    delivery_limit_ms,
    delivery_timeout_ms,
    for_client,
    is_true,
    own_name,
    read_committed,
    reconnect_backoff_max_ms,
    refuse_settings,
    transaction_delivery_limit_ms,
    transaction_timeout_ms,
)
from kstreams_assign.client_settings.texts import secrets_of, shown, without_secrets

__all__ = [
    "MESSAGE_BYTES_MAX",
    "ClientRole",
    "MemberTimes",
    "check_arguments",
    "client_pairs",
    "delivery_limit_ms",
    "delivery_timeout_ms",
    "for_client",
    "is_true",
    "own_name",
    "read_committed",
    "reconnect_backoff_max_ms",
    "refuse_incomplete_addresses",
    "refuse_settings",
    "secrets_of",
    "shown",
    "transaction_delivery_limit_ms",
    "transaction_timeout_ms",
    "unknown_key",
    "without_secrets",
]
