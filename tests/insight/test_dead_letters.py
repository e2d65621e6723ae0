"""``dead-letters`` on a real broker: what it lists, and that it sends each letter again once."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer, TopicReader
from kstreams_assign.errors import BrokerError, RecordRefused
from kstreams_assign.insight import dead_letters as work
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.dead_letters import Failure, dead_letter
from kstreams_assign.tasks.record import Record
from tests.insight.run import Cli

TIMEOUT_S = 60.0
HOUR_AGO_MS = round(time.time() * 1000) - 3_600_000
LONG_AGO_MS = 1_000
FAILURE = Failure("ValueError", "bad", "Traceback")


class Shop:
    """An application with an input topic and a dead-letter topic."""

    def __init__(self, broker: str, name: str, **input_settings: str) -> None:
        self.broker, self.name = broker, name
        self.inputs, self.letters = f"{name}-in", f"{name}-dead-letters"
        configs = {self.inputs: {key.replace("_", "."): value for key, value in input_settings.items()}}
        ClusterAdmin(broker).create_topics({self.inputs: 3, self.letters: 2}, TIMEOUT_S, configs=configs)

    def die(
        self,
        *offsets: int,
        value: bytes | None = b"v",
        topic: str | None = None,
        bytes_max: int = 1_000,
        since_ms: int = HOUR_AGO_MS,
        keyed: bool = True,
    ) -> None:
        """Write the dead letters of records with these offsets, in partition ``offset % 3``."""
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            for offset in offsets:
                key, headers = b"k%d" % offset if keyed else None, [("trace", b"%d" % offset)]
                record = Record(topic or self.inputs, offset % 3, offset, since_ms + offset, key, value, headers)
                producer.produce_all([dead_letter(self.letters, record, FAILURE, bytes_max)])
            producer.flush(TIMEOUT_S)

    def produce(self, topic: str, value: bytes) -> None:
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            producer.produce(topic, None, None, value)
            producer.flush(TIMEOUT_S)

    def forget_what_was_sent(self) -> None:
        """Delete the committed offsets, as brokers do after ``offsets.retention.minutes``."""
        admin = AdminClient({"bootstrap.servers": self.broker})
        for deleted in admin.delete_consumer_groups([self.letters]).values():
            deleted.result(TIMEOUT_S)

    def sent_again(self) -> list[Record]:
        """The committed records of the input topic."""
        starts = {TopicPartition(self.inputs, number): 0 for number in range(3)}
        records, unread = [], set(starts)
        reader = TopicReader(self.broker, None, starts, group_id="test", read_committed=True)
        with closing(reader):
            while unread:
                more, ended = reader.read(1_000, 1.0)
                records += more
                unread -= ended.keys()
        return records


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-z0-9]", "-", request.node.name)[:50]


@pytest.fixture
def shop(broker: str, name: str) -> Shop:
    return Shop(broker, name)


def test_each_letter_is_listed_with_its_error_and_where_its_record_was(run: Cli, shop: Shop) -> None:
    shop.die(4, 8)
    listed = run("dead-letters", shop.name, "-b", shop.broker)
    assert sorted(listed.out.splitlines()) == [
        "    k4 = v",
        "    k8 = v",
        f"{shop.inputs}-1 offset 4: ValueError: bad",
        f"{shop.inputs}-2 offset 8: ValueError: bad",
    ]
    assert listed.status == 0
    assert listed.err == f"2 of ValueError\n2 dead letters in {shop.letters}\n"
    facts: list[dict[str, Any]] = [
        json.loads(line) for line in run("dead-letters", shop.name, "-b", shop.broker, "--json").out.splitlines()
    ]
    [four] = [fact for fact in facts if fact["record"]["key"] == "k4"]
    assert (four["exception"], four["message"], four["left_out"]) == ("ValueError", "bad", None)
    assert four["record"] == {
        "topic": shop.inputs,
        "partition": 1,
        "offset": 4,
        "timestamp_ms": HOUR_AGO_MS + 4,
        "key": "k4",
        "value": "v",
        "headers": [["trace", "4"]],
    }


def test_letters_are_sent_to_their_partitions_again_each_once(
    run: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "BATCH", 5)
    shop.die(*range(12))
    first = run("dead-letters", shop.name, "-b", shop.broker, "--resend")
    assert (first.status, first.err.splitlines()[-1]) == (0, "12 dead letters sent again")
    again = run("dead-letters", shop.name, "-b", shop.broker, "--resend")
    assert again.err == f"no dead letters in {shop.letters} that have not been sent again\n"
    shop.die(12)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend", "--json").facts == {
        "topic": shop.letters,
        "sent": 1,
        "not_sent": 0,
    }
    records = shop.sent_again()
    assert Counter((r.key, r.partition, r.timestamp_ms) for r in records) == Counter(
        (b"k%d" % offset, offset % 3, HOUR_AGO_MS + offset) for offset in range(13)
    )
    assert all(record.headers == [("trace", record.key[1:])] for record in records if record.key)
    assert run("dead-letters", shop.name, "-b", shop.broker).err == f"0 dead letters in {shop.letters}\n"
    assert run("dead-letters", shop.name, "-b", shop.broker, "--all").err.endswith(
        f"13 dead letters in {shop.letters}\n"
    )


def test_an_interrupted_call_sends_nothing_twice(run: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends behind the second batch's records and before its commit."""
    monkeypatch.setattr(work, "BATCH", 5)
    shop.die(*range(0, 36, 3))
    send, calls = work._send, []

    def interrupted(producer: Any, *rest: Any) -> None:
        calls.append(rest)
        if len(calls) == 2:
            monkeypatch.setattr(producer, "commit", _interrupt)
        send(producer, *rest)

    monkeypatch.setattr(work, "_send", interrupted)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 130
    monkeypatch.setattr(work, "_send", send)
    before = len(shop.sent_again())
    assert 0 < before < 12
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 0
    assert Counter(record.key for record in shop.sent_again()) == {b"k%d" % n: 1 for n in range(0, 36, 3)}


def _interrupt(_timeout_s: float) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_sent_again_is_named_and_the_rest_is_sent(run: Cli, shop: Shop) -> None:
    shop.die(1)
    shop.die(2, value=bytes(2_000))
    shop.die(3, topic="no-such-topic\x1b[2J")
    shop.produce(shop.letters, b"a stranger")
    assert (
        "no-such-topic\\x1b[2J-0 offset 3: ValueError: bad\n" in run("dead-letters", shop.name, "-b", shop.broker).out
    )
    done = run("dead-letters", shop.name, "-b", shop.broker, "--resend")
    assert done.status == 1
    assert "not sent again: it is not whole: it lacks value of 2,000 bytes" in done.err
    assert "not sent again: no such partition: no-such-topic\\x1b[2J-0" in done.err
    assert "not sent again: no dead letter: it has no __streams.errors headers" in done.err
    assert [record.key for record in shop.sent_again()] == [b"k1"]


def test_a_letter_that_the_brokers_refuse_does_not_hold_up_the_others(run: Cli, broker: str, name: str) -> None:
    shop = Shop(broker, name, max_message_bytes="1000")
    shop.die(1)
    shop.die(2, value=bytes(2_000), bytes_max=100_000)
    shop.die(*range(3, 20))
    done = run("dead-letters", name, "-b", broker, "--resend", "--json")
    assert done.status == 1
    assert json.loads(done.out) == {"topic": shop.letters, "sent": 18, "not_sent": 1}
    [refused] = [line for line in done.err.splitlines() if "not sent again" in line]
    assert re.match(rf"{shop.letters}-[01] offset \d+: not sent again: ", refused)
    assert "MSG_SIZE_TOO_LARGE" in refused
    assert f"to {shop.inputs}-2" in refused
    wanted = Counter(b"k%d" % offset for offset in range(1, 20) if offset != 2)
    assert Counter(record.key for record in shop.sent_again()) == wanted
    again = run("dead-letters", name, "-b", broker, "--resend")
    assert (again.status, again.err) == (0, f"no dead letters in {shop.letters} that have not been sent again\n")
    assert Counter(record.key for record in shop.sent_again()) == wanted


def test_several_refused_letters_are_all_named(run: Cli, broker: str, name: str) -> None:
    shop = Shop(broker, name, cleanup_policy="compact")
    shop.die(1)
    shop.die(2, 5, keyed=False)
    shop.die(8)
    done = run("dead-letters", name, "-b", broker, "--resend")
    assert done.status == 1
    assert done.err.count("not sent again: ") == done.err.count("INVALID_RECORD") == 2
    assert Counter(record.key for record in shop.sent_again()) == {b"k1": 1, b"k8": 1}


def test_a_batch_that_every_topic_would_refuse_is_not_dropped_letter_by_letter(
    run: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing right is not the fault of a letter: no offset is committed."""
    shop.die(*range(4))
    send = work._send

    def refuse(producer: Any, records: list[Record], *rest: Any) -> None:
        if records:
            raise RecordRefused("a right is missing", shop.inputs, 0, b"k", absent=False)
        send(producer, records, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(work, "_send", refuse)
        done = run("dead-letters", shop.name, "-b", shop.broker, "--resend")
        assert (done.status, "a right is missing" in done.err) == (3, True)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend", "--json").facts["sent"] == 4


def test_old_letters_are_not_sent_unasked_where_it_is_not_known_what_was_sent(run: Cli, shop: Shop) -> None:
    shop.die(0, since_ms=LONG_AGO_MS)
    listed = run("dead-letters", shop.name, "-b", shop.broker)
    assert re.search(rf"{shop.letters}-[01]: not known which letters have been sent again: ", listed.err)
    first = run("dead-letters", shop.name, "-b", shop.broker, "--resend")
    assert first.status == 2
    assert re.search(rf"{shop.letters}-[01] \(first letter of 1970-01-01 00:00:01 UTC\)", first.err)
    assert "--from-beginning" in first.err
    assert shop.sent_again() == []
    for _ in range(2):
        sent = run("dead-letters", shop.name, "-b", shop.broker, "--resend", "--from-beginning")
        assert sent.status == 0
    assert [record.key for record in shop.sent_again()] == [b"k0"]
    assert "not known" not in run("dead-letters", shop.name, "-b", shop.broker).err


def test_letters_are_not_sent_a_second_time_when_their_offsets_have_expired(
    run: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = range(10)
    shop.die(*letters)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 0
    shop.forget_what_was_sent()
    monkeypatch.setattr(work, "_offsets_retention_ms", lambda _cluster: 1_000)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 2
    assert Counter(record.key for record in shop.sent_again()) == {b"k%d" % offset: 1 for offset in letters}


def test_each_call_renews_what_is_known_of_partitions_without_new_letters(
    run: Cli, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.die(1, 2)
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 0
    committed: list[Mapping[TopicPartition, int]] = []
    send_offsets = work.TransactionalProducer.send_offsets

    def noted(producer: Any, offsets: Mapping[TopicPartition, int], *about: Any) -> None:
        committed.append(offsets)
        send_offsets(producer, offsets, *about)

    monkeypatch.setattr(work.TransactionalProducer, "send_offsets", noted)
    before = len(shop.sent_again())
    assert run("dead-letters", shop.name, "-b", shop.broker, "--resend").status == 0
    assert len(committed) == 1
    assert sum(committed[0].values()) == 2
    assert len(shop.sent_again()) == before == 2


def test_the_brokers_setting_says_how_long_offsets_are_kept(run: Cli, name: str) -> None:
    with LocalBroker(settings={"offsets.retention.minutes": "30"}) as running:
        shop = Shop(running.bootstrap_servers, name)
        shop.die(0)
        refused = run("dead-letters", name, "-b", shop.broker, "--resend")
    assert refused.status == 2
    assert "after 30 minutes (offsets.retention.minutes)" in refused.err


def refuse_to_describe(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def describe_configs(_admin: AdminClient, asked: Sequence[Any], **_: float) -> Mapping[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {resource: Future() for resource in asked}
        for answer in answers.values():
            answer.set_exception(KafkaException(KafkaError(code)))
        return answers

    monkeypatch.setattr(AdminClient, "describe_configs", describe_configs)


def test_kafkas_default_counts_where_the_brokers_setting_may_not_be_read(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_describe(monkeypatch, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    assert work._offsets_retention_ms(work.Cluster(broker)) == 7 * 86_400_000


def test_no_retention_is_assumed_where_reading_the_setting_fails_for_another_reason(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_describe(monkeypatch, KafkaError.UNSUPPORTED_VERSION)
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        work._offsets_retention_ms(work.Cluster(broker))


def test_wrong_calls_are_refused(run: Cli, broker: str) -> None:
    missing = run("dead-letters", "no-such-app", "-b", broker)
    assert missing.status == 1
    assert "no topic no-such-app-dead-letters" in missing.err
    both = run("dead-letters", "app", "-b", broker, "--resend", "--all")
    assert (both.status, "--all" in both.err) == (2, True)
    alone = run("dead-letters", "app", "-b", broker, "--from-beginning")
    assert (alone.status, "--from-beginning: needs --resend" in alone.err) == (2, True)
