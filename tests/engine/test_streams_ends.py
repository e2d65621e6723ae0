"""A member of a streams group that an answer ends keeps its place while its tasks run, are committed and closed.

Kafka's client does so, too: a status of the group ends the application's thread, and heartbeats go on until it leaves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.engine import streams_events as events
from kstreams_assign.errors import BrokerError, KStreamsAssignError, ShutdownRequested, TopologyMismatch
from kstreams_assign.group.member import CloseAsked, DropAll, TasksReleased
from kstreams_assign.wire import StreamsHeartbeatRequest
from kstreams_assign.wire.streams_heartbeat import INCORRECTLY_PARTITIONED_TOPICS, SHUTDOWN_APPLICATION, GroupStatus
from tests.engine.test_streams_membership import INTERVAL_MS, Member, answer, joined, refusal, rows, tasks

SHUTDOWN = answer(4, 1, status=(GroupStatus(SHUTDOWN_APPLICATION, "in"),))
WRONG_TOPICS = answer(4, 1, status=(GroupStatus(INCORRECTLY_PARTITIONED_TOPICS, "in"),))
UNREADABLE = events.Answered(replace(answer(4, 1).response, standby_tasks=None))
ends = pytest.mark.parametrize(
    ("last", "kind"),
    [(SHUTDOWN, ShutdownRequested), (WRONG_TOPICS, TopologyMismatch), (UNREADABLE, BrokerError)],
    ids=["shutdown", "wrong-topics", "unreadable"],
)


def ended(member: Member, last: events.Answered) -> KStreamsAssignError:
    """Have the member hear the answer that ends it; return the error."""
    member.beat()
    *announced, end = member.handle(last)
    assert all(isinstance(effect, events.AnnounceStatus) for effect in announced)
    assert isinstance(end, events.EndMembership)
    return end.cause


@ends
def test_a_member_that_an_answer_ends_sends_heartbeats_until_it_leaves(
    last: events.Answered, kind: type[Exception]
) -> None:
    member = joined(0)
    assert type(ended(member, last)) is kind
    for _ in range(3):
        sent_ms = member.machine.lease.answered_ms
        assert sent_ms is not None
        assert member.beat() == StreamsHeartbeatRequest("app", "me", 4)
        assert member.now_ms == sent_ms + INTERVAL_MS
        assert member.handle(last) == [], "it has ended, and adopts nothing more"
        assert member.machine.lease.answered_ms == member.now_ms
    assert member.machine.owned == tasks(0)
    assert member.handle(CloseAsked()) == []
    assert member.beat().member_epoch == 4, "its tasks are being closed"
    assert member.machine.leaving_request() == StreamsHeartbeatRequest("app", "me", -1)


@ends
def test_a_member_that_an_answer_ends_while_it_adopts_reports_all_that_may_run(
    last: events.Answered, kind: type[Exception]
) -> None:
    member = joined(0)
    member.beat()
    member.handle(answer(4, 1))
    assert type(ended(member, last)) is kind
    assert member.handle(TasksReleased(2)) == []
    member.beat()
    member.handle(events.Unanswered())
    assert member.beat().active_tasks == rows(0, 1)


@ends
def test_what_runs_is_committed_under_the_epoch_of_the_answer_that_ends_the_member(
    last: events.Answered, kind: type[Exception]
) -> None:
    member = joined(0)
    member.beat()
    member.handle(events.Unanswered())
    assert not member.machine.is_certain
    assert type(ended(member, last)) is kind
    assert (member.machine.epoch, member.machine.is_certain) == (4, True)


@ends
@pytest.mark.parametrize("code", [25, 69, 82, 110])
def test_a_member_that_loses_its_place_after_its_end_drops_its_tasks_and_does_not_join_again(
    code: int, last: events.Answered, kind: type[Exception]
) -> None:
    member = joined(0)
    assert type(ended(member, last)) is kind
    member.beat()
    (dropped,) = member.handle(refusal(code))
    assert isinstance(dropped, DropAll)
    assert member.handle(events.TasksDropped()) == []
    assert member.machine.due_ms() is None


def test_a_member_that_is_refused_for_good_sends_no_more_heartbeats() -> None:
    """The coordinator refuses them: they would not keep its place."""
    member = joined(0)
    assert isinstance(ended(member, refusal(30)), BrokerError)
    assert member.machine.due_ms() is None


def test_a_member_that_asks_all_to_end_and_is_closed_before_a_heartbeat_says_so_says_it_as_it_leaves() -> None:
    member = joined(0)
    assert not member.beat().shutdown_application
    member.handle(events.ShutdownAsked())
    member.handle(CloseAsked())
    assert member.machine.leaving_request() == StreamsHeartbeatRequest("app", "me", -1, shutdown_application=True)


def test_a_request_that_a_heartbeat_has_made_is_repeated_by_the_leave_unless_it_was_answered() -> None:
    member = joined(0)
    member.handle(events.ShutdownAsked())
    assert member.beat().shutdown_application
    member.handle(CloseAsked())
    assert member.machine.leaving_request() == StreamsHeartbeatRequest("app", "me", -1, shutdown_application=True)
    member.handle(answer(4, lists=False))
    assert member.machine.leaving_request() == StreamsHeartbeatRequest("app", "me", -1)
