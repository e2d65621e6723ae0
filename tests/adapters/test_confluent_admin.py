"""Topics and offsets, asked of a real broker."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import subprocess
import sys
import time
from concurrent.futures import Future
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kstreams_assign.adapters.confluent import ClusterAdmin, first_contact
from kstreams_assign.adapters.confluent import admin as module
from kstreams_assign.errors import BrokerError, BrokerUnavailable, TopologyMismatch
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, closed_port, new_topic, put, transactional

SOON_S = 15
"""Long for half a second, and short for the client's own minute."""


@pytest.fixture
def admin(broker):
    return ClusterAdmin(broker)


def test_topics_are_made_with_their_partitions_and_settings_and_are_ready_at_once(broker, admin):
    changelog, plain = f"c-{uuid4().hex}", f"p-{uuid4().hex}"
    admin.create_topics({changelog: 3, plain: 2}, PATIENCE_S, configs={changelog: {"cleanup.policy": "compact"}})
    assert admin.partition_counts([changelog, plain], PATIENCE_S) == {changelog: 3, plain: 2}
    assert admin.end_offsets([TopicPartition(changelog, 2)], PATIENCE_S) == {TopicPartition(changelog, 2): 0}
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in (changelog, plain)]
    raw = AdminClient({"bootstrap.servers": broker})
    answered = raw.describe_configs(asked)
    assert [answered[what].result()["cleanup.policy"].value for what in asked] == ["compact", "delete"]


def test_topics_with_many_partitions_are_ready_although_their_leaders_come_one_by_one(admin):
    """librdkafka remembers a partition that it saw without a leader, and would not look again."""
    for _ in range(3):
        name = f"m-{uuid4().hex}"
        admin.create_topics({name: 60}, PATIENCE_S)
        partitions = [TopicPartition(name, number) for number in range(60)]
        assert admin.end_offsets(partitions, PATIENCE_S) == dict.fromkeys(partitions, 0)


def test_a_topic_that_exists_is_left_as_it_is(broker, admin):
    name = new_topic(admin, 2)
    put(broker, TopicPartition(name, 0), [(b"k", b"v")])
    admin.create_topics({name: 2}, PATIENCE_S)
    assert admin.end_offsets([TopicPartition(name, 0)], PATIENCE_S) == {TopicPartition(name, 0): 1}


def test_a_wrong_partition_count_names_both_numbers_and_nothing_is_made(admin):
    name, other = new_topic(admin, 2), f"o-{uuid4().hex}"
    with pytest.raises(TopologyMismatch, match=f"{name} has invalid partitions: expected: 5; actual: 2"):
        admin.create_topics({other: 1, name: 5}, PATIENCE_S)
    assert admin.partition_counts([other, name], PATIENCE_S) == {name: 2}


def test_a_topic_that_another_member_makes_in_between_is_no_error(admin):
    name = new_topic(admin, 2)
    admin._create({name: 2}, {}, -1, time.monotonic() + PATIENCE_S)


def unsent() -> Future:
    """The answer to a question that librdkafka kept until its time was up."""
    answer = Future()
    answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, "while waiting for controller")))
    return answer


def test_a_question_that_librdkafka_does_not_send_is_asked_again(admin, monkeypatch):
    """It may wait for the controller until the time of the request is up."""
    name, real, times_s = f"t-{uuid4().hex}", admin._admin.create_topics, []

    def unsent_at_first(new, *, request_timeout, **times):
        times_s.append(request_timeout)
        if len(times_s) > 2:
            return real(new, request_timeout=request_timeout, **times)
        return {name: unsent() if len(times_s) == 1 else Future()}  # the second never comes

    monkeypatch.setattr(admin._admin, "create_topics", unsent_at_first)
    monkeypatch.setattr(first_contact, "_ATTEMPT_S", 0.1)
    admin.create_topics({name: 2}, PATIENCE_S)
    assert admin.topics(PATIENCE_S)[name] == 2
    assert times_s == pytest.approx([0.1, 0.2, 0.4])


def asked_in_vain():
    return {first_contact._ASKED: unsent()}


def test_the_first_question_is_asked_again_too(broker, monkeypatch):
    """It was asked once for all of the time that a start has."""
    admin, times_s = ClusterAdmin(broker), []
    real = admin._admin.describe_topics

    def unanswered_at_first(topics, *, request_timeout):
        times_s.append(request_timeout)
        return real(topics, request_timeout=request_timeout) if len(times_s) > 2 else asked_in_vain()

    monkeypatch.setattr(admin._admin, "describe_topics", unanswered_at_first)
    monkeypatch.setattr(first_contact, "_ATTEMPT_S", 10.0)
    admin.reach(PATIENCE_S)
    assert times_s == pytest.approx([10.0, 20.0, 40.0], abs=0.5)


def test_a_wait_that_is_given_up_returns_false_without_an_error():
    answers = iter([False, False, True])
    assert not ClusterAdmin(closed_port()).reach(PATIENCE_S, lambda: next(answers, True))
    assert list(answers) == [], "it was asked again during the wait"


def test_no_attempt_at_the_first_question_takes_longer_than_the_caller_waits(monkeypatch):
    admin, times_s = ClusterAdmin(closed_port()), []

    def unanswered(_topics, *, request_timeout):
        times_s.append(request_timeout)
        return asked_in_vain()

    monkeypatch.setattr(admin._admin, "describe_topics", unanswered)
    with pytest.raises(BrokerUnavailable):
        admin.reach(0.03)
    assert times_s[0] < 0.04


def test_an_attempt_takes_a_minute_at_most_however_long_the_caller_waits():
    """librdkafka refuses times above an hour."""
    all_day = first_contact.attempts(time.monotonic() + 86_400)
    assert [next(all_day) for _ in range(7)] == [5, 10, 20, 40, 60, 60, 60]


def test_what_the_broker_refuses_is_told_with_its_reason(admin):
    with pytest.raises(BrokerError, match=r"not a name.*TOPIC_EXCEPTION"):
        admin.create_topics({"not a name": 1}, PATIENCE_S)


def test_end_offsets_of_a_partition_that_does_not_exist_are_refused_soon(admin):
    name = new_topic(admin, 1)
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=f"no such partition: {name}-7, {name}x-0"):
        admin.end_offsets([TopicPartition(name, 0), TopicPartition(name, 7), TopicPartition(f"{name}x", 0)], PATIENCE_S)
    assert time.monotonic() - started < PATIENCE_S / 2


def after_the_first_answer(admin, monkeypatch, change, new):
    """Ask for ``new`` by ``change`` once the brokers have described topics for the first time."""
    real, described = admin._admin.describe_topics, []

    def describe(topics, **options):
        answers = real(topics, **options)
        if not described:
            concurrent.futures.wait(answers.values(), PATIENCE_S)
            concurrent.futures.wait(change([new]).values(), PATIENCE_S)
        described.append(topics)
        return answers

    monkeypatch.setattr(admin._admin, "describe_topics", describe)
    monkeypatch.setattr(module, "_LEARN_S", PATIENCE_S)


def test_offsets_of_a_partition_that_the_broker_does_not_know_yet_are_waited_for(broker, admin, monkeypatch):
    name, raw = new_topic(admin, 1), AdminClient({"bootstrap.servers": broker})
    after_the_first_answer(admin, monkeypatch, raw.create_partitions, NewPartitions(name, 2))
    asked = [TopicPartition(name, number) for number in range(2)]
    assert admin.start_offsets(asked, PATIENCE_S) == dict.fromkeys(asked, 0)


def test_offsets_of_a_topic_that_the_broker_does_not_know_yet_are_waited_for(broker, admin, monkeypatch):
    at, raw = TopicPartition(f"t-{uuid4().hex}", 0), AdminClient({"bootstrap.servers": broker})
    after_the_first_answer(admin, monkeypatch, raw.create_topics, NewTopic(at.topic, 1))
    assert admin.end_offsets([at], PATIENCE_S) == {at: 0}


def test_bounds_follow_the_log_and_leave_out_what_does_not_exist(broker, admin):
    name = new_topic(admin, 2)
    put(broker, TopicPartition(name, 0), [(b"k", b"v")] * 5)
    raw = AdminClient({"bootstrap.servers": broker})
    for future in raw.delete_records([ClientPartition(name, 0, 3)]).values():
        future.result()
    asked = [TopicPartition(name, 0), TopicPartition(name, 1), TopicPartition(name, 2), TopicPartition("no-such", 0)]
    assert admin.bounds(asked, PATIENCE_S) == {TopicPartition(name, 0): (3, 5), TopicPartition(name, 1): (0, 0)}


IMPATIENT = """
import sys
from contextlib import suppress

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition

admin = ClusterAdmin(sys.argv[1])
partitions = [TopicPartition(sys.argv[2], number) for number in range(200)]
for _ in range(int(sys.argv[3])):
    with suppress(BrokerUnavailable):
        admin.stable_end_offsets(partitions, 0.001)
    admin.bounds_and_ids(partitions, 60, 0.001)
"""


def test_a_look_up_without_time_left_does_not_end_the_process(broker, admin):
    name = new_topic(admin, 200)
    asking = [sys.executable, "-c", IMPATIENT, broker, name, "100"]
    ended = subprocess.run(asking, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_answer_without_an_offset_is_none(admin, monkeypatch):
    """librdkafka gives it around a broker's restart; taken for an end it would have stores wiped."""
    name = new_topic(admin, 2)
    asked = [TopicPartition(name, number) for number in range(2)]
    real, calls = admin._admin.list_offsets, []

    def without_offset(wanted, **options):
        answers = real(wanted, **options)
        calls.append(wanted)
        return _no_offset(answers) if len(calls) in without else answers

    monkeypatch.setattr(admin._admin, "list_offsets", without_offset)
    without = {1, 4}
    assert admin.bounds(asked, PATIENCE_S) == dict.fromkeys(asked, (0, 0))
    assert len(calls) == 3
    without = set(range(1_000))
    with pytest.raises(BrokerUnavailable, match="without an offset"):
        admin.end_offsets(asked, 2)


def _no_offset(answers: dict[ClientPartition, Future[ListOffsetsResultInfo]]):
    """The answers, but of the last partition."""
    last: Future[ListOffsetsResultInfo] = Future()
    last.set_result(ListOffsetsResultInfo(-1001, -1, -1))
    return {**answers, list(answers)[-1]: last}


def test_the_end_is_the_high_watermark_also_while_a_transaction_is_open(broker, admin):
    at = TopicPartition(new_topic(admin, 1), 0)
    producer = transactional(broker)
    producer.begin_transaction()
    producer.produce(at.topic, b"v", b"k", at.partition)
    producer.flush()
    assert admin.end_offsets([at], PATIENCE_S) == {at: 1}
    producer.abort_transaction()


def test_a_setting_of_a_topic_is_told_and_one_that_there_is_not_is_none(admin):
    topic = new_topic(admin, 1)
    assert admin.topic_setting(topic, "cleanup.policy", PATIENCE_S) == "delete"
    assert admin.topic_setting(topic, "colour", PATIENCE_S) is None
    with pytest.raises(BrokerError):
        admin.topic_setting("no-such-topic", "cleanup.policy", PATIENCE_S)


class SomeBrokers:
    """A cluster of librdkafka's own brokers. They know no settings, so an answer for one broker is ours."""

    def __init__(self, values: list[str]) -> None:
        self._client = AdminClient({"test.mock.num.brokers": len(values)}, logger=logging.getLogger("mock brokers"))
        self._values = dict(enumerate(values, 1))
        self.list_topics = self._client.list_topics

    def describe_configs(self, resources, request_timeout):
        if len(resources) != 1:
            return self._client.describe_configs(resources, request_timeout=request_timeout)
        (resource,) = resources
        answer: Future = Future()
        answer.set_result({"offsets.retention.minutes": ConfigEntry("n", self._values[int(resource.name)])})
        return {resource: answer}


def test_a_setting_is_read_from_every_broker(admin, monkeypatch):
    monkeypatch.setattr(admin, "_admin", SomeBrokers(["30", "1440", "30"]))
    assert admin.broker_settings("offsets.retention.minutes", PATIENCE_S) == {"30", "1440"}


def test_asking_about_nothing_asks_nobody():
    admin = ClusterAdmin(closed_port())
    assert (admin.end_offsets([], 1), admin.bounds([], 1), admin.partition_counts([], 1)) == ({}, {}, {})
    admin.create_topics({}, 1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.end_offsets([TopicPartition("t", 0)], 0.5),
        lambda admin: admin.bounds([TopicPartition("t", 0)], 0.5),
        lambda admin: admin.partition_counts(["t"], 0.5),
        lambda admin: admin.topic_setting("t", "cleanup.policy", 0.5),
        lambda admin: admin.create_topics({"t": 1}, 0.5),
    ],
)
def test_a_broker_out_of_reach_is_told_within_the_deadline(ask):
    admin = ClusterAdmin(closed_port())
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        ask(admin)
    assert time.monotonic() - started < SOON_S


def lines_of_a_wait(caplog, monkeypatch, wait_s: float) -> tuple[str, list[str]]:
    """Return the address of a broker that is away, and the warnings of a client that waits for it."""
    monkeypatch.setattr(first_contact, "NEXT_REPORT_S", 0.2)
    address = closed_port()
    with pytest.raises(BrokerUnavailable) as raised:
        ClusterAdmin(address, {"security.protocol": "plaintext"}).reach(wait_s)
    for words in (address, "Connection refused", "check", "security.protocol = 'plaintext'"):
        assert words in str(raised.value)
    return address, [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]


def test_a_wait_for_brokers_is_logged_with_address_reason_end_and_advice(caplog, monkeypatch):
    monkeypatch.setattr(first_contact, "FIRST_REPORT_S", 0.3)
    address, lines = lines_of_a_wait(caplog, monkeypatch, 1.5)
    assert len(lines) > 1, "it is logged again while it lasts"
    for line in lines:
        assert re.fullmatch(
            rf"No broker has answered at {address} for \d s \({address}: Connect to \S+ failed: Connection refused\)\. "
            r"This process tries for \d s more, until \d\d:\d\d:\d\d\. Check that a broker runs there, "
            r"that bootstrap_servers is right, and that the brokers speak "
            r"security\.protocol = 'plaintext' \(under client\)\.",
            line,
        )


def test_a_short_wait_for_brokers_is_not_logged(caplog, monkeypatch):
    assert lines_of_a_wait(caplog, monkeypatch, 0.5)[1] == []
