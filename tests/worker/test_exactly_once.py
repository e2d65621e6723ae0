"""Exactly once on a real broker: what committed readers see is each input's effect, once, whoever was killed or asleep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.app import PARTITIONS, App
from tests.worker.many_rebalances import UNWANTED, rebalance
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.transacting import SETTINGS, Process

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    found = App(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)
    yield found
    found.stop()


def assert_each_once(app: App) -> None:
    app.until_counted(timeout_s=60, read_committed=True)
    assert committed_outputs(app) == each_once(app)


def test_totals_are_exact_and_nothing_is_aborted_while_workers_come_and_go(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **SETTINGS)
    first.until_running(PARTITIONS)
    second = app.start(2, **SETTINGS)
    app.send(WORDS)
    second.until_running(PARTITIONS // 2)
    app.send(WORDS)
    second.stop()
    first.until_running(PARTITIONS)
    assert_each_once(app)
    assert not first.named("transaction_aborted") + second.named("transaction_aborted")


@pytest.mark.parametrize("point", ["offsets-sent", "committed"])
def test_a_worker_killed_in_a_commit_leaves_nothing_twice_and_nothing_out(app: App, point: str) -> None:
    """Its successor has another id, so it waits until the broker has ended the transaction that is left open."""
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "killed", point) as killed:
        killed.until_stopped()
        killed.kill()
    app.send(WORDS)
    app.start(1, **SETTINGS)
    assert_each_once(app)


def test_a_restart_takes_back_what_its_predecessor_had_begun(app: App) -> None:
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "state-1", "offsets-sent") as killed:
        killed.until_stopped()
        killed.kill()
    app.start(1, **SETTINGS)
    assert_each_once(app)


@pytest.mark.parametrize("point", ["begun", "offsets-sent"])
def test_a_worker_that_slept_past_its_session_writes_nothing_that_counts(app: App, point: str) -> None:
    app.send(WORDS)
    with Process(app.broker, app.name, app.folder / "asleep", point) as asleep:
        asleep.until_stopped()
        awake = app.start(1, **SETTINGS)
        awake.until_event("running")
        app.send(WORDS)
        asleep.wake()
        asleep.until_event("lost")
        assert_each_once(app)


def test_ten_rebalances_without_a_fault_abort_nothing(app: App) -> None:
    """``python -m tests.worker.many_rebalances`` does the same a hundred times and more."""
    facts = rebalance(app, 10, 60, **SETTINGS)
    assert facts["rebalances"] >= 10
    assert {name: facts[name] for name in UNWANTED} == dict.fromkeys(UNWANTED, 0)
    assert facts["exact"]
