"""Transactions on a real broker: what is read of them, whose offsets are taken, and who is fenced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    ConfluentChangelogReader,
    TransactionalProducer,
    transactions,
)
from kstreams_assign.adapters.confluent.transactions import group_metadata, librdkafka_writes, refuse_unknown_metadata
from kstreams_assign.errors import (
    BrokerUnavailable,
    CommitRefused,
    ConfigError,
    DeliveryFailed,
    KStreamsAssignError,
    RecordRefused,
    TaskMigrated,
    TransactionAborted,
)
from kstreams_assign.group.values import MemberId
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from tests.adapters.confluent_cluster import PATIENCE_S, closed_port, new_topic, until
from tests.installed import ROOT

NO_MEMBER = MemberId(-1, "", None)
"""Who commits to a group without members."""

Make = Callable[..., TransactionalProducer]


@pytest.fixture
def make(broker: str) -> Iterator[Make]:
    made: list[TransactionalProducer] = []

    def make(
        transactional_id: str, group_id: str = "g", servers: str = broker, delivery_timeout_ms: int = 60_000
    ) -> TransactionalProducer:
        producer = TransactionalProducer(
            servers, group_id=group_id, transactional_id=transactional_id, delivery_timeout_ms=delivery_timeout_ms
        )
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def at(broker: str) -> TopicPartition:
    return TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)


@pytest.fixture(scope="module")
def expiring() -> Iterator[LocalBroker]:
    """A broker that forgets a transactional id three seconds after its last transaction."""
    settings = {
        "transactional.id.expiration.ms": "3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    with LocalBroker(settings=settings) as broker:
        yield broker


def committed_values(broker: str, at: TopicPartition) -> list[bytes | None]:
    """What a committed reader finds up to the high watermark, which it reaches only when nothing is open."""
    admin = ClusterAdmin(broker)
    (_, end) = admin.bounds([at], PATIENCE_S)[at]
    reader = ConfluentChangelogReader(broker, group_id="committed", admin=admin, read_committed=True)
    reader.add({at: 0})
    values: list[bytes | None] = []
    reached = 0

    def read() -> int:
        nonlocal reached
        for batch in reader.poll(0.5):
            values.extend(value for _, value in batch.writes)
            reached = batch.next_offset
        return reached

    until(read, lambda offset: offset >= end)
    reader.close()
    return values


def committed_offset(broker: str, group: str, at: TopicPartition) -> int:
    with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
        committed = admin.list_group_offsets({group: [at]})[group]
    return int(committed[at].offset) if at in committed else -1


def test_records_and_offsets_become_true_together_or_not_at_all(broker: str, make: Make, at: TopicPartition) -> None:
    group = uuid4().hex
    producer = make(uuid4().hex, group)
    for value, end in ((b"aborted", producer.abort), (b"committed", producer.commit)):
        producer.begin(PATIENCE_S)
        producer.produce(*at, b"k", value, track=True)
        assert producer.flush(PATIENCE_S).keys() == {at}
        producer.send_offsets({at: 7}, NO_MEMBER, PATIENCE_S)
        end(PATIENCE_S)
        if end == producer.abort:
            assert committed_offset(broker, group, at) < 0
    assert committed_values(broker, at) == [b"committed"]
    assert committed_offset(broker, group, at) == 7


def test_a_generation_that_the_group_does_not_have_is_refused(broker: str, make: Make, at: TopicPartition) -> None:
    producer = make(uuid4().hex, uuid4().hex)
    producer.begin(PATIENCE_S)
    producer.produce(*at, b"k", b"stale")
    with pytest.raises(CommitRefused, match=r"ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID"):
        producer.send_offsets({at: 7}, MemberId(3, "a member of once", None), PATIENCE_S)
    producer.abort(PATIENCE_S)
    producer.begin(PATIENCE_S)
    producer.produce(*at, b"k", b"later")
    producer.commit(PATIENCE_S)
    assert committed_values(broker, at) == [b"later"]


def test_the_newer_of_two_with_one_id_fences_the_older_and_takes_its_transaction_back(
    broker: str, make: Make, at: TopicPartition
) -> None:
    name = uuid4().hex
    older, newer = make(name), make(name)
    older.begin(PATIENCE_S)
    older.produce(*at, b"k", b"older")
    older.flush(PATIENCE_S)
    newer.begin(PATIENCE_S)
    newer.produce(*at, b"k", b"newer")
    newer.commit(PATIENCE_S)
    with pytest.raises(TaskMigrated):
        older.commit(PATIENCE_S)
    assert committed_values(broker, at) == [b"newer"]
    older.abort(PATIENCE_S)
    older.begin(PATIENCE_S)  # as another client: fenced is for good
    older.produce(*at, b"k", b"older again")
    older.commit(PATIENCE_S)
    assert committed_values(broker, at) == [b"newer", b"older again"]


def fenced(make: Make, at: TopicPartition, *, ahead: bool = False) -> TransactionalProducer:
    """A producer whose client knows that another producer took over, and has not reported it yet."""
    name = f"fenced-{uuid4()}"
    older, newer = make(name), make(name)
    older.begin(PATIENCE_S)
    newer.prepare(PATIENCE_S)
    if ahead:
        older.send_ahead([(at.topic, b"k", b"v", (), at.partition, None)])
    else:
        older.produce(*at, b"k", b"v")
    until(lambda: len(older._producer), lambda waiting: waiting > 1)  # the answer is queued beside the record
    return older


def test_who_is_fenced_hears_it_when_it_looks_for_answers(make: Make, at: TopicPartition) -> None:
    older = fenced(make, at)
    with pytest.raises(TaskMigrated, match="fenced"):
        until(older.acknowledged, lambda answer: answer is not None)


@pytest.mark.parametrize("ahead", [False, True], ids=["produced", "sent ahead"])
def test_who_is_fenced_hears_it_when_it_waits_for_answers(make: Make, at: TopicPartition, *, ahead: bool) -> None:
    older = fenced(make, at, ahead=ahead)
    if ahead:
        older.begin_commit()
    with pytest.raises(TaskMigrated, match="fenced"):
        older.flush(PATIENCE_S)
    older.abort(PATIENCE_S)
    older.begin(PATIENCE_S)  # as another client


def test_who_is_fenced_hears_it_between_two_attempts_at_a_call(make: Make, at: TopicPartition) -> None:
    older = fenced(make, at)

    def fail(_client: object, _left_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "try again", retriable=True))

    with pytest.raises(TaskMigrated, match="fenced"):
        older._call("try", PATIENCE_S, fail)
    older.abort(PATIENCE_S)
    older.begin(PATIENCE_S)  # as another client


def test_a_call_is_repeated_only_with_time_to_spare(make: Make) -> None:
    """A commit that is called once more with less may end the process, when the broker has carried it out."""
    producer, given_s = make(uuid4().hex), list[float]()

    def fail(_client: object, left_s: float) -> None:
        given_s.append(left_s)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "try again", retriable=True))

    with pytest.raises(BrokerUnavailable, match="try"):
        producer._call("try", 2.0, fail)
    assert len(given_s) > 1
    assert min(given_s) >= 0.5
    del given_s[:]
    with pytest.raises(BrokerUnavailable, match="try"):
        producer._call("try", 0.2, fail)
    (left_s,) = given_s
    assert 0 < left_s <= 0.2


def test_a_producer_id_that_the_brokers_have_forgotten_makes_another_client(make: Make) -> None:
    producer = make(uuid4().hex)
    producer.begin(PATIENCE_S)

    def fail(_client: object, _left_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING, "expired", txn_requires_abort=True))

    with pytest.raises(TransactionAborted, match="expired"):
        producer._call("try", PATIENCE_S, fail)
    assert not producer.settled
    producer.abort(PATIENCE_S)
    producer.begin(PATIENCE_S)
    assert producer.settled


@pytest.mark.parametrize("writes", [False, True], ids=["offsets only", "a record"])
def test_commits_go_on_after_the_transactional_id_has_expired(
    expiring: LocalBroker, make: Make, *, writes: bool
) -> None:
    broker, group = expiring.bootstrap_servers, uuid4().hex
    at = TopicPartition(new_topic(ClusterAdmin(broker), 1), 0)
    producer = make(uuid4().hex, group, broker)

    def commit(offset: int) -> bool:
        try:
            producer.begin(PATIENCE_S)
            if writes:
                producer.produce(*at, b"k", b"%d" % offset)
                producer.flush(PATIENCE_S)
            producer.send_offsets({at: offset}, NO_MEMBER, PATIENCE_S)
            producer.commit(PATIENCE_S)
        except (TransactionAborted, DeliveryFailed):
            producer.abort(PATIENCE_S)
            return False
        return True

    until(lambda: commit(1), bool)
    with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
        until(lambda: [*admin.list_transactions().values()], lambda of_brokers: not any(of_brokers))
    assert not commit(2), "the brokers have forgotten the producer id"
    until(lambda: commit(2), bool)  # a slow machine may let the new one expire, too
    assert committed_offset(broker, group, at) == 2
    if writes:
        assert committed_values(broker, at) == [b"1", b"2"]


def test_a_broker_that_does_not_answer_is_waited_for_no_longer_than_was_said(make: Make) -> None:
    producer = make(uuid4().hex, servers=closed_port())
    with pytest.raises(BrokerUnavailable, match="init transactions"):
        producer.begin(0.3)


@pytest.mark.parametrize("instance", [None, "an instance"])
def test_group_metadata_is_written_as_the_installed_librdkafka_writes_it(instance: str | None) -> None:
    assert group_metadata("g", MemberId(-1, "", instance)) == librdkafka_writes("g", instance)
    assert group_metadata("g", MemberId(258, "m", None)) == b"CGMDv2:\x02\x01\x00\x00g\x00m\x00\x01"


def test_another_format_refuses_exactly_once_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"processing_guarantee = 'exactly_once_v2': librdkafka .* use at_least_once"):
        refuse_unknown_metadata(lambda group, instance: librdkafka_writes(group, instance).replace(b"v2", b"v3"))


def test_no_producer_is_made_where_librdkafka_writes_another_format(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = librdkafka_writes("a group", None).replace(b"v2", b"v3")
    monkeypatch.setattr(transactions, "librdkafka_writes", lambda _group, _instance: another)
    with pytest.raises(
        ConfigError, match=r"processing_guarantee = 'exactly_once_v2': librdkafka .*v3.* use at_least_once"
    ):
        make(uuid4().hex, servers=closed_port())


def test_a_topic_that_was_deleted_is_refused_with_the_remedy_and_not_tried_for_ever(broker: str, make: Make) -> None:
    admin = ClusterAdmin(broker)
    topic = new_topic(admin, 1)
    producer = make("to-a-deleted-topic", delivery_timeout_ms=6_000)

    def attempt() -> KStreamsAssignError | None:
        try:
            producer.begin(PATIENCE_S)
            producer.produce(topic, None, b"k", b"v")
            producer.flush(PATIENCE_S)
            producer.commit(PATIENCE_S)
        except KStreamsAssignError as error:
            producer.abort(PATIENCE_S)
            return error
        return None

    assert attempt() is None
    raw = AdminClient({"bootstrap.servers": broker})  # has to outlive its answer
    raw.delete_topics([topic])[topic].result(PATIENCE_S)
    refused = until(attempt, lambda error: isinstance(error, RecordRefused))
    assert topic in str(refused)
    assert "create it, with as many partitions as are written to" in str(refused)


def test_a_commit_that_the_broker_carries_out_too_late_ends_no_process() -> None:
    with LocalBroker() as own:
        at = TopicPartition(new_topic(ClusterAdmin(own.bootstrap_servers), 1), 0)
        command = [sys.executable, "-m", "tests.adapters.late_commit", own.bootstrap_servers, at.topic]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:

            def say_and_hear() -> str:
                assert child.stdin is not None
                assert child.stdout is not None
                print(file=child.stdin, flush=True)
                return child.stdout.readline()

            assert child.stdout is not None
            assert child.stdout.readline() == "written\n"
            broker = psutil.Process(own.pid)
            broker.suspend()
            try:
                until(broker.status, lambda status: status == psutil.STATUS_STOPPED)
                assert say_and_hear() == "aborted\n"
            finally:
                broker.resume()
            assert committed_values(own.bootstrap_servers, at) == [b"late"]
            assert say_and_hear() == "committed\n"
        assert child.returncode == 0
        assert committed_values(own.bootstrap_servers, at) == [b"late", b"later"]
