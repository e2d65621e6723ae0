"""At least once, a fired timer is deleted in the changelog only when all else of its commit has arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from kstreams_assign import DeliveryFailed, TaskId, TopicPartition
from kstreams_assign.group.values import MemberId
from kstreams_assign.tasks.buffer import Row, WriteBuffer
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.running import Work
from kstreams_assign.worker.shares import Share

LOG, INPUT = TopicPartition("log", 0), TopicPartition("in", 0)


class Member:
    """A member that is in the group."""

    losses = 0
    committed: Mapping[TopicPartition, int] | None = None

    def member(self) -> MemberId:
        return MemberId(1, "m", None)

    transaction_member = member

    def lease_left_s(self) -> float:
        return 60.0

    def commit(self, offsets: Mapping[TopicPartition, int], _timeout_s: float, _metadata: object) -> None:
        self.committed = offsets


class Outputs:
    """A producer whose records arrive when the test says so, in the order they were produced in."""

    def __init__(self) -> None:
        self.waiting: list[Row] = []
        self.arrived: list[Row] = []
        self.fails = False

    def begin_commit(self) -> None:
        """Nothing is on its way."""

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None:  # noqa: ARG002  # all count here
        self.waiting += rows

    def arrive(self) -> None:
        self.arrived += self.waiting
        self.waiting = []

    def acknowledged(self) -> Mapping[TopicPartition, int] | None:
        if self.fails:
            raise DeliveryFailed("on purpose")
        return None if self.waiting else {LOG: sum(row[0] == "log" for row in self.arrived)}

    def flush(self, _timeout_s: float) -> Mapping[TopicPartition, int]:
        self.arrive()
        return {LOG: sum(row[0] == "log" for row in self.arrived)}

    def abandon(self) -> None:
        self.waiting = []


class Calls:
    """Makes a call at once."""

    def submit(self, work: Any) -> Future[None]:
        future: Future[None] = Future()
        future.set_result(work())
        return future


@pytest.fixture
def outputs() -> Outputs:
    return Outputs()


def begin(outputs: Outputs) -> tuple[Committer, Member, MemoryStores]:
    """Begin a commit of an output, a write that stays and a deletion that is to come last."""
    buffer, member, stores = WriteBuffer(), Member(), MemoryStores(["timers"])
    timers = buffer.of("timers")
    timers.delete_last(b"fired", 7)
    timers.put(b"set", b"", 8)
    buffer.emit_many([("out", b"k", b"effect", (), None, 7)])
    work = Work(buffer.take(), {INPUT: 3}, {INPUT: ""})
    committer = Committer(outputs, member, 1.0, EventLog("test", None), Calls())  # type: ignore[arg-type]
    committer.begin([Share(TaskId(0, 0), stores, {"timers": LOG}, frozenset(), work, lambda: None)])
    return committer, member, stores


def test_the_deletion_is_sent_when_everything_else_has_arrived(outputs: Outputs) -> None:
    committer, member, stores = begin(outputs)
    assert committer.advance() is None
    assert [row[:3] for row in outputs.waiting] == [("log", b"set", b""), ("out", b"k", b"effect")]
    outputs.arrive()
    assert committer.advance() is None
    assert [row[:3] for row in outputs.waiting] == [("log", b"fired", None)]
    assert (member.committed, list(stores.range("timers"))) == (None, [])
    outputs.arrive()
    ended = committer.advance()
    assert ended is not None
    assert ended.end is CommitEnd.DONE
    assert member.committed == {INPUT: 3}
    assert (list(stores.range("timers")), stores.offsets()) == ([(b"set", b"")], {LOG: 2})


def test_a_commit_that_is_awaited_sends_both_parts(outputs: Outputs) -> None:
    committer, member, _ = begin(outputs)
    ended = committer.advance(wait=True)
    assert ended is not None
    assert ended.end is CommitEnd.DONE
    assert [row[1] for row in outputs.arrived] == [b"set", b"k", b"fired"]
    assert member.committed == {INPUT: 3}


def test_the_deletion_is_never_sent_if_something_else_is_lost(outputs: Outputs) -> None:
    committer, member, _ = begin(outputs)
    outputs.fails = True
    ended = committer.advance()
    assert ended is not None
    assert ended.end is CommitEnd.FAILED
    assert (outputs.waiting, outputs.arrived, member.committed) == ([], [], None)


def test_a_buffer_gives_the_deletions_with_the_commit_that_takes_them_and_drops_them_with_the_writes() -> None:
    buffer = WriteBuffer()
    timers = buffer.of("timers")
    timers.delete_last(b"fired", 7)
    assert buffer.take().last == {"timers": {b"fired"}}
    timers.delete_last(b"fired", 7)
    buffer.drop()
    timers.put(b"fired", b"", 7)
    assert buffer.take().last == {}
