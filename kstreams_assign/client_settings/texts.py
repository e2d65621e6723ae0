"""A ``client`` setting in an error or a log line: its value is shown only if its name is known to hold no secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreams_assign.client_settings.names import PROPERTIES

_TEXTS_WITHOUT_SECRETS = frozenset(
    {
        "broker.version.fallback",
        "client.id",
        "client.rack",
        "group.id",
        "group.instance.id",
        "group.protocol.type",
        "group.remote.assignor",
        "metadata.broker.list",
        "partition.assignment.strategy",
        "partitioner",
        "plugin.library.paths",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanisms",
        "sasl.username",
        "share.acknowledgement.mode",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.sigalgs.list",
        "topic.blacklist",
        "transactional.id",
    }
)
_HIDDEN = "(not shown)"


def holds_no_secret(name: str) -> bool:
    """Whether the value may be shown: a number, one of librdkafka's own words, or a text of the list above."""
    known = PROPERTIES.get(name)
    return known is not None and (bool(known.allowed) or known.name in _TEXTS_WITHOUT_SECRETS)


def shown(name: str, value: str) -> str:
    """``name = 'value'``, or the name alone where the value may be a secret."""
    return f"{name} = {value!r}" if holds_no_secret(name) else f"{name} (its value is not shown)"


def secrets_of(client: Mapping[str, str]) -> frozenset[str]:
    """Values that must not be shown."""
    return frozenset(value for name, value in client.items() if value and not holds_no_secret(name))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A client library's text, in which it may repeat what it was given."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text
