"""A task before a transaction that never ends: status, event and metrics report it with the remedy, which works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.events import WaitingForTransactionsEvent
from kstreams_assign.insight.transactions import Asked, open_transactions
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TopicPartition
from kstreams_assign.worker import waiting
from tests.hanging import Left, leave, own_id
from tests.status.test_on_a_broker import ask, port_of, until
from tests.worker.app import PARTITIONS, App, Running

WORDS = [b"word-%d" % (n % 97) for n in range(500)]
EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2", "http": "127.0.0.1:0"}


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker of its own, as the test restarts it."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def app(own_broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setattr(waiting, "STILL_MS", 1_000)
    monkeypatch.setattr(waiting, "ASK_INTERVAL_MS", 500)
    monkeypatch.setattr(waiting, "IDLE_ASK_INTERVAL_MS", 500)
    app = App(own_broker.bootstrap_servers, "counting", tmp_path)
    yield app
    app.stop()


def tasks(worker: Running) -> dict[str, str | None]:
    """Return by task what it waits for."""
    statuses = json.loads(ask(port_of(worker), "/tasks")[1])
    return {status["task"]: status["waits_for"] for status in statuses}


def test_a_hanging_input_of_a_running_task_is_reported_and_ended(own_broker: LocalBroker, app: App) -> None:
    worker = app.start(1, **EXACTLY_ONCE)
    worker.until_running(PARTITIONS)
    words = [(b"word-%d" % n, b"x") for n in range(3)]
    leave(own_broker, [Left(own_id("counting-upstream"), {TopicPartition("counting", 3): words})])
    worker.until(lambda _: {task for task, waits in tasks(worker).items() if waits} == {"0_3"})
    assert str(tasks(worker)["0_3"]).startswith("counting-3 has an open transaction from offset 0")
    [warning] = worker.reported(WaitingForTransactionsEvent)[-1].warnings  # of inputs: only if it hangs
    assert warning.endswith("--end --topic counting")
    open_transactions(Asked("counting", app.broker, ["counting"], end=True, timeout_s=60))
    worker.until(lambda _: not any(tasks(worker).values()))
    app.sent.update(key for key, _ in words)
    app.until_counted(read_committed=True)


def test_a_hanging_changelog_and_hanging_offsets_are_reported_and_ended(own_broker: LocalBroker, app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **EXACTLY_ONCE)
    first.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    first.stop()
    changelog = TopicPartition("counting-totals-changelog", 1)
    leave(
        own_broker,
        [
            Left(own_id("counting-one"), {changelog: [(b"more", b"7")]}),
            Left(own_id("counting-two"), {}, offsets={TopicPartition("counting", 2): 1}, group="counting"),
        ],
    )
    second = app.start(2, **EXACTLY_ONCE)
    second.until(lambda _: {task for task, waits in tasks(second).items() if waits} == {"0_1", "0_2"})
    waits = tasks(second)
    assert str(waits["0_1"]).startswith("counting-totals-changelog-1 has an open transaction from offset ")
    assert str(waits["0_2"]).startswith("__consumer_offsets-")
    until(second, "/ready", 503, "it hangs, and does not end by itself")
    until(second, "/status.json", 200, f"kstreams-assign transactions counting -b {app.broker} --end")
    sample = 'task_waits_for_transaction{hanging="true",role="active",task_id="0_1"} 1.0'
    second.until(lambda _: sample in ask(port_of(second), "/metrics")[1])

    ended = open_transactions(Asked("counting", app.broker, end=True, timeout_s=60)).open
    assert {transaction.ended for transaction in ended} == {transaction.decision for transaction in ended} != {None}
    second.until_running(PARTITIONS)
    second.until(lambda _: not any(tasks(second).values()))
    second.until(lambda _: not second.reported(WaitingForTransactionsEvent)[-1].transactions)
    assert second.reported(WaitingForTransactionsEvent)[-1].warnings == ()
