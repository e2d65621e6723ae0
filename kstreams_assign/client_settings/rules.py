"""Which settings under ``client`` are passed on, to which clients, and which are refused with the reason. Pure.

Nothing is overridden silently: a name is in one of the tables below and is refused, or fits what they allow and reaches
every client that it concerns unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import NamedTuple

from kstreams_assign.client_settings.names import LIBRDKAFKA, PROPERTIES
from kstreams_assign.client_settings.texts import shown
from kstreams_assign.errors import ConfigError

MESSAGE_BYTES_MAX = 1_048_588
"""``message.max.bytes`` of our producers: the broker's own default.

librdkafka's is 1,000,000, less than the broker accepts.
"""

TRANSACTION_TIMEOUT_MS = 10_000


class ClientRole(Enum):
    """What a client of librdkafka is: which of its settings mean something to it."""

    ADMIN = "*"
    CONSUMER = "C"
    PRODUCER = "P"


class MemberTimes(NamedTuple):
    """What bounds the settings of a member. A command that only looks at a group has none."""

    exactly_once: bool
    session_timeout_ms: int
    max_poll_interval_ms: int


_CODE = "it is a function or an object, and client holds texts only; leave it out"
_COMMITS = "the member itself commits offsets; commit_interval_ms says how often"
_GROUP = "a Kafka Streams group has its own protocol; leave it out"
_LOG = "log lines go to Python's logging, logger 'kstreams_assign.adapters.confluent'; leave it out"
_PEM = "it is a form for programs in C; name a file by ssl.key.location, ssl.certificate.location and ssl.ca.location"

_REFUSED: Mapping[str, str] = {
    "builtin.features": "the library lists there what it was built with; leave it out",
    "metadata.broker.list": "use bootstrap_servers",
    "client.rack": "use client_rack",
    "group.id": "use application_id",
    "group.instance.id": "use group_instance_id",
    "session.timeout.ms": "use session_timeout_ms",
    "heartbeat.interval.ms": "use heartbeat_interval_ms",
    "max.poll.interval.ms": "use max_poll_interval_ms",
    "max.poll.records": "use max_poll_records",
    "auto.offset.reset": "use auto_offset_reset",
    "transactional.id": "it is made of application_id and the process id; set processing_guarantee = 'exactly_once_v2'",
    "statistics.interval.ms": "nothing receives librdkafka's statistics; the member's own metrics are served at http",
    "enabled_events": "the Python client chooses its events itself; leave it out",
    "log.queue": _LOG,
    "enable.partition.eof": "each reader sets it as it needs it; leave it out",
    "consume.callback.max.messages": _CODE,
    "delivery.report.only.error": "a commit waits for the offset of every record; leave it out",
    **dict.fromkeys(("partition.assignment.strategy", "group.protocol.type", "group.protocol"), _GROUP),
    "group.remote.assignor": _GROUP,
    **dict.fromkeys(("auto.commit.interval.ms", "offset.store.method", "offset.store.path"), _COMMITS),
    "offset.store.sync.interval.ms": _COMMITS,
    "share.acknowledgement.mode": "it is for share groups; leave it out",
    **dict.fromkeys(("ssl_key", "ssl_certificate", "ssl_ca"), _PEM),
    **dict.fromkeys(
        (name for name in PROPERTIES if name.endswith("_cb") or name in ("dr_cb", "dr_msg_cb", "msg_order_cmp")), _CODE
    ),
    **dict.fromkeys(("opaque", "default_topic_conf", "interceptors", "ssl_engine_callback_data"), _CODE),
}
"""Set by the member itself, or nothing that a text could set: the name -> what to do instead."""

_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_ONCE = "a record is written once and in order"
_VERIFIED = "the client that holds the membership has no such switch"
_FIXED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "enable.idempotence": (_TRUE, _ONCE),
    "request.required.acks": (("all", "-1"), _ONCE),
    "queuing.strategy": (("fifo",), _ONCE),
    "partitioner": (("murmur2_random",), "a Java member sends a key to the same partition"),
    "queue.buffering.backpressure.threshold": (("1",), _ONCE),
    "produce.offset.report": (_TRUE, "a commit waits for the offset of every record"),
    "enable.auto.commit": (_FALSE, _COMMITS),
    "auto.commit.enable": (_FALSE, _COMMITS),
    "enable.auto.offset.store": (_FALSE, _COMMITS),
    "allow.auto.create.topics": (
        _FALSE,
        "a broker would make an internal topic with one partition, before the leader does",
    ),
    "api.version.request": (_TRUE, "idempotent writes need what brokers answer to it"),
    "enable.ssl.certificate.verification": (_TRUE, _VERIFIED),
    "enable.sasl.oauthbearer.unsecure.jwt": (_FALSE, _VERIFIED),
}
"""Values that a member works with, and why only those."""

_NARROWER: Mapping[str, tuple[str, str]] = {
    "max.in.flight.requests.per.connection": ("1..5", _ONCE),
    "message.send.max.retries": ("1..2147483647", _ONCE),
    "message.timeout.ms": ("1..2147483647", "0 would wait for ever"),
}
"""Numbers of which librdkafka allows more than a member works with."""

MEMBERSHIP_SECURITY = (
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.crl.location",
    "ssl.endpoint.identification.algorithm",
)
"""SASL and TLS that kafka-python, which holds the membership, has as well."""

MEMBERSHIP_ANSWER_MS = 30_000
"""How long kafka-python waits for an answer. It takes no ``connections.max.idle.ms`` that is not longer."""

_SECURITY = ("sasl.", "ssl.", "https.")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})")


def refuse_settings(
    client: Mapping[str, str], member: MemberTimes | None = None, *, with_kafka_python: bool = True
) -> None:
    """Raise ``ConfigError`` for the first setting that cannot be honoured.

    The error names the setting, its value unless that may be a secret, and the fix.
    ``with_kafka_python``: that client is used as well, so SASL and TLS have to be what both can do.
    """
    names: dict[str, str] = {}
    for given, value in client.items():
        if given not in PROPERTIES:
            raise ConfigError(f"client: {given!r}: librdkafka {LIBRDKAFKA} has no such setting{_meant(given)}")
        name = PROPERTIES[given].name
        if name in names:
            raise ConfigError(f"client: {given} and {names[name]} are one setting; keep one of them")
        names[name] = given
        if reason := _objection(name, value, with_kafka_python=with_kafka_python):
            raise ConfigError(f"client: {shown(given, value)}: {reason}")
    if member is not None:
        _refuse_unfit_times({name: client[given] for name, given in names.items()}, names, member)


def explain_refusal(name: str) -> str | None:
    """Return what to do instead of setting a name under ``client``; None if it may be set there."""
    return _REFUSED.get(own_name(name))


def _meant(name: str) -> str:
    close = get_close_matches(name, PROPERTIES, 1)
    return f"; did you mean {close[0]!r}?" if close else "; its CONFIGURATION.md lists them"


def _objection(name: str, value: str, *, with_kafka_python: bool) -> str | None:
    """Why a value cannot be honoured and what to do, or None."""
    if name in _REFUSED:
        return f"cannot be set here; {_REFUSED[name]}"
    if name in _FIXED:
        allowed, why = _FIXED[name]
        return None if value.casefold() in allowed else f"must be {allowed[0]}, as {why}"
    if with_kafka_python and (reason := _objection_of_kafka_python(name, value)):
        return reason
    limits, why = _NARROWER.get(name, (PROPERTIES[name].allowed, ""))
    if not _fits(limits, value, several=name == "debug"):
        return f"must be {_described(limits)}" + (f", as {why}" if why else "")
    return None


def _objection_of_kafka_python(name: str, value: str) -> str | None:
    if name.startswith(_SECURITY) and name not in MEMBERSHIP_SECURITY:
        return f"the client that holds the membership has no counterpart; use {', '.join(MEMBERSHIP_SECURITY)}"
    if name == "sasl.mechanisms" and value not in _MECHANISMS:
        return f"must be one of {', '.join(_MECHANISMS)}"
    if name == "connections.max.idle.ms" and value.isdecimal() and 0 < int(value) <= MEMBERSHIP_ANSWER_MS:
        return (
            f"must be 0 or above {MEMBERSHIP_ANSWER_MS}, the milliseconds that the client that holds the membership "
            "waits for an answer; 0 closes no connection"
        )
    return None


def _fits(limits: str, value: str, *, several: bool) -> bool:
    if not limits:
        return True
    if ".." in limits:
        least, most = map(int, limits.split(".."))
        return _NUMBER.fullmatch(value) is not None and least <= int(value) <= most
    words = {*limits.casefold().split(",")} | ({*_TRUE, *_FALSE} if limits == "true,false" else set())
    return all(part.strip() in words for part in (value.casefold().split(",") if several else [value.casefold()]))


def _described(limits: str) -> str:
    if ".." in limits:
        least, most = limits.split("..")
        return f"a whole number from {least} to {most}"
    return f"one of {limits.replace(',', ', ')}"


def _refuse_unfit_times(values: Mapping[str, str], given: Mapping[str, str], member: MemberTimes) -> None:
    """What depends on the guarantee and on the member's own timeouts. ``values`` by librdkafka's own names."""

    def refuse(name: str, reason: str) -> None:
        raise ConfigError(f"client: {shown(given[name], values[name])}: {reason}")

    if member.exactly_once:
        transaction_ms = transaction_timeout_ms(values)
        most_ms, bound = (
            transaction_delivery_limit_ms(transaction_ms),
            f"four fifths of transaction.timeout.ms = {transaction_ms}",
        )
        if values.get("isolation.level", "read_committed").casefold() != "read_committed":
            refuse("isolation.level", "must be read_committed with processing_guarantee = 'exactly_once_v2'")
        if int(values.get("socket.timeout.ms", 0)) > transaction_ms + 100:
            refuse("socket.timeout.ms", f"must be at most {transaction_ms + 100}: transaction.timeout.ms and 100")
    else:
        timeouts = {name: getattr(member, name) for name in ("session_timeout_ms", "max_poll_interval_ms")}
        shortest = min(timeouts, key=timeouts.__getitem__)
        most_ms = delivery_limit_ms(timeouts[shortest])
        bound = f"two thirds of {shortest} = {timeouts[shortest]}, or a process that slept writes over its successor"
        if "transaction.timeout.ms" in values:
            refuse("transaction.timeout.ms", "is for processing_guarantee = 'exactly_once_v2'; leave it out")
    if int(values.get("message.timeout.ms", 0)) > most_ms:
        refuse("message.timeout.ms", f"must be at most {most_ms}: {bound}")
    delivery_ms = delivery_timeout_ms(values, most_ms)
    if int(values.get("queue.buffering.max.ms", 0)) >= delivery_ms:
        refuse(
            "queue.buffering.max.ms", f"must be below {delivery_ms}, the milliseconds that a record has to be delivered"
        )


def delivery_limit_ms(write_lease_ms: int) -> int:
    """Return how long a record may take at least once.

    So the records of a process that slept have expired before another process owns its tasks.
    """
    return write_lease_ms * 2 // 3


def transaction_delivery_limit_ms(transaction_timeout_ms: int) -> int:
    """Return how long a record may take exactly once.

    As long as a partition takes to get another leader, but less long than its transaction. A process that slept
    meanwhile is fenced, whatever still arrives.
    """
    return transaction_timeout_ms * 4 // 5


def transaction_timeout_ms(client: Mapping[str, str]) -> int:
    """``transaction.timeout.ms`` of a transactional producer: how long a broker waits for a silent producer."""
    return int(client.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))


def delivery_timeout_ms(client: Mapping[str, str], most_ms: int) -> int:
    """``message.timeout.ms`` of a producer whose records may take ``most_ms``."""
    asked = client.get("message.timeout.ms", client.get("delivery.timeout.ms"))
    return most_ms if asked is None else min(int(asked), most_ms)


def reconnect_backoff_max_ms(client: Mapping[str, str]) -> int:
    """Java's, which is a second, but not below the caller's own ``reconnect.backoff.ms``.

    librdkafka's 10 s and kafka-python's 30 s are how long a client may go on sleeping after its broker came back.
    """
    asked = client.get("reconnect.backoff.max.ms")
    return max(1_000, int(client.get("reconnect.backoff.ms", 0))) if asked is None else int(asked)


def own_name(name: str) -> str:
    """The name that an alias stands for; a name that the table does not know is left as it is."""
    known = PROPERTIES.get(name)
    return name if known is None else known.name


def is_true(value: str) -> bool:
    """Return whether librdkafka takes a switch's value for on."""
    return value.casefold() in _TRUE


def read_committed(client: Mapping[str, str]) -> bool:
    """Return whether the caller asks for records of committed transactions only.

    By default a member at least once reads the records of all transactions.
    """
    return client.get("isolation.level", "").casefold() == "read_committed"


def for_client(client: Mapping[str, str], role: ClientRole) -> dict[str, str]:
    """Return the settings that concern a client of this role, under librdkafka's own names.

    The others mean nothing to the client, and it would warn of them.
    A name that the table does not know is left to librdkafka.
    """
    return {
        own_name(name): value
        for name, value in client.items()
        if name not in PROPERTIES or PROPERTIES[name].clients in ("*", role.value)
    }


def client_pairs(pairs: Iterable[str], *, with_kafka_python: bool = True) -> dict[str, str]:
    """Return the checked ``KEY=VALUE`` pairs of a command's ``--client`` options.

    Raises ``ConfigError``, without a value that may be a secret.
    """
    client = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key):
            raise ConfigError(
                "--client: write KEY=VALUE, as in security.protocol=SASL_SSL; what was given is not shown"
            )
        client[key] = value
    refuse_settings(client, with_kafka_python=with_kafka_python)
    return client
