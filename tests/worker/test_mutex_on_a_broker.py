"""The lag-report mutex on a real broker: several members of one process over one state directory, and its cleaner.

A ``Worker`` has a directory, a mutex and one member for itself. Its parts allow more: memberships that share all three,
as threads of a Java process do. No member processes records; an assigned task is locked and makes a folder.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from kafka.admin import KafkaAdminClient, MemberToRemove

from kstreams_assign import Assignment, CommitDue, GroupMember
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.config import Config
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.worker.connecting import group_client
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.membership import Membership
from kstreams_assign.worker.predecessors import PredecessorCleanup

PARTITIONS = 4
PATIENCE_S = 60
STRANGER = TaskId(0, 99)  # dormant state that no member will be assigned


class Process:
    """What members share, and a clock of the mutex that a test can move."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.config = Config(
            application_id=name, bootstrap_servers=servers, state_dir=str(folder), session_timeout_ms=30_000
        )
        self.shape = TopologyShape((SubtopologyShape((name,), (Store("totals"),)),))
        self.admin = ClusterAdmin(servers)
        self.committed = CommittedOffsets(servers, None, group_id=name)
        self.admin.create_topics({name: PARTITIONS}, PATIENCE_S)
        self.ahead_ms = 0
        self.hold_ms = hold_limit_ms(self.config.max_poll_interval_ms)
        self.directory = StateDirectory(folder, name, clock_ms=monotonic_ms)
        self.mutex = ReportMutex(clock_ms=lambda: monotonic_ms() + self.ahead_ms, hold_ms=self.hold_ms)
        self.sums = OffsetSums()
        self.cleaner = Cleaner(self.directory, self.mutex, self.sums, state_cleanup_delay_ms=0)
        self.news = threading.Condition()
        self.members: list[Member] = []

    def member(self) -> Member:
        self.members.append(Member(self))
        return self.members[-1]

    def leave_dormant(self, task: TaskId) -> None:
        self.directory.lock_task(task).mkdir(exist_ok=True)
        self.sums.dormant(task, {TopicPartition("x", task.partition): 7})
        self.directory.release_task(task)

    def until(self, met: Callable[[], object]) -> None:
        """Wait for a condition, and look again at intervals: not every change is reported."""
        deadline = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < deadline, [(member.state, member.error) for member in self.members]
            with self.news:
                self.news.wait(0.02)

    def close(self) -> None:
        for member in self.members:
            member.answers.set()
        for member in self.members:
            member.close()
        self.directory.close()
        self.committed.close()


class Sums(OffsetSums):
    """A member's table: what it owns is its own, what is dormant is the process's. As one table for all, each member
    would claim the others' tasks, and the leader would hand them to and fro without end."""

    def __init__(self, dormant: OffsetSums) -> None:
        super().__init__()
        self._dormant = dormant

    def lock(self, task: TaskId) -> None:
        self._dormant.forget(task)
        self.running(task)

    def put_down(self, task: TaskId) -> None:
        self._dormant.dormant(task, {TopicPartition("x", task.partition): 7})
        self.forget(task)

    def report(self, *, owned_only: bool) -> dict[TaskId, int]:
        return {**self._dormant.report(owned_only=owned_only), **super().report(owned_only=True)}


class Member:
    """A membership with a thread for its orders. ``answers`` cleared: a commit that was asked for is not done yet."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.sums = Sums(process.sums)
        self.tasks: set[TaskId] = set()
        self.lost = self.adoptions = 0
        self.missing: list[TaskId] = []
        self.error: BaseException | None = None
        self.answers = threading.Event()
        self.answers.set()
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        config, shape, identity = process.config, process.shape, process.directory.process_id
        log = EventLog(str(identity), lambda _event: self._tell())
        self.membership = Membership(
            config,
            shape,
            identity,
            self,
            Leading(config, shape, identity, process.admin, process.committed, log),
            self.sums,
            process.mutex,
            log,
            lambda membership: group_client(config, shape, process.admin, membership),
            lambda _generation, _adopted, _standing: None,
            lambda: None,
            PredecessorCleanup(config, None, log),
        )
        self.threads = [threading.Thread(target=work) for work in (self._run, self._obey)]
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        self.membership.close()
        self._orders.put(self._drop)
        self._orders.put(None)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        self.membership.leave(5)

    @property
    def state(self) -> machine.State:
        return self.membership.view().state

    @property
    def reporting(self) -> bool:
        return self.membership in self.process.mutex.state.reporting

    turned_ms = None

    def commit_now(self) -> None:
        self._orders.put(self._commit)

    def adopt(self, _generation: int, adopted: Adopted) -> None:
        self._orders.put(partial(self._adopt, set(adopted.active)))

    def drop_all(self, _reason: str, _then: Callable[[], None] | None = None) -> None:
        self._orders.put(self._drop)

    def _run(self) -> None:
        try:
            self.membership.run()
        except BaseException as error:  # noqa: BLE001  # the test reads it
            self.error = error
        self._tell()

    def _obey(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
            self._tell()

    def _tell(self) -> None:
        with self.process.news:
            self.process.news.notify_all()

    def _commit(self) -> None:
        assert self.answers.wait(PATIENCE_S)
        self.membership.handle(machine.WorkCommitted())

    def _adopt(self, given: set[TaskId]) -> None:
        promised = self.process.sums.report(owned_only=False)
        for task in sorted(given - self.tasks):
            folder = self.process.directory.lock_task(task)
            if task in promised and self.reporting and not folder.exists():
                self.missing.append(task)
            folder.mkdir(exist_ok=True)
            self.sums.lock(task)
        self._put_down(self.tasks - given)
        self.tasks = given
        self.adoptions += 1
        self.membership.handle(machine.TasksReleased())

    def _drop(self) -> None:
        self._put_down(self.tasks)
        self.tasks = set()
        self.lost += 1

    def _put_down(self, tasks: set[TaskId]) -> None:
        for task in tasks:
            self.sums.put_down(task)
            self.process.directory.release_task(task)


@pytest.fixture
def process(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Process]:
    process = Process(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:60], tmp_path)
    yield process
    process.close()


def both_at_work(process: Process) -> tuple[Member, Member]:
    first, second = process.member(), process.member()
    process.until(lambda: len(first.tasks) == len(second.tasks) == PARTITIONS // 2 and at_rest(process))
    return first, second


def at_rest(process: Process) -> bool:
    states = [member.state for member in process.members]
    return all(s in (machine.State.STABLE, machine.State.CLOSED) for s in states) and not process.mutex.state.reporting


def a_join_that_waits(process: Process) -> tuple[Member, Member]:
    """The first has sent its JoinGroup, and the broker waits for the second's, which is still to commit."""
    first, second = both_at_work(process)
    second.answers.clear()
    first.membership.rejoin("to have one pending")
    process.until(lambda: first.reporting and second.state is machine.State.PREPARING)
    return first, second


def test_members_that_share_a_directory_rebalance_again_and_again_beside_a_cleaner(process: Process) -> None:
    first, second = both_at_work(process)
    over, runs = threading.Event(), 0

    def clean() -> None:
        nonlocal runs
        while not over.wait(0.001):
            runs += process.cleaner.run() is not None

    cleaning = threading.Thread(target=clean)
    cleaning.start()
    for member in (first, second, first, second):
        before = first.adoptions, second.adoptions
        member.membership.rejoin("again")
        process.until(lambda seen=before: first.adoptions > seen[0] and second.adoptions > seen[1])
    process.until(lambda: first.state is second.state is machine.State.STABLE and runs)
    over.set()
    cleaning.join()
    assert (first.missing, second.missing, first.error, second.error) == ([], [], None, None)
    process.until(lambda: at_rest(process))
    process.leave_dormant(STRANGER)
    # Not at the first try, where a member reports once more because the cleaner ran during its last rebalance.
    process.until(lambda: process.cleaner.run() == [STRANGER])


def test_a_member_closed_in_the_midst_of_a_join_frees_the_mutex_for_the_process(process: Process) -> None:
    first, _ = a_join_that_waits(process)
    process.leave_dormant(STRANGER)
    assert process.cleaner.run() is None
    first.membership.close()
    assert process.cleaner.run() == [STRANGER]


def test_membership_lost_during_a_join_is_reported_and_the_mutex_becomes_free(process: Process) -> None:
    first, second = a_join_that_waits(process)
    admin = KafkaAdminClient(bootstrap_servers=process.config.bootstrap_servers)
    gone = MemberToRemove(member_id=first.membership._client.member_id())
    admin.remove_group_members(process.config.application_id, [gone])
    admin.close()
    process.until(lambda: first.lost)
    second.answers.set()
    process.until(lambda: len(first.tasks) + len(second.tasks) == PARTITIONS and first.tasks and at_rest(process))
    assert (first.missing, second.missing) == ([], [])
    process.until(lambda: process.cleaner.run() is not None)


def test_a_join_that_a_paused_broker_never_answers_holds_the_mutex_as_long_as_it_may(tmp_path: Path) -> None:
    with LocalBroker() as broker:
        process = Process(broker.bootstrap_servers, "paused", tmp_path)
        try:
            member = process.member()
            process.until(lambda: len(member.tasks) == PARTITIONS and at_rest(process))
            process.leave_dormant(STRANGER)
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                member.membership.rejoin("which no broker answers")
                process.until(lambda: member.reporting)
                assert process.cleaner.run() is None
                process.ahead_ms = process.hold_ms
                assert process.cleaner.run() == [STRANGER]
                assert not member.reporting
                before = member.adoptions
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            process.until(
                lambda: member.adoptions >= before + 2 and at_rest(process)
            )  # the answer, and the next report
            process.until(lambda: process.cleaner.run() == [])
        finally:
            process.close()


def test_a_program_that_keeps_state_itself_may_clean_between_rebalances_and_not_before_it_has_let_go(
    process: Process,
) -> None:
    with GroupMember(process.config, process.shape.subtopologies, uuid4()) as member:

        def hear(kind: type) -> None:
            process.until(lambda: isinstance(member.poll(0), kind))

        hear(Assignment)
        for _ in range(2):
            assert not member.try_clean(), "state that is not locked yet was reported to the leader"
            member.let_go()
            assert member.try_clean()
            assert not member.try_clean(), "one at a time"
            member.end_clean()
            member.rejoin("again")
            hear(CommitDue)
            member.ready_to_join()
            hear(Assignment)
