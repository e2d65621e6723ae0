"""Deleted records on a real broker, and which failures may pass."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordDeletions
from kstreams_assign.errors import BrokerError, BrokerUnavailable, KStreamsAssignError
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, put


@pytest.fixture
def deletions(broker: str) -> RecordDeletions:
    return RecordDeletions(broker)


def failures(
    deletions: RecordDeletions, offsets: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, KStreamsAssignError]:
    """Ask for the deletion, wait for the answer, and return what failed."""
    deletions.delete_before(offsets)
    wait(deletions._asked.values(), PATIENCE_S)
    assert not deletions.busy
    return deletions.failures()


def test_what_the_brokers_do_not_have_cannot_be_deleted_later_either(broker: str, deletions: RecordDeletions) -> None:
    admin = ClusterAdmin(broker)
    topic = new_topic(admin, 1)
    there, other, absent = TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition(f"{topic}-absent", 0)
    put(broker, there, [(b"k", b"v")] * 10)
    for offsets, failed in (
        ({there: 5}, {}),
        ({there: 11}, {there: "OFFSET_OUT_OF_RANGE"}),
        ({absent: 5}, {absent: "_NOENT"}),
        ({other: 5}, {other: "_NOENT"}),
        ({there: 6, absent: 5, other: 5}, {absent: "UNKNOWN_TOPIC_OR_PART", other: "_UNKNOWN_PARTITION"}),
    ):
        answers = failures(deletions, offsets)
        assert answers.keys() == failed.keys()
        for partition, reason in failed.items():
            assert type(answers[partition]) is BrokerError
            assert f"({reason})" in str(answers[partition])
    assert admin.start_offsets([there], PATIENCE_S) == {there: 6}
    assert deletions.failures() == {}, "they are returned once"


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (KafkaError._TIMED_OUT, BrokerUnavailable),
        (KafkaError.NOT_LEADER_FOR_PARTITION, BrokerUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_a_broker_that_cannot_answer_now_may_be_asked_again(
    deletions: RecordDeletions, code: int, ours: type[BrokerError]
) -> None:
    answer: Future[None] = Future()
    answer.set_exception(KafkaException(KafkaError(code)))
    deletions._asked = {ClientPartition("t", 0): answer}
    [failure] = deletions.failures().values()
    assert type(failure) is ours
