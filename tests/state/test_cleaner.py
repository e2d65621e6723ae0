"""The cleaner on a real directory: it removes only folders that are neither owned nor reported, in every order."""

from __future__ import annotations

import errno
import json
import os
import shutil
from itertools import combinations_with_replacement

import pytest

from kstreams_assign.errors import StateDirectoryLocked
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex

T1, T2, T3, T4 = (TaskId(0, n) for n in range(1, 5))
CHANGELOG = TopicPartition("app-s-changelog", 1)
DELAY_MS = 600_000


class Process:
    """The parts of one process that meet here."""

    def __init__(self, directory: StateDirectory, delay_ms: int = DELAY_MS) -> None:
        self.directory, self.mutex, self.sums = directory, ReportMutex(), OffsetSums()
        self.on_recreated: list[bool] = []
        self.cleaner = Cleaner(
            directory,
            self.mutex,
            self.sums,
            state_cleanup_delay_ms=delay_ms,
            on_recreated=lambda: self.on_recreated.append(True),
        )
        for task in directory.tasks_on_disk():
            self.sums.dormant(task, {CHANGELOG: 7})


@pytest.fixture
def process(opened, make_state, clock):
    directory = opened()
    make_state(directory, "0_1", "0_2")
    process = Process(directory)
    assert process.cleaner.run() == []  # the grace begins when a folder is first seen
    clock.now_ms += DELAY_MS
    return process


def test_folders_not_owned_for_the_delay_are_removed_with_their_bytes_and_sums(process):
    assert process.cleaner.run() == [T1, T2]
    assert process.directory.tasks_on_disk() == []
    assert list(process.directory.trash.path.iterdir()) == []
    assert process.sums.report(owned_only=False) == {}
    assert process.cleaner.run() == []


def test_a_locked_folder_stays_with_its_sum(process):
    process.directory.lock_task(T1)
    assert process.cleaner.run() == [T2]
    assert process.sums.report(owned_only=False) == {T1: 7}
    assert (process.directory.task_path(T1) / "data").exists()


def test_a_folder_within_its_grace_stays(process, clock):
    clock.now_ms -= 1
    assert process.cleaner.run() == []


def test_nothing_goes_while_a_rebalance_is_under_way(process):
    assert process.mutex.try_report("m")
    assert process.cleaner.run() is None
    assert process.directory.tasks_on_disk() == [T1, T2]
    process.mutex.release_report("m")
    assert process.cleaner.run() == [T1, T2]


def test_what_was_discarded_is_deleted_by_the_next_run_also_while_a_rebalance_is_under_way(process):
    process.directory.lock_task(T1)
    process.directory.discard(T1)
    assert process.mutex.try_report("m")
    assert process.cleaner.run() is None
    assert list(process.directory.trash.path.iterdir()) == []
    assert process.directory.tasks_on_disk() == [T2]


def test_bytes_are_deleted_when_reports_may_be_made_again_and_what_went_is_in_none(opened, make_state, monkeypatch):
    directory = opened()
    make_state(directory, "0_1", "0_2")
    empty, reports = directory.trash.empty, []

    def report_and_empty() -> None:
        there = sorted(path.name for path in directory.trash.path.iterdir())
        reports.append((process.mutex.try_report("m"), process.sums.report(owned_only=False), there))
        process.mutex.release_report("m")
        empty()

    monkeypatch.setattr(directory.trash, "empty", report_and_empty)
    process = Process(directory, delay_ms=0)
    assert process.cleaner.run() == [T1, T2]
    assert reports == [(True, {}, ["0_1.0", "0_2.1"])]
    assert list(directory.trash.path.iterdir()) == []


def test_trash_of_a_crash_is_no_state_and_goes_at_the_start(opened, make_state):
    directory = opened()
    make_state(directory, "0_1")
    assert directory.retire(T1, 0)
    directory.close()  # the process died between the rename and the deletion
    process = Process(opened())
    assert process.directory.tasks_on_disk() == []
    assert len(list(process.directory.trash.path.iterdir())) == 1
    process.cleaner.empty_trash()
    assert list(process.directory.trash.path.iterdir()) == []


class Watched(StateDirectory):
    """Calls ``at`` at each point of a cleaner's run where another thread could come in between."""

    def __init__(self, *args, **named) -> None:
        super().__init__(*args, **named)
        self.at = lambda: None

    def idle_tasks(self, grace_ms):
        self.at()
        return super().idle_tasks(grace_ms)

    def retire(self, task, grace_ms):
        self.at()
        return super().retire(task, grace_ms)


def test_a_run_that_fails_lets_go_of_the_mutex(opened):
    process = Process(opened(Watched))

    def fail() -> None:
        raise OSError("the disk is missing")

    process.directory.at = fail
    assert process.cleaner.run() == []
    assert process.mutex.try_report("m")


class Joining:
    """A member's rebalance, step by step: report, lock what it is given (all that it reported), let go."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.reported: dict = {}
        self.steps = iter([self.report, self.adopt, self.let_go])

    def report(self) -> None:
        held = self.process.mutex.try_report("m")
        self.reported = self.process.sums.report(owned_only=not held)

    def adopt(self) -> None:
        for task in self.reported:
            folder = self.process.directory.lock_task(task)
            assert (folder / "data").exists(), f"{task} was reported and then cleaned"

    def let_go(self) -> None:
        self.process.mutex.release_report("m")


POINTS = 5  # before the run, before it looks, before each of two renames, after it
ORDERS = list(combinations_with_replacement(range(POINTS), 3))


@pytest.mark.parametrize("at_points", ORDERS, ids=lambda points: "".join(map(str, points)))
def test_in_every_order_of_a_run_and_a_rebalance_what_was_reported_is_there_when_it_is_given(
    opened, make_state, clock, at_points
):
    directory = opened(Watched)
    make_state(directory, "0_1", "0_2")
    process = Process(directory)
    process.cleaner.run()
    clock.now_ms += DELAY_MS
    joining, points = Joining(process), iter(range(POINTS))

    def come_in_between() -> None:
        point = next(points)
        for _ in range(at_points.count(point)):
            next(joining.steps)()

    come_in_between()
    directory.at = come_in_between
    removed = process.cleaner.run()
    directory.at = lambda: None
    for step in joining.steps:
        step()
    assert set(joining.reported).isdisjoint(removed or [])
    assert sorted([*directory.tasks_on_disk(), *(removed or [])]) == [T1, T2]


# A directory that goes away under the process.


def test_a_directory_deleted_in_use_is_created_again_and_locked(process, tmp_path, caplog):
    directory = process.directory
    shutil.rmtree(directory.path)
    assert process.cleaner.run() == []
    assert process.cleaner.run() == []
    with pytest.raises(StateDirectoryLocked, match=str(os.getpid())):
        StateDirectory(tmp_path, "app", clock_ms=process.cleaner._directory._clock_ms)
    assert json.loads((directory.path / "process").read_text())["process_id"] == str(directory.process_id)
    assert {"journal", "alive"} <= {entry.name for entry in directory.path.iterdir()}
    assert process.on_recreated == [True]
    assert process.sums.report(owned_only=False) == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_directory_that_was_created_again_only_in_part_is_finished_by_the_next_run(process, opened, monkeypatch):
    directory, process_id = process.directory, process.directory.process_id
    shutil.rmtree(directory.path)
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "fsync", fail_for_lack_of_space)
        assert process.cleaner.run() == []
    assert not (directory.path / "process").exists()
    process.cleaner.run()
    assert {"process", "journal", "alive"} <= {entry.name for entry in directory.path.iterdir()}
    assert process.on_recreated == [True]
    process.cleaner.run()
    assert process.on_recreated == [True]
    directory.close()
    assert opened().process_id == process_id


def fail_for_lack_of_space(_file: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_folder_deleted_under_the_process_is_offered_no_more_and_what_is_at_work_is_left_alone(process, clock):
    clock.now_ms -= 1  # nothing may go yet
    for task in (T3, T4):
        process.directory.lock_task(task)  # its folder is deleted, too, but it is open
    process.sums.running(T3)
    process.sums.restoring(T4, {CHANGELOG: 5})
    shutil.rmtree(process.directory.task_path(T1))
    assert process.cleaner.run() == []
    assert process.sums.report(owned_only=False) == {T2: 7, T3: RUNNING_OFFSET_SUM, T4: 5}


def test_a_folder_deleted_under_a_task_is_offered_no_more_once_that_is_closed(process):
    process.directory.lock_task(T1)
    process.sums.running(T1)
    shutil.rmtree(process.directory.task_path(T1))
    process.cleaner.run()
    process.sums.dormant(T1, {CHANGELOG: 9})  # its stores still knew how far they were
    process.cleaner.run()
    assert process.sums.report(owned_only=False) == {}, "also before the folder is let go"


def test_a_directory_that_another_took_after_it_was_deleted_ends_the_process_with_the_others_name(process, opened):
    shutil.rmtree(process.directory.path)
    opened()
    with pytest.raises(StateDirectoryLocked, match=f"process {os.getpid()}"):
        process.cleaner.run()


def test_a_disk_error_ends_no_process_and_is_logged_once(process, caplog):
    directory = process.directory
    directory.path.rename(directory.path.with_name("kept"))
    directory.path.write_text("in the way")
    assert [process.cleaner.run() for _ in range(3)] == [[], [], []]
    assert len([record for record in caplog.records if "is not cleaned" in record.message]) == 1
    directory.path.unlink()
    directory.path.with_name("kept").rename(directory.path)
    assert process.cleaner.run() == [T1, T2]
