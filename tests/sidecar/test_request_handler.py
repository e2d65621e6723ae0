"""The handler between a session and the loop: what waits, when it is answered, and what a session leaves behind."""

from __future__ import annotations

import pytest

from kstreams_assign.events import SessionBeganEvent, SessionEndedEvent
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker.global_thread import TableReaders
from tests.sidecar.stand import INPUT, LAST_MS, OTHER_INPUT, OTHER_TASK, TASK, Port, Stand, polled


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


REFUSED = {
    "offsets": ("commit", {"offsets": {"orders-0": 99}}, "bad_offset"),
    "topic": ("emit", {"task": "0_0", "topic": "none", "keys": (b"k",), "values": (b"v",)}, "no_such_topic"),
    "store": ("delete", {"task": "0_0", "store": "none", "keys": (b"k",)}, "no_such_store"),
    "size": ("put", {"task": "0_0", "store": "totals", "keys": (b"k",), "values": (bytes(2 << 20),)}, "too_large"),
}


@pytest.mark.parametrize(("op", "fields", "code"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request_leaves_no_work(stand: Stand, op: str, fields: dict[str, object], code: str) -> None:
    assert stand.port.answers[stand.ask(op, **fields)] == code
    stand.handler.leave(stand.port)
    assert stand.reported[-1] == SessionEndedEvent(uncommitted=False)


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
