"""The membership after close: it leaves or remains, dynamic or static, as the settings or the call say."""

from __future__ import annotations

from typing import Any

import pytest

from kstreams_assign.adapters.kafka_python import describes_groups
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import LeaveFailedEvent, PredecessorRemovedEvent
from tests.worker.app import PARTITIONS, App

SESSION: dict[str, Any] = {"session_timeout_ms": 60_000}
STATIC: dict[str, Any] = {**SESSION, "group_instance_id": "one"}


def members_of(app: App) -> int:
    with describes_groups(app.broker) as describer:
        group = describer.describe(app.name)
    return len(group.members) if group else 0


@pytest.mark.parametrize(
    ("settings", "said", "stays"),
    [
        (SESSION, None, 0),
        (STATIC, None, 1),
        ({**SESSION, "group_membership_operation": "remain_in_group"}, None, 1),
        ({**STATIC, "group_membership_operation": "leave_group"}, None, 0),
        (SESSION, "remain_in_group", 1),
        (STATIC, "leave_group", 0),
    ],
    ids=["dynamic", "static", "dynamic-set-to-remain", "static-set-to-leave", "asked-to-remain", "asked-to-leave"],
)
def test_a_closed_member_leaves_or_remains(app: App, settings: dict[str, Any], said: str | None, stays: int) -> None:
    running = app.start(1, **settings)
    running.until_running(PARTITIONS)
    running.worker.close(said)
    running.join()
    assert members_of(app) == stays
    assert not running.reported(LeaveFailedEvent)


def test_a_member_that_remained_returns_to_its_tasks_without_waiting_for_itself(app: App) -> None:
    app.start(1, **SESSION, group_membership_operation="remain_in_group").until_running(PARTITIONS)
    app.workers.pop().stop()
    restarted = app.start(1, **SESSION)
    restarted.until_running(PARTITIONS)
    assert len(restarted.reported(PredecessorRemovedEvent)) == 1


def test_a_member_closed_while_a_rebalance_waits_for_another_leaves_at_once(app: App) -> None:
    app.start(1, **SESSION, group_membership_operation="remain_in_group").until_running(PARTITIONS)
    app.workers.pop().stop()
    waiting = app.start(2, **SESSION)
    waiting.until(lambda _: members_of(app) == 2)
    waiting.stop()
    assert members_of(app) == 1
    assert not waiting.reported(LeaveFailedEvent)


def test_a_static_member_that_was_drained_leaves(app: App) -> None:
    app.start(1, **SESSION).until_running(PARTITIONS)
    drained = app.start(2, **STATIC)
    drained.until_running(PARTITIONS // 2)
    drained.worker.drain()
    drained.join()
    assert members_of(app) == 1


def test_an_unknown_operation_is_refused_and_ends_nothing(app: App) -> None:
    running = app.start(1)
    with pytest.raises(ConfigError, match=r"group_membership_operation = 'go'.*remain_in_group"):
        running.worker.close("go")
    running.until_running(PARTITIONS)
