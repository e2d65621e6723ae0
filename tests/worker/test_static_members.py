"""Static members that come back: they keep their tasks without a rebalance; the leader's watch, and refused settings.

kafka-python joins with JoinGroup 7: a restarted static leader returns as a follower, and gets its old assignment.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kstreams_assign import Config, Record, Subtopology, Task
from kstreams_assign.events import AssignedEvent, DecisionEvent, JoiningEvent
from tests.worker.app import PARTITIONS, App, Running

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SETTINGS: Mapping[str, Any] = {
    "session_timeout_ms": 30_000,
    "acceptable_recovery_lag": 0,
    "early_probing": False,
}


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield app
    app.stop()


def static(app: App, number: int, **more: Any) -> Running:
    return app.start(number, group_instance_id=f"i-{number}", process_name=f"p-{number}", **{**SETTINGS, **more})


def two_at_work(app: App, **more: Any) -> tuple[Running, Running]:
    first, other = static(app, 1, **more), static(app, 2, **more)
    first.until_running(PARTITIONS // 2)
    other.until_running(PARTITIONS // 2)
    app.send(WORDS)  # not before: the member that joins second would have to warm up
    app.until_counted()
    return first, other


def test_a_static_member_comes_back_to_its_tasks_without_a_rebalance_and_asks_for_none(app: App) -> None:
    first, other = two_at_work(app)
    generation = other.reported(AssignedEvent)[-1].generation
    first.stop()
    restarted = static(app, 1)
    restarted.until_running(PARTITIONS // 2)
    assert [event.generation for event in restarted.reported(AssignedEvent)] == [generation]
    assert other.reported(AssignedEvent)[-1].generation == generation
    assert [event.reason for event in restarted.reported(JoiningEvent)] == ["first join"]


def test_whose_state_is_gone_asks_for_a_rebalance_so_that_a_warm_copy_may_take_over(app: App) -> None:
    first, _ = two_at_work(app, num_standby_replicas=1)
    mine = first.reported(AssignedEvent)[-1].active
    first.stop()
    shutil.rmtree(app.folder / "state-1")
    restarted = static(app, 1, num_standby_replicas=1)
    restarted.until(lambda events: len([event for event in events if isinstance(event, JoiningEvent)]) >= 2)
    reason = f"state here is too far behind for the old assignment: {', '.join(mine)}"
    assert [event.reason for event in restarted.reported(JoiningEvent)][:2] == ["first join", reason]
    restarted.until(lambda events: len([event for event in events if isinstance(event, AssignedEvent)]) >= 2)


def test_after_the_static_leader_was_restarted_a_topic_that_grows_is_noticed(app: App) -> None:
    def pass_on(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.emit(f"{app.name}-counts", record.key or b"", record.value)

    def start(number: int) -> Running:
        config = Config(
            application_id=app.name,
            bootstrap_servers=app.broker,
            state_dir=str(app.folder / f"state-{number}"),
            group_instance_id=f"i-{number}",
            session_timeout_ms=30_000,
            client={"topic.metadata.refresh.interval.ms": "1000"},
        )
        running = Running(config, [Subtopology(pass_on, sources=[app.name], sinks=[f"{app.name}-counts"])])
        app.workers.append(running)
        return running

    first = start(1)
    first.until_running(PARTITIONS)
    other = start(2)
    other.until_running(PARTITIONS // 2)
    first.stop()
    restarted = start(1)
    restarted.until_running(PARTITIONS // 2)
    assert not restarted.reported(DecisionEvent), "it came back as a follower"
    admin = AdminClient({"bootstrap.servers": app.broker})
    admin.create_partitions([NewPartitions(app.name, PARTITIONS + 2)])[app.name].result(60)
    for member in (restarted, other):
        member.until_running(PARTITIONS // 2 + 1)
    reasons = [event.reason for member in (restarted, other) for event in member.reported(JoiningEvent)]
    assert any(f"source topics have {PARTITIONS + 2} partitions" in reason for reason in reasons)
