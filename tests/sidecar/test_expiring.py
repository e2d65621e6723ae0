"""A session's view of a store whose entries expire: by the time of what it has polled, and by what it has committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign import Store
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.buffer import Taken
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.expiry import store_names, with_expiry
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, KeyedTimers
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.expiring import Expiries, task_expiry
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace
from tests.sidecar.stand import INPUT, TASK, Port, Stand, reject

SHAPE = SubtopologyShape(("orders",), (Store("totals", ttl_ms=1000),))
TIMERS = KeyedTimers("stream", "timers")
WITH_TIMERS = Flow.of(["orders"], [Store("totals", ttl_ms=1000)], [], timers=TIMERS).shape


class ExpiringStand(Stand):
    """A stand whose task has a store with a ttl."""

    shape, timers = SHAPE, None

    def begin(self) -> None:
        times = {INPUT: PartitionTime()}
        expiry = task_expiry(self.shape, self.stores, times, lambda: 0)
        workspace = TaskWorkspace(
            TASK, self.shape, {}, self.stores, AtWork(0), times, timers=self.timers, expiry=expiry
        )
        self.running = Running(workspace, InputOffsets({INPUT: 10}), times)
        self.handler.begins(self.running)

    def bring_at(self, offset: int, time_ms: int) -> None:
        self.ask("poll", timeout_ms=60_000)
        self.handler.work(self.running, INPUT, [Record("orders", 0, offset, time_ms, b"k", b"v")])
        self.handler.turn()

    def read(self) -> tuple[object, object]:
        got = self.ask("get", task="0_0", store="totals", keys=(b"a", b"b"))
        ranged = self.ask("range", task="0_0", store="totals")
        return self.port.answers[got], self.port.answers[ranged]["entries"]

    def take(self) -> Taken:
        """Begin a commit as the processor does."""
        assert self.running.expiry is not None
        done = self.running.offsets.done_to()
        Expiries(lambda _task, _error: None).find([(TASK, self.running.expiry, done)])
        taken = self.running.take().taken
        self.handler.commit_begins()
        self.stores.write({store: entries.items() for store, entries in taken.writes.items()}, {})
        self.running.workspace.landed()
        return taken


class TimersStand(ExpiringStand):
    """Its task has timers by stream time, too."""

    shape, timers = WITH_TIMERS, TIMERS

    def set(self, key: bytes, at_ms: int) -> None:
        self.ask("set_timers", task="0_0", keys=(key,), at_ms=(at_ms,))

    def hidden(self) -> list[bool]:
        assert self.running.expiry is not None
        stored = self.stores.get_many("totals", [b"a", b"b"])
        return [self.running.expiry.hides("totals", value) for value in stored]

    def poll_timers(self, max_timers: int = 10) -> list[tuple[bytes, int]]:
        answer = self.port.answers[self.ask("poll", max_timers=max_timers, timeout_ms=0)]
        return [(timer["key"], timer["at_ms"]) for timer in answer["timers"]]


def stand_of(made: type[ExpiringStand], path: Path) -> Iterator[ExpiringStand]:
    shape = made.shape
    stores = with_expiry(open_task_stores(path, store_names(shape.stores), timestamped=shape.timestamped), shape)
    yield made(stores)  # type: ignore[arg-type]
    stores.close()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[ExpiringStand]:
    yield from stand_of(ExpiringStand, tmp_path)


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[ExpiringStand]:
    yield from stand_of(TimersStand, tmp_path)


def test_a_session_reads_by_the_time_it_has_polled_and_a_commit_deletes_by_the_time_it_commits(
    stand: ExpiringStand,
) -> None:
    stand.bring_at(10, 100)
    stand.put(b"a")
    stand.ask("commit")
    stand.take()
    stand.bring_at(11, 900)
    stand.put(b"b")
    assert stand.read() == ([b"v", b"v"], [(b"a", b"v"), (b"b", b"v")])
    stand.bring_at(12, 1500)
    assert stand.read() == ([None, b"v"], [(b"b", b"v")])
    assert stand.take().writes == {}, "nothing of the poll is committed, and it may be rolled back"
    stand.ask("commit")
    assert stand.take().times == {"totals": {b"b": 900, b"a": 1500}}
    assert stand.read() == ([None, b"v"], [(b"b", b"v")])


def test_a_record_that_the_next_session_reads_again_finds_what_it_found(stand: ExpiringStand) -> None:
    stand.bring_at(10, 100)
    stand.put(b"a")
    stand.ask("commit")
    stand.take()
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.bring_at(11, 900)
    assert stand.read()[0] == [b"v", None]
    stand.bring_at(12, 1_500)
    assert stand.read()[0] == [None, None]
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    assert stand.rewound[INPUT] == 11
    stand.bring_at(11, 900)
    assert stand.read()[0] == [b"v", None]


def test_timers_that_are_polled_late_find_what_was_there_when_they_were_due(timed: TimersStand) -> None:
    timed.bring_at(10, 100)
    timed.put(b"a")
    timed.set(b"a", 200)
    timed.bring_at(11, 700)
    timed.put(b"b")
    timed.set(b"b", 800)
    timed.ask("commit")
    timed.take()
    timed.bring_at(12, 90_000)
    timed.ask("commit", timers=False)
    assert timed.take().writes == {}, "the timers are due and were not polled"
    assert timed.read()[0] == [None, None]
    assert timed.poll_timers(1) == [(b"a", 200)]
    assert timed.read() == ([b"v", b"v"], [(b"a", b"v"), (b"b", b"v")])
    assert timed.poll_timers(1) == [(b"b", 800)]
    timed.bring_at(13, 91_000)
    assert timed.read()[0] == [b"v", b"v"], "until the timers are done, also while records come"
    timed.ask("commit", offsets={"orders-0": 13}, timers=False)
    assert timed.take().writes == {}, "the timers were polled and are not done"
    timed.ask("commit")
    assert timed.hidden() == [True, True], "the timers are done"
    assert timed.take().writes["totals"] == {b"a": None, b"b": None}


def commit_a_due_timer(timed: TimersStand) -> None:
    """Write an entry with a timer at 200, and move stream time far beyond both."""
    timed.bring_at(10, 100)
    timed.put(b"a")
    timed.set(b"a", 200)
    timed.bring_at(11, 90_000)
    timed.ask("commit")
    timed.take()
    timed.handler.commit_ends(CommitEnd.DONE)


def test_a_session_that_rejects_a_record_reads_as_of_the_timers_that_it_has_polled(timed: TimersStand) -> None:
    timed = TimersStand(timed.stores, "skip")
    commit_a_due_timer(timed)
    timed.bring_at(12, 90_001)
    assert timed.poll_timers() == [(b"a", 200)]
    assert reject(timed, 12, undo=True) == {"response": "skip", "undone": True}
    assert timed.read()[0] == [b"v", None]


def test_timers_of_a_session_that_ends_come_again_and_find_the_same(timed: TimersStand) -> None:
    commit_a_due_timer(timed)
    for _ in range(2):
        assert timed.poll_timers() == [(b"a", 200)]
        assert timed.read()[0] == [b"v", None]
        timed.handler.leave(timed.port)
        timed.port = Port()
        timed.handler.open(timed.port)
        assert timed.read()[0] == [None, None]
