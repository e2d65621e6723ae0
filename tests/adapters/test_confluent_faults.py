"""librdkafka's errors become ours by one table."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstreams_assign.adapters.client_logs import OncePerHalfMinute
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, InputConsumer, RecordProducer
from kstreams_assign.adapters.confluent.faults import FAULTS, PASSING, fault, translating
from kstreams_assign.adapters.confluent.settings import logger, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, DeliveryFailed, TaskMigrated


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (KafkaError._INVALID_ARG, ConfigError),
        (KafkaError._DESTROY_BROKER, BrokerUnavailable),
        (KafkaError._TRANSPORT, BrokerUnavailable),
        (KafkaError._TIMED_OUT, BrokerUnavailable),
        (KafkaError.NOT_LEADER_FOR_PARTITION, BrokerUnavailable),
        (KafkaError.PRODUCER_FENCED, TaskMigrated),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_a_code_becomes_the_error_that_says_whose_fault_it_is(code, ours):
    assert type(fault(KafkaError(code), "ask")) is ours


def test_a_code_that_is_not_in_the_table_becomes_what_the_caller_expects():
    assert type(fault(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "produce", DeliveryFailed)) is DeliveryFailed


def test_the_text_says_what_was_done_and_librdkafkas_reason_and_code():
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")
    assert str(fault(error, "read t-3")) == "read t-3: no such topic (UNKNOWN_TOPIC_OR_PART)"


def test_translating_keeps_the_cause_and_lets_other_errors_pass():
    with pytest.raises(BrokerUnavailable) as raised, translating("flush"):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert isinstance(raised.value.__cause__, KafkaException)
    with pytest.raises(ZeroDivisionError), translating("flush"):
        _ = 1 // 0


def test_what_passes_by_itself_is_exactly_what_is_called_unavailable():
    assert {code for code in FAULTS if issubclass(FAULTS[code], BrokerUnavailable)} == PASSING


def test_the_callers_settings_win_over_tuning_and_lose_to_what_is_needed():
    client = {"batch.size": "7", "isolation.level": "read_committed", "linger.ms": "9"}
    tuning = {"batch.size": 1, "check.crcs": True, "queue.buffering.max.ms": 5}
    for role in (ClientRole.CONSUMER, ClientRole.PRODUCER):
        ours = merged(role, "b:1", client, tuning, {"isolation.level": "read_uncommitted"})
        assert ours["isolation.level"] == "read_uncommitted"
        assert ours["check.crcs"] is True
        assert ours["bootstrap.servers"] == "b:1"
        its_own = {"batch.size": "7", "queue.buffering.max.ms": "9"} if role is ClientRole.PRODUCER else {**tuning}
        assert {name: ours[name] for name in ("batch.size", "queue.buffering.max.ms")} == {
            name: its_own[name] for name in ("batch.size", "queue.buffering.max.ms")
        }
        assert "linger.ms" not in ours


def test_the_same_log_line_comes_once_numbers_aside(caplog):
    for number in range(100):
        logger.error("connection %d refused", number)
    logger.error("another line")
    logger.error("another line")
    assert [record.getMessage() for record in caplog.records] == ["connection 0 refused", "another line"]


def test_a_log_line_comes_again_after_half_a_minute(monkeypatch):
    sift, line = OncePerHalfMinute(), logging.LogRecord("n", logging.ERROR, "f", 1, "refused", None, None)
    came = []
    for now_s in (0.0, 29.9, 30.0, 59.9, 60.1):
        monkeypatch.setattr(time, "monotonic", lambda now_s=now_s: now_s)
        came.append(sift.filter(line))
    assert came == [True, False, True, False, True]


def test_every_client_refuses_a_setting_that_does_not_exist_and_names_it():
    wrong = {"no.such.setting": "1"}
    admin = ClusterAdmin("127.0.0.1:1")
    for make in (
        lambda: ClusterAdmin("127.0.0.1:1", wrong),
        lambda: InputConsumer("127.0.0.1:1", wrong, group_id="g"),
        lambda: ConfluentChangelogReader("127.0.0.1:1", wrong, group_id="g", admin=admin),
        lambda: RecordProducer("127.0.0.1:1", wrong, delivery_timeout_ms=1000),
    ):
        with pytest.raises(ConfigError, match=r"no\.such\.setting"):
            make()
