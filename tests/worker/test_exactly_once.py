"""Exactly once on a real broker: committed readers see each input's effect once, even if a worker dies or sleeps."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from kstreams_assign import Record, Task
from kstreams_assign.adapters.confluent import TransactionalProducer
from kstreams_assign.events import RunningEvent, TransactionAbortedEvent
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, count
from tests.worker.many_rebalances import UNWANTED, rebalance
from tests.worker.outputs import committed_outputs, each_once
from tests.worker.transacting import SETTINGS, Process

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]

PATIENT = {**SETTINGS, "session_timeout_ms": 30_000}
"""For workers that no test kills: a busy machine is no reason to lose the membership."""


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-"), tmp_path)
    yield app
    app.stop()


def assert_each_once(app: App) -> None:
    app.until_counted(read_committed=True)
    assert committed_outputs(app) == each_once(app)


def test_totals_are_exact_and_nothing_is_aborted_while_workers_come_and_go(app: App) -> None:
    app.send(WORDS)
    first = app.start(1, **PATIENT)
    first.until_running(PARTITIONS)
    second = app.start(2, **PATIENT)
    app.send(WORDS)
    second.until_running(PARTITIONS // 2)
    app.send(WORDS)
    second.stop()
    first.until_running(PARTITIONS)
    assert_each_once(app)
    assert not first.reported(TransactionAbortedEvent) + second.reported(TransactionAbortedEvent)


@dataclass
class Scene:
    """An application whose first worker stops or dies in its first commit, and that worker's successor."""

    app: App
    first: Process
    successor: Running


SCENES = {
    # what becomes of the first worker, and where -> the state directory of the one that comes after it
    ("killed", "offsets-sent"): 2,  # with another id: it waits until the broker has aborted the open transaction
    ("killed", "committed"): 2,
    ("killed, then restarted", "offsets-sent"): 1,  # with the same id: it aborts the open transaction itself
    ("asleep", "begun"): 2,
    ("asleep", "offsets-sent"): 2,
}


@pytest.fixture(scope="module")
def scenes(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Scene]]:
    """All of them side by side: what takes time is that sessions and transactions run out."""
    with ExitStack() as stack:
        apps = {
            at: App(broker, re.sub(r"[^a-z0-9]+", "-", "-".join(at)), tmp_path_factory.mktemp("scene")) for at in SCENES
        }
        firsts = {}
        for at, app in apps.items():
            stack.callback(app.stop)
            app.send(WORDS)
            firsts[at] = stack.enter_context(Process(broker, app.name, app.folder / "state-1", at[1]))
        for (fate, _), first in firsts.items():
            first.until_stopped()
            if fate != "asleep":
                first.kill()
        yield {at: Scene(app, firsts[at], app.start(SCENES[at], **SETTINGS)) for at, app in apps.items()}


@pytest.mark.parametrize("at", [at for at in SCENES if at[0] != "asleep"], ids="-".join)
def test_a_worker_killed_in_a_commit_leaves_nothing_twice_and_nothing_out(
    scenes: dict[tuple[str, str], Scene], at: tuple[str, str]
) -> None:
    scenes[at].app.send(WORDS)
    assert_each_once(scenes[at].app)


@pytest.mark.parametrize("at", [at for at in SCENES if at[0] == "asleep"], ids="-".join)
def test_a_worker_that_slept_past_its_session_writes_nothing_that_counts(
    scenes: dict[tuple[str, str], Scene], at: tuple[str, str]
) -> None:
    scene = scenes[at]
    scene.successor.until_event(RunningEvent)
    scene.app.send(WORDS)
    scene.first.wake()
    scene.first.until_event("lost")
    assert_each_once(scene.app)


def test_a_worker_that_was_fenced_before_its_last_commit_closes_without_an_error(app: App) -> None:
    worked = threading.Event()

    def count_and_report(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        worked.set()

    first = app.start(1, count_and_report, **PATIENT, commit_interval_ms=3_600_000)
    first.until_running(PARTITIONS)
    app.send(WORDS)
    assert worked.wait(PATIENCE_S)
    name = f"{app.name}-{first.worker.process_id}"
    with closing(TransactionalProducer(app.broker, group_id=app.name, transactional_id=name)) as another:
        another.prepare(PATIENCE_S)
        first.stop()
    assert first.error is None
    app.start(2, **PATIENT)
    assert_each_once(app)


def test_ten_rebalances_without_a_fault_abort_nothing(app: App) -> None:
    """``python -m tests.worker.many_rebalances`` does the same a hundred times and more."""
    facts = rebalance(app, 10, 200, **PATIENT)
    assert facts["rebalances"] >= 10
    assert {kind.name: facts[kind.name] for kind in UNWANTED} == {kind.name: 0 for kind in UNWANTED}
    assert facts["exact"]
