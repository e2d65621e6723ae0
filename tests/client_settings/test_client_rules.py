"""Which client settings are passed on and which are refused: tables, against librdkafka's own list."""

from __future__ import annotations

import ctypes
from dataclasses import fields
from pathlib import Path

import confluent_kafka
import pytest

from kstreams_assign import Config
from kstreams_assign.client_settings import (
    ClientRole,
    MemberTimes,
    client_pairs,
    delivery_timeout_ms,
    for_client,
    reconnect_backoff_max_ms,
    refuse_settings,
    shown,
    without_secrets,
)
from kstreams_assign.client_settings.names import LIBRDKAFKA, PROPERTIES
from kstreams_assign.client_settings.rules import _FIXED, _NARROWER, _REFUSED
from kstreams_assign.errors import ConfigError

AT_LEAST_ONCE = MemberTimes(exactly_once=False, session_timeout_ms=45_000, max_poll_interval_ms=300_000)
SHORT_CALLS = AT_LEAST_ONCE._replace(max_poll_interval_ms=9_000)
EXACTLY_ONCE = AT_LEAST_ONCE._replace(exactly_once=True)


def listed(folder: Path) -> dict[str, tuple[str, str, str]]:
    """Return name -> (own name, clients, allowed values), as the installed librdkafka itself lists them.

    The first row of each name counts.
    """
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    rdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype, written = ctypes.c_void_p, folder / "properties.md"
    file = ctypes.c_void_p(libc.fopen(str(written).encode(), b"w"))
    rdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows: dict[str, tuple[str, str, str]] = {}
    for line in written.read_text(encoding="utf-8").splitlines():
        name, *rest = (cell.strip() for cell in line.split(" | "))
        if len(rest) >= 5 and name != "Property":
            clients, allowed, about = rest[0], rest[1].replace(" .. ", "..").replace(", ", ","), rest[4]
            own = about.split("`")[1] if about.startswith("Alias for `") else name
            rows.setdefault(name, (own, clients, allowed))
    return rows


def test_the_table_is_the_list_of_the_installed_librdkafka(tmp_path):
    if confluent_kafka.libversion()[0] != LIBRDKAFKA:
        pytest.fail(
            f"confluent-kafka brings librdkafka {confluent_kafka.libversion()[0]}: write its names into names.py"
        )
    theirs = listed(tmp_path)
    assert len(theirs) == 193
    assert {name: tuple(its) for name, its in PROPERTIES.items()} == {
        name: (own, *theirs[own][1:]) for name, (own, _, _) in theirs.items()
    }


def test_every_name_in_a_rule_is_a_name_of_librdkafka_and_in_one_rule_only():
    for table in (_REFUSED, _FIXED, _NARROWER):
        assert {PROPERTIES[name].name for name in table} == set(table)
    assert not _REFUSED.keys() & _FIXED.keys() | _NARROWER.keys() & (_REFUSED.keys() | _FIXED.keys())


def test_a_setting_of_the_member_that_a_refusal_names_exists():
    known = {field.name for field in fields(Config)}
    named = {
        word.strip(";,") for reason in _REFUSED.values() if reason.startswith("use ") for word in reason.split()[1:2]
    }
    assert len(named) > 5
    assert named <= known


@pytest.mark.parametrize("role", ClientRole)
def test_a_client_is_given_what_concerns_it_under_its_own_name(role):
    client = {"sasl.mechanism": "PLAIN", "linger.ms": "7", "fetch.min.bytes": "2", "no.such": "x"}
    its = {
        ClientRole.ADMIN: {},
        ClientRole.CONSUMER: {"fetch.min.bytes": "2"},
        ClientRole.PRODUCER: {"queue.buffering.max.ms": "7"},
    }
    assert for_client(client, role) == {"sasl.mechanisms": "PLAIN", "no.such": "x", **its[role]}


@pytest.mark.parametrize(
    ("client", "says"),
    [
        (
            {"lingr.ms": "hunter2"},
            "client: 'lingr.ms': librdkafka 2.16.0 has no such setting; did you mean 'linger.ms'?",
        ),
        ({"qqqq": "hunter2"}, "client: 'qqqq': librdkafka 2.16.0 has no such setting; its CONFIGURATION.md lists them"),
        (
            {"linger.ms": "5", "queue.buffering.max.ms": "6"},
            "client: queue.buffering.max.ms and linger.ms are one setting",
        ),
        ({"linger.ms": "5 s"}, "client: linger.ms = '5 s': must be a whole number from 0 to 900000"),
        ({"linger.ms": "010"}, "client: linger.ms = '010': must be a whole number"),
        ({"compression.type": "rar"}, "client: compression.type = 'rar': must be one of none, gzip, snappy, lz4, zstd"),
        ({"debug": "broker,secrets"}, "client: debug = 'broker,secrets': must be one of generic, broker"),
        ({"acks": "1"}, "client: acks = '1': must be all, as a record is written once and in order"),
        ({"max.in.flight": "6"}, "client: max.in.flight = '6': must be a whole number from 1 to 5, as"),
        ({"group.id": "other"}, "client: group.id = 'other': cannot be set here; use application_id"),
        ({"stats_cb": "print"}, "client: stats_cb (its value is not shown): cannot be set here; it is a function"),
        (
            {"delivery.report.only.error": "true"},
            "delivery.report.only.error = 'true': cannot be set here; a commit waits",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "client: sasl.mechanism = 'OAUTHBEARER': must be one of PLAIN, SCRAM"),
        (
            {"ssl.key.pem": "hunter2"},
            "client: ssl.key.pem (its value is not shown): the client that holds the membership",
        ),
        ({"enable.ssl.certificate.verification": "false"}, "verification = 'false': must be true, as the client that"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_and_reason(client, says):
    with pytest.raises(ConfigError) as raised:
        refuse_settings(client)
    assert says in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "client",
    [
        {"enable.idempotence": "TRUE", "acks": "all", "partitioner": "murmur2_random", "enable.auto.commit": "false"},
        {"debug": "broker, msg", "compression.codec": "ZSTD", "security.protocol": "SASL_SSL", "max.in.flight": "1"},
    ],
)
def test_what_a_member_does_anyway_may_be_said(client):
    refuse_settings(client, AT_LEAST_ONCE)


def test_every_word_that_librdkafka_lists_is_taken_in_any_case():
    words = [
        (name, word)
        for name, its in PROPERTIES.items()
        if its.name not in _REFUSED.keys() | _FIXED.keys() and its.allowed and ".." not in its.allowed
        for word in its.allowed.split(",")
    ]
    assert ("sasl.oauthbearer.assertion.algorithm", "RS256") in words
    for name, word in words:
        for written in (word, word.lower(), word.upper()):
            refuse_settings({name: written}, with_kafka_python=False)


def test_what_kafka_python_lacks_is_refused_only_where_it_is_used():
    client = {"ssl.keystore.location": "k", "sasl.mechanism": "OAUTHBEARER"}
    refuse_settings(client, with_kafka_python=False)
    for name, value in client.items():
        with pytest.raises(ConfigError, match=name):
            refuse_settings({name: value})


@pytest.mark.parametrize(
    ("member", "name", "fits", "too_much", "says"),
    [
        (
            AT_LEAST_ONCE,
            "message.timeout.ms",
            "30000",
            "30001",
            "at most 30000: two thirds of session_timeout_ms = 45000",
        ),
        (
            SHORT_CALLS,
            "message.timeout.ms",
            "6000",
            "6001",
            "at most 6000: two thirds of max_poll_interval_ms = 9000",
        ),
        (AT_LEAST_ONCE, "delivery.timeout.ms", "1", "30001", "client: delivery.timeout.ms = '30001'"),
        (AT_LEAST_ONCE, "message.timeout.ms", "30000", "0", "from 1 to 2147483647, as 0 would wait for ever"),
        (AT_LEAST_ONCE, "linger.ms", "29999", "30000", "client: linger.ms = '30000': must be below 30000"),
        (AT_LEAST_ONCE, "isolation.level", "read_uncommitted", "read_all", "read_uncommitted, read_committed"),
        (
            EXACTLY_ONCE,
            "message.timeout.ms",
            "8000",
            "8001",
            "at most 8000: four fifths of transaction.timeout.ms = 10000",
        ),
        (EXACTLY_ONCE, "isolation.level", "read_committed", "read_uncommitted", "'exactly_once_v2'"),
        (EXACTLY_ONCE, "socket.timeout.ms", "10100", "10101", "at most 10100: transaction.timeout.ms and 100"),
        (EXACTLY_ONCE, "transaction.timeout.ms", "1000", "999", "a whole number from 1000"),
    ],
)
def test_what_depends_on_the_member_is_honoured_up_to_its_bound(member, name, fits, too_much, says):
    refuse_settings({name: fits}, member)
    with pytest.raises(ConfigError) as raised:
        refuse_settings({name: too_much}, member)
    assert says in str(raised.value)


def test_a_longer_transaction_lets_its_records_take_longer():
    refuse_settings({"transaction.timeout.ms": "60000", "delivery.timeout.ms": "48000"}, EXACTLY_ONCE)
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms = '60000': is for processing_guarantee"):
        refuse_settings({"transaction.timeout.ms": "60000"}, AT_LEAST_ONCE)


def test_a_member_checks_its_client_settings_when_it_is_configured():
    with pytest.raises(ConfigError, match=r"message\.timeout\.ms = '4001': must be at most 4000"):
        Config("app", "broker:9092", session_timeout_ms=6_000, client={"message.timeout.ms": "4001"})
    with pytest.raises(ConfigError, match=r"isolation\.level = 'read_uncommitted': must be read_committed"):
        Config(
            "app", "broker:9092", processing_guarantee="exactly_once_v2", client={"isolation.level": "read_uncommitted"}
        )


def test_numbers_that_are_taken_from_the_settings():
    assert delivery_timeout_ms({}, 9) == delivery_timeout_ms({"message.timeout.ms": "10"}, 9) == 9
    assert delivery_timeout_ms({"delivery.timeout.ms": "3"}, 9) == 3
    assert reconnect_backoff_max_ms({}) == 1_000
    assert reconnect_backoff_max_ms({"reconnect.backoff.ms": "5000"}) == 5_000
    assert reconnect_backoff_max_ms({"reconnect.backoff.ms": "5000", "reconnect.backoff.max.ms": "6000"}) == 6_000


def test_pairs_of_a_command_are_checked_and_not_repeated():
    assert client_pairs(["sasl.password=a=b", "linger.ms=1"]) == {"sasl.password": "a=b", "linger.ms": "1"}
    for wrong in ("hunter2", "=hunter2", "sasl.pasword=hunter2", "ssl.key.pem=hunter2"):
        with pytest.raises(ConfigError) as raised:
            client_pairs([wrong])
        assert "hunter2" not in str(raised.value)


def test_a_value_is_shown_only_where_its_name_is_known_to_hold_no_secret():
    assert shown("linger.ms", "5") == "linger.ms = '5'"
    assert shown("sasl.mechanism", "PLAIN") == "sasl.mechanism = 'PLAIN'"
    for name in ("sasl.password", "no.such.setting", "sasl.oauthbearer.client.secret", "ssl.keystore.password"):
        assert shown(name, "hunter2") == f"{name} (its value is not shown)"
    assert without_secrets("ab and abc", ["ab", "abc"]) == "(not shown) and (not shown)"
