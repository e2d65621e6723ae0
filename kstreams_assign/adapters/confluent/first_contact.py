"""Whether the brokers let a client in at all: asked once, before its first question.

librdkafka tries for ever to sign in with a password that is wrong, and says of the question only that time is up. Java's clients
end at once (``AuthenticationException``), and so does this. What must not live here: anything about a client that was let in.
"""

# ruff: noqa: SLF001  (librdkafka's own codes begin with an underscore; the broker's do not)

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.confluent.faults import translating
from kstreams_assign.adapters.confluent.settings import logger, merged
from kstreams_assign.errors import BrokerUnavailable, ConfigError

_BETWEEN_LOOKS_S = 0.05
_SURE = 2
_PROTOCOL = ("security.protocol",)
_SECRET = "sasl.password"  # noqa: S105  # its name
_KEYS: Mapping[int, tuple[str, ...]] = {
    KafkaError._AUTHENTICATION: (*_PROTOCOL, "sasl.mechanism", "sasl.mechanisms", "sasl.username", _SECRET),
    KafkaError._SSL: (*_PROTOCOL, "ssl.ca.location", "ssl.certificate.location"),
}
"""How a broker refuses a client -> the settings to look at."""


class FirstContact:
    """An admin client, and whether a broker ever answered it. May be shared by threads."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str] | None) -> None:
        """Raises ``ConfigError`` for settings that librdkafka does not take."""
        self._servers, self._client = bootstrap_servers, dict(client or {})
        self._refusals: list[KafkaError] = []
        self._none_left = self._made = False
        with translating(f"admin client of {bootstrap_servers}"):
            settings = merged(bootstrap_servers, client, {}, {})
            self.admin = AdminClient({**settings, "error_cb": self._hear}, logger=logger)  # type: ignore[dict-item]

    def _hear(self, error: KafkaError) -> None:
        if error.code() in _KEYS:
            self._refusals.append(error)
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._none_left = True

    @property
    def _refusal(self) -> KafkaError | None:
        """Why nobody lets us in: said twice, as a broker that dies while somebody signs in seems to refuse, too."""
        return self._refusals[-1] if self._none_left and len(self._refusals) >= _SURE else None

    def make(self, deadline: float) -> None:
        """Return once a broker has ever answered the client, until then wait for one (``time.monotonic``).

        Raises ``ConfigError`` as soon as those that can be reached refuse it, ``BrokerUnavailable`` when time is up.
        """
        if not self._made:
            self._make(deadline)
            self._made = True

    def _make(self, deadline: float) -> None:
        asked = self.admin.describe_cluster(request_timeout=max(0.001, deadline - time.monotonic()))
        while not asked.done():
            self.admin.poll(_BETWEEN_LOOKS_S)
            if (refusal := self._refusal) is not None:
                raise ConfigError(self._told(refusal))
        try:
            with translating("describe the cluster"):
                asked.result()
        except BrokerUnavailable as cause:
            protocol = self._client.get("security.protocol", "PLAINTEXT")
            raise BrokerUnavailable(
                f"bootstrap_servers = {self._servers!r}: nobody answers ({cause}); if the address is right, is security.protocol = "
                f"{protocol!r} (under client) what is spoken there?"
            ) from cause

    def _told(self, refusal: KafkaError) -> str:
        shown = (
            key if key == _SECRET else f"{key} = {self._client[key]!r}"
            for key in _KEYS[refusal.code()]
            if key in self._client
        )
        return f"client: {', '.join(shown)}: {self._servers} refused it: {refusal.str()}"
