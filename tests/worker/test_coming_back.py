"""Processes that are killed and come back before their session ends: no member waits for the dead one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kstreams_assign.adapters.kafka_python import remove_members
from kstreams_assign.events import AssignedEvent
from tests.worker.app import PARTITIONS, App
from tests.worker.process import Process

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SESSION_MS = 120_000  # no test waits for its end, and a busy machine starts a process in half of it
SETTINGS: Mapping[str, Any] = {
    "session_timeout_ms": SESSION_MS,
    "processing_guarantee": "exactly_once_v2",
}  # so that a kill repeats nothing
Start = Callable[..., Process]


@pytest.fixture
def start(app: App) -> Iterator[Start]:
    started: list[Process] = []

    def start_process(number: int, **settings: Any) -> Process:
        started.append(Process(app, number, **SETTINGS, **settings))
        return started[-1]

    yield start_process
    for process in started:
        process.kill()


def test_a_killed_process_that_comes_back_has_its_tasks_long_before_its_session_ends(app: App, start: Start) -> None:
    app.send(WORDS)
    first = start(1)
    first.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    first.kill()
    restarted = start(1)
    restarted.until_running(PARTITIONS)
    assert restarted.seconds < SESSION_MS / 1000 / 2
    assert len(restarted.named("predecessor_removed")) == 1
    app.send(WORDS)
    app.until_counted(read_committed=True)


def test_it_gets_its_own_tasks_back_in_one_rebalance_while_another_works_on(app: App, start: Start) -> None:
    app.send(WORDS)
    first, other = start(1), app.start(2, **SETTINGS)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.until_counted(read_committed=True)
    before, generation = first.named("assigned")[-1]["active"], other.reported(AssignedEvent)[-1].generation
    first.kill()
    restarted = start(1)
    restarted.until_running(PARTITIONS // 2)
    assert restarted.seconds < SESSION_MS / 1000 / 2
    assert [(e["generation"], e["active"]) for e in restarted.named("assigned")] == [(generation + 1, before)]
    app.send(WORDS)
    app.until_counted(read_committed=True)


def test_a_process_killed_again_and_again_removes_all_its_dead_members(app: App, start: Start) -> None:
    other = app.start(2, **SETTINGS)
    other.until_running(PARTITIONS)
    for _ in range(2):
        process = start(1)
        process.until(lambda events: any(e["event"] == "joining" for e in events))
        process.kill()
    last = start(1)
    last.until_running(PARTITIONS // 2)
    assert last.seconds < SESSION_MS / 1000 / 2


def test_a_process_on_a_copy_of_the_directory_leaves_the_living_one_in_the_group(app: App, start: Start) -> None:
    """As ``cp -r`` or a backup makes it: the copy has the same process id and the same list of members.

    The original hears late of the copy's join, which therefore waits for it, as it would for a dead member.
    """
    original = start(1, heartbeat_interval_ms=5_000)
    original.until_running(PARTITIONS)
    was, there = app.folder / "state-1" / app.name, app.folder / "state-2" / app.name
    there.mkdir(parents=True)
    for file in ("process", "members"):
        shutil.copy(was / file, there)
    copy = start(2)
    copy.until_running(PARTITIONS // 2)
    original.until_running(PARTITIONS // 2)
    assert (copy.named("predecessor_removed"), original.named("lost")) == ([], [])


def test_a_member_that_is_not_there_any_more_is_no_trouble(app: App) -> None:
    app.start(1).until_running(PARTITIONS)
    assert remove_members(app.broker, {}, app.name, [("who", None), (None, "what")], "a test", 60) == []
    assert remove_members(app.broker, {}, "no-such-group", [("who", None)], "a test", 60) == []
