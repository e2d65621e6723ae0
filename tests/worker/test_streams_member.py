"""The shell of a member of a streams group, without brokers: epochs of commits, outages, damaged answers, leaving."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.engine import streams_events as events
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    CommitDeferred,
    CommitRefused,
    ConfigError,
    MalformedUserData,
)
from kstreams_assign.events import AwaitedTasksEvent, BrokerUnavailableEvent, Event, JoiningEvent, LostEvent
from kstreams_assign.group.member import MembershipLost, RejoinWanted, Started, TasksReleased, WorkCommitted
from kstreams_assign.group.values import Adopted, MemberId
from kstreams_assign.model import HostInfo, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.members import Members, Seat
from kstreams_assign.wire import StreamsHeartbeatRequest, StreamsHeartbeatResponse
from kstreams_assign.wire.streams_heartbeat import EndpointPartitions, EndpointTopic
from kstreams_assign.wire.streams_structs import Endpoint, TaskIds, TaskOffset
from kstreams_assign.worker.connecting import StreamsConnections
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.streams_member import StreamsMember

PROCESS = UUID(int=7)
SHAPE = TopologyShape((SubtopologyShape(("orders",)),))
AT = {TopicPartition("orders", 0): 5}
SECONDS = 20


def answer(epoch: int, *partitions: int, code: int = 0) -> StreamsHeartbeatResponse:
    rows = (TaskIds("0", partitions),) if partitions else ()
    return StreamsHeartbeatResponse(
        0, code, None, "", epoch, 5_000, 0, 0, active_tasks=rows, standby_tasks=(), warmup_tasks=()
    )


class Coordinator:
    """Answers heartbeats and commits in turn; a callable is called, an error raised, the last one repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []
        self.news = threading.Condition()

    def _next(self, asked: Any) -> Any:
        with self.news:
            self.sent.append(asked)
            self.news.notify_all()
            given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(given):
            given = given()
        if isinstance(given, Exception):
            raise given
        return given

    def heartbeat_version(self) -> int:
        return 1

    def heartbeat(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResponse:
        answered: StreamsHeartbeatResponse = self._next(request)
        return answered

    def commit(self, _group: str, member: MemberId, _offsets: Any, _metadata: Any) -> None:
        self._next(member)

    def describe(self, _group: str, _timeout_s: float) -> None:
        return None

    def until(self, count: int) -> None:
        with self.news:
            assert self.news.wait_for(lambda: len(self.sent) >= count, SECONDS), self.sent


class Loop:
    """The processing loop and the brokers' topics."""

    turned_ms: int | None = None

    def __init__(self) -> None:
        self.adopted: list[Adopted] = []
        self.dropped: list[str] = []
        self.news = threading.Condition()

    def adopt(self, _number: int, adopted: Adopted) -> None:
        with self.news:
            self.adopted.append(adopted)
            self.news.notify_all()

    def drop_all(self, reason: str, then: Callable[[], None]) -> None:
        with self.news:
            self.dropped.append(reason)
            self.then = then
            self.news.notify_all()

    def commit_now(self) -> None:
        raise AssertionError

    def partition_counts(self, _topics: Any, _timeout_s: float) -> dict[str, int]:
        return {"orders": 4}


class Scene:
    """A member, made when it is first needed."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = Config("app", "localhost:9092", group_protocol="streams", warm_join=False, **settings)
        self.members = Members(folder, PROCESS)
        self.loop = Loop()
        self.events: list[Event] = []
        self.drained = threading.Event()
        self.sums = OffsetSums()
        self.lags: dict[TaskId, int] = {}
        self.heartbeats, self.commits = Coordinator(answer(3, 0)), Coordinator(None)
        self._thread: threading.Thread | None = None

    def make(self) -> StreamsMember:
        connections = StreamsConnections(self.heartbeats, self.commits, ExitStack())  # type: ignore[arg-type]
        self.member = StreamsMember(
            self.config,
            SHAPE,
            PROCESS,
            self.loop,
            self.members,
            self.loop,  # type: ignore[arg-type]
            EventLog("me", self.events.append),
            connections,
            self.sums,
            lambda: self.lags,
            lambda: None,
            self.drained.set,
        )
        return self.member

    def joined(self) -> StreamsMember:
        """Return a member that has its first assignment; its thread runs."""
        member = self.make()
        self._thread = threading.Thread(target=member.run, daemon=True)
        self._thread.start()
        with self.loop.news:
            assert self.loop.news.wait_for(lambda: bool(self.loop.adopted), SECONDS)
        return member

    def close(self) -> None:
        if self._thread is not None:
            self.member.close()
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(**settings: Any) -> Scene:
        made.append(Scene(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


# --- commits ----------------------------------------------------------------------------


def test_a_commit_at_a_stale_epoch_waits_for_the_next_one(scene: Callable[..., Scene]) -> None:
    it = scene()
    heartbeat_is_due = threading.Event()
    it.heartbeats = Coordinator(answer(3, 0), lambda: heartbeat_is_due.wait(SECONDS) and answer(4, 0))
    member = it.joined()
    it.heartbeats.until(2)

    def stale() -> CommitDeferred:
        heartbeat_is_due.set()
        return CommitDeferred("stale")

    it.commits.answers = [stale, None]
    member.commit(AT, SECONDS, {})
    assert [each.generation for each in it.commits.sent] == [3, 4]


def test_a_commit_whose_epoch_stays_stale_is_deferred(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    it.commits.answers = [CommitDeferred("stale")]
    with pytest.raises(CommitDeferred):
        member.commit(AT, 0.1, {})
    assert len(it.commits.sent) == 1


def test_a_commit_ends_with_the_membership_in_which_it_began(scene: Callable[..., Scene]) -> None:
    """In the next membership its tasks may be those of another member."""
    it = scene()
    it.heartbeats = Coordinator(answer(3, 0), answer(3, 0), answer(5, 0))
    member = it.joined()

    def lost() -> CommitDeferred:
        member.handle(MembershipLost("a commit was refused"))
        it.loop.then()
        it.heartbeats.until(3)
        return CommitDeferred("stale")

    it.commits.answers = [lost, None]
    with pytest.raises(CommitRefused):
        member.commit(AT, SECONDS, {})
    assert [each.generation for each in it.commits.sent] == [3]


def test_a_commit_for_one_epoch_is_not_made_in_another(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    epoch = member.transaction_member()
    member.commit(AT, SECONDS, {}, epoch)
    with pytest.raises(CommitRefused, match="epoch is over"):
        member.commit(AT, SECONDS, {}, MemberId(epoch.generation - 1, *epoch[1:]))
    assert [each.generation for each in it.commits.sent] == [3]


def test_a_commit_is_tried_again_while_brokers_do_not_answer_and_then_given_up(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    it.commits.answers = [BrokerUnavailable("gone"), BrokerUnavailable("gone"), None]
    member.commit(AT, SECONDS, {})
    assert len(it.commits.sent) == 3
    it.commits.answers = [BrokerUnavailable("gone")]
    with pytest.raises(BrokerUnavailable):
        member.commit(AT, 0.1, {})


def test_who_is_no_member_commits_nothing_and_has_no_lease(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.make()
    assert not member.joined()
    assert member.lease_left_s() == 0.0
    for ask in (member.member, member.transaction_member, lambda: member.commit(AT, 1.0, {})):
        with pytest.raises(CommitRefused):
            ask()
    assert it.commits.sent == []


def test_while_an_answer_is_missing_the_membership_is_uncertain(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.make()
    member.handle(Started())
    member._beat()
    with pytest.raises(CommitDeferred):
        member.member()
    member.handle(events.Answered(answer(3, 0)))
    assert member.member() == member.transaction_member() == MemberId(3, member._member_id, None)
    assert 0 < member.lease_left_s() <= it.config.session_timeout_ms / 1000


# --- what was restored before the join ---------------------------------------------------------


@pytest.mark.parametrize("awaited", [frozenset(), frozenset({TaskId(0, 0)})], ids=["none", "one"])
def test_state_is_kept_warm_until_no_task_is_awaited_any_more(
    scene: Callable[..., Scene], awaited: frozenset[TaskId]
) -> None:
    it = scene()
    member, prepared = it.make(), frozenset({TaskId(0, 0), TaskId(0, 1)})
    member._assignments.warm_up(prepared)
    member.handle(events.TasksAwaited(awaited))
    member.handle(Started())
    member._beat()
    assert it.loop.adopted[-1].warmup == prepared
    member.handle(events.Answered(answer(3, 0)))
    member._assignments.turn()
    assert (it.loop.adopted[-1].active.keys(), it.loop.adopted[-1].warmup) == ({TaskId(0, 0)}, frozenset())
    reported = [event.awaited for event in it.events if isinstance(event, AwaitedTasksEvent)]
    assert reported == ([("0_0",)] if awaited else [])


# --- outages ------------------------------------------------------------------------------


def test_damaged_answers_and_outages_are_reported_once_and_the_member_goes_on(scene: Callable[..., Scene]) -> None:
    it = scene()
    broken = [BrokerUnavailable("gone"), MalformedUserData("damaged"), BrokerUnavailable("gone")]
    it.heartbeats = Coordinator(*broken, answer(3, 0))
    member = it.joined()
    assert member.joined()
    (outage,) = [event for event in it.events if isinstance(event, BrokerUnavailableEvent)]
    assert outage.reason == "gone"
    assert not it.member.view().outage, "it is over"


def test_a_final_refusal_ends_the_member_with_its_meaning(scene: Callable[..., Scene]) -> None:
    it = scene()
    it.heartbeats = Coordinator(answer(0, code=35))
    with pytest.raises(ConfigError, match="the brokers have no streams groups"):
        it.make().run()


def test_a_lost_membership_drops_everything_and_is_joined_again(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    it.heartbeats.until(2)
    member.handle(MembershipLost("a commit was refused"))
    assert (it.loop.dropped, member.losses) == (["a commit was refused"], 1)
    assert len(it.heartbeats.sent) == 2, "it joins once the loop has dropped the tasks"
    it.loop.then()
    it.heartbeats.until(3)
    with it.loop.news:
        assert it.loop.news.wait_for(lambda: len(it.loop.adopted) == 2, SECONDS)
    joins = [event.reason for event in it.events if isinstance(event, JoiningEvent)]
    assert joins == ["first join", "it lost its place in the group"]
    assert not any(isinstance(event, LostEvent) for event in it.events), "the loop reports it"


def test_a_first_join_that_is_repeated_is_still_the_first(scene: Callable[..., Scene]) -> None:
    it = scene()
    it.heartbeats = Coordinator(answer(0, code=14), BrokerUnavailable("gone"), answer(3, 0))
    it.joined()
    assert {event.reason for event in it.events if isinstance(event, JoiningEvent)} == {"first join"}


def test_what_concerns_classic_members_alone_changes_nothing(scene: Callable[..., Scene]) -> None:
    member = scene().make()
    for event in (RejoinWanted("why"), WorkCommitted()):
        member.handle(event)
    assert not member.joined()


# --- who it is, and how it leaves --------------------------------------------------------------


def test_the_member_id_of_the_last_process_here_is_kept(scene: Callable[..., Scene], tmp_path: Path) -> None:
    before = str(uuid4())
    Members(tmp_path, PROCESS).joined(Seat(before, None))
    assert scene().make()._member_id == before
    assert scene().make()._member_id == before


@pytest.mark.parametrize("seat", [Seat("app-1-consumer", None), Seat(str(uuid4()), "static")])
def test_a_member_id_of_a_classic_group_is_not_kept(scene: Callable[..., Scene], tmp_path: Path, seat: Seat) -> None:
    Members(tmp_path, PROCESS).joined(seat)
    mine = scene().make()._member_id
    assert mine != seat.member_id
    assert str(UUID(mine)) == mine


def test_a_static_member_has_the_id_of_the_last_process_with_its_instance(
    scene: Callable[..., Scene], tmp_path: Path
) -> None:
    before = str(uuid4())
    Members(tmp_path, PROCESS).joined(Seat(before, "i-1"))
    assert scene(group_instance_id="i-1").make()._member_id == before
    assert scene(group_instance_id="i-2").make()._member_id != before


def test_a_static_member_reports_its_instance_with_heartbeats_and_commits(scene: Callable[..., Scene]) -> None:
    it = scene(group_instance_id="i-1")
    member = it.joined()
    assert it.heartbeats.sent[0].instance_id == "i-1"
    member.commit(AT, SECONDS, {})
    assert it.commits.sent[-1] == MemberId(3, member._member_id, "i-1")


@pytest.mark.parametrize(
    ("settings", "asked", "operation", "epoch"),
    [
        ({}, None, None, -2),
        ({}, "restart", None, -2),
        ({"scheduled_rebalance_max_delay_ms": 0}, "restart", None, -2),
        ({}, "drain", None, -1),
        ({}, "drain", "remain_in_group", -2),
        ({"group_membership_operation": "leave_group"}, None, None, -1),
        ({"group_membership_operation": "leave_group"}, None, "default", -2),
        ({}, None, "leave_group", -1),
    ],
)
def test_a_static_member_says_whether_it_comes_back(
    scene: Callable[..., Scene], settings: dict[str, Any], asked: str | None, operation: str | None, epoch: int
) -> None:
    it = scene(group_instance_id="i-1", **settings)
    member = it.joined()
    if asked == "restart":
        member.announce_restart()
    elif asked == "drain":
        member.drain()
    it.close()
    it.heartbeats.sent.clear()
    it.heartbeats.answers = [answer(-1)]
    member.leave(SECONDS, operation)
    assert [(request.member_epoch, request.instance_id) for request in it.heartbeats.sent] == [(epoch, "i-1")]


@pytest.mark.parametrize(("settings", "epochs"), [({"group_instance_id": "i-1"}, [-2, -1]), ({}, [-1])])
def test_a_member_that_drains_during_a_stalled_call_leaves_before_the_call_returns(
    scene: Callable[..., Scene], settings: dict[str, Any], epochs: list[int]
) -> None:
    it = scene(**settings)
    member = it.joined()
    it.heartbeats.until(1)
    it.loop.turned_ms = monotonic_ms() - 2 * it.config.max_poll_interval_ms
    with it.loop.news:
        assert it.loop.news.wait_for(lambda: bool(it.loop.dropped), SECONDS)
    member.drain()
    assert it.drained.is_set()
    it.close()
    left = [request.member_epoch for request in it.heartbeats.sent if request.member_epoch < 0]
    assert left[: len(epochs)] == epochs
    assert set(left) == set(epochs)  # -1 again if the answer to the first came too late


def test_a_call_that_stalls_during_a_drain_ends_the_wait_for_warm_ups(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    with patch.object(member.leaving, "drain"):  # others warm the tasks up for as long as they like
        member.drain()
    assert not it.drained.is_set()
    it.loop.turned_ms = monotonic_ms() - 2 * it.config.max_poll_interval_ms
    assert it.drained.wait(SECONDS)
    assert it.loop.dropped


@pytest.mark.parametrize(
    ("settings", "restart", "operation", "leaves"),
    [
        ({}, False, None, True),
        ({}, True, None, False),
        ({"scheduled_rebalance_max_delay_ms": 0}, True, None, True),
        ({"group_membership_operation": "remain_in_group"}, False, None, False),
        ({}, False, "remain_in_group", False),
        ({}, True, "leave_group", True),
    ],
)
def test_it_leaves_unless_it_restarts_or_is_to_stay(
    scene: Callable[..., Scene], settings: dict[str, Any], restart: bool, operation: str | None, leaves: bool
) -> None:
    it = scene(**settings)
    member = it.joined()
    if restart:
        member.announce_restart()
        assert it.drained.is_set()
    it.close()
    it.heartbeats.sent.clear()
    it.heartbeats.answers = [BrokerUnavailable("gone"), answer(-1)]
    member.leave(SECONDS, operation)
    assert [request.member_epoch for request in it.heartbeats.sent] == ([-1, -1] if leaves else [])


def test_a_member_that_closes_keeps_its_place_until_it_leaves(scene: Callable[..., Scene]) -> None:
    it = scene()
    often = replace(answer(3, 0), heartbeat_interval_ms=10)
    it.heartbeats.answers = [often]
    member = it.joined()
    it.close()
    before, leaves = len(it.heartbeats.sent), threading.Event()
    keeping = threading.Thread(target=member.keep_place, args=(leaves,), daemon=True)
    keeping.start()
    it.heartbeats.until(before + 3)
    assert member.lease_left_s() > 0
    leaves.set()
    keeping.join(SECONDS)
    assert not keeping.is_alive()
    it.heartbeats.answers = [answer(-1)]
    member.leave(SECONDS)
    assert [request.member_epoch for request in it.heartbeats.sent[before:]] == [3] * (
        len(it.heartbeats.sent) - before - 1
    ) + [-1]


@pytest.mark.parametrize("refused", [answer(0, code=25), BrokerError("refused")], ids=["fenced", "refused"])
def test_a_member_that_loses_its_place_while_it_closes_stops_keeping_it(
    scene: Callable[..., Scene], refused: Any
) -> None:
    it = scene()
    it.heartbeats.answers = [replace(answer(3, 0), heartbeat_interval_ms=10)]
    member = it.joined()
    it.close()
    it.heartbeats.answers = [refused]
    member.keep_place(threading.Event())
    if isinstance(refused, BrokerError):
        return
    assert (len(it.loop.dropped), member.losses) == (1, 1)
    with pytest.raises(CommitRefused):
        member.commit(AT, SECONDS, {})


def test_who_never_joined_has_nothing_to_leave(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.make()
    member.close()
    member.leave(1.0)
    assert it.heartbeats.sent == []


def test_leaving_is_given_up_when_no_broker_answers(scene: Callable[..., Scene]) -> None:
    it = scene()
    member = it.joined()
    it.close()
    it.heartbeats.answers = [BrokerUnavailable("gone")]
    with pytest.raises(BrokerUnavailable):
        member.leave(0.2)


@pytest.mark.parametrize("code", [14, 15, 16])
def test_leaving_is_repeated_while_the_coordinator_moves(scene: Callable[..., Scene], code: int) -> None:
    it = scene()
    member = it.joined()
    it.close()
    it.heartbeats.sent.clear()
    it.heartbeats.answers = [answer(0, code=code), answer(-1)]
    member.leave(SECONDS)
    assert [request.member_epoch for request in it.heartbeats.sent] == [-1, -1]
    it.heartbeats.answers = [answer(0, code=code)]
    with pytest.raises(BrokerUnavailable, match=f"error code {code}"):
        member.leave(0.2)


def test_endpoints_and_roles_are_those_of_the_last_answer(scene: Callable[..., Scene]) -> None:
    it = scene()
    held = EndpointPartitions(Endpoint("there", 7070), (EndpointTopic("orders", (2, 3)),), ())
    it.heartbeats.answers = [replace(answer(3, 0), partitions_by_user_endpoint=(held,))]
    member = it.joined()
    there = HostInfo("there", 7070)
    orders = (TopicPartition("orders", 2), TopicPartition("orders", 3))
    assert member.hosts == ({there: orders}, {there: ()})
    assert member.roles() == {TaskId(0, 0): "active"}
    assert member.owns([TopicPartition("orders", 0)])
    assert (member.view().generation, member.generation, member.next_probe_ms) == (1, 1, None)
    shown = member.view().adopted
    assert shown is not None
    assert (shown.hosts, shown.standby_hosts) == member.hosts, "the status page has them, too"


def test_the_epoch_is_comparable_between_members_and_the_number_of_an_assignment_is_not(
    scene: Callable[..., Scene],
) -> None:
    it = scene()
    it.heartbeats.answers = [answer(7, 0)]
    member = it.make()
    assert (member.generation, member.group_generation) == (None, None)
    it.joined()
    it.heartbeats.answers = [answer(7, 0, 1)]
    it.member.handle(TasksReleased(1))
    with it.loop.news:
        assert it.loop.news.wait_for(lambda: len(it.loop.adopted) == 2, SECONDS)
    assert (it.member.generation, it.member.group_generation) == (2, 7)


def test_a_heartbeat_has_the_positions_of_standbys(scene: Callable[..., Scene]) -> None:
    it, standby = scene(), TaskId(0, 1)
    it.sums.restoring(standby, {TopicPartition("app-counts-changelog", 1): 40})
    it.lags[standby] = 2
    given = replace(answer(3), standby_tasks=(TaskIds("0", (1,)),))
    it.heartbeats = Coordinator(given, replace(answer(3), active_tasks=None, standby_tasks=None, warmup_tasks=None))
    member = it.joined()
    it.heartbeats.until(2)
    member.handle(TasksReleased(1))
    it.heartbeats.until(3)
    report = it.heartbeats.sent[2]
    assert (report.task_offsets, report.task_end_offsets) == ((TaskOffset("0", 1, 40),), (TaskOffset("0", 1, 42),))
