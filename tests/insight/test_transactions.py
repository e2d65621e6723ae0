"""``kstreams-assign transactions`` on a real broker: what is open, what hangs, and the end that its coordinator had decided."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.committed import CommittedOffsets
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from tests.hanging import PATIENCE_S, Left, leave, read_committed
from tests.insight.run import Cli

CHANGELOG, INPUT = "orders-totals-changelog", "placed"
COMMITTED, ABORTED, UNKNOWN, RUNNING = (TopicPartition(CHANGELOG, number) for number in range(4))
OFFSETS = TopicPartition(INPUT, 0)


def look(run: Cli, broker: str, *more: str) -> tuple[int, dict[str, dict[str, object]]]:
    """Exit status, and partition -> facts."""
    done = run("transactions", "orders", "-b", broker, "--json", "--timeout", "60", *more)
    return done.status, {one["partition"]: one for one in json.loads(done.out)["open"]}


@pytest.fixture(scope="module")
def scene() -> Iterator[str]:
    with LocalBroker() as broker:
        ClusterAdmin(broker.bootstrap_servers).create_topics({CHANGELOG: 4, INPUT: 1}, PATIENCE_S)
        kept = leave(
            broker,
            [
                Left("orders-committed", {COMMITTED: [(b"k", b"committed")]}),
                Left("orders-aborted", {ABORTED: [(b"k", b"aborted")]}, ("PrepareAbort", "CompleteAbort")),
                Left("orders-unknown", {UNKNOWN: [(b"k", b"unknown")]}, ("CompleteCommit",)),
                Left("orders-running", {RUNNING: [(b"k", b"running")]}, ()),
                Left("orders-offsets", {}, offsets={OFFSETS: 7}, group="orders"),
            ],
        )
        yield broker.bootstrap_servers
        assert kept


def test_what_hangs_is_told_and_ended_as_it_was_decided(run: Cli, scene: str) -> None:
    """One story, as an operator lives it: look, end, decide about the rest."""
    status, told = look(run, scene)
    assert status == 1
    hanging = {partition: one["decision"] for partition, one in told.items() if one["hanging"]}
    [offsets] = [partition for partition in told if partition.startswith("__consumer_offsets-")]
    assert hanging == {str(COMMITTED): "commit", str(ABORTED): "abort", str(UNKNOWN): None, offsets: "commit"}
    assert told[str(RUNNING)]["state"] == "Ongoing"
    assert not any(read_committed(scene, at) for at in (COMMITTED, ABORTED, UNKNOWN, RUNNING))
    waiting = CommittedOffsets(scene, None, group_id="orders", stable=True)
    with pytest.raises(BrokerUnavailable):
        waiting.read([OFFSETS], 2.0)
    lines = run("transactions", "orders", "-b", scene)
    assert "its coordinator had decided to commit it: --end writes that" in lines.out
    assert "600 s after it began" in lines.out

    status, told = look(run, scene, "--end")
    assert status == 1  # one of them nobody knows about
    assert {partition: one["ended"] for partition, one in told.items()} == {
        str(COMMITTED): "commit",
        str(ABORTED): "abort",
        str(UNKNOWN): None,
        str(RUNNING): None,
        offsets: "commit",
    }
    assert "--end --as commit, or --as abort" in str(told[str(UNKNOWN)]["text"])
    assert read_committed(scene, COMMITTED) == [b"committed"]
    assert read_committed(scene, ABORTED) == []
    assert waiting.read([OFFSETS], PATIENCE_S) == {OFFSETS: 7}
    waiting.close()

    status, told = look(run, scene, "--end", "--as", "commit")
    assert (status, told[str(UNKNOWN)]["ended"]) == (0, "commit")
    assert read_committed(scene, UNKNOWN) == [b"unknown"]
    status, told = look(run, scene)
    assert (status, [*told]) == (0, [str(RUNNING)])
    assert read_committed(scene, RUNNING) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["orders", "--as", "commit"], "--as commit: says how to end something; give --end, too"),
        (["orders", "--topic", "no-such"], "--topic no-such: there is no such topic"),
        (["nobody"], "nobody: no topic is named after it, and it never committed: name some by --topic"),
    ],
)
def test_words_that_make_no_sense_are_refused(run: Cli, scene: str, words: list[str], told: str) -> None:
    done = run("transactions", *words, "-b", scene)
    assert done.status == 2
    assert told in done.err


def test_who_waits_for_nothing_is_told_so(run: Cli, scene: str) -> None:
    done = run("transactions", "nobody", "-b", scene, "--topic", INPUT)
    assert (done.status, done.out) == (0, "nobody: no partition has an open transaction\n")
