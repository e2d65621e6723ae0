"""A member of a streams group, one event after another: what each heartbeat carries, and what each answer asks for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kstreams_assign.engine import streams_events as events
from kstreams_assign.engine import streams_membership as engine
from kstreams_assign.engine.streams_awaited import AWAITING_INTERVAL_MS, AWAITING_MS
from kstreams_assign.engine.streams_events import StreamsTasks
from kstreams_assign.engine.streams_membership import State, StreamsMembership
from kstreams_assign.errors import (
    BrokerError,
    ConfigError,
    InstanceFenced,
    MalformedUserData,
    ShutdownRequested,
    TopologyMismatch,
)
from kstreams_assign.group.member import CloseAsked, DropAll, MembershipLost, TasksReleased
from kstreams_assign.model import HostInfo, TaskId
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
    EndpointPartitions,
    GroupStatus,
    StreamsTopology,
)
from kstreams_assign.wire.streams_structs import Endpoint, TaskIds

TOPOLOGY = StreamsTopology(0, ())
PROFILE = engine.Profile("app", "me", "process", TOPOLOGY, 300_000, HostInfo("here", 7071), {"zone": "a"}, "rack-1")
INTERVAL_MS = 5_000


def rows(*partitions: int) -> tuple[TaskIds, ...]:
    return (TaskIds("0", partitions),) if partitions else ()


def tasks(*partitions: int) -> StreamsTasks:
    return StreamsTasks(frozenset(TaskId(0, partition) for partition in partitions))


def answer(epoch: int, *partitions: int, lists: bool = True, **fields: Any) -> events.Answered:
    response = StreamsHeartbeatResponse(0, 0, None, "me", epoch, INTERVAL_MS, 0, 0, **fields)
    if lists:
        response = replace(response, active_tasks=rows(*partitions), standby_tasks=(), warmup_tasks=())
    return events.Answered(response)


def refusal(code: int) -> events.Answered:
    return events.Answered(StreamsHeartbeatResponse(0, code, "because", "", 0, 0, 0, 0))


class Member:
    """The machine with a clock that the test moves."""

    def __init__(self, profile: engine.Profile = PROFILE) -> None:
        self.machine = StreamsMembership(profile)
        self.now_ms = 1_000
        self.handle(events.Started())

    def handle(self, event: events.Event) -> list[events.Effect]:
        return self.machine.handle(event, self.now_ms)

    def beat(self) -> StreamsHeartbeatRequest:
        """Go on to when a heartbeat is due, and return it."""
        due_ms = self.machine.due_ms()
        assert due_ms is not None
        self.now_ms = max(self.now_ms, due_ms)
        (effect,) = self.handle(events.HeartbeatDue())
        assert isinstance(effect, events.SendHeartbeat)
        return effect.request


def joined(*partitions: int) -> Member:
    """A member at epoch 3 that owns these tasks, and has reported so."""
    member = Member()
    member.beat()
    member.handle(answer(3, *partitions))
    member.handle(TasksReleased(1))
    member.beat()
    member.handle(answer(3, lists=False))
    assert member.machine.owned == tasks(*partitions)
    return member


def test_a_join_carries_everything_and_no_tasks() -> None:
    member = Member()
    assert member.beat() == StreamsHeartbeatRequest(
        "app",
        "me",
        0,
        endpoint_information_epoch=-1,
        rack_id="rack-1",
        rebalance_timeout_ms=300_000,
        topology=TOPOLOGY,
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="process",
        user_endpoint=Endpoint("here", 7071),
        client_tags={"zone": "a"},
    )
    assert member.machine.due_ms() is None, "one heartbeat at a time"


def test_tasks_are_adopted_then_reported_then_nothing_is_repeated() -> None:
    member = Member()
    member.beat()
    assert member.handle(answer(3, 0, 1)) == [events.AdoptTasks(1, 3, tasks(0, 1))]
    assert member.machine.owned == tasks()
    assert member.machine.assigned == tasks(0, 1)
    member.handle(TasksReleased(1))
    assert member.beat() == StreamsHeartbeatRequest(
        "app", "me", 3, active_tasks=rows(0, 1), standby_tasks=(), warmup_tasks=()
    )
    sent_ms = member.now_ms
    member.handle(answer(3, lists=False))
    assert member.machine.due_ms() == sent_ms + INTERVAL_MS
    assert member.beat() == StreamsHeartbeatRequest("app", "me", 3)


def test_a_revoked_task_is_reported_until_it_is_released() -> None:
    member = joined(0, 1)
    member.beat()
    assert member.handle(answer(3, 0)) == [events.AdoptTasks(2, 3, tasks(0))]
    assert member.beat().active_tasks is None, "unchanged"
    member.handle(answer(3, lists=False))
    member.handle(TasksReleased(1))  # an older one's
    assert member.machine.owned == tasks(0, 1)
    member.handle(TasksReleased(2))
    assert member.machine.due_ms() == member.now_ms, "another member may wait for it"
    assert member.beat().active_tasks == rows(0)


def test_an_assignment_that_comes_during_another_one_waits() -> None:
    member = joined(0)
    member.beat()
    member.handle(answer(4, 0, 1))
    member.beat()
    assert member.handle(answer(4, 0, 1, 2)) == []
    assert member.handle(TasksReleased(2)) == [events.AdoptTasks(3, 4, tasks(0, 1, 2))]


def test_an_assignment_that_waits_is_reported_with_those_before_it() -> None:
    """It may be adopted while the report is under way; a report without it would let the coordinator give it on."""
    member = joined(0)
    member.beat()
    member.handle(answer(4, 0, 1))
    assert member.beat().active_tasks == rows(0, 1)
    member.handle(answer(5, 0, 1, 2))
    report = member.beat()
    assert report.active_tasks == rows(0, 1, 2)
    (adopted,) = member.handle(TasksReleased(2))
    assert isinstance(adopted, events.AdoptTasks)
    assert adopted.tasks == tasks(0, 1, 2)


def test_an_assignment_that_is_taken_back_before_it_is_adopted_is_reported() -> None:
    member = joined(0)
    member.beat()
    member.handle(answer(4, 0, 1))
    member.beat()
    member.handle(answer(4, 0, 1, 2))
    member.beat()
    member.handle(answer(4, 0, 1))
    assert member.handle(TasksReleased(2)) == []
    assert member.beat().active_tasks == rows(0, 1)


@pytest.mark.parametrize("code", [25, 69, 110])
def test_a_fenced_member_gives_up_all_and_then_joins_at_once(code: int) -> None:
    """Under the epoch of another membership the brokers would accept commits of tasks that are not dropped yet."""
    member = joined(0)
    member.beat()
    (dropped,) = member.handle(refusal(code))
    assert isinstance(dropped, DropAll)
    assert member.machine.lease.answered_ms is None
    assert (member.machine.state, member.machine.due_ms()) == (State.FENCED, None)
    assert member.handle(events.TasksDropped()) == []
    assert member.machine.due_ms() == member.now_ms
    again = member.beat()
    assert (again.member_id, again.member_epoch, again.topology, again.active_tasks) == ("me", 0, TOPOLOGY, ())
    assert member.handle(TasksReleased(1)) == []
    assert member.machine.owned == tasks()


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_moves_is_asked_again_after_a_moment(code: int) -> None:
    member = joined(0)
    waits = []
    for _ in range(6):
        member.beat()
        assert member.handle(refusal(code)) == []
        due_ms = member.machine.due_ms()
        assert due_ms is not None
        waits.append(due_ms - member.now_ms)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    full = member.beat()
    assert (full.member_epoch, full.active_tasks, full.process_id, full.topology) == (3, rows(0), "process", None)
    assert member.machine.owned == tasks(0)


def test_after_a_lost_answer_the_assignment_is_looked_up() -> None:
    member = joined(0)
    member.beat()
    member.handle(events.Unanswered())
    member.beat()
    assert member.handle(answer(4, lists=False)) == [events.LookUpAssignment()]
    assert member.machine.due_ms() is None
    member.handle(events.LookupFailed())
    member.beat()
    assert member.handle(answer(4, lists=False)) == [events.LookUpAssignment()]
    assert member.handle(events.AssignmentFound(3, tasks(7))) == [], "of another epoch"
    member.beat()
    assert member.handle(answer(4, lists=False)) == [events.LookUpAssignment()]
    assert member.handle(events.AssignmentFound(4, tasks(0, 1))) == [events.AdoptTasks(2, 4, tasks(0, 1))]
    member.handle(TasksReleased(2))
    member.beat()
    assert member.handle(answer(4, lists=False)) == []


@pytest.mark.parametrize("again", [refusal(16), refusal(25), events.Unanswered()], ids=["moved", "fenced", "lost"])
def test_hosts_are_asked_for_with_every_field_as_their_epochs_may_begin_again(again: events.Event) -> None:
    """The coordinator sends them only where its epoch differs, and counts from 0 after a move to another broker."""
    member = Member()
    assert member.beat().endpoint_information_epoch == -1
    hosts = (EndpointPartitions(Endpoint("there", 7070), (), ()),)
    member.handle(answer(3, endpoint_information_epoch=0, partitions_by_user_endpoint=hosts))
    assert member.machine.hosts == hosts
    assert member.beat().endpoint_information_epoch == 0
    member.handle(again)
    member.handle(events.TasksDropped())
    assert member.beat().endpoint_information_epoch == -1
    member.handle(answer(3, endpoint_information_epoch=0, partitions_by_user_endpoint=()))
    assert member.beat().endpoint_information_epoch == 0
    assert member.machine.hosts == ()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (29, BrokerError, "TOPIC_AUTHORIZATION_FAILED"),
        (30, BrokerError, "GROUP_AUTHORIZATION_FAILED"),
        (35, ConfigError, "streams.version"),
        (42, ConfigError, "INVALID_REQUEST"),
        (69, ConfigError, "application_id"),
        (82, InstanceFenced, "group_instance_id"),
        (130, TopologyMismatch, "STREAMS_INVALID_TOPOLOGY"),
        (131, TopologyMismatch, "another topology"),
        (132, TopologyMismatch, "another topology"),
        (-1, BrokerError, "error code -1"),
    ],
)
def test_a_final_refusal_is_one_error(code: int, kind: type[Exception], words: str) -> None:
    member = Member()
    member.beat()
    (end,) = member.handle(refusal(code))
    assert isinstance(end, events.EndMembership)
    assert type(end.cause) is kind
    assert words in str(end.cause)
    assert str(end.cause).endswith("(because)")
    assert member.machine.due_ms() is None


def test_a_status_is_announced_when_it_changes() -> None:
    missing = (GroupStatus(MISSING_SOURCE_TOPICS, "in"),)
    member = Member()
    member.beat()
    assert member.handle(answer(1, status=missing)) == [events.AnnounceStatus(missing)]
    for status, announced in ((missing, []), (None, []), ((), [events.AnnounceStatus(())])):
        member.beat()
        assert member.handle(answer(1, lists=False, status=status)) == announced


@pytest.mark.parametrize(
    ("code", "kind"), [(SHUTDOWN_APPLICATION, ShutdownRequested), (INCORRECTLY_PARTITIONED_TOPICS, TopologyMismatch)]
)
def test_a_status_that_ends_the_member(code: int, kind: type[Exception]) -> None:
    member = joined(0)
    member.beat()
    _, end = member.handle(answer(3, 0, 1, status=(GroupStatus(code, "in"),)))
    assert isinstance(end, events.EndMembership)
    assert type(end.cause) is kind
    assert member.machine.epoch == 3, "what runs is committed under it"


def test_shutdown_is_asked_for_at_once_and_until_it_is_answered() -> None:
    member = joined(0)
    member.handle(events.ShutdownAsked())
    assert member.machine.due_ms() == member.now_ms
    assert member.beat().shutdown_application
    member.handle(events.Unanswered())
    assert member.beat().shutdown_application
    member.handle(answer(3, 0))
    assert not member.beat().shutdown_application


@pytest.mark.parametrize("event", [TasksReleased(2), events.ShutdownAsked(), events.TasksAwaited(tasks(9).active)])
def test_what_is_to_be_reported_at_once_follows_the_heartbeat_that_is_under_way(event: events.Event) -> None:
    member = joined(0, 1)
    member.beat()
    member.handle(answer(4, 0))
    member.beat()
    assert member.handle(event) == []
    assert member.machine.due_ms() is None, "one heartbeat at a time"
    member.now_ms += 10
    assert member.handle(answer(4, lists=False)) == []
    due_ms = member.machine.due_ms()
    assert due_ms is not None
    assert due_ms <= member.now_ms
    request = member.beat()
    assert request.shutdown_application == isinstance(event, events.ShutdownAsked)
    assert request.active_tasks == (rows(0) if isinstance(event, TasksReleased) else None)


def test_a_release_during_a_heartbeat_that_stays_unanswered_is_reported_after_a_moment() -> None:
    member = joined(0, 1)
    member.beat()
    member.handle(answer(4, 0))
    member.beat()
    member.handle(TasksReleased(2))
    member.handle(events.Unanswered())
    assert member.machine.due_ms() == member.now_ms + engine.BACKOFF_MS
    assert member.beat().active_tasks == rows(0)


def test_a_longer_interval_holds_from_the_heartbeat_on_that_was_answered_with_it() -> None:
    member = joined(0)
    member.beat()
    sent_ms = member.now_ms
    member.handle(events.Answered(replace(answer(3, lists=False).response, heartbeat_interval_ms=12_000)))
    assert member.machine.due_ms() == sent_ms + 12_000


def test_an_answer_for_a_member_that_left_is_followed_by_a_heartbeat_at_the_interval() -> None:
    member = joined(0)
    member.beat()
    sent_ms = member.now_ms
    assert member.handle(answer(-1, lists=False)) == []
    assert member.machine.due_ms() == sent_ms + INTERVAL_MS


def test_a_member_whose_function_stalls_leaves_and_comes_back() -> None:
    member = joined(0)
    leave, dropped = member.handle(events.CallStalled())
    assert leave == events.SendLeave(StreamsHeartbeatRequest("app", "me", -1))
    assert isinstance(dropped, DropAll)
    assert (member.machine.state, member.machine.due_ms()) == (State.STALLED, None)
    member.handle(events.CallReturned())
    assert (member.machine.state, member.machine.due_ms()) == (State.FENCED, None), "its tasks are not dropped yet"
    member.handle(events.TasksDropped())
    assert member.beat().member_epoch == 0


@pytest.mark.parametrize(("code", "leaves_again"), [(16, True), (None, True), (0, False), (25, False)])
def test_a_member_that_is_closed_during_a_stalled_call_leaves_unless_it_has_left(
    code: int | None, *, leaves_again: bool
) -> None:
    member = joined(0)
    member.handle(events.CallStalled())
    if code is not None:
        member.handle(events.LeaveAnswered(code))
    member.handle(CloseAsked())
    assert (member.machine.leaving_request() is not None) == leaves_again


@pytest.mark.parametrize(("code", "keeps_place"), [(0, True), (16, True), (None, True), (25, False), (82, False)])
def test_a_static_member_that_drains_during_a_stalled_call_gives_up_the_place_that_it_keeps(
    code: int | None, *, keeps_place: bool
) -> None:
    member = Member(replace(PROFILE, instance_id="one"))
    member.beat()
    member.handle(answer(3, 0))
    leave, _dropped = member.handle(events.CallStalled())
    assert leave == events.SendLeave(StreamsHeartbeatRequest("app", "me", -2, instance_id="one"))
    if code is not None:
        member.handle(events.LeaveAnswered(code))
    member.handle(CloseAsked())
    leaves_for_good = StreamsHeartbeatRequest("app", "me", -1, instance_id="one")
    assert member.machine.leaving_request(comes_back=False) == (leaves_for_good if keeps_place else None)


def test_a_fenced_member_whose_function_stalls_drops_its_tasks_once() -> None:
    member = joined(0)
    member.handle(MembershipLost("a commit was refused"))
    assert member.handle(events.CallStalled()) == [events.SendLeave(StreamsHeartbeatRequest("app", "me", -1))]
    member.handle(events.TasksDropped())
    assert (member.machine.state, member.machine.due_ms()) == (State.STALLED, None)
    member.handle(events.CallReturned())
    assert member.beat().member_epoch == 0


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_a_closed_member_leaves(instance: str | None, epoch: int) -> None:
    member = Member(replace(PROFILE, instance_id=instance))
    assert member.beat().instance_id == instance
    member.handle(CloseAsked())
    assert member.handle(answer(3, 0)) == [], "nothing more is adopted"
    assert member.machine.epoch == 3
    assert member.machine.leaving_request() == StreamsHeartbeatRequest("app", "me", epoch, instance_id=instance)


def test_a_member_that_closes_keeps_its_place_and_adopts_nothing_more() -> None:
    member = joined(0)
    sent_ms = member.machine.lease.answered_ms
    assert sent_ms is not None
    assert member.handle(CloseAsked()) == []
    assert member.machine.due_ms() == sent_ms + INTERVAL_MS
    assert member.beat() == StreamsHeartbeatRequest("app", "me", 3)
    assert member.handle(answer(4, 1, status=(GroupStatus(SHUTDOWN_APPLICATION, ""),))) == []
    assert member.machine.lease.answered_ms == member.now_ms == sent_ms + INTERVAL_MS
    assert (member.machine.epoch, member.machine.owned) == (4, tasks(0))
    assert member.handle(CloseAsked()) == []
    assert member.beat() == StreamsHeartbeatRequest("app", "me", 4)


def test_a_member_that_closes_while_it_adopts_reports_all_that_may_run_until_it_leaves() -> None:
    member = joined(0)
    member.beat()
    member.handle(answer(4, 1))
    member.handle(CloseAsked())
    assert member.beat().active_tasks == rows(0, 1)
    member.handle(answer(4, lists=False))
    assert member.handle(TasksReleased(2)) == []
    assert member.beat() == StreamsHeartbeatRequest("app", "me", 4)


@pytest.mark.parametrize("code", [25, 69, 82, 110])
def test_a_member_that_loses_its_place_while_it_closes_drops_its_tasks_and_does_not_join_again(code: int) -> None:
    member = joined(0)
    member.handle(CloseAsked())
    member.beat()
    (dropped,) = member.handle(refusal(code))
    assert isinstance(dropped, DropAll)
    assert (member.machine.epoch, member.machine.lease.answered_ms) == (0, None), "nothing is committed any more"
    assert member.handle(events.TasksDropped()) == []
    assert member.machine.due_ms() is None
    assert (member.machine.leaving_request() is None) == (code in {25, 69})


def test_a_member_that_is_refused_while_it_closes_sends_no_more_heartbeats() -> None:
    member = joined(0)
    member.handle(CloseAsked())
    member.beat()
    assert member.handle(refusal(30)) == []
    assert (member.machine.epoch, member.machine.due_ms()) == (3, None)


@pytest.mark.parametrize("missing", [refusal(16), events.Unanswered()], ids=["moved", "lost"])
def test_an_answer_that_is_missing_while_a_member_closes_is_made_up_for_by_the_next(missing: events.Event) -> None:
    member = joined(0)
    member.handle(CloseAsked())
    member.beat()
    member.handle(missing)
    assert not member.machine.is_certain
    assert member.beat().active_tasks == rows(0)
    assert member.handle(answer(4, lists=False)) == [], "its tasks are not looked up"
    assert member.machine.is_certain


def test_tasks_that_are_looked_up_when_a_member_closes_are_not_adopted() -> None:
    member = joined(0)
    member.beat()
    member.handle(events.Unanswered())
    member.beat()
    assert member.handle(answer(4, lists=False)) == [events.LookUpAssignment()]
    member.handle(CloseAsked())
    assert member.handle(events.AssignmentFound(4, tasks(0, 1))) == []
    assert member.beat().member_epoch == 4


def test_a_member_whose_function_stalls_while_it_closes_leaves_and_does_not_come_back() -> None:
    """Otherwise its heartbeats would keep its tasks from the others for as long as the call lasts."""
    member = joined(0)
    member.handle(CloseAsked())
    leave, dropped = member.handle(events.CallStalled())
    assert leave == events.SendLeave(StreamsHeartbeatRequest("app", "me", -1))
    assert isinstance(dropped, DropAll)
    member.handle(events.TasksDropped())
    member.handle(events.CallReturned())
    assert member.machine.due_ms() is None


def test_a_static_member_gives_up_the_place_that_a_killed_process_has_left_behind() -> None:
    member = Member(replace(PROFILE, instance_id="one"))
    comes_back = events.SendLeave(StreamsHeartbeatRequest("app", "me", -2, instance_id="one"))
    for _ in range(2):
        for _ in range(engine.RELEASES_MAX):
            member.beat()
            assert member.handle(refusal(111)) == [comes_back]
            member.handle(events.LeaveAnswered(0))
        join = member.beat()
        assert (join.member_epoch, join.topology) == (0, PROFILE.topology), "it reports everything again"
        member.handle(answer(3))
        member.handle(MembershipLost("a commit was refused"))
        member.handle(events.TasksDropped())
    for _ in range(engine.RELEASES_MAX):
        member.beat()
        member.handle(refusal(111))
        member.handle(events.LeaveAnswered(82))
    member.beat()
    (end,) = member.handle(refusal(111))
    assert isinstance(end, events.EndMembership), "another process has the place"


@pytest.mark.parametrize("lost", ["leave", "leave that meets no coordinator", "join"])
def test_a_static_member_whose_requests_are_lost_tries_until_it_has_its_place_back(lost: str) -> None:
    """It is refused because of itself: nothing says that another process has the place."""
    member = Member(replace(PROFILE, instance_id="one"))
    for _ in range(3 * engine.RELEASES_MAX):
        member.beat()
        (leave,) = member.handle(refusal(111))
        assert isinstance(leave, events.SendLeave)
        if lost == "leave that meets no coordinator":
            member.handle(events.LeaveAnswered(16))
        elif lost == "join":
            member.handle(events.LeaveAnswered(0))
            member.beat()
            member.handle(events.Unanswered())  # the coordinator has taken it in
    member.beat()
    member.handle(answer(3))
    assert member.machine.state is State.MEMBER


def test_a_static_member_that_does_not_come_back_leaves_as_a_dynamic_one() -> None:
    member = Member(replace(PROFILE, instance_id="one"))
    member.beat()
    member.handle(CloseAsked())
    assert member.machine.leaving_request(comes_back=False) == StreamsHeartbeatRequest(
        "app", "me", -1, instance_id="one"
    )


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (35, ConfigError, "need brokers of Kafka 4.4 or later"),
        (42, ConfigError, "need brokers of Kafka 4.4 or later"),
        (82, InstanceFenced, "another process has joined with it"),
    ],
)
def test_a_static_member_that_is_refused_names_its_instance(code: int, kind: type[Exception], words: str) -> None:
    member = Member(replace(PROFILE, instance_id="one"))
    member.beat()
    (end,) = member.handle(refusal(code))
    assert isinstance(end, events.EndMembership)
    assert type(end.cause) is kind
    assert re.search(f"group_instance_id = 'one': .*{words}", str(end.cause))


def test_a_member_whose_instance_another_process_has_drops_its_tasks_and_ends() -> None:
    member = Member(replace(PROFILE, instance_id="one"))
    member.beat()
    member.handle(answer(3, 0))
    member.handle(TasksReleased(1))
    member.beat()
    dropped, end = member.handle(refusal(82))
    assert isinstance(dropped, DropAll)
    assert isinstance(end, events.EndMembership)
    assert (member.machine.epoch, member.machine.state) == (0, State.CLOSED)
    assert member.handle(events.TasksDropped()) == []
    assert member.machine.due_ms() is None


def test_a_member_that_the_group_cannot_know_does_not_leave() -> None:
    member = Member()
    assert member.machine.leaving_request() is None
    member.beat()
    member.handle(events.Unanswered())  # but the coordinator may have taken it in
    assert member.machine.leaving_request() is not None
    member.beat()
    member.handle(refusal(25))
    assert member.machine.leaving_request() is None


def test_the_lease_counts_from_when_an_accepted_heartbeat_was_sent() -> None:
    member = Member()
    member.beat()
    sent_ms = member.now_ms
    member.now_ms += 400
    member.handle(answer(1))
    assert member.machine.lease.answered_ms == sent_ms


def test_an_answer_that_contradicts_itself_is_refused() -> None:
    member = Member()
    member.beat()
    response = replace(answer(1, 0).response, standby_tasks=None)
    (end,) = member.handle(events.Answered(response))
    assert isinstance(end, events.EndMembership)
    member = Member()
    member.beat()
    with pytest.raises(MalformedUserData, match="subtopology id"):
        member.handle(events.Answered(replace(answer(1).response, active_tasks=(TaskIds("x", (0,)),))))


def test_a_member_that_lost_its_membership_drops_everything_and_joins_again() -> None:
    member = joined(0, 1)
    assert member.handle(MembershipLost("a commit was refused")) == [DropAll("a commit was refused")]
    assert member.handle(MembershipLost("a commit was refused")) == [], "it has none to lose"
    member.handle(events.TasksDropped())
    request = member.beat()
    assert (request.member_epoch, request.topology, request.active_tasks) == (0, TOPOLOGY, ())


def test_an_answer_to_a_heartbeat_of_the_lost_membership_is_ignored() -> None:
    member = joined(0)
    member.beat()
    member.handle(MembershipLost("a commit was refused"))
    assert member.handle(answer(4, 0)) == []
    member.handle(events.TasksDropped())
    assert member.beat().member_epoch == 0


def test_a_member_that_is_closed_has_no_membership_to_lose() -> None:
    member = joined(0)
    member.handle(CloseAsked())
    assert member.handle(MembershipLost("a commit was refused")) == []


def test_the_epoch_is_certain_unless_an_answer_is_missing() -> None:
    member = joined(0)
    assert member.machine.is_certain
    member.beat()
    assert not member.machine.is_certain, "the answer may bring another"
    member.handle(events.Unanswered())
    assert not member.machine.is_certain
    member.beat()
    member.handle(answer(4, 0))
    assert member.machine.is_certain


def test_a_member_asks_often_while_it_awaits_tasks_and_says_when_they_have_come() -> None:
    member = Member()
    awaited = frozenset({TaskId(0, 1), TaskId(0, 2)})
    assert member.handle(events.TasksAwaited(awaited)) == []
    member.beat()
    (adopt,) = member.handle(answer(3, 1))
    assert isinstance(adopt, events.AdoptTasks)
    member.handle(TasksReleased(1))
    for _ in range(3):
        member.beat()
        assert member.handle(answer(3, lists=False)) == []
        assert member.machine.due_ms() == member.now_ms + AWAITING_INTERVAL_MS
    member.beat()
    ended, adopt = member.handle(answer(4, 1, 2))
    assert ended == events.AwaitingEnded(awaited, frozenset())
    member.handle(TasksReleased(2))
    member.beat()
    assert member.handle(answer(4, lists=False)) == []
    assert member.machine.due_ms() == member.now_ms + INTERVAL_MS


def test_a_member_that_awaits_no_task_says_so_with_the_first_answer() -> None:
    """What was restored before the join is not kept any longer."""
    member = Member()
    assert member.handle(events.TasksAwaited(frozenset())) == []
    member.beat()
    assert member.handle(answer(3)) == [events.AwaitingEnded(frozenset(), frozenset())]
    assert member.machine.due_ms() == member.now_ms
    member.beat()
    assert member.handle(answer(3, lists=False)) == []
    assert member.machine.due_ms() == member.now_ms + INTERVAL_MS


def test_tasks_that_do_not_come_are_awaited_for_a_bounded_time() -> None:
    member = Member()
    member.handle(events.TasksAwaited(frozenset({TaskId(0, 9)})))
    member.beat()
    member.handle(answer(3, 1))
    member.handle(TasksReleased(1))
    effects: list[events.Effect] = []
    began_ms = member.now_ms
    while not effects:
        member.beat()
        effects = member.handle(answer(3, lists=False))
    awaited = frozenset({TaskId(0, 9)})
    assert effects == [events.AwaitingEnded(awaited, awaited)]
    assert member.now_ms - began_ms == AWAITING_MS


def test_a_member_that_awaits_tasks_asks_for_them_at_once_and_awaits_more_beside_others() -> None:
    member = Member()
    first, more = frozenset({TaskId(0, 1)}), frozenset({TaskId(0, 2)})
    member.beat()
    member.handle(answer(3, 0))
    member.handle(TasksReleased(1))
    member.beat()
    member.handle(answer(3, lists=False))
    assert member.machine.due_ms() == member.now_ms + INTERVAL_MS
    member.now_ms += 7
    assert member.handle(events.TasksAwaited(first)) == []
    assert member.machine.due_ms() == member.now_ms
    member.handle(events.TasksAwaited(more))
    member.beat()
    assert member.handle(answer(3, lists=False)) == []
    member.beat()
    (ended, _) = member.handle(answer(4, 0, 1, 2))
    assert ended == events.AwaitingEnded(first | more, frozenset())
