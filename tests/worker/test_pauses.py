"""``Pauses`` between requests, commits and restarts, beside a twin: what was asked last, and what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kstreams_assign import Config, TaskId, TaskNotLocal, TopicPartition
from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.pauses import RETRY_MS, PausedEnds, Pauses, Tasks, change_pauses
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

TASK, INPUTS = TaskId(0, 0), (TopicPartition("left", 0), TopicPartition("right", 0))
SHAPE = SubtopologyShape(("left", "right"))


class Reader:
    """Which partitions are read, and from where."""

    def __init__(self) -> None:
        self.read: dict[TopicPartition, int] = {}

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self.read.update(positions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.read.pop(partition, None)


class Bench:
    """One task of one process, with what the group has committed of it."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.reader = Reader()
        self.running: dict[TaskId, Running] = {}
        self.task_of: dict[TopicPartition, TaskId] = {}
        self.state = TaskState.RESTORING
        self.metadata = dict.fromkeys(INPUTS, "")
        self.under_way: tuple[Running, Mapping[TopicPartition, str]] | None = None
        labour = Functions([lambda _task, _records: None], Config(application_id="a", bootstrap_servers="b:1"))
        clocks = Clocks(lambda: self.now_ms, lambda: self.now_ms)
        self.pauses = Pauses(
            labour,
            self.reader,
            self.running,
            self.task_of,
            lambda: {} if self.state is TaskState.CLOSED else {TASK: self.state},
            1,
            EventLog("process", None),
            clocks,
        )

    @property
    def committed(self) -> PauseMark:
        return PauseMark.merged(PartitionTime(text).pause_mark for text in self.metadata.values())

    def run(self) -> None:
        if self.state is TaskState.RESTORING:
            times = {partition: PartitionTime(self.metadata[partition]) for partition in INPUTS}
            workspace = TaskWorkspace(TASK, SHAPE, {}, None, AtWork(0), times)
            self.running[TASK] = Running(workspace, InputOffsets(dict.fromkeys(INPUTS, 5)), times)
            self.state = TaskState.RUNNING
            self.pauses.begins(self.running[TASK])

    def fall_back(self) -> None:
        """As the loop does it for a task whose commit failed."""
        if self.running.pop(TASK, None) is not None:
            self.pauses.input_ends(TASK)
            self.reader.remove(INPUTS)
            self.task_of.clear()
            self.pauses.ends(TASK)
            self.state = TaskState.RESTORING

    def leave(self) -> None:
        if self.under_way is None:
            self.fall_back()
            self.state = TaskState.CLOSED
            self.pauses.turn()

    def come(self) -> None:
        if self.state is TaskState.CLOSED:
            self.state = TaskState.RESTORING

    def begin_commit(self) -> None:
        if self.under_way is None and TASK in self.running:
            self.pauses.commit_begins()
            if self.running[TASK].news:
                self.under_way = self.running[TASK], self.running[TASK].take().metadata

    def end_commit(self, end: CommitEnd) -> None:
        if self.under_way is None:
            return
        (running, metadata), self.under_way = self.under_way, None
        if end is CommitEnd.DONE:
            self.metadata |= metadata
        elif end is CommitEnd.FAILED:
            self.fall_back()
        else:
            running.offsets.defer(dict.fromkeys(INPUTS, 5))
        self.pauses.commit_ends(end)

    def wait(self) -> None:
        self.now_ms += RETRY_MS

    def do(self, step: str) -> None:
        """Take a step by its name: one of this class, the beginning of a commit, or one of its ends."""
        if step == "begin":
            self.begin_commit()
        elif step.upper() in CommitEnd.__members__:
            self.end_commit(CommitEnd[step.upper()])
        else:
            getattr(self, step)()

    def ask(self, *, paused: bool) -> Future[Tasks]:
        answer: Future[Tasks] = Future()
        self.pauses.ask(TASK, answer, paused=paused)
        return answer


ASKS = {"pause": True, "resume": False}
STEPS = [*ASKS, "begin", "done", "failed", "deferred", "run", "leave", "come", "wait"]


@example(["come", "run", "pause", "begin", "resume", "done"])
@example(["come", "run", "pause", "leave", "come", "run", "resume"])
@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_an_answer_means_that_it_is_committed_and_the_last_request_counts(steps: list[str]) -> None:
    bench = Bench()
    asked: list[tuple[bool, Future[Tasks]]] = []
    wanted = False
    for step in [*steps, "come", "run", "done", "run", "begin", "done"]:
        open_before = {answer for _, answer in asked if not answer.done()}
        if step in ASKS:
            answer = bench.ask(paused=ASKS[step])
            if not (answer.done() and answer.exception()):
                wanted = ASKS[step]
            asked.append((ASKS[step], answer))
            open_before.add(answer)
        else:
            bench.do(step)
        if bench.state is TaskState.CLOSED:
            wanted = bench.committed.is_paused  # what was not committed is answered with an error
            assert all(answer.done() for _, answer in asked)
        for paused, answer in asked:
            if answer in open_before and answer.done() and answer.exception() is None:
                assert bench.committed.is_paused == paused
        if TASK in bench.running:
            assert bench.running[TASK].paused == wanted
            assert (bench.pauses.paused != {}) == wanted
            assert bench.reader.read == ({} if wanted else dict.fromkeys(INPUTS, 5))
            assert bench.task_of.keys() == bench.reader.read.keys()
    assert bench.committed.is_paused == wanted
    assert all(answer.done() for _, answer in asked)


def test_a_commit_begins_at_once_and_again_after_a_while() -> None:
    bench = Bench()
    bench.run()
    assert not bench.pauses.want_commit
    bench.ask(paused=True)
    assert bench.pauses.want_commit
    bench.begin_commit()
    bench.end_commit(CommitEnd.DEFERRED)
    assert not bench.pauses.want_commit
    bench.now_ms += RETRY_MS
    assert bench.pauses.want_commit
    bench.begin_commit()
    bench.end_commit(CommitEnd.DONE)
    assert not bench.pauses.want_commit


def test_a_leaving_task_that_is_resumed_reads_nothing() -> None:
    bench = Bench()
    bench.run()
    bench.ask(paused=True)
    bench.pauses.input_ends(TASK)
    bench.ask(paused=False)
    assert bench.reader.read == {}


def test_the_opposite_request_answers_the_one_before() -> None:
    bench = Bench()
    bench.run()
    first = bench.ask(paused=True)
    bench.ask(paused=False)
    with pytest.raises(TaskNotLocal, match="task 0_0 was resumed by a later request"):
        first.result(0)


def test_the_end_of_the_worker_answers_all() -> None:
    bench = Bench()
    answer = bench.ask(paused=True)
    bench.pauses.stops()
    with pytest.raises(TaskNotLocal, match="the worker ends"):
        answer.result(0)


def test_no_worker_and_no_commit_are_different_errors() -> None:
    class Silent:
        is_this_thread = False

        def pause(self, *_arguments: Any, **_named: Any) -> None:
            """Nothing is ever answered."""

    with pytest.raises(TaskNotLocal, match="the worker is not running"):
        change_pauses(None, "0_0", paused=True, timeout_s=1)
    with pytest.raises(BrokerUnavailable, match=r"not committed in 0\.0 s: running tasks are resumed here"):
        change_pauses(Silent(), "0_0", paused=False, timeout_s=0.01)


def test_ends_of_paused_inputs_are_looked_up_now_and_then() -> None:
    class Brokers:
        asked = 0
        fails = False

        def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
            assert timeout_s > 0
            self.asked += 1
            if self.fails:
                raise BrokerUnavailable("no broker")
            return dict.fromkeys(partitions, 40 + self.asked)

    bench, brokers = Bench(), Brokers()
    ends = PausedEnds(bench.pauses, brokers, lambda: bench.now_ms)
    bench.run()
    ends.turn()
    assert brokers.asked == 0
    bench.ask(paused=True)
    ends.turn()
    ends.turn()
    assert bench.pauses.end_offsets == dict.fromkeys(INPUTS, 41)
    bench.now_ms += 5_000
    brokers.fails = True
    ends.turn()
    assert (brokers.asked, bench.pauses.end_offsets) == (2, dict.fromkeys(INPUTS, 41))
