"""The journal: ages that survive restarts and crashes, records of removals, a bounded size, lines for people."""

from __future__ import annotations

import errno
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state import journal as journals
from kstreams_assign.state import journal_lines
from kstreams_assign.state.cleaner import wipe_old
from kstreams_assign.state.journal import read_journal
from kstreams_assign.state.journal_lines import Line, read_line, replay_lines

T1, T2 = TaskId(0, 1), TaskId(0, 2)
HOUR_MS = 3_600_000


def lines_of(directory) -> list[dict]:
    return [json.loads(line) for line in (directory.path / "journal").read_text().splitlines()]


def abandon(directory) -> None:
    """As a crash leaves it: nothing released, nothing said."""
    directory._lock_file.close()


def test_an_age_counts_from_the_release_over_restarts_and_not_from_the_folders_time(opened, make_state, wall):
    first = opened()
    first.lock_task(T1)
    make_state(first, "0_1")
    first.release_task(T1)
    first.close()
    for hours in (1, 2):
        wall.now_ms += HOUR_MS
        os.utime(first.task_path(T1))
        reopened = opened()
        reopened.heartbeat()
        assert reopened.age_ms(T1) == hours * HOUR_MS
        reopened.close()


def test_after_a_crash_the_age_of_what_was_owned_counts_from_the_last_heartbeat_and_stays_so(opened, make_state, wall):
    first = opened()
    make_state(first, "0_1", "0_2")
    first.lock_task(T1)
    wall.now_ms += HOUR_MS
    first.heartbeat()
    abandon(first)
    wall.now_ms += HOUR_MS
    second = opened()
    second.heartbeat()  # of a process that does not own it
    assert second.age_ms(T1) == HOUR_MS
    abandon(second)
    wall.now_ms += HOUR_MS
    assert opened().age_ms(T1) == 2 * HOUR_MS
    assert "its process crashed" in read_journal(first.path).used["0_1"].why


def test_what_is_owned_has_no_age_while_the_process_is_seen(opened, make_state, wall):
    directory = opened()
    make_state(directory, "0_1")
    directory.lock_task(T1)
    wall.now_ms += HOUR_MS
    directory.heartbeat()
    assert directory.age_ms(T1) == 0


def test_a_folder_that_no_journal_knows_is_as_old_as_its_newest_file_once_and_for_all(opened, make_state, wall):
    directory = opened()
    directory.close()
    make_state(directory, "0_1")
    for path in (directory.task_path(T1), directory.task_path(T1) / "data"):
        os.utime(path, (0, (wall.now_ms - 5 * HOUR_MS) / 1000))
    second = opened()
    assert second.age_ms(T1) == 5 * HOUR_MS
    second.close()
    os.utime(directory.task_path(T1))
    assert opened().age_ms(T1) == 5 * HOUR_MS


def test_a_clock_that_was_set_back_makes_nothing_old(opened, make_state, wall):
    directory = opened()
    directory.lock_task(T1)
    make_state(directory, "0_1")
    directory.release_task(T1)
    wall.now_ms -= HOUR_MS
    assert directory.age_ms(T1) == 0


@pytest.mark.parametrize(("max_age_ms", "wiped"), [(-1, []), (HOUR_MS, []), (HOUR_MS - 1, [T1]), (0, [T1])])
def test_old_state_is_removed_at_start_unless_the_age_is_minus_one(opened, make_state, wall, max_age_ms, wiped):
    first = opened()
    for task in (T1, T2):
        first.lock_task(task)
        make_state(first, str(task))
    first.release_task(T1)
    wall.now_ms += HOUR_MS
    first.release_task(T2)
    first.close()
    second = opened()
    assert wipe_old(second, max_age_ms) == wiped
    assert second.tasks_on_disk() == [task for task in (T1, T2) if task not in wiped]
    second.trash.empty()
    assert not wiped or "state_cleanup_dir_max_age_ms" in (second.path / "journal").read_text()


def test_a_removal_reads_like_a_sentence(opened, make_state):
    directory = opened()
    make_state(directory, "0_1")
    directory.lock_task(T1)
    directory.release_task(T1)
    assert directory.retire(T1, 0)
    directory.trash.empty()
    own, release, retire, delete = lines_of(directory)[-4:]
    assert [line["did"] for line in (own, release, retire, delete)] == ["own", "release", "retire", "delete"]
    at = "2030-03-17T17:46:40.000Z"
    why = "not owned for 0 ms; state_cleanup_delay_ms = 0"
    assert retire == {"at": at, "did": "retire", "task": "0_1", "to": "0_1.0", "why": why}
    assert delete == {"at": at, "did": "delete", "task": "0_1", "to": "0_1.0"}


def test_unrecorded_entries_stay_in_the_trash_and_are_logged_once(opened, make_state, caplog):
    directory = opened()
    make_state(directory, "0_1")
    directory.retire(T1, 0)
    directory.close()
    (directory.path / "journal").unlink()  # and with it the record
    directory = opened()
    directory.trash.empty()
    directory.trash.empty()
    assert (directory.trash.path / "0_1.0" / "data").exists()
    assert caplog.text.count("0_1.0 stays: the journal has no record") == 1


def test_a_file_in_the_place_of_the_trash_costs_nothing_but_the_removals(opened, make_state, caplog):
    directory = opened()
    make_state(directory, "0_1")
    directory.close()
    directory.trash.path.touch()
    directory = opened()
    assert not directory.retire(T1, 0)
    directory.trash.empty()
    assert directory.tasks_on_disk() == [T1]
    assert "cannot be moved to the trash" in caplog.text


def test_a_rename_that_fails_is_taken_back_in_the_journal(opened, make_state, monkeypatch):
    directory = opened()
    make_state(directory, "0_1")

    def busy(*_args) -> None:
        raise OSError(errno.EBUSY, "busy")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", busy)
        assert not directory.retire(T1, 0)
    assert [line["did"] for line in lines_of(directory)[-2:]] == ["retire", "keep"]
    assert directory.tasks_on_disk() == [T1]


@pytest.mark.parametrize(("number", "retired"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_journal_that_cannot_be_written_stops_a_removal_unless_the_disk_is_full(
    opened, make_state, monkeypatch, caplog, number, retired
):
    """On a full disk nothing else makes room; the record is caught up on once there is some."""
    directory = opened()
    make_state(directory, "0_1", "0_2")

    def refuse(*_args) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        assert directory.retire(T1, 0) is retired
        directory.lock_task(T2)
        directory.heartbeat()
    assert not (directory.path / "alive").exists()  # or what the old lines leave open would look younger
    assert "journal cannot be written" in caplog.text
    directory.release_task(T2)
    contents = read_journal(directory.path)
    assert contents.used["0_2"].did == "release"
    assert set(contents.trashed) == ({"0_1.0"} if retired else set())
    directory.trash.empty()
    assert directory.tasks_on_disk() == ([T2] if retired else [T1, T2])


def test_the_file_stays_small_whatever_happens_and_keeps_what_matters(opened, make_state, monkeypatch, wall):
    monkeypatch.setattr(journals, "SIZE_MAX_BYTES", 2_048)
    monkeypatch.setattr(journal_lines, "PAST_LINES", 20)
    first = opened()
    make_state(first, "0_2")
    first.lock_task(T2)
    first.release_task(T2)
    wall.now_ms += HOUR_MS
    sizes = []
    for _ in range(100):
        first.lock_task(T1)
        make_state(first, "0_1")
        first.release_task(T1)
        assert first.retire(T1, 0)
        first.trash.empty()
        sizes.append((first.path / "journal").stat().st_size)
    assert max(sizes) < 2 * 200 * (20 + 3)
    assert max(sizes[50:]) <= max(sizes[:50]) * 1.1
    first.close()
    assert opened().age_ms(T2) == HOUR_MS


def test_who_takes_a_folder_does_not_wait_for_the_record_of_its_removal_and_keeps_it(opened, make_state, monkeypatch):
    directory = opened()
    make_state(directory, "0_1", "0_2")
    syncing, taken, retired = threading.Event(), threading.Event(), []

    def slow(_file) -> None:
        syncing.set()
        assert taken.wait(60)

    monkeypatch.setattr(os, "fsync", slow)
    cleaner = threading.Thread(target=lambda: retired.append(directory.retire(T1, 0)))
    cleaner.start()
    assert syncing.wait(60)
    assert (directory.lock_task(T1) / "data").exists()
    directory.lock_task(T2)
    directory.release_task(T2)
    taken.set()
    cleaner.join()
    assert retired == [False]
    assert (directory.task_path(T1) / "data").exists()
    assert lines_of(directory)[-1]["did"] == "keep"
    assert not read_journal(directory.path).trashed


def test_threads_may_tell_it_at_once(opened):
    directory = opened()

    def work(partition: int) -> None:
        for _ in range(100):
            directory.lock_task(TaskId(0, partition))
            directory.release_task(TaskId(0, partition))

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines_of(directory)) == 801  # whole lines, and the one of the start


@pytest.mark.parametrize("name", ["journal", "alive"])
def test_a_file_that_is_a_folder_is_a_state_error_and_leaves_the_directory_free(opened, name):
    first = opened()
    first.close()
    (first.path / name).unlink(missing_ok=True)
    (first.path / name).mkdir()
    with pytest.raises(StateError, match="cannot be used"):
        opened()
    (first.path / name).rmdir()
    opened()


LINES = st.builds(
    Line,
    st.integers(0, 4_000_000_000_000),
    st.sampled_from(["open", "own", "release", "found", "retire", "delete", "keep"]),
    *(st.sampled_from(["", "0_1", "0_2", "x\n\u2028"]) for _ in range(4)),
)


@given(st.lists(LINES, max_size=30))
def test_a_rewritten_journal_has_the_same_contents(lines):
    first = replay_lines(lines)
    replayed = replay_lines(read_line(line.to_text()) for line in first.lines(lambda _task: True))
    assert (replayed.opened, replayed.used, replayed.trashed) == (first.opened, first.used, first.trashed)


def test_after_a_crash_the_lines_stand_in_the_order_of_time():
    """A folder keeps the place of its last use, although it was the first one in the journal."""
    contents = replay_lines([Line(1, "open"), Line(2, "own", "0_1"), Line(3, "own", "0_2"), Line(4, "release", "0_2")])
    contents = replay_lines(
        [*contents.lines(lambda _: True), Line(5, "retire", "0_3", "p"), Line(7, "delete", "0_3", "p")]
    )
    reopened = contents.reopened({"0_1": 0, "0_2": 0}, (), alive_ms=9)
    reopened.add(Line(10, "open"))
    assert [(line.at_ms, line.did) for line in reopened.lines(lambda _: True)] == [
        *((4, "release"), (5, "retire"), (7, "delete"), (9, "release"), (10, "open"))
    ]


@given(st.one_of(st.text(), st.just("[" * 100_000), st.binary().map(lambda data: data.decode("latin-1"))))
def test_what_is_no_line_is_passed_over(text):
    assert read_line(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"at": "9999-12-31T23:59:59.999Z", "did": "own", "task": "0_1"}',
        '{"at": "0001-01-01T00:00:00.000Z", "did": "own", "task": "0_1"}',
        '{"at": 7, "did": "own", "task": "0_1"}',
        '{"at": "2026-01-01T00:00:00.000Z", "did": ["own"], "task": "0_1"}',
        '{"at": "2026-01-01T00:00:00.000Z", "did": "sell", "task": "0_1"}',
        '{"at": "2026-01-01T00:00:00.000Z", "did": "own", "tas',
    ],
)
def test_foreign_and_torn_lines_are_skipped(opened, make_state, wall, text):
    first = opened()
    first.lock_task(T1)
    make_state(first, "0_1")
    first.release_task(T1)
    first.close()
    with (first.path / "journal").open("a") as file:
        file.write(text)
    wall.now_ms += HOUR_MS
    assert opened().age_ms(T1) == HOUR_MS
