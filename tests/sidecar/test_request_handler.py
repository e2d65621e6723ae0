"""The handler between a session and the loop: what waits, when it is answered, and what a session leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config
from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.errors import RecordRefused
from kstreams_assign.events import Event, RecordSetAsideEvent, SessionBeganEvent, SessionEndedEvent, TaskStatus
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.sidecar.messages import read_request
from kstreams_assign.sidecar.ops import Limits
from kstreams_assign.sidecar.request_handler import RequestHandler
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.dead_letters import read_dead_letter
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.global_thread import TableReaders
from kstreams_assign.worker.global_views import NO_TABLES, Views
from kstreams_assign.worker.labour import Facts
from kstreams_assign.worker.on_error import OnError
from kstreams_assign.worker.refused_outputs import Output
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace

SHAPE = SubtopologyShape(("orders",), (Store("totals"), Store("stamped", timestamped=True)))
TASK, INPUT = TaskId(0, 0), TopicPartition("orders", 0)
OTHER_TASK, OTHER_INPUT = TaskId(0, 1), TopicPartition("orders", 1)
LAST_MS = 5_000
"""The time of the last record that ``bring`` brings."""


class Port:
    """A session's reply channel: it keeps its messages."""

    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}
        self.events: list[dict[str, Any]] = []

    def answer(self, number: int, message: dict[str, Any]) -> None:
        assert number not in self.answers
        self.answers[number] = message["error"]["code"] if "error" in message else message["ok"]

    def push(self, message: dict[str, Any]) -> None:
        self.events.append(message)


class Stand:
    """A handler with one running task, in a loop that takes orders at once; the test acts as the processor."""

    def __init__(self, stores: RocksTaskStores, on_error: OnError = "fail", *, exactly_once: bool = False) -> None:
        settings = {"application_id": "app", "bootstrap_servers": "localhost:1"}
        config = Config(**settings, errors_dead_letter_queue_topic_name="dead")
        self.bad_records = BadRecords([on_error], config)
        self.handler = RequestHandler(Limits(records_max=100), self.bad_records, exactly_once=exactly_once)
        self.rewound: dict[TopicPartition, int] = {}
        self.reported: list[Event] = []
        self.handler.connect(self, lambda: Facts(7, {"0_0": TaskStatus(role="active", state="running", lag=0)}))
        self.stores = stores
        self.begin()
        self._number = 0
        self.port = Port()
        self.handler.open(self.port)

    def begin(self, global_tables: Views = NO_TABLES) -> None:
        self.running = self._running(TASK, INPUT, global_tables)
        self.handler.assigned(7, Adopted({TASK: (INPUT,)}, frozenset(), frozenset()))
        self.handler.begins(self.running)

    def begin_another(self) -> Running:
        """Let a second task run, of the partition ``OTHER_INPUT``."""
        running = self._running(OTHER_TASK, OTHER_INPUT)
        self.handler.begins(running)
        return running

    def _running(self, task: TaskId, partition: TopicPartition, global_tables: Views = NO_TABLES) -> Running:
        times = {partition: PartitionTime()}
        workspace = TaskWorkspace(
            task, SHAPE, {"out": "out"}, self.stores, AtWork(0), times, global_tables=global_tables
        )
        return Running(workspace, InputOffsets({partition: 10}), times)

    def order(self, work) -> None:
        work()

    def emit(self, event: Event) -> None:
        self.reported.append(event)

    def rewind(self, positions) -> None:
        self.rewound.update(positions)

    def broken(self, task, error) -> None:
        self.handler.ends(task)
        self.handler.failed([task], str(error))

    def ask(self, op: str, **fields: object) -> int:
        """Send a request; return its number in ``port.answers`` once it is answered."""
        self._number += 1
        self.handler.submit(self.port, read_request({"id": self._number, "op": op, **fields}))
        self.handler.turn()
        return self._number

    def bring(self, offset: int, count: int = 1) -> None:
        records = [Record("orders", 0, offset + n, LAST_MS - count + 1 + n, b"k", b"v") for n in range(count)]
        self.handler.work(self.running, INPUT, records)
        self.handler.turn()

    def put(self, key: bytes) -> int:
        return self.ask("put", task="0_0", store="totals", keys=(key,), values=(b"v",))

    def commit_begins(self) -> tuple[set[bytes], dict[TopicPartition, int]]:
        """Begin a commit as the processor does; return what it takes."""
        assert self.handler.wants_commit()
        work = self.running.take()
        self.handler.commit_begins()
        self.handler.turn()
        return set(work.taken.writes.get("totals", ())), dict(work.offsets)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    stores = open_task_stores(tmp_path / "store", ["totals", "stamped"], timestamped=SHAPE.timestamped)
    yield Stand(stores)
    stores.close()


def test_records_are_wanted_only_while_a_poll_waits_and_only_as_many_as_may_be_uncommitted(stand):
    assert stand.handler.appetite() == 0
    poll = stand.ask("poll", max_records=80, timeout_ms=60_000)
    assert stand.handler.appetite() == 80
    stand.bring(10, 80)
    assert len(stand.port.answers[poll]["records"]) == 80
    assert stand.handler.appetite() == 0
    stand.ask("poll", max_records=80, timeout_ms=60_000)
    assert stand.handler.appetite() == 20


def test_a_write_has_the_time_of_the_last_polled_record_or_the_given_time(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10, 3)
    times = [7, 8]
    stand.ask("put", task="0_0", store="stamped", keys=(b"a", b"b"), values=(b"1", b"2"), timestamps_ms=tuple(times))
    stand.ask("put", task="0_0", store="totals", entries=((b"c", b"3"),))
    stand.ask("delete", task="0_0", store="totals", keys=(b"d",), timestamps_ms=(9,))
    stand.ask("emit", task="0_0", topic="out", keys=(b"e",), values=(b"4",))
    wrong = stand.ask("put", task="0_0", store="totals", keys=(b"x",), values=(b"",), timestamps_ms=(1, 2))
    assert stand.port.answers[wrong] == "bad_request"
    got = stand.ask("get", task="0_0", store="stamped", keys=(b"a", b"none"), timestamps=True)
    assert stand.port.answers[got] == [(b"1", 7), None]
    answer = stand.ask("range", task="0_0", store="stamped", timestamps=True)
    assert stand.port.answers[answer]["entries"] == [(b"a", (b"1", 7)), (b"b", (b"2", 8))]
    refused = stand.ask("get", task="0_0", store="totals", keys=(b"a",), timestamps=True)
    assert stand.port.answers[refused] == "bad_request"
    stand.ask("commit")
    taken = stand.running.take().taken
    assert taken.times == {"stamped": {b"a": 7, b"b": 8}, "totals": {b"c": LAST_MS, b"d": 9}}
    assert [Emitted(*row).timestamp_ms for row in taken.emitted] == [LAST_MS]


def test_a_request_after_a_commit_waits_until_the_commit_has_begun_and_is_not_in_it(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.put(b"before")
    commit = stand.ask("commit")
    late = stand.put(b"after")
    assert late not in stand.port.answers
    assert stand.commit_begins() == ({b"before"}, {INPUT: 11})
    assert stand.port.answers[late] == 1
    assert commit not in stand.port.answers
    stand.handler.commit_ends(CommitEnd.DONE)
    assert stand.port.answers[commit] == 7
    assert not stand.handler.wants_commit()


def test_a_commit_that_a_rebalance_deferred_is_answered_with_the_next_completed_commit(stand):
    stand.put(b"k")
    commit = stand.ask("commit")
    stand.commit_begins()
    stand.handler.commit_ends(CommitEnd.DEFERRED)
    assert commit not in stand.port.answers
    stand.handler.commit_begins()
    stand.handler.commit_ends(CommitEnd.DONE)
    assert stand.port.answers[commit] == 7


def test_a_poll_that_is_refused_does_not_tell_the_session_that_a_task_has_returned(stand):
    """Until a poll brings something, what the session writes may be for records that it will get again."""
    stand.ask("poll", max_records=100, timeout_ms=60_000)
    stand.handler.work(stand.begin_another(), OTHER_INPUT, [Record("orders", 1, n, 5, b"k", b"v") for n in range(100)])
    stand.handler.turn()
    stand.handler.ends(TASK)
    stand.handler.failed([TASK], "its store was repaired")
    stand.begin()
    assert stand.port.answers[stand.put(b"k")] == "task_migrated"
    assert stand.port.answers[stand.ask("poll", timeout_ms=0)] == "uncommitted_limit"
    assert stand.port.answers[stand.put(b"k")] == "task_migrated"


@pytest.mark.parametrize("end", [CommitEnd.FENCED, CommitEnd.FAILED])
def test_a_failed_commit_is_answered_with_its_error_and_the_lost_tasks(stand, end):
    stand.put(b"k")
    commit = stand.ask("commit")
    stand.commit_begins()
    stand.handler.commit_ends(end)
    assert stand.port.answers[commit] == "commit_failed"
    stand.handler.ends(TASK)
    stand.handler.dropped("fenced")
    assert stand.port.events[-1] == {"event": "lost", "tasks": ["0_0"], "reason": "fenced"}
    assert stand.port.answers[stand.put(b"k")] == "task_migrated"


def commit_and_lose(stand: Stand, task: TaskId, *, deferred: bool = False) -> object:
    """Commit what ``TASK`` polled, let the store of a task fail meanwhile, and return the reply to the commit."""
    polled(stand, 10)
    stand.put(b"k")
    commit = stand.ask("commit")
    stand.commit_begins()
    if deferred:
        stand.handler.commit_ends(CommitEnd.DEFERRED)
    stand.handler.ends(task)
    stand.handler.failed([task], "its store cannot be written")
    stand.handler.commit_ends(CommitEnd.DONE)
    return stand.port.answers[commit]


@pytest.mark.parametrize("deferred", [False, True])
def test_at_least_once_a_commit_fails_for_a_task_whose_offsets_it_leaves_out(stand: Stand, deferred: bool) -> None:
    assert commit_and_lose(stand, TASK, deferred=deferred) == "commit_failed"
    assert stand.port.events[-1] == {"event": "lost", "tasks": ["0_0"], "reason": "its store cannot be written"}


def test_a_commit_is_done_that_holds_nothing_of_the_task_that_failed(stand: Stand) -> None:
    stand.begin_another()
    assert commit_and_lose(stand, OTHER_TASK) == 7


def test_exactly_once_a_commit_is_done_whose_store_cannot_be_written(stand: Stand) -> None:
    """The store follows the transaction, which holds the offsets; the changelog restores it."""
    assert commit_and_lose(Stand(stand.stores, exactly_once=True), TASK) == 7


def test_a_session_that_ends_loses_its_writes_and_its_records_are_read_again(stand):
    stand.ask("poll", max_records=3, timeout_ms=60_000)
    stand.bring(10, 5)  # two more than the poll takes
    stand.put(b"k")
    stand.handler.leave(stand.port)
    assert stand.rewound == {INPUT: 10}
    assert not stand.running.news
    assert stand.running.task.store("totals").get(b"k") is None
    waits = stand.ask("poll", timeout_ms=60_000)
    assert waits not in stand.port.answers


def test_the_end_of_a_session_reports_whether_work_is_left(stand):
    stand.ask("poll", max_records=1, timeout_ms=60_000)
    stand.bring(10, 2)  # one more than the poll takes
    stand.handler.leave(stand.port)
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.ask("commit")
    stand.commit_begins()
    stand.handler.commit_ends(CommitEnd.DONE)
    stand.ask("close")
    assert stand.reported == [
        SessionBeganEvent(),
        SessionEndedEvent(uncommitted=True),
        SessionBeganEvent(),
        SessionEndedEvent(uncommitted=False),
    ]


def test_the_end_of_the_worker_ends_an_open_session_once(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.handler.stops()
    stand.handler.leave(stand.port)
    assert stand.reported == [SessionBeganEvent(), SessionEndedEvent(uncommitted=True)]


def test_a_session_that_ends_before_its_commit_does_leaves_work(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.ask("commit")
    stand.handler.leave(stand.port)
    assert stand.reported[-1] == SessionEndedEvent(uncommitted=True)


def test_a_requested_commit_outlives_its_session_and_the_next_session_continues_from_there(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.put(b"k")
    stand.ask("commit")
    stand.handler.leave(stand.port)
    stand.port = Port()
    stand.handler.open(stand.port)
    late = stand.put(b"of the next")
    assert late not in stand.port.answers
    assert stand.commit_begins() == ({b"k"}, {INPUT: 11})
    assert stand.port.answers[late] == 1
    assert stand.rewound == {}


def test_a_task_that_is_assigned_again_takes_writes_after_the_next_poll(stand):
    stand.put(b"k")
    stand.handler.ends(TASK)
    assert stand.port.answers[stand.put(b"k")] == "task_restoring"
    stand.begin()
    assert stand.port.answers[stand.put(b"k")] == "task_migrated"
    assert stand.port.answers[stand.ask("commit", offsets={"orders-0": 10})] == "task_migrated"
    stand.ask("poll", timeout_ms=0)
    assert stand.port.answers[stand.put(b"k")] == 1


def test_a_revoked_task_commits_the_sealed_part_of_its_work(stand):
    stand.ask("poll", timeout_ms=60_000)
    stand.bring(10)
    stand.put(b"k")
    stand.ask("commit")
    stand.handler.ends(TASK)  # the loop calls this for a task that an assignment revokes
    assert stand.commit_begins() == ({b"k"}, {INPUT: 11})


def test_close_is_answered_once_the_commits_are_done(stand):
    stand.put(b"k")
    stand.ask("commit")
    stand.commit_begins()
    stand.put(b"never")
    poll = stand.ask("poll", timeout_ms=60_000)
    close = stand.ask("close")
    assert stand.port.answers[poll] == "closing"
    assert close not in stand.port.answers
    stand.handler.commit_ends(CommitEnd.DONE)
    assert stand.port.answers[close] is True
    assert stand.running.task.store("totals").get(b"never") is None


def test_a_worker_that_ends_refuses_all_waiting_requests(stand):
    waiting = [stand.ask("poll", timeout_ms=60_000), stand.put(b"k"), stand.ask("commit"), stand.put(b"k")]
    stand.handler.stops()
    answers = [stand.port.answers[number] for number in (waiting[0], waiting[2], waiting[3], stand.ask("tasks"))]
    assert answers == ["closing"] * 4


def test_a_store_that_cannot_be_read_costs_the_session_only_that_task(stand):
    stand.stores.close()
    answer = stand.ask("get", task="0_0", store="totals", keys=(b"k",))
    assert stand.port.answers[answer] == "task_restoring"
    assert stand.port.events[-1]["event"] == "lost"
    assert stand.port.events[-1]["tasks"] == ["0_0"]


# --- records that are rejected -----------------------------------------------------------------------


@pytest.fixture
def rejecting(stand: Stand) -> Stand:
    """A handler whose subtopology sends rejected records to the dead-letter topic."""
    return Stand(stand.stores, "dead_letter")


def polled(stand: Stand, offset: int, count: int = 1) -> None:
    number = stand.ask("poll", max_records=10)
    stand.bring(offset, count)
    assert len(stand.port.answers[number]["records"]) == count


def reject(stand: Stand, offset: int, **fields: object) -> object:
    record = {"topic": "orders", "partition": 0, "offset": offset, "timestamp_ms": 5, "key": b"k", "value": b"v"}
    number = stand.ask("reject", task="0_0", record=record, exception="ValueError: bad", **fields)
    return stand.port.answers[number]


def dead_letters(stand: Stand) -> list[bytes | None]:
    """The offsets of the records whose dead letters leave with the next commit."""
    rows = [row for row in stand.running.workspace.unsent() if row[0] == "dead"]
    return [dict(row[3])["__streams.errors.offset"] for row in rows]


def test_a_rejected_record_goes_to_the_dead_letter_topic_with_the_commit(rejecting: Stand) -> None:
    polled(rejecting, 10, 2)
    rejecting.put(b"earlier")
    assert reject(rejecting, 10) == {"response": "dead_letter", "undone": False}
    assert reject(rejecting, 10) == {"response": "dead_letter", "undone": False}, "twice is once"
    rejecting.ask("commit")
    assert dead_letters(rejecting) == [b"10"]
    written, offsets = rejecting.commit_begins()
    assert written == {b"earlier"}, "earlier puts stay"
    assert offsets == {INPUT: 12}, "the rejected record counts as polled"
    assert rejecting.bad_records.dead_letters() == {TASK: 1}
    assert [event.offset for event in rejecting.reported if isinstance(event, RecordSetAsideEvent)] == [10]


def test_undo_drops_what_was_written_since_the_last_poll_of_the_task(rejecting: Stand) -> None:
    polled(rejecting, 10)
    rejecting.put(b"first batch")
    polled(rejecting, 11)
    rejecting.put(b"second batch")
    assert reject(rejecting, 11, undo=True) == {"response": "dead_letter", "undone": True}
    rejecting.put(b"afterwards")
    assert reject(rejecting, 10, undo=True) == {"response": "dead_letter", "undone": True}
    rejecting.ask("commit")
    assert dead_letters(rejecting) == [b"10", b"11"], "a dead letter is not undone with a later one"
    assert rejecting.commit_begins()[0] == {b"first batch"}


def test_a_dead_letter_leaves_with_the_commit_of_its_offset(rejecting: Stand) -> None:
    polled(rejecting, 10, 2)
    reject(rejecting, 11)
    rejecting.ask("commit", offsets={"orders-0": 11})
    assert dead_letters(rejecting) == []
    rejecting.commit_begins()
    rejecting.handler.commit_ends(CommitEnd.DONE)
    rejecting.ask("commit")
    assert dead_letters(rejecting) == [b"11"]


def test_undo_does_not_reach_behind_a_commit(rejecting: Stand) -> None:
    polled(rejecting, 10, 2)
    rejecting.put(b"committed")
    rejecting.ask("commit", offsets={"orders-0": 11})
    assert rejecting.commit_begins() == ({b"committed"}, {INPUT: 11})
    rejecting.put(b"later")
    reject(rejecting, 11, undo=True)
    rejecting.ask("commit")
    assert rejecting.commit_begins() == (set(), {INPUT: 12})


@pytest.mark.parametrize("offset", [9, 10, 12])
def test_only_a_polled_record_that_is_not_committed_can_be_rejected(rejecting: Stand, offset: int) -> None:
    polled(rejecting, 10, 2)
    rejecting.ask("commit", offsets={"orders-0": 11})
    rejecting.commit_begins()
    assert reject(rejecting, offset) == "bad_offset"
    assert dead_letters(rejecting) == []


@pytest.mark.parametrize("timestamp_ms", [-1, LAST_MS])
def test_a_record_is_rejected_and_emitted_on_whatever_its_headers_and_time(rejecting: Stand, timestamp_ms: int) -> None:
    headers = (("", b"empty"), ("n" * 70_000, None))
    number = rejecting.ask("poll", max_records=10)
    rejecting.handler.work(rejecting.running, INPUT, [Record("orders", 0, 10, timestamp_ms, b"k", b"v", list(headers))])
    rejecting.handler.turn()
    (record,) = rejecting.port.answers[number]["records"]
    output = {"topic": "out", **{name: record[name] for name in ("key", "value", "timestamp_ms")}, "headers": headers}
    assert rejecting.port.answers[rejecting.ask("emit", task="0_0", records=(output,))] == 1
    rejecting.ask("put", task="0_0", store="stamped", keys=(b"k",), values=(b"v",))
    fields = {name: field for name, field in record.items() if name != "task"}
    reject_fields = {"task": "0_0", "record": {**fields, "headers": headers}, "exception": "ValueError: bad"}
    answer = rejecting.ask("reject", **reject_fields)
    assert rejecting.port.answers[answer] == {"response": "dead_letter", "undone": False}
    rejecting.ask("commit")
    rows = {row[0]: row for row in rejecting.running.workspace.unsent()}
    assert rows["out"] == ("out", b"k", b"v", headers, None, timestamp_ms)
    assert (rows["dead"][3][:2], rows["dead"][5]) == (headers, timestamp_ms)
    letter = read_dead_letter(Record("dead", 0, 0, timestamp_ms, b"k", b"v", list(rows["dead"][3])))
    assert letter is not None
    assert letter.record == Record("orders", 0, 10, timestamp_ms, b"k", b"v", list(headers))
    assert rejecting.commit_begins() == (set(), {INPUT: 11})


def test_a_rejected_record_is_skipped_where_on_error_says_so(stand: Stand) -> None:
    skipping = Stand(stand.stores, "skip")
    polled(skipping, 10)
    assert reject(skipping, 10) == {"response": "skip", "undone": False}
    assert dead_letters(skipping) == []


def test_no_record_can_be_rejected_where_on_error_is_fail(stand: Stand) -> None:
    polled(stand, 10)
    stand.put(b"k")
    assert reject(stand, 10, undo=True) == "bad_request"
    stand.ask("commit")
    assert stand.commit_begins()[0] == {b"k"}


def test_a_session_that_ends_takes_its_rejects_back(rejecting: Stand) -> None:
    polled(rejecting, 10)
    reject(rejecting, 10)
    rejecting.handler.leave(rejecting.port)
    assert rejecting.rewound == {INPUT: 10}
    rejecting.handler.open(rejecting.port)
    polled(rejecting, 10)
    rejecting.ask("commit")
    assert dead_letters(rejecting) == []


def test_get_and_range_read_global_tables_and_nothing_writes_them(stand):
    readers = TableReaders([GlobalTable("plain", topic="p"), GlobalTable("timed", topic="t", timestamped=True)])
    stand.begin(readers.views)
    get = stand.ask("get", task="0_0", store="plain", keys=(b"a", b"none"))
    assert stand.port.answers[get] == "task_restoring", "the task pauses, as it cannot be worked on without the table"
    assert stand.port.events[-1]["event"] == "lost"
    for name, values in (("plain", [(b"a", b"1"), (b"b", b"2")]), ("timed", [(b"a", stamped(b"3", 7))])):
        stores = MemoryStores([name])
        stores.write({name: values}, {})
        readers.reads[name].allow(stores)
    stand.begin(readers.views)
    stand.ask("poll", max_records=1, timeout_ms=0)
    answers = stand.port.answers
    assert answers[stand.ask("get", task="0_0", store="plain", keys=(b"a", b"none"))] == [b"1", None]
    assert answers[stand.ask("range", task="0_0", store="plain", limit=1)] == {"entries": [(b"a", b"1")], "more": True}
    assert answers[stand.ask("get", task="0_0", store="timed", keys=(b"a",), timestamps=True)] == [(b"3", 7)]
    assert answers[stand.ask("get", task="0_0", store="plain", keys=(b"a",), timestamps=True)] == "bad_request"
    assert answers[stand.ask("put", task="0_0", store="plain", keys=(b"a",), values=(b"x",))] == "no_such_store"
    assert answers[stand.ask("delete", task="0_0", store="plain", keys=(b"a",))] == "no_such_store"


def test_a_prefix_scan_can_be_paged_both_ways_and_entries_are_counted(stand):
    written = (b"a", b"b", b"b1", b"b2", b"b\xff", b"c")
    stand.ask("put", task="0_0", store="totals", keys=written, values=(b"v",) * 6)
    stand.ask("put", task="0_0", store="stamped", keys=(b"b1",), values=(b"v",), timestamps_ms=(9,))

    def keys(**fields: object) -> list[bytes]:
        answer = stand.port.answers[stand.ask("range", task="0_0", store="totals", **fields)]
        return [key for key, _ in answer["entries"]]

    assert keys(prefix=b"b") == [b"b", b"b1", b"b2", b"b\xff"]
    assert keys(prefix=b"b", limit=2) == [b"b", b"b1"]
    assert keys(prefix=b"b", **{"from": b"b1\x00"}) == [b"b2", b"b\xff"]
    assert keys(prefix=b"b", reverse=True, to=b"b2") == [b"b1", b"b"]
    assert keys(prefix=b"b", **{"from": b"a", "to": b"z"}) == [b"b", b"b1", b"b2", b"b\xff"]
    assert keys(prefix=b"b", **{"from": b"c"}) == keys(prefix=b"b", to=b"a", reverse=True) == []
    assert keys(prefix=b"") == [*written[:4], b"b\xff", b"c"]
    timed = stand.ask("range", task="0_0", store="stamped", prefix=b"b", timestamps=True)
    assert stand.port.answers[timed]["entries"] == [(b"b1", (b"v", 9))]
    assert stand.port.answers[stand.ask("approximate_count", task="0_0", store="totals")] == 6
    assert stand.port.answers[stand.ask("approximate_count", task="0_0", store="nope")] == "no_such_store"
    assert stand.port.answers[stand.ask("approximate_count", task="0_9", store="totals")] == "task_migrated"


# --- outputs that the brokers refuse ---------------------------------------------------------------------


def refused_output(key: bytes = b"k", **facts: bool) -> RecordRefused:
    kinds = {"too_large": False, "forbidden": False, "invalid": False, **facts}
    return RecordRefused("never", "out", 0, key, absent=False, size_bytes=len(key) + 1, **kinds)


def output(key: bytes = b"k") -> Output:
    return Output(TASK, ("out", key, b"v", (), None, None))


def emit(stand: Stand, *keys: bytes) -> int:
    return stand.ask("emit", task="0_0", topic="out", keys=keys, values=(b"v",) * len(keys))


def fail_commit(stand: Stand, refused: RecordRefused) -> object:
    """Let the commit under way meet a refused output, and the task start again; return the reply to the commit."""
    outputs = [Output(TASK, row) for row in stand.running.workspace.unsent() if row[:2] == ("out", refused.key)]
    commit = stand.ask("commit")
    stand.commit_begins()
    assert stand.handler.sets_output_aside(outputs, refused)
    stand.handler.ends(TASK)
    stand.handler.failed([TASK], "refused")
    stand.handler.commit_ends(CommitEnd.FAILED)
    stand.running.workspace.roll_back()
    stand.begin()
    polled(stand, 10)
    return stand.port.answers[commit]


@pytest.mark.parametrize("kind", ["invalid", "forbidden"])
def test_a_refused_output_becomes_a_dead_letter_itself_and_the_rest_stays(rejecting: Stand, kind: str) -> None:
    polled(rejecting, 10)
    emit(rejecting, b"k", b"j")
    assert fail_commit(rejecting, refused_output(**{kind: True})) == "commit_failed"
    rejecting.put(b"counted")
    assert rejecting.port.answers[emit(rejecting, b"k", b"jj")] == (1 if kind == "invalid" else 0)
    assert rejecting.port.answers[rejecting.ask("get", task="0_0", store="totals", keys=(b"counted",))] == [b"v"]
    rows = {row[1]: dict(row[3]) for row in rejecting.running.workspace.unsent() if row[0] == "dead"}
    assert rows.keys() == ({b"k"} if kind == "invalid" else {b"k", b"jj"})
    assert (rows[b"k"]["__streams.errors.topic"], rows[b"k"]["__streams.errors.partition"]) == (b"out", b"0")
    assert rejecting.bad_records.dropped() == {TASK: len(rows)}


def test_a_refused_timestamp_sets_no_other_output_of_the_same_key_and_size_aside(rejecting: Stand) -> None:
    def emit_at(value: bytes, time_ms: int) -> object:
        record = {"topic": "out", "key": b"k", "value": value, "timestamp_ms": time_ms}
        return rejecting.port.answers[rejecting.ask("emit", task="0_0", records=(record,))]

    polled(rejecting, 10)
    emit_at(b"v", 4_102_444_800_000)
    assert fail_commit(rejecting, refused_output(invalid=True, untimely=True)) == "commit_failed"
    assert [emit_at(b"w", 7), emit_at(b"v", 7), emit_at(b"v", 4_102_444_800_000)] == [1, 1, 0]
    assert rejecting.bad_records.dropped() == {TASK: 1}


def test_where_nothing_is_set_aside_the_session_gets_the_error_and_its_puts_stay(stand: Stand) -> None:
    polled(stand, 10)
    emit(stand, b"k")
    assert fail_commit(stand, refused_output(invalid=True)) == "output_refused"
    stand.put(b"counted")
    assert stand.port.answers[emit(stand, b"other", b"k")] == "output_refused"
    assert list(stand.running.workspace.unsent()) == [], "nothing of the request is done"
    assert stand.port.answers[stand.ask("get", task="0_0", store="totals", keys=(b"counted",))] == [b"v"]
    assert stand.port.answers[emit(stand, b"other")] == 1


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_an_output_larger_than_the_client_allows_is_set_aside_at_once(tmp_path: Path, on_error: OnError) -> None:
    with closing(open_task_stores(tmp_path / "s", ["totals", "stamped"], timestamped=frozenset())) as stores:
        stand = Stand(stores, on_error)
        polled(stand, 10)
        number = stand.ask("emit", task="0_0", topic="out", keys=(b"k", b"j"), values=(bytes(1_000_000), b"v"))
        assert stand.port.answers[number] == 1
        topics = [row[0] for row in stand.running.workspace.unsent()]
        assert topics == ([] if on_error == "skip" else ["dead"]) + ["out"]


def test_a_value_that_a_changelog_does_not_take_is_refused_before_the_next_commit(stand: Stand) -> None:
    stand.bad_records.bytes_max_of = lambda _topic: 1_000
    large = RecordRefused("never", "app-totals-changelog", 0, b"k", absent=False, too_large=True, size_bytes=2_000)
    assert stand.handler.refuses_write(TASK, "totals", large)
    polled(stand, 10)
    put = {"task": "0_0", "store": "totals", "keys": (b"k",)}
    assert stand.port.answers[stand.ask("put", values=(bytes(1_500),), **put)] == "too_large"
    assert stand.port.answers[stand.ask("put", values=(bytes(500),), **put)] == 1


def test_a_refused_output_of_lost_tasks_is_no_reason_for_a_later_failure(stand: Stand) -> None:
    polled(stand, 10)
    stand.ask("commit")
    stand.commit_begins()
    assert stand.handler.sets_output_aside([output()], refused_output(invalid=True))
    stand.handler.dropped("the group went on")
    stand.begin()
    polled(stand, 10)
    commit = stand.ask("commit")
    stand.commit_begins()
    stand.handler.commit_ends(CommitEnd.FAILED)
    assert stand.port.answers[commit] == "commit_failed"


def test_a_refusal_that_no_output_is_to_blame_for_ends_the_worker(rejecting: Stand) -> None:
    assert not rejecting.handler.sets_output_aside([], refused_output(forbidden=True)), "no task has emitted it"
    assert not rejecting.handler.sets_output_aside([output()], refused_output())
    assert not rejecting.handler.refuses_write(TASK, "totals", refused_output(forbidden=True))
