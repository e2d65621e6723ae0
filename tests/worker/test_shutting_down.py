"""A member asks the whole application to shut down: every member, Java's or ours, commits and ends with an error.

Java: ``StreamsUncaughtExceptionHandler`` and ``StreamsPartitionAssignor`` (``assign``, ``onAssignment``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from kstreams_assign import Assignment, CommitDue, Config, GroupMember, SubtopologyShape
from kstreams_assign.adapters.confluent import CommittedOffsets
from kstreams_assign.errors import ConfigError, ShutdownRequested
from kstreams_assign.events import AdoptedEvent
from kstreams_assign.model import TopicPartition
from kstreams_assign.worker.group_member import GroupEvent
from tests.worker.app import PARTITIONS, App

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield app
    app.stop()


@pytest.mark.parametrize("asking", [0, 1], ids=["the-leader", "a-follower"])
def test_all_members_commit_and_end_for_either_requester(app: App, asking: int) -> None:
    app.send(WORDS)
    members = [app.start(1)]
    members[0].until_running(PARTITIONS)
    members.append(app.start(2))
    for member in members:
        member.until_running(PARTITIONS // 2)
    app.until_counted()
    app.send(WORDS)
    app.until_counted()
    members[asking].worker.shut_application_down()
    for member in members:
        assert isinstance(member.until_error(), ShutdownRequested)
        member.join()
        assert member.reported(AdoptedEvent)[-1].left, "tasks were let go in order"
    committed = CommittedOffsets(app.broker, {}, group_id=app.name, stable=False)
    offsets = committed.read([TopicPartition(app.name, p) for p in range(PARTITIONS)], 60)
    committed.close()
    assert sum(offsets.values()) == 2 * len(WORDS), "what was done is committed"


def test_a_group_member_hears_of_it_as_an_assignment_without_tasks_and_then_as_an_error(app: App) -> None:
    config = Config(application_id=app.name, bootstrap_servers=app.broker, session_timeout_ms=30_000)
    had_tasks: list[bool] = []

    def obey(event: GroupEvent | None) -> None:
        if isinstance(event, CommitDue):
            member.ready_to_join()
        if isinstance(event, Assignment):
            had_tasks.append(bool(event.active))
            member.let_go()
            if event.active:
                member.shut_application_down()

    with GroupMember(config, [SubtopologyShape((app.name,))], uuid4()) as member:
        while len(had_tasks) < 2:
            obey(member.poll(1))
        with pytest.raises(ShutdownRequested):
            member.poll(60)
    assert had_tasks == [True, False]


def test_members_that_cannot_ask_for_it_refuse(app: App) -> None:
    running = app.start(1, user_data="kip441")
    with pytest.raises(ConfigError, match="user_data = 'kip441'"):
        running.worker.shut_application_down()
