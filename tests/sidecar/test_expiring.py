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
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.expiring import Expiries, task_expiry
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace
from tests.sidecar import test_request_handler as handler
from tests.sidecar.test_request_handler import INPUT, TASK, Port, Stand

SHAPE = SubtopologyShape(("orders",), (Store("totals", ttl_ms=1000),))


class ExpiringStand(Stand):
    """A stand whose task has a store with a ttl."""

    def begin(self) -> None:
        times = {INPUT: PartitionTime()}
        expiry = task_expiry(SHAPE, self.stores, times, lambda: 0)
        workspace = TaskWorkspace(TASK, SHAPE, {}, self.stores, AtWork(0), times, expiry=expiry)
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


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExpiringStand]:
    monkeypatch.setattr(handler, "SHAPE", SHAPE)
    stores = with_expiry(open_task_stores(tmp_path, store_names(SHAPE.stores), timestamped=SHAPE.timestamped), SHAPE)
    yield ExpiringStand(stores)  # type: ignore[arg-type]
    stores.close()


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
