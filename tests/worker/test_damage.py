"""Every damage to a task's state that we could think of, and its outcome. Most of it without a broker.

What is read: a task folder as a crash leaves it, with tables and a log; a changelog that is longer. Each case damages
one of the two, and names its end. Always: the store equals its changelog, the other task goes on, at most one log line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StoreDamaged
from kstreams_assign.events import StoreDiscardedEvent, StoreWipedEvent, TaskResumedEvent, TaskStoppedEvent
from kstreams_assign.model import Store
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.lookup import Reading
from tests.restore.logs import Log
from tests.samples import sample
from tests.worker.damage import (
    CHANGELOG,
    IN_LOG,
    OTHER,
    STORED,
    TASK,
    TOTALS,
    Rig,
    check_stopped_then_cured,
    entries,
    left_by_a_crash,
)
from tests.worker.damaging import (
    a_file_for_a_folder,
    a_folder,
    a_link,
    a_newer_table,
    all_gone,
    an_empty_folder,
    an_offset_ahead,
    an_offset_that_is_none,
    another_comparator,
    another_layout,
    cut,
    gone,
    no_offset,
    strangers,
    turned_over,
    values_with_timestamps,
)


class End(Enum):
    """The events that report it, in order."""

    GOES_ON = ()
    WIPED = (StoreWipedEvent,)
    DISCARDED = (StoreDiscardedEvent,)


class Case(NamedTuple):
    name: str
    damage: Callable[[Path], object]
    end: End


BESIDE = ("OPTIONS-*", "IDENTITY", "LOCK", "LOG", "rocksdict*")
"""What a database has besides its data."""

TO_STORE = [
    Case("nothing", lambda _: None, End.GOES_ON),
    Case("no folder", shutil.rmtree, End.GOES_ON),
    Case("an empty folder", an_empty_folder, End.GOES_ON),
    Case("a link to the folder", a_link, End.GOES_ON),
    Case("a file where the folder should be", a_file_for_a_folder, End.DISCARDED),
    Case("foreign files in the folder and beside it", strangers, End.GOES_ON),
    *(Case(f"{name} missing", gone(name), End.DISCARDED) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} empty", cut(name, 0), End.DISCARDED) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} cut", cut(name, 0.6), End.DISCARDED) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} turned over", turned_over(name), End.DISCARDED) for name in ("CURRENT", "MANIFEST-*")),
    *(Case(f"{name} a folder", a_folder(name), End.DISCARDED) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} missing", gone(name), End.GOES_ON) for name in BESIDE),
    *(Case(f"{name} turned over", turned_over(name), End.GOES_ON) for name in BESIDE),
    *(Case(f"{name} a folder", a_folder(name), End.DISCARDED) for name in ("IDENTITY", "LOCK", "rocksdict*")),
    *(Case(f"{name} a folder", a_folder(name), End.GOES_ON) for name in ("OPTIONS-*", "LOG")),
    Case("all OPTIONS missing", all_gone("OPTIONS-*"), End.GOES_ON),
    Case("all logs missing", all_gone("*.log"), End.GOES_ON),
    Case("a log turned over", turned_over("*.log"), End.GOES_ON),
    Case("a log a folder", a_folder("*.log"), End.GOES_ON),
    *(Case(f"a log cut at {n} of 12", cut("*.log", n / 12), End.GOES_ON) for n in range(12)),
    Case("a table that a newer RocksDB wrote", a_newer_table, End.DISCARDED),
    Case("a database with another comparator", another_comparator, End.DISCARDED),
    Case("values with timestamps", values_with_timestamps, End.DISCARDED),
    Case("another layout", another_layout, End.DISCARDED),
    Case("an offset that is none", an_offset_that_is_none, End.DISCARDED),
    Case("an offset ahead of the changelog", an_offset_ahead, End.WIPED),
    Case("data without an offset", no_offset, End.WIPED),
]


class Changed(NamedTuple):
    name: str
    log: Log
    end: End


TO_CHANGELOG = [
    Changed("records deleted before the store's offset", Log(100, entries(IN_LOG)[100:], topic_id="id-1"), End.GOES_ON),
    Changed("records deleted beyond the store's offset", Log(420, entries(IN_LOG)[420:], topic_id="id-1"), End.WIPED),
    *(
        Changed(f"created again with {count} records", Log(entries=entries(count, 5_000), topic_id="id-2"), End.WIPED)
        for count in (0, STORED - 100, STORED, IN_LOG)
    ),
    Changed("cut short by its broker", Log(entries=entries(STORED - 100), topic_id="id-1"), End.WIPED),
]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before") / "0_3"
    left_by_a_crash(folder)
    return folder


@pytest.fixture
def folder(crashed: Path, tmp_path: Path) -> Path:
    """The task's own folder in a state directory of its own."""
    place = tmp_path / "app" / "0_3"
    shutil.copytree(crashed, place)
    return place


def whole() -> Log:
    return Log(entries=entries(IN_LOG), topic_id="id-1")


def check_restored(folder: Path, log: Log, end: End, store: Store = TOTALS) -> None:
    with Rig(folder.parents[1], log, store) as rig:
        rig.until_running()
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end} if log.end else {})
        assert tuple(rig.reported()) == end.value
        assert len(rig.warnings.lines) == len(end.value), rig.warnings.lines
        assert all("0_3" in line for line in rig.warnings.lines)


@pytest.mark.parametrize("case", sample(TO_STORE, 20), ids=lambda case: case.name)
def test_a_damaged_store_is_restored_from_what_is_left_or_from_the_start(case: Case, folder: Path) -> None:
    case.damage(folder)
    check_restored(folder, whole(), case.end)


@pytest.mark.parametrize("case", TO_CHANGELOG, ids=lambda case: case.name)
def test_a_changelog_that_is_another_now_is_read_from_its_start(case: Changed, folder: Path) -> None:
    log = Log(case.log.first, list(case.log.entries), topic_id=case.log.topic_id)
    check_restored(folder, log, case.end)


def test_values_without_timestamps_are_no_use_to_a_store_that_has_them_now(folder: Path) -> None:
    check_restored(folder, whole(), End.DISCARDED, replace(TOTALS, timestamped=True))


def test_a_store_without_a_changelog_begins_empty_where_its_values_have_no_timestamps(folder: Path) -> None:
    check_restored(folder, Log(), End.DISCARDED, replace(TOTALS, timestamped=True, logged=False))


def test_a_disk_that_fails_stops_the_task_until_it_can_be_read(folder: Path) -> None:
    """Linux answers a read of a process's memory at 0 with an I/O error."""
    check_stopped_then_cured(folder.parents[1], whole(), "lies on a disk that fails", lambda: unreadable(folder))


def unreadable(folder: Path) -> Callable[[], object]:
    kept = (folder / "CURRENT").rename(folder / "kept")
    (folder / "CURRENT").symlink_to("/proc/self/mem")
    return lambda: kept.rename(folder / "CURRENT")


def test_a_store_that_is_open_here_already_stops_the_task_until_it_is_let_go(folder: Path) -> None:
    check_stopped_then_cured(
        folder.parents[1], whole(), "is open already", lambda: open_task_stores(folder, ["totals"]).close
    )


def test_a_store_that_another_process_has_open_stops_the_task_until_that_ends(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), "is open already", lambda: held_elsewhere(folder))


HOLDER = """
import sys
from pathlib import Path
from kstreams_assign.adapters.rocksdb import open_task_stores
held = open_task_stores(Path(sys.argv[1]), ["totals"])
print(flush=True)
sys.stdin.read()
"""


def held_elsewhere(folder: Path) -> Callable[[], object]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "\n"
    return lambda: holder.communicate(timeout=60)


def test_a_link_to_a_disk_that_is_away_stops_the_task_until_it_is_back(folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "disk")
    check_stopped_then_cured(
        tmp_path, whole(), "a link to nothing", lambda: lambda: (tmp_path / "away").rename(tmp_path / "disk")
    )


def test_a_missing_changelog_stops_the_task_until_it_is_there(folder: Path) -> None:
    with Rig(folder.parents[1], None) as rig:
        rig.begin()
        stopped = rig.until_event(TaskStoppedEvent)
        assert "app-totals-changelog-3 does not exist" in stopped.reason
        rig.until(lambda: OTHER in rig.handed)
        rig.reader.logs[CHANGELOG] = log = whole()
        rig.until(lambda: TASK in rig.handed)
        assert rig.reported() == [TaskStoppedEvent, TaskResumedEvent]
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})


def test_a_changelog_without_a_leader_delays_its_own_task_alone(folder: Path) -> None:
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.reader.leaderless.add(CHANGELOG)
        rig.begin()
        rig.until(lambda: OTHER in rig.handed and rig.warnings.lines)
        assert "task 0_3 waits for its changelog app-totals-changelog-3" in rig.warnings.lines[0]
        assert TASK not in rig.handed
        rig.reader.leaderless.clear()
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert (rig.reported(), len(rig.warnings.lines)) == ([], 1)


@pytest.mark.parametrize("count", [0, STORED, IN_LOG, IN_LOG + 50])
def test_a_changelog_recreated_under_a_standby_is_read_from_its_start(folder: Path, count: int) -> None:
    log = Log(entries=entries(count, 5_000), topic_id="id-2")
    with Rig(folder.parents[1], whole()) as rig:
        rig.thread.tail(TASK, None)
        rig.until(lambda: TASK in rig.thread.progress() and rig.thread.progress()[TASK].done)
        rig.reader.logs[CHANGELOG] = log
        rig.until_event(StoreWipedEvent)
        rig.thread.restore(TASK, None, [])
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end} if log.end else {})
        assert rig.reported() == [StoreWipedEvent]


def test_a_changelog_recreated_during_a_restore_is_read_from_its_start(folder: Path) -> None:
    log = Log(entries=entries(STORED, 5_000), topic_id="id-2")
    with Rig(folder.parents[1], replace(whole(), held_back=1)) as rig:  # so it is not through when that happens
        rig.begin()
        rig.until(lambda: rig.thread.lags().get(TASK) == 1)
        rig.reader.logs[CHANGELOG] = log
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert rig.reported() == [StoreWipedEvent]


def test_damage_met_by_a_reader_of_a_running_task_costs_that_task_a_restore(folder: Path) -> None:
    turned_over("*.sst")(folder)
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.until_running()
        stores = rig.take()
        with pytest.raises(StoreDamaged) as met:
            dict(stores.range("totals"))
        rig.thread.failed(TASK, stores, [], met.value)
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert rig.reported() == [StoreDiscardedEvent]


def test_damage_met_by_a_reader_of_a_copy_costs_that_copy_a_restore(folder: Path) -> None:
    turned_over("*.sst")(folder)
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.thread.tail(TASK, None)
        rig.until(lambda: TASK in rig.thread.progress() and rig.thread.progress()[TASK].done)
        for key in sorted({key for key, _ in log.entries})[::20]:
            peeked: Future[Reading | None] = Future()
            rig.thread.peek(TASK, "totals", key, peeked)
            peeked.result(60)
        rig.until_event(StoreDiscardedEvent)
        rig.thread.restore(TASK, None, [])
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})


def test_a_running_task_whose_state_directory_was_deleted_is_restored_once_it_needs_a_new_file(folder: Path) -> None:
    log = whole()
    with Rig(folder.parents[1], log, memory=RocksMemory(write_buffer_bytes=64 << 10)) as rig:
        rig.until_running()
        shutil.rmtree(folder.parent)
        assert rig.directory.secure()
        stores = rig.take()
        assert dict(stores.range("totals")) == log.state()
        with pytest.raises(StoreDamaged) as met:
            commit_on_and_on(stores, log)
        rig.thread.failed(TASK, stores, [], met.value)
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert rig.reported() == [StoreDiscardedEvent]


def commit_on_and_on(stores: TaskStores, log: Log) -> None:
    """Write into the changelog, then into the store, until that fails."""
    for _ in range(1_000):
        log.append(*[(b"%04d" % n, os.urandom(1_000)) for n in range(50)])
        stores.write({"totals": log.entries[-50:]}, {CHANGELOG: log.end})


def test_damage_met_by_a_compaction_of_a_copy_costs_that_copy_a_restore(folder: Path) -> None:
    """The block is not read; but the replica grows, and its tables are compacted."""
    turned_over("*.sst")(folder)
    log = whole()
    with Rig(folder.parents[1], log, memory=RocksMemory(write_buffer_bytes=64 << 10)) as rig:
        rig.thread.tail(TASK, None)
        rig.until(lambda: TASK in rig.thread.progress() and rig.thread.progress()[TASK].done)
        assert rig.reported() == []
        log.append(*[(b"%04d" % (n % 311), os.urandom(1_000)) for n in range(2_000)])
        rig.until_event(StoreDiscardedEvent)
        rig.thread.restore(TASK, None, [])
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert rig.reported() == [StoreDiscardedEvent]


def test_a_store_damaged_again_after_it_worked_is_discarded_at_once_again(folder: Path) -> None:
    with Rig(folder.parents[1], whole()) as rig:
        rig.until_running()
        for _ in range(2):
            rig.thread.failed(TASK, rig.handed.pop(TASK), [], StoreDamaged("spoilt"))
            rig.until(lambda: TASK in rig.handed)
        assert rig.reported() == [StoreDiscardedEvent] * 2  # it worked in between, so each is a first one


def test_a_store_damaged_again_right_after_it_was_discarded_stops_the_task(folder: Path) -> None:
    """A disk that damages its content: the first time discard at once, then only after growing pauses."""
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.spoil = spoilt
        rig.begin()
        stopped = rig.until_event(TaskStoppedEvent)
        assert "lacks its file CURRENT" in stopped.reason, stopped
        assert rig.reported()[:3] == [StoreDiscardedEvent, StoreDiscardedEvent, TaskStoppedEvent]
        rig.until(lambda: any(stop.pauses > 2 for stop in rig.thread.stopped().values()))
        rig.until(lambda: OTHER in rig.handed)
        rig.spoil = lambda _: None
        rig.until(lambda: TASK in rig.handed)
        assert [kind for kind in rig.reported() if kind is not StoreDiscardedEvent] == [
            TaskStoppedEvent,
            TaskResumedEvent,
        ]
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})


def spoilt(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "CURRENT").unlink(missing_ok=True)
    (folder / "000009.sst").touch()


def test_closing_a_stopped_task_lets_it_go(folder: Path) -> None:
    holder = open_task_stores(folder, ["totals"])
    with Rig(folder.parents[1], whole()) as rig:
        rig.begin()
        rig.until_event(TaskStoppedEvent)
        rig.thread.close(TASK, None, 1)
        rig.until(lambda: TASK in rig.closed_tasks)
        assert rig.thread.stopped() == {}
    holder.close()


def test_without_rights_and_on_a_full_disk_the_task_stops_and_goes_on_when_that_is_mended(crashed: Path) -> None:
    """In a process of its own: without root's rights, and with files that may not grow."""
    command = [sys.executable, "-m", "tests.worker.damage_without_rights", str(crashed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "no rights on the state directory",
        "no rights on the folder",
        "no rights on one file",
        "a folder that cannot be written",
        "no space while opening",
        "no space while restoring",
        "no space while committing",
        "too many open files",
        "a damaged folder and no trash",
        "a damaged folder that cannot be moved away",
    ]
