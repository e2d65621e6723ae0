"""A member asks the whole application to shut down: every member, Java's or ours, commits and ends with an error.

Java: ``StreamsUncaughtExceptionHandler`` and ``StreamsPartitionAssignor`` (``assign``, ``onAssignment``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from kstreams_assign import Assignment, CommitDue, Config, GroupMember, SubtopologyShape
from kstreams_assign.adapters.confluent import CommittedOffsets
from kstreams_assign.errors import ConfigError, ShutdownRequested
from kstreams_assign.events import AdoptedEvent, AssignedEvent, Event, JoiningEvent, ShutdownRefusedEvent
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    AssignmentInfo,
    ConsumerAssignment,
    ConsumerSubscription,
    SubscriptionInfo,
    encode_assignment,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_subscription,
)
from kstreams_assign.worker.group_member import GroupEvent
from tests.worker.app import PARTITIONS, App, until
from tests.worker.malformed import raw_member

OLD = 8
"""The version of user-data of Kafka Streams 2.7."""
REFUSED = "a member of Kafka Streams before 2.8 is in the group"
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


def old_subscription(topic: str) -> bytes:
    user_data = encode_subscription(SubscriptionInfo(OLD, OLD, uuid4()))
    return encode_consumer_subscription(ConsumerSubscription(1, (topic,), user_data))


def speaks_old(events: Sequence[Event]) -> bool:
    """Return whether a member has joined in the old version: the first assignment in it has taken effect then."""
    versions = [event.version for event in events if isinstance(event, AssignedEvent)]
    return versions[-2:] == [OLD, OLD]


def test_a_worker_refuses_while_an_old_member_is_in_the_group(app: App) -> None:
    running = app.start(1)
    running.until_running(PARTITIONS)
    with raw_member(app.broker, app.name, app.name, old_subscription(app.name)) as old:
        until(lambda: bool(old.poll() or speaks_old(running.events)))
        joins = len(running.reported(JoiningEvent))
        with pytest.raises(ConfigError, match=REFUSED):
            running.worker.shut_application_down()
    running.until(lambda _: running.reported(AssignedEvent)[-1].version > OLD)
    running.until_running(PARTITIONS)
    assert all("shut down" not in joining.reason for joining in running.reported(JoiningEvent)[joins:])
    assert running.error is None


def test_a_group_member_refuses_while_an_old_member_is_in_the_group(app: App) -> None:
    config = Config(application_id=app.name, bootstrap_servers=app.broker, session_timeout_ms=30_000)
    events: list[Event] = []

    def answer() -> None:
        event = member.poll(0.05)
        if isinstance(event, CommitDue):
            member.ready_to_join()
        elif isinstance(event, Assignment):
            member.let_go()

    with (
        GroupMember(config, [SubtopologyShape((app.name,))], uuid4(), on_event=events.append) as member,
        raw_member(app.broker, app.name, app.name, old_subscription(app.name)) as old,
    ):
        until(lambda: bool(old.poll() or answer() or speaks_old(events)))
        with pytest.raises(ConfigError, match=REFUSED):
            member.shut_application_down()


def test_a_request_before_the_first_join_is_refused_by_an_event(app: App) -> None:
    """An old leader cannot read the report that carries it."""
    config = Config(application_id=app.name, bootstrap_servers=app.broker, session_timeout_ms=30_000)
    events: list[Event] = []
    answer = encode_consumer_assignment(ConsumerAssignment(1, (), encode_assignment(AssignmentInfo(OLD, OLD))))

    def refusals() -> list[ShutdownRefusedEvent]:
        return [event for event in events if isinstance(event, ShutdownRefusedEvent)]

    with raw_member(app.broker, app.name, app.name, old_subscription(app.name), answer) as leader:
        until(lambda: bool(leader.poll() or leader.user_data is not None))
        member = GroupMember(config, [SubtopologyShape((app.name,))], uuid4(), on_event=events.append)
        member.shut_application_down()
        with member:
            until(lambda: bool(leader.poll() or refusals()))
    (refused,) = refusals()
    assert REFUSED in refused.warnings[0]
