"""Every setting of librdkafka, through the clients themselves.

A setting that is not refused by name reaches each client that it concerns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.client_logs import OncePerHalfMinute
from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    CommittedOffsets,
    InputConsumer,
    RecordDeletions,
    RecordProducer,
    TransactionalProducer,
    committed,
    deletions,
    feed,
    first_contact,
    group_records,
    producer,
)
from kstreams_assign.adapters.confluent import settings as confluent_settings
from kstreams_assign.adapters.confluent.group_records import _Tail
from kstreams_assign.adapters.confluent.settings import logger, made
from kstreams_assign.client_settings import refuse_settings
from kstreams_assign.client_settings.names import PROPERTIES
from kstreams_assign.client_settings.rules import _FIXED, _NARROWER
from kstreams_assign.client_settings.texts import holds_no_secret
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopicPartition

NO_BROKER = "127.0.0.1:1"
SECRET = "marker-of-a-secret"  # not a real secret
OUT_OF_THE_WAY = {
    # what its neighbours or the machine would object to
    "fetch.max.bytes": "52428801",
    "message.max.bytes": "1048577",
    "receive.message.max.bytes": "100000001",
    "message.timeout.ms": "7999",
    "socket.timeout.ms": "9999",
    "transaction.timeout.ms": "9999",
    "internal.termination.signal": "0",
    "isolation.level": "read_committed",
    "reconnect.backoff.max.ms": "101",
    "request.required.acks": "-1",
    "security.protocol": "ssl",
    "sasl.username": "a user",
    "log.thread.name": "true",
    "log_level": "7",
    "sasl.mechanisms": "PLAIN",
    "broker.version.fallback": "0.11.0",
}
CONFIGS = [
    Config("app", NO_BROKER),
    Config("app", NO_BROKER, processing_guarantee="exactly_once_v2"),
]


def a_value(name: str) -> str:
    """Return a value that librdkafka accepts for this setting."""
    if name in OUT_OF_THE_WAY:
        return OUT_OF_THE_WAY[name]
    if name in _FIXED:
        return _FIXED[name][0][0]
    allowed = _NARROWER.get(name, (PROPERTIES[name].allowed,))[0]
    if ".." in allowed:
        return str(int(allowed.split("..")[0]) + 1)
    return allowed.split(",")[-1] or ("a text" if holds_no_secret(name) else SECRET)


def refusals(name: str) -> list[str]:
    """Return the errors of members at least once and exactly once; none if a member accepts the setting."""
    texts = []
    for config in CONFIGS:
        try:
            Config(
                "app",
                NO_BROKER,
                processing_guarantee=config.processing_guarantee,
                client={name: a_value(PROPERTIES[name].name)},
            )
        except ConfigError as error:
            texts.append(str(error))
        else:
            return []
    return texts


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """librdkafka's log lines, repeated ones too."""
    monkeypatch.setattr(logger, "filters", [each for each in logger.filters if not isinstance(each, OncePerHalfMinute)])
    caplog.set_level(logging.DEBUG, logger.name)
    return lambda: [record.getMessage().partition("]: ")[2].strip() for record in caplog.records]


def configured(client: Mapping[str, str], kinds: str, lines: Callable[[], list[str]]) -> dict[str, list[str]]:
    """Return kind of client -> the lines in which the client lists its configuration."""
    lines_of: dict[str, list[str]] = {}
    for kind in kinds:
        before = len(lines())
        with ExitStack() as ends:
            if kind == "C":
                reader = InputConsumer(NO_BROKER, client, group_id="g")
                ends.enter_context(closing(reader))
                reader._feed._consumer.poll(0)
            elif kind == "P":
                writer = ends.enter_context(closing(RecordProducer(NO_BROKER, client, delivery_timeout_ms=30_000)))
                writer._producer.poll(0)
            elif kind == "T":
                both = TransactionalProducer(NO_BROKER, client, group_id="g", transactional_id="t")
                ends.enter_context(closing(both))
                both._producer.poll(0)
            else:
                ClusterAdmin(NO_BROKER, client)._admin.poll(0)
        lines_of[kind] = [line.partition("[thrd:app]:")[2].strip() or line for line in lines()[before:]]
    return lines_of


CONCERNED = {"*": "CPT*", "C": "C", "P": "PT"}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_setting_reaches_every_client_that_it_concerns_or_is_refused_by_name(name, lines):
    own, value = PROPERTIES[name].name, a_value(PROPERTIES[name].name)
    if texts := refusals(name):
        assert all(text.startswith(f"client: {name}") for text in texts)
        return
    if own == "plugin.library.paths":  # no plugin of librdkafka is here: it is looked for
        with pytest.raises(ConfigError, match="plugin a text"):
            ClusterAdmin(NO_BROKER, {name: value})
        return
    concerned = CONCERNED[PROPERTIES[name].clients]
    shown = f"{own} = {value}"
    for kind, configuration in configured(
        {name: value, "debug": "conf"} if own != "debug" else {name: "conf"}, "CPT*", lines
    ).items():
        there = [line for line in configuration if line.startswith(f"{own} = ")]
        assert "Client configuration:" in configuration
        assert not [line for line in configuration if "CONFWARN" in line]
        if kind in concerned and own == "debug":
            assert there == ["debug = conf"]
        elif kind in concerned and holds_no_secret(name) and there != [f"{own} = [redacted]"]:  # more than we hide
            assert there == [shown]
        elif kind in concerned:
            assert len(there) == 1
            assert value not in there[0]
        else:
            assert shown not in there


def test_most_settings_are_honoured_and_each_refusal_says_why():
    refused = {name: texts[0] for name in PROPERTIES if (texts := refusals(name))}
    assert (len(PROPERTIES), len(refused)) == (193, 96)
    assert {text.partition(": ")[2].partition(": ")[2] for text in refused.values()} - {""}
    assert [name for name, text in refused.items() if len(text) < len(name) + 40] == []


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each client that is made is configured with."""
    kept: list[dict[str, Any]] = []

    def make(kind: Any, settings: Mapping[str, Any], client: Mapping[str, str] | None, about: str) -> Any:
        kept.append(dict(settings))
        return made(kind, settings, client, about)

    for module in (committed, confluent_settings, deletions, feed, first_contact, group_records, producer):
        monkeypatch.setattr(module, "made", make)
    return kept


def all_clients(client: Mapping[str, str]) -> Iterator[str]:
    """Makes every client of librdkafka that there is, one after another."""
    ClusterAdmin(NO_BROKER, client)
    yield "admin"
    RecordDeletions(NO_BROKER, client)
    yield "deletions"
    InputConsumer(NO_BROKER, client, group_id="g").close()
    yield "inputs"
    asked = CommittedOffsets(NO_BROKER, client, group_id="g")
    with pytest.raises(Exception, match="committed offsets"):
        asked.read([TopicPartition("t", 0)], 0.0)
    yield "committed"
    _Tail(NO_BROKER, client, "g", TopicPartition("t", 0), 0.0)._consumer.close()
    yield "tail"
    RecordProducer(NO_BROKER, client, delivery_timeout_ms=30_000).close()
    yield "producer"
    TransactionalProducer(NO_BROKER, client, group_id="g", transactional_id="t").close()
    yield "transactions"


def test_what_a_client_needs_overrides_nothing_that_a_caller_may_set(recorded):
    """Except ``isolation.level`` for committed offsets and a group's records, where it has another meaning."""
    machine = {"plugin.library.paths", "security.protocol", "sasl.mechanisms"}  # would need files here
    asked = {
        name: a_value(name)
        for name, its in PROPERTIES.items()
        if name == its.name and name not in machine and not refusals(name)
    }
    names = list(all_clients(asked))
    made_for_use = [settings for settings in recorded if settings["bootstrap.servers"]]
    assert len(made_for_use) == len(names)
    for kind, settings in zip(names, made_for_use, strict=True):
        said_otherwise = {name for name, value in settings.items() if name in asked and not _same(value, asked[name])}
        assert said_otherwise == ({"isolation.level"} if kind in ("committed", "tail") else set())


def _same(value: object, text: str) -> bool:
    return str(value).casefold() == text


def test_settings_that_only_do_not_go_together_are_refused_before_any_broker_is_asked():
    for client, says in (
        ({"fetch.max.bytes": "1000"}, "`fetch.max.bytes` must be >= `message.max.bytes`"),
        ({"linger.ms": "60000", "message.timeout.ms": "50000"}, "`message.timeout.ms`"),
    ):
        refuse_settings(client)
        with pytest.raises(ConfigError, match=says):
            ClusterAdmin(NO_BROKER, client)


@pytest.mark.parametrize(
    ("client", "fetch_bytes"),
    [
        ({}, 1 << 20),
        ({"message.max.bytes": "1000000"}, 1 << 20),
        ({"message.max.bytes": "5000000"}, 5_000_000),
        ({"message.max.bytes": "60000000", "receive.message.max.bytes": "60000512"}, 60_000_000),
        ({"fetch.max.bytes": "1000000", "receive.message.max.bytes": "1000512"}, 1_000_000),
    ],
)
def test_a_small_buffer_takes_the_sizes_that_librdkafka_takes(client, fetch_bytes, recorded):
    """The first contact tries the settings without a buffer, so what it lets pass must not end the worker later."""
    first_contact.refuse_what_librdkafka_refuses(client)
    InputConsumer(NO_BROKER, client, group_id="g", buffer_bytes=16 << 20).close()
    assert int(recorded[-1]["fetch.max.bytes"]) == fetch_bytes


@pytest.mark.parametrize("name", [name for name in PROPERTIES if not holds_no_secret(name)])
def test_no_client_shows_the_value_of_a_secret(name, lines):
    """Neither the error nor the log of a client repeats the value, also where nothing refuses it before."""
    client = {name: SECRET, "debug": "conf,security", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    if name.startswith(("sasl.oauthbearer", "enable.sasl")):
        client["sasl.mechanism"] = "OAUTHBEARER"
    texts = []
    for kind in "CPT*":
        try:
            texts += [line for configuration in configured(client, kind, lines).values() for line in configuration]
        except (
            ConfigError,
            TypeError,
            ValueError,
        ) as error:  # a text in place of a function is refused by the Python client
            texts += [str(error), repr(error), repr(error.__cause__), repr(error.__context__)]
    assert texts
    assert [text for text in texts if SECRET in text] == []
    assert [line for line in lines() if SECRET in line] == []
