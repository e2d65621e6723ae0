"""``kstreams-assign transactions`` on a real broker: open and hanging transactions, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.committed import CommittedOffsets
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, kept_in
from kstreams_assign.adapters.kafka_python.transactions import transactions_on_brokers
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.insight.transactions import Asked, OpenedTransaction, _ended
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.transactions import Decision
from tests.hanging import PATIENCE_S, Left, leave, own_id, read_committed
from tests.insight.run import Cli

CHANGELOG, INPUT = "orders-totals-changelog", "placed"
COMMITTED, ABORTED, UNKNOWN, RUNNING = (TopicPartition(CHANGELOG, number) for number in range(4))
WORDS = {
    own_id(word): word
    for word in (
        *("orders-committed", "orders-aborted", "orders-unknown", "orders-running", "orders-offsets"),
        *("shop-unknown", "shop-offsets"),
    )
}
OFFSETS, FOREIGN = (TopicPartition(INPUT, number) for number in range(2))


def look(run: Cli, broker: str, *more: str) -> tuple[int, dict[str, dict[str, object]]]:
    """Exit status, and word (``own_id``) -> facts."""
    done = run("transactions", "orders", "-b", broker, "--topic", INPUT, "--json", "--timeout", "60", *more)
    assert done.out, (done.status, done.err)
    return done.status, {WORDS[found["transactional_id"]]: found for found in json.loads(done.out)["open"]}


def neighbour(broker: str) -> str:
    """A group whose offsets are kept where the application's are."""
    admin = ClusterAdmin(broker)
    CommittedOffsets(broker, None, group_id="orders").read([OFFSETS], PATIENCE_S)  # the first question makes the topic
    partition = kept_in(admin, OFFSETS_TOPIC, "orders", PATIENCE_S)
    names = (f"shop-{number}" for number in count())
    return next(name for name in names if kept_in(admin, OFFSETS_TOPIC, name, PATIENCE_S) == partition)


@pytest.fixture(scope="module")
def scene() -> Iterator[str]:
    with LocalBroker() as broker:
        ClusterAdmin(broker.bootstrap_servers).create_topics({CHANGELOG: 4, INPUT: 2}, PATIENCE_S)
        kept = leave(
            broker,
            [
                Left(own_id("orders-committed"), {COMMITTED: [(b"k", b"committed")]}),
                Left(own_id("orders-aborted"), {ABORTED: [(b"k", b"aborted")]}, ("PrepareAbort", "CompleteAbort")),
                Left(own_id("orders-unknown"), {UNKNOWN: [(b"k", b"unknown")]}, ("CompleteCommit",)),
                Left(own_id("shop-unknown"), {FOREIGN: [(b"k", b"foreign")]}, ("CompleteCommit",)),
                Left(own_id("shop-offsets"), {}, offsets={OFFSETS: 3}, group=neighbour(broker.bootstrap_servers)),
                Left(own_id("orders-running"), {RUNNING: [(b"k", b"running")]}, ()),
                Left(own_id("orders-offsets"), {}, offsets={OFFSETS: 7}, group="orders"),
            ],
        )
        yield broker.bootstrap_servers
        assert kept


def test_a_hanging_transaction_is_reported_and_ended_as_decided(run: Cli, scene: str) -> None:
    """One story, as an operator lives it: look, end, decide about the rest."""
    status, shown = look(run, scene)
    assert status == 1
    assert {name: transaction["decision"] for name, transaction in shown.items() if transaction["hanging"]} == {
        "orders-committed": "commit",
        "orders-aborted": "abort",
        "orders-unknown": None,
        "shop-unknown": None,
        "orders-offsets": "commit",
        "shop-offsets": "commit",
    }
    assert shown["orders-running"]["state"] == "Ongoing"
    assert str(shown["orders-offsets"]["partition"]).startswith("__consumer_offsets-")
    assert not any(read_committed(scene, at) for at in (COMMITTED, ABORTED, UNKNOWN, RUNNING))
    waiting = CommittedOffsets(scene, None, group_id="orders", stable=True)
    with pytest.raises(BrokerUnavailable):
        waiting.read([OFFSETS], 2.0)
    lines = run("transactions", "orders", "-b", scene)
    assert "its coordinator had decided to commit it: --end writes that" in lines.out
    assert "600 s after it began" in lines.out

    status, shown = look(run, scene, "--end")
    assert status == 1  # no log knows one of them
    assert {name: transaction["ended"] for name, transaction in shown.items()} == {
        "orders-committed": "commit",
        "orders-aborted": "abort",
        "orders-unknown": None,
        "orders-running": None,
        "shop-unknown": None,
        "orders-offsets": "commit",
        "shop-offsets": "commit",
    }
    assert "--end --as commit, or --as abort" in str(shown["orders-unknown"]["text"])
    assert read_committed(scene, COMMITTED) == [b"committed"]
    assert read_committed(scene, ABORTED) == []
    assert waiting.read([OFFSETS], PATIENCE_S) == {OFFSETS: 7}
    waiting.close()

    status, shown = look(run, scene, "--end", "--as", "commit")
    assert {name: transaction["ended"] for name, transaction in shown.items()} == {
        "orders-unknown": "commit",
        "orders-running": None,
        "shop-unknown": None,  # it is for the shop to decide about its own
    }
    assert status == 1
    assert read_committed(scene, UNKNOWN) == [b"unknown"]
    status, shown = look(run, scene)
    assert (status, {name: transaction["hanging"] for name, transaction in shown.items()}) == (
        1,
        {"orders-running": False, "shop-unknown": True},
    )
    assert read_committed(scene, RUNNING) == []


def test_a_transaction_that_changes_before_it_is_ended_stays(scene: str) -> None:
    """Its producer may live, and have begun another."""
    asked = Asked("shop", scene, topics=[INPUT], end=True, given=Decision.COMMIT, timeout_s=60)
    with transactions_on_brokers(scene, timeout_s=60) as brokers:
        [transaction] = brokers.look([FOREIGN])
        before = replace(transaction, open=replace(transaction.open, start_offset=transaction.open.start_offset + 1))
        outcome = _ended(OpenedTransaction(before), asked, brokers)
    assert (outcome.ended, outcome.failed) == (None, "it has changed meanwhile, look again")
    assert read_committed(scene, FOREIGN) == []


def test_a_refusal_of_the_brokers_is_a_clear_error(scene: str) -> None:
    """Here: a marker of an older epoch."""
    asked = Asked("shop", scene, topics=[INPUT], end=True, given=Decision.COMMIT, timeout_s=60)
    with transactions_on_brokers(scene, timeout_s=60) as brokers:
        [transaction] = brokers.look([FOREIGN])
        with pytest.raises(BrokerError, match="commit the transaction in placed-1"):
            brokers.end(replace(transaction.open, producer_epoch=transaction.open.producer_epoch - 1), Decision.COMMIT)
        assert _ended(OpenedTransaction(transaction), asked, brokers).ended is Decision.COMMIT
    assert read_committed(scene, FOREIGN) == [b"foreign"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["orders", "--as", "commit"], "--as commit: says how to end something; give --end, too"),
        (["orders", "--topic", "no-such"], "--topic no-such: there is no such topic"),
        (["absent"], "absent: no topic is named after it, and it never committed: name some by --topic"),
    ],
)
def test_words_that_make_no_sense_are_refused(run: Cli, scene: str, words: list[str], message: str) -> None:
    done = run("transactions", *words, "-b", scene)
    assert done.status == 2
    assert message in done.err


def test_a_group_without_open_transactions_is_reported_so(run: Cli, scene: str) -> None:
    done = run("transactions", "absent", "-b", scene, "--topic", INPUT)
    assert (done.status, done.out) == (0, "absent: no partition has an open transaction\n")
