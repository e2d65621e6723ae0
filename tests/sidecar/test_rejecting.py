"""Records that a session sets aside: where they go, what is undone, and what an end of the session leaves."""

from __future__ import annotations

import pytest

from kstreams_assign.events import RecordSetAsideEvent
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.dead_letters import read_dead_letter
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.shares import count_letters
from tests.sidecar.stand import INPUT, LAST_MS, TASK, Stand, dead_letters, polled, reject


def test_a_rejected_record_goes_to_the_dead_letter_topic_with_the_commit(rejecting: Stand) -> None:
    polled(rejecting, 10, 2)
    rejecting.put(b"earlier")
    assert reject(rejecting, 10) == {"response": "dead_letter", "undone": False}
    assert reject(rejecting, 10) == {"response": "dead_letter", "undone": False}, "twice is once"
    rejecting.ask("commit")
    assert dead_letters(rejecting) == [b"10"]
    assert count_letters(rejecting.running.workspace.unsent(), "dead") == 1
    written, offsets = rejecting.commit_begins()
    assert written == {b"earlier"}, "earlier puts stay"
    assert offsets == {INPUT: 12}, "the rejected record counts as polled"
    assert rejecting.bad_records.dropped() == {TASK: 1}
    assert [event.offset for event in rejecting.reported if isinstance(event, RecordSetAsideEvent)] == [10]


def test_each_type_of_error_is_reported_once_also_where_types_have_colons_in_their_names(rejecting: Stand) -> None:
    polled(rejecting, 10, 4)
    for offset, error in enumerate(["std::range_error: 1", "std::range_error: 2", "std::bad_alloc", "std"], start=10):
        reject(rejecting, offset, exception=error)
    reported = [event.offset for event in rejecting.reported if isinstance(event, RecordSetAsideEvent)]
    assert reported == [10, 12, 13]


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
