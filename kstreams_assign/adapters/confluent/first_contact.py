"""Whether the brokers let a client in at all: asked once, before its first question.

librdkafka tries for ever to sign in with a password that is wrong, and says of the question only that time is up.
Java's clients end at once (``AuthenticationException``), and so does this. What must not live here: anything about a
client that was let in.
"""

# ruff: noqa: SLF001  (librdkafka's own codes begin with an underscore; the broker's do not)

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.client_logs import PROJECT
from kstreams_assign.adapters.confluent.faults import translating
from kstreams_assign.adapters.confluent.settings import made, merged, refuse_what_librdkafka_refuses
from kstreams_assign.client_settings import ClientRole, refuse_incomplete_addresses, secrets_of, shown, without_secrets
from kstreams_assign.errors import BrokerUnavailable, ConfigError

_ASKED = "__consumer_offsets"
"""The topic that is asked about, whether or not it exists. A broker without contact to its controller says that there
are no brokers. In a description of the cluster, which has no topics either, librdkafka 2.16 ends the process for that.
"""
_BETWEEN_LOOKS_S = 0.05
_ATTEMPT_S, _LONGEST_ATTEMPT_S = 5.0, 60.0
FIRST_REPORT_S, NEXT_REPORT_S = 3.0, 10.0
"""When a wait for brokers is logged first, and how often after that."""
_LOGGER = logging.getLogger(PROJECT)
_SIGNING_IN = ("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
_CERTIFICATES = ("security.protocol", "ssl.ca.location", "ssl.certificate.location")
_KEYS: Mapping[int, tuple[str, ...]] = {
    KafkaError._AUTHENTICATION: _SIGNING_IN,
    KafkaError._SSL: _CERTIFICATES,
    KafkaError._TRANSPORT: _CERTIFICATES,
}
"""How a broker refuses a client -> the settings to look at."""

_WENT_AWAY = KafkaError(KafkaError._TRANSPORT).str()
"""Stands in what librdkafka calls a failed authentication where a broker just went away meanwhile."""
_CLIENT_STATE = re.compile(r"(?<=\d)/\w+(?=:)| \(after \d+ms in state \w+\)")
"""What librdkafka adds about itself: ``localhost:9092/bootstrap: ... (after 0ms in state CONNECT)``."""
_OUR_CERTIFICATE = re.compile(r"SSL alert number (42|43|44|45|46|48|49|116)\b")
"""A broker's words about the client's certificate (RFC 8446, 6.2); librdkafka calls it a lost connection."""


def _is_answer(error: BaseException) -> bool:
    """Return whether a broker has said this of the topic that was asked about; librdkafka's own codes are negative."""
    return isinstance(error, KafkaException) and error.args[0].code() > 0


def attempts(deadline: float) -> Iterator[float]:
    """Yield how many seconds each attempt at a question may take: twice as long each time, up to a minute.

    None goes past ``deadline``. librdkafka 2.16 may wait for the controller until the time of a request is up although
    it is there. It refuses times above an hour.
    """
    attempt_s = _ATTEMPT_S
    while True:
        yield min(attempt_s, seconds_left(deadline))
        attempt_s = min(2 * attempt_s, _LONGEST_ATTEMPT_S)


def seconds_left(deadline: float) -> float:
    """Return the seconds until ``deadline`` (``time.monotonic``), or the least that librdkafka takes for a time."""
    return max(0.001, deadline - time.monotonic())


class _Heard:
    """What librdkafka says of its connections.

    Knows nothing of the client, or that would only go with the next garbage.
    """

    def __init__(self) -> None:
        self.last: KafkaError | None = None
        self.refusal: KafkaError | None = None
        self.none_left = False

    def hear(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.none_left = True
            return
        self.last = error
        if _refuses(error):
            self.refusal = error


def _refuses(error: KafkaError) -> bool:
    if error.code() == KafkaError._TRANSPORT:
        return _OUR_CERTIFICATE.search(error.str()) is not None
    return error.code() in _KEYS and _WENT_AWAY not in error.str()


class _Wait:
    """A wait for the first answer, which is logged while it lasts: it may be half a minute."""

    def __init__(self, deadline: float, describe: Callable[[float, float], str]) -> None:
        self._began, self._deadline, self._describe = time.monotonic(), deadline, describe
        self._report_at = self._began + FIRST_REPORT_S

    def report_when_due(self) -> None:
        now = time.monotonic()
        if self._report_at <= now < self._deadline:
            self._report_at = now + NEXT_REPORT_S
            _LOGGER.warning("%s", self._describe(now - self._began, self._deadline - now))


def never() -> bool:
    """Return False: the caller waits until time is up."""
    return False


class FirstContact:
    """An admin client, and whether a broker ever answered it. May be shared by threads."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str] | None) -> None:
        """Raises ``ConfigError`` for incomplete addresses and for settings that librdkafka does not take."""
        self._servers, self._client = bootstrap_servers, dict(client or {})
        self._heard, self._made = _Heard(), False
        refuse_incomplete_addresses(bootstrap_servers, self._client.get("security.protocol", "plaintext"))
        refuse_what_librdkafka_refuses(self._client)
        settings = {**merged(ClientRole.ADMIN, bootstrap_servers, client, {}, {}), "error_cb": self._heard.hear}
        self.admin = made(AdminClient, settings, client, f"admin client of {bootstrap_servers}")

    def make(self, deadline: float, given_up: Callable[[], bool] = never) -> bool:
        """Return True once a broker has ever answered the client, until then wait for one (``time.monotonic``).

        Return False as soon as ``given_up`` returns True: the caller no longer needs an answer. Raises ``ConfigError``
        as soon as all that can be reached refuse it, ``BrokerUnavailable`` when time is up.
        """
        wait, times_s = _Wait(deadline, self._describe_wait), attempts(deadline)
        while not self._made:
            if given_up():
                return False
            try:
                self._made = self._ask(next(times_s), wait, given_up)
            except BrokerUnavailable as cause:
                if time.monotonic() >= deadline:
                    raise self._unreachable(cause) from None  # it quotes the cause
                self.admin.poll(_BETWEEN_LOOKS_S)
                wait.report_when_due()
        return True

    def _ask(self, attempt_s: float, wait: _Wait, given_up: Callable[[], bool]) -> bool:
        """Return whether a broker answered; False only if ``given_up``."""
        heard = self._heard
        asked = self.admin.describe_topics(TopicCollection([_ASKED]), request_timeout=attempt_s)[_ASKED]
        while not asked.done():
            self.admin.poll(_BETWEEN_LOOKS_S)
            if given_up():
                return False
            wait.report_when_due()
            # One broker of several may refuse what the others take: it counts when none is left.
            if heard.none_left and heard.refusal is not None:
                raise self._refused(heard.refusal)
        with translating("describe the cluster"):
            error = asked.exception()  # raised, it would keep this client in a cycle of references
            if error is not None and not _is_answer(error):
                raise error
        return True

    def _describe_wait(self, passed_s: float, left_s: float) -> str:
        """Return the line that is logged during the wait: where, why, until when, and what to check."""
        until = time.strftime("%H:%M:%S", time.localtime(time.time() + left_s))
        return (
            f"No broker has answered at {self._servers} for {passed_s:.0f} s ({self._reason('no connection yet')}). "
            f"This process tries for {left_s:.0f} s more, until {until}. Check {self._advice}."
        )

    def _unreachable(self, cause: BrokerUnavailable) -> ConfigError | BrokerUnavailable:
        if self._heard.refusal is not None:
            return self._refused(self._heard.refusal)
        return BrokerUnavailable(
            f"bootstrap_servers = {self._servers!r}: no broker answered ({self._reason(str(cause))}); "
            f"check {self._advice}"
        )

    def _reason(self, otherwise: str) -> str:
        """Return why the last connection failed; ``otherwise`` if librdkafka reported nothing."""
        last = self._heard.last
        reason = otherwise if last is None else _CLIENT_STATE.sub("", last.str())
        return without_secrets(reason, secrets_of(self._client))

    @property
    def _advice(self) -> str:
        protocol = shown("security.protocol", self._client.get("security.protocol", "PLAINTEXT"))
        return (
            "that a broker runs there, that bootstrap_servers is right, and that the brokers speak "
            f"{protocol} (under client)"
        )

    def _refused(self, refusal: KafkaError) -> ConfigError:
        self._heard.refusal = None  # who asks again may be let in
        settings = ", ".join(shown(key, self._client[key]) for key in _KEYS[refusal.code()] if key in self._client)
        said = without_secrets(refusal.str(), secrets_of(self._client))
        return ConfigError(f"client: {settings}: {self._servers} refused it: {said}")
