"""What the Kafka clients log: quiet below WARNING, in our words from there on, their own lines where they are asked
for."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from confluent_kafka import Consumer

from kstreams_assign.adapters import client_logs
from kstreams_assign.adapters.client_logs import OncePerHalfMinute, log_in_our_words
from kstreams_assign.adapters.confluent.log_meanings import LIBRDKAFKA_MEANINGS
from kstreams_assign.adapters.confluent.log_meanings import LOGGER_NAME as LIBRDKAFKA
from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.adapters.kafka_python.log_meanings import KAFKA_PYTHON_MEANINGS, LOGGER_NAME
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerUnavailable

CONNECTION = "<KafkaConnection node_id=1 host=[127.0.0.1:9092<-50512] broker_version=(4, 3) (connected)>"


@pytest.fixture(autouse=True)
def no_line_was_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the filters' memory: a line that another test caused within 30 s would be missing here."""
    loggers = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    on_loggers = [own for logger in loggers for own in logger.filters if isinstance(own, OncePerHalfMinute)]
    for own in [*on_loggers, *(each._fresh for each in client_logs._filters.values())]:
        monkeypatch.setattr(own, "_seen_s", {})


@pytest.fixture
def kafka(caplog: pytest.LogCaptureFixture) -> logging.Logger:
    """A logger of kafka-python's, as it is once a client is made."""
    caplog.set_level(logging.DEBUG)
    logger = logging.getLogger(f"{LOGGER_NAME}.{caplog.handler.name}.{id(caplog)}")
    log_in_our_words({}, LOGGER_NAME, KAFKA_PYTHON_MEANINGS)
    return logger


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        (
            "Marking the coordinator dead (node coordinator-1) for group app: Heartbeat session expired.",
            (
                "Broker 1, which coordinates the group, does not answer (Heartbeat session expired); "
                "this member looks for the coordinator again."
            ),
        ),
        (
            f"{CONNECTION}: Request timed out after 30000 ms. Closing connection.",
            "Broker 127.0.0.1:9092 did not answer a request in 30000 ms; the membership client connects again.",
        ),
        (
            f"{CONNECTION}: Connection lost: KafkaConnectionError: 100% gone",
            (
                "The connection to broker 1 is lost (KafkaConnectionError: 100% gone); "
                "the membership client connects again."
            ),
        ),
        (
            f"{CONNECTION}: JoinGroupResponse throttled by broker (250 ms)",
            "Broker 127.0.0.1:9092 throttles the membership client for 250 ms: its quota is used up.",
        ),
    ],
)
def test_kafka_pythons_warnings_come_in_our_words(kafka, caplog, line, ours):
    kafka.warning("%s", line)
    (record,) = caplog.records
    assert (record.name, record.getMessage(), record.levelname) == ("kstreams_assign", ours, "WARNING")


def test_what_is_no_news_is_dropped_and_what_is_unknown_stays(kafka, caplog):
    kafka.info("(Re-)joining group app")
    kafka.warning("Task <...> ran for 0.135s (>0.100s threshold). It is blocking the event loop -- likely a tight ...")
    kafka.error("Error sending HeartbeatRequest to node coordinator-1 [KafkaConnectionError: connection reset]")
    kafka.warning("Marking the coordinator dead (node coordinator-1) for group app: [Error 16] NotCoordinatorError.")
    for _ in range(3):
        kafka.error("Something that no table has")
    assert caplog.messages == ["Something that no table has"]
    assert caplog.records[0].name == kafka.name


def test_the_clients_own_lines_come_back_where_their_level_is_set(kafka, caplog):
    caplog.set_level(logging.INFO, LOGGER_NAME)
    kafka.info("(Re-)joining group app")
    kafka.warning("Heartbeat session expired, marking coordinator dead")
    assert caplog.messages == ["(Re-)joining group app", "Heartbeat session expired, marking coordinator dead"]


def test_a_level_that_the_application_has_set_is_kept(caplog):
    caplog.set_level(logging.ERROR, LOGGER_NAME)
    log_in_our_words({}, LOGGER_NAME, KAFKA_PYTHON_MEANINGS)
    assert logging.getLogger(LOGGER_NAME).level == logging.ERROR


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        (
            (
                "FAIL [rdkafka#consumer-1] [thrd:127.0.0.1:9092/bootstrap]: 127.0.0.1:9092/bootstrap: Connect to "
                "ipv4#127.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)"
            ),
            (
                "The connection to broker 127.0.0.1:9092 failed "
                "(Connect to ipv4#127.0.0.1:9092 failed: Connection refused); "
                "the record clients connect again."
            ),
        ),
        (
            "FAIL [rdkafka#consumer-2] [thrd:main]: GroupCoordinator: 127.0.0.1:9092: Disconnected (after 9ms)",
            "The connection to broker 127.0.0.1:9092 failed (Disconnected); the record clients connect again.",
        ),
        (
            "FAIL [rdkafka#consumer-1] [thrd:main]: ssl://kafka:9093/3: SSL handshake failed: Disconnected",
            (
                "The connection to broker kafka:9093 failed (SSL handshake failed: Disconnected); "
                "the record clients connect again."
            ),
        ),
        (
            "ERROR [rdkafka#producer-2] [thrd:kafka:9092/1]: 1/1 brokers are down",
            "No broker can be reached; the record clients try again until one answers.",
        ),
        (
            "GETPID [rdkafka#producer-2] [thrd:main]: Failed to acquire idempotence PID from broker k:1/1: retrying",
            None,
        ),
    ],
)
def test_librdkafkas_warnings_come_in_our_words(caplog, line, ours):
    log_in_our_words({}, LIBRDKAFKA, LIBRDKAFKA_MEANINGS)
    logging.getLogger(LIBRDKAFKA).error("%s", line)
    assert caplog.messages == ([] if ours is None else [ours])


def test_real_clients_without_a_broker_say_so_in_our_words(caplog):
    caplog.set_level(logging.INFO)
    consumer = made(Consumer, merged(ClientRole.CONSUMER, "127.0.0.1:9", None, {}, {"group.id": "app"}), None, "test")
    with closing(consumer):
        while not any("record clients" in text for text in caplog.messages):
            consumer.poll(0.1)
    with pytest.raises(BrokerUnavailable), describes_groups("127.0.0.1:9", {}, timeout_s=1) as groups:
        groups.describe("app")
    assert any(text.endswith("the membership client tries again.") for text in caplog.messages)
    assert {record.name for record in caplog.records} == {"kstreams_assign"}
