"""Outputs of a session that the client or the brokers refuse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import RecordRefused
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.worker.on_error import OnError
from kstreams_assign.worker.refused_outputs import Output
from tests.sidecar.stand import TASK, Stand, polled


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
