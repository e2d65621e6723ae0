"""Keyed timers of a session: set by requests, brought by polls, deleted by the commit that says they are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kstreams_assign import Config, ConfigError, Record, StateError
from kstreams_assign.events import Event, TaskStatus
from kstreams_assign.group.values import Adopted
from kstreams_assign.sidecar.messages import read_request
from kstreams_assign.sidecar.ops import Limits
from kstreams_assign.sidecar.poll import TIMER_KEY_BYTES_MAX
from kstreams_assign.sidecar.request_handler import RequestHandler
from kstreams_assign.sidecar.settings import read_topology
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.timers import Timer, pending
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, KeyedTimers
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.labour import Facts
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace
from kstreams_assign.worker.timing import TimerEntries
from tests.sidecar.stand import INPUT, TASK, Port

FLOW, BY_STREAM_TIME = (
    Flow.of(["orders"], ["totals"], ["out"], timers=KeyedTimers(clock, "timers")) for clock in ("wall", "stream")
)


class Stand:
    """A handler with one running task and a clock; the test acts as the loop and as the commit."""

    def __init__(self, flow: Flow = FLOW) -> None:
        self.flow = flow
        self.now_ms = 1_000
        config = Config(application_id="app", bootstrap_servers="localhost:1")
        bad_records = BadRecords(["fail"], config)
        self.handler = RequestHandler(Limits(records_max=20), bad_records)
        self.handler.connect(self, lambda: Facts(7, {"0_0": TaskStatus(role="active", state="running", lag=0)}))
        self.stores = MemoryStores(["totals", "timers"])
        self.failed: list[Exception] = []
        self.number = self.fired = 0
        self.port = Port()
        self.begin()
        self.handler.open(self.port)

    def begin(self) -> None:
        times = {INPUT: PartitionTime()}
        self.workspace = TaskWorkspace(
            TASK, FLOW.shape, FLOW.sinks, self.stores, AtWork(0), times, "app", self.flow.timers, lambda: self.now_ms
        )
        self.running = Running(self.workspace, InputOffsets({INPUT: 10}), times)
        self.handler.assigned(7, Adopted({TASK: (INPUT,)}, frozenset(), frozenset()))
        self.handler.begins(self.running)

    def order(self, work: Callable[[], None]) -> None:
        work()

    def emit(self, event: Event) -> None:
        """Events are of no interest here."""

    def rewind(self, positions: Mapping[Any, int]) -> None:
        """Nothing is read."""

    def call(self, _running: Running, work: Callable[[], None]) -> None:
        work()

    def broken(self, _task: object, error: StateError) -> None:
        self.failed.append(error)

    def ask(self, op: str, **fields: object) -> Any:
        """Send a request; return its answer, or None while it waits."""
        self.number += 1
        self.handler.submit(self.port, read_request({"id": self.number, "op": op, **fields}))
        self.handler.turn()
        return self.port.answers.get(self.number)

    def set(self, timers: Mapping[bytes, int], **fields: object) -> Any:
        return self.ask("set_timers", task="0_0", keys=tuple(timers), at_ms=tuple(timers.values()), **fields)

    def poll(self, max_timers: int = 100) -> list[tuple[bytes, int, str]]:
        answer = self.ask("poll", max_timers=max_timers, timeout_ms=0)
        assert {timer["task"] for timer in answer["timers"]} <= {"0_0"}
        return [(timer["key"], timer["at_ms"], timer["name"]) for timer in answer["timers"]]

    def bring(self, offset: int, time_ms: int) -> Record:
        """Let the session poll a record."""
        record = Record("orders", 0, offset, time_ms, b"k", b"v")
        self.ask("poll", timeout_ms=60_000)
        self.handler.work(self.running, INPUT, [record])
        self.handler.turn()
        return record

    def commit(self, **fields: object) -> None:
        self.ask("commit", **fields)
        work = self.running.take() if self.running.news else None
        self.handler.commit_begins()
        if work is not None:
            self.stores.write({name: writes.items() for name, writes in work.taken.writes.items()}, {})
            self.workspace.landed()
            self.fired += work.fired
        self.handler.commit_ends(CommitEnd.DONE)

    def kept(self) -> list[Timer]:
        return list(pending(TimerEntries("timers", self.stores, self.workspace._buffer, AtWork(0), TASK)))


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_timers_come_with_a_poll_when_they_are_due_and_the_commit_deletes_them(stand: Stand) -> None:
    assert stand.set({b"a": 1_020, b"b": 1_010, b"c": 9_000}) == 3
    stand.commit()
    assert stand.poll() == []
    stand.now_ms = 1_020
    assert stand.poll() == [(b"b", 1_010, ""), (b"a", 1_020, "")]
    assert stand.poll() == []
    assert stand.ask("get_timers", task="0_0", keys=(b"a", b"c", b"x")) == [None, 9_000, None]
    assert [timer.key for timer in stand.kept()] == [b"b", b"a", b"c"]
    stand.commit()
    assert stand.kept() == [Timer(b"c", 9_000)]
    assert stand.fired == 2


def test_a_poll_that_waits_is_answered_when_a_timer_is_due(stand: Stand) -> None:
    stand.set({b"a": 1_020})
    assert stand.ask("poll", max_timers=1, timeout_ms=60_000) is None
    stand.now_ms = 1_020
    stand.handler.turn()
    answer = stand.port.answers[stand.number]
    assert answer == {
        "records": [],
        "timers": [{"task": "0_0", "key": b"a", "at_ms": 1_020, "name": ""}],
        "stream_times_ms": {},
    }


def test_a_poll_for_records_alone_brings_no_timers(stand: Stand) -> None:
    stand.set({b"a": 1})
    assert stand.ask("poll", timeout_ms=0) == {"records": []}
    assert stand.poll() == [(b"a", 1, "")]


def test_polled_timers_stay_where_the_commit_names_offsets_or_says_so(stand: Stand) -> None:
    stand.set({b"a": 1})
    assert stand.poll() == [(b"a", 1, "")]
    stand.commit(offsets={})
    stand.commit(timers=False)
    assert stand.kept() == [Timer(b"a", 1)]
    stand.commit(offsets={}, timers=True)
    assert stand.kept() == []


def test_timers_of_a_session_that_ends_come_again_in_the_next(stand: Stand) -> None:
    stand.set({b"a": 1, b"b": 2})
    stand.commit()
    assert len(stand.poll()) == 2
    stand.set({b"c": 3})
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    assert stand.poll() == [(b"a", 1, ""), (b"b", 2, "")]


@pytest.mark.parametrize("undone_after", [False, True])
def test_a_polled_timer_that_was_set_again_or_cancelled_does_not_come_again(stand: Stand, undone_after: bool) -> None:
    stand.set({b"set again": 1, b"cancelled": 2})
    stand.commit()
    assert len(stand.poll()) == 2
    stand.set({b"set again": 5_000})
    stand.ask("cancel_timers", task="0_0", keys=(b"cancelled",))
    stand.commit(timers=False)
    if undone_after:
        stand.handler.bad_records._on_error = ["skip"]
        record = stand.bring(10, 1_000)
        assert stand.ask("reject", task="0_0", record=record._asdict(), exception="E", undo=True)["undone"]
        stand.commit(timers=True)
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    assert stand.poll() == []
    assert stand.kept() == [Timer(b"set again", 5_000)]


def test_time_goes_back_with_the_records_of_a_session_that_ends() -> None:
    """They are read again, and a timer that they postpone must not be due before."""
    stand = Stand(BY_STREAM_TIME)
    stand.bring(10, 1_000)
    stand.set({b"k": 2_000})
    stand.commit()
    stand.bring(11, 2_500)
    stand.set({b"k": 3_500})
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    assert stand.poll() == []
    stand.bring(11, 2_500)
    assert stand.poll() == [(b"k", 2_000, "")]


def test_a_rejected_record_takes_back_what_it_did_to_timers(stand: Stand) -> None:
    stand.handler.bad_records._on_error = ["skip"]
    stand.set({b"postponed": 1_050, b"polled": 1_010})
    stand.commit()
    record = stand.bring(10, 1_000)
    stand.now_ms = 1_020
    assert stand.poll() == [(b"polled", 1_010, "")]
    stand.set({b"postponed": 5_000, b"polled": 1_010})
    stand.now_ms = 1_060
    assert stand.ask("reject", task="0_0", record=record._asdict(), exception="E", undo=True)["undone"]
    assert stand.poll() == [(b"postponed", 1_050, "")], "and the other one was polled before"
    stand.commit()
    assert stand.kept() == []


def test_a_timer_is_set_again_by_what_it_causes_and_cancelled_by_name(stand: Stand) -> None:
    stand.set({b"a": 1}, name="n")
    stand.set({b"a": 5_000})
    assert stand.poll() == [(b"a", 1, "n")]
    assert stand.ask("cancel_timers", task="0_0", keys=(b"a",), name="n") == 0
    stand.set({b"a": 2_000}, name="n")
    assert stand.ask("cancel_timers", task="0_0", keys=(b"a", b"x")) == 1
    stand.commit()
    assert stand.kept() == [Timer(b"a", 2_000, "n")]


@pytest.mark.parametrize("name", ["", "n"])
def test_a_polled_timer_goes_back_by_the_name_that_it_came_with(stand: Stand, name: str) -> None:
    stand.set({b"a": 1, b"b": 2}, name=name)
    timers = stand.poll()
    assert timers == [(b"a", 1, name), (b"b", 2, name)]
    assert stand.set({key: 5_000 for key, _, _ in timers}, name=timers[0][2]) == 2
    assert stand.ask("get_timers", task="0_0", keys=(b"a",), name=timers[0][2]) == [5_000]
    assert stand.ask("cancel_timers", task="0_0", keys=(b"a",), name=timers[0][2]) == 1
    stand.commit()
    assert stand.kept() == [Timer(b"b", 5_000, name)]


@pytest.mark.parametrize("max_timers", [1, 2])
def test_timers_that_came_with_the_same_poll_are_not_taken_back(stand: Stand, max_timers: int) -> None:
    """A session that polls one at a time may cancel each that it has not polled."""
    stand.set({b"close": 1, b"escalate": 2})
    assert stand.poll(max_timers)[0] == (b"close", 1, "")
    polled = max_timers == 2
    assert stand.ask("get_timers", task="0_0", keys=(b"escalate",)) == [None if polled else 2]
    assert stand.ask("cancel_timers", task="0_0", keys=(b"escalate",)) == (0 if polled else 1)
    assert stand.poll() == []
    stand.commit()
    assert stand.kept() == []


def test_timers_count_as_polled_records_do(stand: Stand) -> None:
    stand.set({b"%d" % number: number for number in range(30)})
    assert len(stand.poll(15)) == 15
    assert len(stand.poll(15)) == 5
    assert stand.ask("poll", max_timers=15, timeout_ms=0) == "uncommitted_limit"
    stand.commit()
    assert len(stand.poll(15)) == 10


def test_what_is_written_for_a_timer_has_its_time_and_the_answer_has_the_stream_time(stand: Stand) -> None:
    stand.set({b"a": 700})
    stand.poll()
    stand.ask("emit", task="0_0", topic="out", keys=(b"a",), values=(b"v",))
    assert [row[-1] for row in stand.workspace.unsent()] == [700]
    stand.handler.work(stand.running, INPUT, [Record("orders", 0, 10, 5_000, b"k", b"v")])
    stand.poll()
    assert stand.ask("poll", max_timers=1, timeout_ms=0)["stream_times_ms"] == {"0_0": 5_000}


def test_requests_that_cannot_be_are_refused(stand: Stand) -> None:
    assert stand.ask("set_timers", task="0_0", keys=(b"a",), at_ms=(1, 2)) == "bad_request"
    assert stand.set({b"x" * (TIMER_KEY_BYTES_MAX + 1): 1}) == "too_large"
    assert stand.ask("put", task="0_0", store="timers", keys=(b"a",), values=(b"v",)) == "no_such_store"
    assert stand.poll() == []


def test_timers_that_are_not_declared_are_refused(stand: Stand) -> None:
    stand.workspace.timing._timers = None
    assert stand.ask("get_timers", task="0_0", keys=()) == "no_such_store"


def test_a_store_that_cannot_be_read_stops_its_task_alone(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise StateError("no space")

    monkeypatch.setattr(stand.stores, "range", fail)
    assert stand.poll() == []
    assert list(map(str, stand.failed)) == ["no space"]


def test_a_commit_whose_timers_cannot_be_read_stops_their_task_alone(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_more: object) -> None:
        raise StateError("no space")

    stand.set({b"a": 1})
    stand.commit()
    assert stand.poll()
    stand.workspace.timing.timer_queue.undo()  # of nothing: it asks the store about its timers
    monkeypatch.setattr(stand.stores, "get_many", fail)
    assert stand.ask("commit") == "task_restoring"
    assert list(map(str, stand.failed)) == ["no space"]
    assert not stand.running.news, "nothing is sealed"


def test_the_file_declares_timers() -> None:
    table = {"sources": ["in"], "timers": "wall", "timers_store": "reminders"}
    [flow] = read_topology({"subtopology": [table]})
    assert flow.timers == KeyedTimers("wall", "reminders")
    assert [store.name for store in flow.shape.stores] == ["reminders"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"timers": "event"}, r"topology.subtopology\[0\].timers = 'event': must be 'stream' or 'wall'"),
        ({"timers": "wall", "timers_store": 3}, "timers_store = 3: must be a non-empty string"),
        ({"timers_store": "t"}, 'timers_store = \'t\': needs timers = "stream" or "wall"'),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_topology({"subtopology": [{"sources": ["in"], **keys}]})
