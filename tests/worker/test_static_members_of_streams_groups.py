"""Static members of streams groups on brokers of Kafka 4.4: their tasks wait for them; 4.3.1 refuses them by name."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kstreams_assign import GroupMember, Store, SubtopologyShape
from kstreams_assign.adapters.kafka_python import streams_coordinator
from kstreams_assign.errors import ConfigError, InstanceFenced
from kstreams_assign.events import AssignedEvent, ClosedEvent, LostEvent, RunningEvent, StalledEvent, WarmJoinEvent
from tests.worker.app import PARTITIONS, PATIENCE_S, App, Running, count_and_hang, until
from tests.worker.own_loop import OwnLoop, settings_of
from tests.worker.process import Process
from tests.worker.streams_settings import set_group
from tests.worker.test_streams_group_on_a_broker import SESSION_MS, SHORT_MS, STREAMS, WORDS, active

GUARANTEE = {"processing_guarantee": "exactly_once_v2", "acceptable_recovery_lag": 0}


@pytest.fixture
def app(newer_broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(newer_broker, "static-" + re.sub(r"[^a-z0-9]+", "-", request.node.name)[-56:].strip("-"), tmp_path)
    set_group(newer_broker, app.name, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500)
    yield app
    app.stop()


def settings(number: int, **more: Any) -> dict[str, Any]:
    return {**STREAMS, **GUARANTEE, "group_instance_id": f"i-{number}", **more}


def static(app: App, number: int, **more: Any) -> Running:
    return app.start(number, **settings(number, **more))


def two_at_work(app: App, **more: Any) -> tuple[Running, Running]:
    app.send(WORDS)
    first, other = static(app, 1, **more), static(app, 2, **more)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.until_committed()
    return first, other


def instances(app: App) -> Mapping[str | None, int]:
    """Return the epoch of each member, by its instance id."""
    with streams_coordinator(app.broker, {}, PATIENCE_S) as coordinator:
        group = coordinator.describe(app.name, PATIENCE_S)
    return {member.instance_id: member.member_epoch for member in group.members} if group else {}


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_the_tasks_of_a_static_member_wait_until_it_comes_back(app: App, disk: str) -> None:
    first, other = two_at_work(app)
    before, seen = active(first), len(other.reported(AssignedEvent))
    first.stop()
    assert instances(app).keys() == {"i-1", "i-2"}
    assert instances(app)["i-1"] < 0, "it has said that it comes back"
    if disk == "lost":
        shutil.rmtree(app.folder / "state-1")
    app.send(WORDS)
    back = static(app, 1)
    back.until_running(PARTITIONS // 2)
    reason = "the group still has the static member i-1"
    assert [event.reason for event in back.reported(WarmJoinEvent)] == [reason]
    assert active(back) == before
    restored = [event.restored for event in back.reported(RunningEvent)]
    if disk == "kept":
        assert max(restored) <= 1, "the marker of the last transaction at most"
    else:
        assert min(restored) > 1
    app.until_counted(read_committed=True)
    assert len(other.reported(AssignedEvent)) == seen, "no task of the other has moved"
    assert not other.reported(LostEvent)


def test_a_killed_static_member_comes_back_to_its_tasks(app: App) -> None:
    app.send(WORDS)
    first = Process(app, 1, **settings(1))
    other = static(app, 2)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.until_committed()
    seen = len(other.reported(AssignedEvent))
    first.kill()
    back = static(app, 1)
    back.until_running(PARTITIONS // 2)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    assert len(other.reported(AssignedEvent)) == seen


def test_the_tasks_of_a_static_member_that_stays_away_move_when_its_session_ends(app: App) -> None:
    set_group(app.broker, app.name, session_timeout_ms=SHORT_MS)
    first, other = two_at_work(app, session_timeout_ms=SHORT_MS)
    first.stop()
    app.send(WORDS)
    other.until_running(PARTITIONS)
    app.until_counted(read_committed=True)


@pytest.mark.parametrize("how", ["drain", "leave_group"])
def test_a_static_member_that_drains_or_is_to_leave_leaves(app: App, how: str) -> None:
    first, other = two_at_work(app)
    if how == "drain":
        first.worker.drain()
        first.until_event(ClosedEvent)
    else:
        first.worker.close("leave_group")
    first.join()
    assert instances(app).keys() == {"i-2"}
    other.until_running(PARTITIONS)


def test_a_static_member_that_drains_during_a_stalled_call_gives_its_tasks_up_at_once(app: App) -> None:
    stuck, free = threading.Event(), threading.Event()
    slow = count_and_hang(stuck, free)
    set_group(app.broker, app.name, session_timeout_ms=60_000)
    limits = {"session_timeout_ms": 60_000, "max_poll_interval_ms": 6_000}
    first, other = app.start(1, slow, **settings(1, **limits)), static(app, 2, **limits)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.send(WORDS)
    assert stuck.wait(60)
    first.until_event(StalledEvent)
    assert instances(app).keys() == {"i-1", "i-2"}
    first.worker.drain()
    until(lambda: instances(app).keys() == {"i-2"}, 20)
    other.until_running(PARTITIONS)
    app.until_counted(read_committed=True)
    free.set()
    first.join()
    app.until_counted(read_committed=True)


def test_a_second_process_with_the_same_instance_is_refused_and_the_first_goes_on(app: App) -> None:
    app.send(WORDS)
    first = static(app, 1)
    first.until_running(PARTITIONS)
    second = app.start(2, **settings(1))
    error = second.until_error()
    assert isinstance(error, InstanceFenced)
    assert "group_instance_id = 'i-1': another process is a member with it" in str(error)
    app.send(WORDS)
    app.until_counted(read_committed=True)
    assert not first.reported(LostEvent)


def test_a_loop_of_ones_own_is_a_static_member_without_a_directory(app: App) -> None:
    config = settings_of(app.name, app.broker, group_instance_id="loop", acceptable_recovery_lag=0)
    app.send(WORDS)
    first = OwnLoop(config, app.name, "totals", 1)
    first.until_running(PARTITIONS)
    app.until_committed()
    first.stop()
    assert instances(app)["loop"] < 0
    back = OwnLoop(config, app.name, "totals", 1)
    back.until_running(PARTITIONS)
    assert back.assignments()[-1].active.keys() == first.assignments()[-1].active.keys()
    app.send(WORDS)
    app.until_counted()
    back.stop()


def test_brokers_before_4_4_are_named_before_anything_is_restored(broker: str) -> None:
    config = settings_of("static-refused", broker, group_instance_id="one")
    with pytest.raises(ConfigError, match=r"group_instance_id = 'one': .* need brokers of Kafka 4\.4 or later"):
        GroupMember(config, [SubtopologyShape(("words",), (Store("totals"),))], UUID(int=1))
