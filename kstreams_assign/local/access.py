"""How clients reach a local broker: in plaintext, over TLS, with users and passwords; and the settings for it.

Pure text. What lives here: listeners and what they require. What must not: the rest of ``server.properties``
(``layout``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.errors import LocalBrokerError

_INNER, _CONTROLLER = "INNER", "CONTROLLER"
_MODULES = "org.apache.kafka.common.security"


class Ports(NamedTuple):
    """Ports on 127.0.0.1: the broker's, its controller's, and an inner one for the broker itself if clients log in."""

    broker: int
    controller: int
    inner: int


class Role(StrEnum):
    """The roles of one process: Kafka's ``process.roles``."""

    COMBINED = "broker,controller"
    BROKER = "broker"
    CONTROLLER = "controller"


_TAKEN = re.compile(r"[A-Za-z0-9_.~+/ -]+")
"""Text that needs no escape in a JAAS line, in ``server.properties`` or in an argument of ``kafka-storage``."""


class Access(NamedTuple):
    """What a broker requires of its clients.

    ``tls``: a PEM file with the broker's key and its self-signed certificate. ``users``: names and passwords; without
    them clients do not log in.
    """

    tls: Path | None = None
    users: Mapping[str, str] = {}

    def refuse_what_cannot_be_written(self) -> None:
        """Raise ``LocalBrokerError`` for a name or a password that Kafka's settings would not take as it is."""
        for name, password in self.users.items():
            if not (_TAKEN.fullmatch(name) and _TAKEN.fullmatch(password)):
                raise LocalBrokerError(
                    f"users: {name!r} or its password: must be of ASCII letters, digits, blanks and any of _.~+/-"
                )

    @property
    def protocol(self) -> str:
        """Kafka's ``security.protocol``."""
        return ("SASL_" if self.users else "") + ("SSL" if self.tls else "PLAINTEXT")

    @property
    def credentials(self) -> list[str]:
        """The arguments that make ``kafka-storage format`` store the users."""
        scram_users = (f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in self.users.items())
        return [word for each in scram_users for word in ("--add-scram", each)]

    def settings(self, ports: Ports, role: Role) -> dict[str, str]:
        """Return a process' listeners. If clients log in, the broker has one more for itself, Kafka's superuser."""
        listeners = {self.protocol: ports.broker} if role is not Role.CONTROLLER else {}
        if self.users and listeners:
            listeners[_INNER] = ports.inner
        advertised = listeners or {_CONTROLLER: ports.controller}
        if role is not Role.BROKER:
            listeners = {**listeners, _CONTROLLER: ports.controller}
        return {
            "controller.listener.names": _CONTROLLER,
            "listeners": _named(listeners),
            "advertised.listeners": _named(advertised),
            "listener.security.protocol.map": (
                f"{self.protocol}:{self.protocol},{_INNER}:PLAINTEXT,{_CONTROLLER}:PLAINTEXT"
            ),
            "inter.broker.listener.name": _INNER if self.users else self.protocol,
            **(_tls(self.tls) if self.tls else {}),
            **(_sign_in(self.protocol, self.users) if self.users else {}),
        }


def _named(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())


def _tls(pem: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem),
    }


def _sign_in(protocol: str, users: Mapping[str, str]) -> dict[str, str]:
    passwords = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    of = f"listener.name.{protocol.lower()}"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{of}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {passwords};",
        f"{of}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "super.users": "User:ANONYMOUS",
    }
