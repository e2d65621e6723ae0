"""Every end of a join releases the lag-report mutex: the real membership, with a client that a test drives.

The client acts as kafka-python 3.0.12 does: which call comes from where, and what it raises. The same on a broker, as
far as a broker can be made to do it: ``test_mutex_on_a_broker``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.kafka_python import GroupClient
from kstreams_assign.config import Config
from kstreams_assign.errors import (
    AssignmentRefused,
    BrokerUnavailable,
    ConfigError,
    InstanceFenced,
    MalformedUserData,
    TopologyMismatch,
)
from kstreams_assign.events import Event, JoiningEvent
from kstreams_assign.group import member as machine
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.group.values import Adopted, ErrorCode, JoinedMember, MemberAssignment
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.wire import AssignmentInfo, encode_assignment
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.membership import Membership
from kstreams_assign.worker.predecessors import PredecessorCleanup
from tests.adapters.confluent_cluster import closed_port

PROCESS = UUID(int=7)
SHAPE = TopologyShape((SubtopologyShape(("words",), (Store("totals"),)),))
RUNS, DORMANT = TaskId(0, 0), TaskId(0, 1)
INPUT, CHANGELOG = TopicPartition("words", 0), TopicPartition("app-totals-changelog", 1)
HOLD_MS = 60_000
PATIENCE_S = 60

Step = Callable[[Membership], object]


class Played:
    """A client whose joins are what the test says: each ``join`` carries out one step, on the membership's thread."""

    def __init__(self) -> None:
        self.steps: queue.SimpleQueue[Step] = queue.SimpleQueue()
        self.turned = threading.Event()
        self.membership: Membership

    def join(self, _timeout_s: float) -> bool:
        try:
            step = self.steps.get(timeout=0.02)
        except queue.Empty:
            return False
        step(self.membership)
        return True

    def beat(self, *, alive: bool) -> None:
        """A turn of the membership's thread."""
        assert alive
        self.turned.set()

    def needs_join(self) -> bool:
        return False

    def partition_counts(self) -> dict[str, int]:
        return {}

    def member_id(self) -> str:
        return "app-1"

    def request_rejoin(self) -> None:
        """The next ``join`` is asked for by its step."""


@dataclass
class Clock:
    now_ms: int = 0

    def __call__(self) -> int:
        return self.now_ms


class Case:
    """One membership, its threads, and its actions. As a leader it asks a broker that does not exist."""

    def __init__(self) -> None:
        self.clock, self.sums, self.client = Clock(), OffsetSums(), Played()
        self.mutex = ReportMutex(clock_ms=self.clock, hold_ms=HOLD_MS)
        self.sums.running(RUNS)
        self.sums.dormant(DORMANT, {CHANGELOG: 5})
        self.reports: list[Mapping[TaskId, int]] = []
        self.user_data = b""
        self.joins: list[str] = []
        self.dropped: list[str] = []
        self.drained = threading.Event()
        self.news = threading.Condition()
        self.error: BaseException | None = None
        config = Config(
            application_id="app",
            bootstrap_servers=(address := closed_port()),
            state_dir="unused",
            session_timeout_ms=1_500,  # of which a leader's look-ups take a third
        )
        log = EventLog(str(PROCESS), self.hear)
        committed = CommittedOffsets(address, None, group_id="app")
        self.membership = Membership(
            config,
            SHAPE,
            PROCESS,
            self,
            Leading(config, SHAPE, PROCESS, ClusterAdmin(address), committed, log),
            self.sums,
            self.mutex,
            log,
            self.connect,
            lambda _generation, _adopted, _standing: None,
            self.drained.set,
            PredecessorCleanup(config, None, log),
        )
        self.thread = threading.Thread(target=self.run)

    def connect(self, membership: Membership) -> GroupClient:
        self.client.membership = membership
        return cast("GroupClient", self.client)

    def run(self) -> None:
        try:
            self.membership.run()
        except BaseException as error:  # noqa: BLE001  # the test reads it
            self.error = error

    def hear(self, event: Event) -> None:
        with self.news:
            if isinstance(event, JoiningEvent):
                self.joins.append(event.reason)
            self.news.notify_all()

    def until_joining(self, reason: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: reason in self.joins, PATIENCE_S), self.joins

    # --- the tasks' side: everything at once -------------------------------------

    turned_ms = None

    def commit_now(self) -> None:
        self.membership.handle(machine.WorkCommitted())

    def adopt(self, _generation: int, _adopted: Adopted) -> None:
        """The folders would be locked now; ``let_go`` follows."""

    def drop_all(self, reason: str, _then: Callable[[], None] | None = None) -> None:
        self.dropped.append(reason)

    def let_go(self) -> None:
        self.membership.handle(machine.TasksReleased())

    # --- what the client does ------------------------------------------------------

    def play(self, step: Step) -> None:
        """Have the client do it within a join, and wait until it has."""
        done = threading.Event()

        def played(membership: Membership) -> None:
            try:
                step(membership)
            finally:
                done.set()

        self.client.steps.put(played)
        assert done.wait(PATIENCE_S)

    def report(self, membership: Membership | None = None) -> None:
        _, self.user_data = (membership or self.membership).subscription()
        report = APACHE.read_report(self.user_data)
        assert isinstance(report, MemberReport)
        self.reports.append(report.task_offset_sums)

    def decide(self, membership: Membership) -> MemberAssignment:
        """Elected: decide for the group, which is this member."""
        alone = JoinedMember("app-1", ("words",), (), self.user_data)
        given = membership.lead([alone], {"words": 2})["app-1"]
        assert given.partitions == (INPUT, TopicPartition("words", 1))
        return given

    def lead(self, membership: Membership) -> None:
        """Decide, and be given what was decided."""
        given = self.decide(membership)
        membership.assigned(1, given.partitions, given.user_data)

    @property
    def held(self) -> bool:
        return self.membership in self.mutex.state.reporting


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    case.thread.start()
    yield case
    case.membership.close()
    case.thread.join(PATIENCE_S)
    assert not case.thread.is_alive()
    assert not case.held, "whatever happened: closed and not held"


def info(**facts: Any) -> bytes:
    return encode_assignment(AssignmentInfo(version=11, commonly_supported_version=11, **facts))


def assign(membership: Membership) -> None:
    membership.assigned(1, [INPUT], info(active_tasks=(RUNS,)))


def test_it_is_held_from_the_report_until_the_tasks_are_locked(case: Case) -> None:
    case.play(case.report)
    assert case.held
    assert case.reports == [{RUNS: -2, DORMANT: 5}]
    case.play(assign)
    assert case.held
    case.let_go()
    assert not case.held


def test_a_join_tried_again_holds_it_once(case: Case) -> None:
    def unanswered(membership: Membership) -> None:
        case.report(membership)
        raise BrokerUnavailable("join the group: the coordinator moved")

    for _ in range(3):
        case.play(unanswered)
    assert case.held
    case.play(assign)
    case.let_go()
    assert not case.held


def test_an_assignment_that_the_client_refuses_is_reported_for_once_more(case: Case) -> None:
    case.play(case.report)  # "Cooperative assignment rejected": no on_assignment, and the client joins again
    case.play(case.report)
    assert case.held
    case.play(assign)
    case.let_go()
    assert not case.held


@pytest.mark.parametrize(
    ("partitions", "user_data", "error"),
    [
        ([], info(error_code=ErrorCode.ASSIGNMENT_ERROR), AssignmentRefused),
        ([TopicPartition("others", 0)], info(active_tasks=(RUNS,)), TopologyMismatch),
        ([], b"\0\0\0\x0b", MalformedUserData),
    ],
)
def test_an_assignment_that_cannot_be_taken_ends_the_member_and_frees_the_mutex(
    case: Case, partitions: list[TopicPartition], user_data: bytes, error: type[Exception]
) -> None:
    case.play(case.report)
    case.play(lambda membership: membership.assigned(1, partitions, user_data))
    case.thread.join(PATIENCE_S)
    assert isinstance(case.error, error)
    assert not case.held  # although the member is not closed


@pytest.mark.parametrize(
    ("error", "says", "dropped"),
    [
        (ConfigError("join the group: refused"), "join the group: refused", []),
        (ValueError("a bug in the client"), "a bug in the client", []),
        (
            InstanceFenced("join the group: fenced"),
            "another process has joined with it; each process needs its own",
            ["another process has joined with the same group_instance_id"],
        ),
    ],
)
def test_a_client_that_raises_after_the_report_ends_the_member_and_frees_the_mutex(
    case: Case, error: Exception, says: str, dropped: list[str]
) -> None:
    def broken(membership: Membership) -> None:
        case.report(membership)
        raise error

    case.play(broken)
    case.thread.join(PATIENCE_S)
    assert type(case.error) is type(error)
    assert says in str(case.error)
    assert case.dropped == dropped, "this process must not write the state of another"
    assert not case.held


def test_a_follower_elected_after_a_lost_sync_group_holds_it_until_what_it_gave_itself_is_locked(case: Case) -> None:
    case.play(case.report)  # as a follower; the leader is gone before its SyncGroup, and everybody joins again
    assert case.held
    case.play(case.report)
    case.play(case.lead)
    assert case.held
    assert not case.mutex.try_clean(), "the cleaner waits for the folders to be locked"
    case.let_go()
    assert not case.held
    assert case.mutex.try_clean()
    case.mutex.end_clean()


def test_a_leader_that_loses_its_sync_group_and_is_not_elected_again_does_not_lead(
    case: Case,
) -> None:
    case.play(case.report)
    case.play(case.decide)
    case.play(case.report)
    case.play(assign)
    assert not case.membership._engine.leads
    case.let_go()
    assert not case.held


def test_membership_lost_in_the_midst_of_a_join_goes_on_holding_for_a_report_that_may_be_on_its_way(case: Case) -> None:
    case.play(case.report)
    case.play(Membership.lost)
    assert case.held
    case.play(case.report)
    assert case.held
    case.play(assign)
    case.let_go()
    assert not case.held


def test_a_member_closed_in_the_midst_of_a_join_lets_go_and_a_late_try_of_the_client_does_not_take_it(
    case: Case,
) -> None:
    def closed_meanwhile(membership: Membership) -> None:
        case.report(membership)
        membership.close()
        case.report(membership)  # the client tries once more, on a loop of its own
        assign(membership)

    case.play(closed_meanwhile)
    assert not case.held
    assert case.reports[-1] == {}  # and no promise was made that could not be kept
    assert case.mutex.try_clean()


def test_a_member_closed_before_its_first_join_never_takes_it() -> None:
    case = Case()
    case.membership.close()
    case.run()
    case.report()
    assert (case.held, case.error, case.joins) == (False, None, [])


def test_a_member_that_drained_lets_go(case: Case) -> None:
    case.play(case.report)
    case.play(assign)
    case.let_go()
    case.membership.drain()
    case.until_joining("draining: this member wants to leave")
    case.play(case.report)
    assert case.held
    case.play(lambda membership: membership.assigned(2, [], info()))
    assert case.drained.wait(PATIENCE_S)
    case.let_go()
    assert not case.held


def test_what_the_cleaner_kept_from_a_report_is_reported_when_it_is_through_and_not_before(case: Case) -> None:
    assert case.mutex.try_clean()
    case.play(case.report)
    assert case.reports == [{}]
    case.play(assign)
    case.let_go()
    for _ in range(3):  # three turns of the membership's thread
        turned = threading.Event()
        case.client.turned = turned
        assert turned.wait(PATIENCE_S)
    assert case.joins == ["first join"], "no storm of rebalances while the cleaner runs"
    case.mutex.end_clean()
    case.until_joining("the cleaner ran during the last rebalance")
    case.play(case.report)
    assert case.reports[-1] == {RUNS: -2, DORMANT: 5}
    case.play(assign)
    case.let_go()
    assert not case.held


def test_while_the_cleaner_runs_only_that_is_reported_which_stays_locked(case: Case) -> None:
    """A lost member's task is dormant as soon as it is closed, and the next run of the cleaner may delete it."""
    case.play(case.report)
    case.play(assign)
    case.let_go()
    assert case.mutex.try_clean()
    case.membership.rejoin("a member joined")
    case.until_joining("a member joined")
    case.play(case.report)
    assert case.reports[-1] == {RUNS: -2}
    case.play(Membership.lost)
    case.play(case.report)
    assert case.reports[-1] == {}


def test_a_join_that_is_never_answered_lets_the_cleaner_in_and_reports_again_once_it_is(case: Case) -> None:
    case.play(case.report)
    case.clock.now_ms += HOLD_MS
    assert case.mutex.try_clean()
    case.sums.forget(DORMANT)  # it took the folder that was reported to the leader
    case.mutex.end_clean()
    case.play(assign)
    case.let_go()
    case.until_joining("the cleaner ran during the last rebalance")
    case.play(case.report)
    assert case.reports[-1] == {RUNS: -2}


def test_a_listener_that_waits_for_another_caller_holds_up_no_member() -> None:
    """The member reports events without its lock; with it, two threads would wait for each other."""
    case = Case()
    listened: list[bool] = []

    def listen(_event: Event) -> None:
        calls = threading.Thread(target=lambda: case.membership.rejoin("from elsewhere"), daemon=True)
        calls.start()
        calls.join(PATIENCE_S)
        listened.append(not calls.is_alive())

    case.membership._log._listener = listen
    case.membership.handle(machine.Started())
    case.membership.close()
    assert listened == [True]
