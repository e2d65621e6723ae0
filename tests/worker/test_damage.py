"""Every damage to a task's state that we could think of, and where it ends. Most of it without a broker.

What is read: a task folder as a crash leaves it, with tables and a log; a changelog that is longer. Each case damages one of
the two, and says how it ends. Ever: the store is its changelog, the other task goes on, and there is one log line or none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StoreDamaged
from kstreams_assign.worker.lookup import Value
from kstreams_assign.worker.stops import Stops
from tests.restore.test_loop import Log
from tests.worker.damage import (
    CHANGELOG,
    IN_LOG,
    OTHER,
    STORED,
    TASK,
    Rig,
    check_stopped_then_cured,
    entries,
    left_by_a_crash,
)


class End(Enum):
    """The events that tell of it, in order."""

    GOES_ON = ()
    WIPED = ("store_wiped",)
    ANEW = ("store_discarded",)


class Case(NamedTuple):
    name: str
    damage: Callable[[Path], object]
    end: End


def the(folder: Path, pattern: str) -> Path:
    """The largest file of that name."""
    return max(folder.glob(pattern), key=lambda file: file.stat().st_size)


def gone(pattern: str) -> Callable[[Path], None]:
    return lambda folder: the(folder, pattern).unlink()


def all_gone(pattern: str) -> Callable[[Path], None]:
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]


def cut(pattern: str, share: float) -> Callable[[Path], None]:
    return lambda folder: os.truncate(the(folder, pattern), int(the(folder, pattern).stat().st_size * share))


def turned_over(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = the(folder, pattern)
        content = bytearray(file.read_bytes())
        third = len(content) // 3
        content[third : third + 100] = bytes(byte ^ 255 for byte in content[third : third + 100])
        file.write_bytes(content)

    return damage


def a_folder(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = the(folder, pattern)
        file.unlink()
        file.mkdir()

    return damage


def a_newer_table(folder: Path) -> None:
    """The footer's format version, as no RocksDB of today writes it."""
    file = the(folder, "*.sst")
    content = bytearray(file.read_bytes())
    content[-12] = 99
    file.write_bytes(content)


def another_layout(folder: Path) -> None:
    stores = open_task_stores(folder, ["totals"])
    stores._db.put(b"format", b"3")
    stores.close()


def an_offset_that_is_none(folder: Path) -> None:
    stores = open_task_stores(folder, ["totals"])
    stores._db.put(b"o\0\0\0\3" + CHANGELOG.topic.encode(), b"short")
    stores.close()


def an_offset_ahead(folder: Path) -> None:
    stores = open_task_stores(folder, ["totals"])
    stores.write({}, {CHANGELOG: IN_LOG + 1})
    stores.close()


def no_offset(folder: Path) -> None:
    stores = open_task_stores(folder, ["totals"])
    stores._db.delete(b"o\0\0\0\3" + CHANGELOG.topic.encode())
    stores.close()


def strangers(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "000777.sst").write_bytes(b"x" * 50)
    (folder / "000778.log").write_bytes(b"junk" * 50)
    (folder / "sub").mkdir()
    (folder.parent / "readme").write_text("mine")
    (folder.parent / "00_3").mkdir()
    (folder.parent / "0_3.bak").mkdir()


def a_file_for_a_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("what is this")


def a_link(folder: Path) -> None:
    folder.rename(folder.parent.parent / "elsewhere")
    folder.symlink_to(folder.parent.parent / "elsewhere")


def an_empty_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


TO_STORE = [
    Case("nothing", lambda _: None, End.GOES_ON),
    Case("no folder", shutil.rmtree, End.GOES_ON),
    Case("an empty folder", an_empty_folder, End.GOES_ON),
    Case("a link to the folder", a_link, End.GOES_ON),
    Case("a file where the folder should be", a_file_for_a_folder, End.ANEW),
    Case("foreign files in the folder and beside it", strangers, End.GOES_ON),
    *(Case(f"{name} missing", gone(name), End.ANEW) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} empty", cut(name, 0), End.ANEW) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} cut", cut(name, 0.6), End.ANEW) for name in ("CURRENT", "MANIFEST-*", "*.sst")),
    *(Case(f"{name} turned over", turned_over(name), End.ANEW) for name in ("CURRENT", "MANIFEST-*")),
    *(Case(f"{name} a folder", a_folder(name), End.ANEW) for name in ("CURRENT", "MANIFEST-*", "*.sst", "LOCK")),
    *(Case(f"{name} missing", gone(name), End.GOES_ON) for name in ("IDENTITY", "LOCK", "rocksdict*")),
    *(Case(f"{name} turned over", turned_over(name), End.GOES_ON) for name in ("OPTIONS-*", "rocksdict*")),
    Case("rocksdict's settings a folder", a_folder("rocksdict*"), End.ANEW),
    Case("all logs missing", all_gone("*.log"), End.GOES_ON),
    Case("a log turned over", turned_over("*.log"), End.GOES_ON),
    Case("a log a folder", a_folder("*.log"), End.GOES_ON),
    *(Case(f"a log cut at {n} of 12", cut("*.log", n / 12), End.GOES_ON) for n in range(12)),
    Case("a table that a newer RocksDB wrote", a_newer_table, End.ANEW),
    Case("another layout", another_layout, End.ANEW),
    Case("an offset that is none", an_offset_that_is_none, End.ANEW),
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
        Changed(f"made anew with {count} records", Log(entries=entries(count, 5_000), topic_id="id-2"), End.WIPED)
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


def check_restored(folder: Path, log: Log, end: End) -> None:
    with Rig(folder.parents[1], log) as rig:
        rig.begin()
        rig.until(lambda: {TASK, OTHER} <= rig.handed.keys())
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end} if log.end else {})
        assert tuple(rig.told()) == end.value
        assert len(rig.warnings.lines) == len(end.value), rig.warnings.lines
        assert all("0_3" in line for line in rig.warnings.lines)


@pytest.mark.parametrize("case", TO_STORE, ids=lambda case: case.name)
def test_a_damaged_store_is_restored_from_what_is_left_or_from_the_start(case: Case, folder: Path) -> None:
    case.damage(folder)
    check_restored(folder, whole(), case.end)


@pytest.mark.parametrize("case", TO_CHANGELOG, ids=lambda case: case.name)
def test_a_changelog_that_is_another_now_is_read_from_its_start(case: Changed, folder: Path) -> None:
    log = Log(case.log.first, list(case.log.entries), topic_id=case.log.topic_id)
    check_restored(folder, log, case.end)


def test_a_store_that_another_has_open_stops_the_task_until_it_lets_go(folder: Path) -> None:
    check_stopped_then_cured(
        folder.parents[1], whole(), "is open already", lambda: open_task_stores(folder, ["totals"]).close
    )


def test_a_link_to_a_disk_that_is_away_stops_the_task_until_it_is_back(folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "disk")
    check_stopped_then_cured(
        tmp_path, whole(), "a link to nothing", lambda: lambda: (tmp_path / "away").rename(tmp_path / "disk")
    )


def test_a_missing_changelog_stops_the_task_until_it_is_there(folder: Path) -> None:
    with Rig(folder.parents[1], None) as rig:
        rig.begin()
        stopped = rig.until_told("task_stopped")
        assert "app-totals-changelog-3 does not exist" in stopped["reason"]
        rig.until(lambda: OTHER in rig.handed)
        rig.reader.logs[CHANGELOG] = log = whole()
        rig.until(lambda: TASK in rig.handed)
        assert rig.told() == ["task_stopped", "task_resumed"]
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})


def test_damage_met_by_a_reader_of_a_running_task_costs_that_task_a_restore(folder: Path) -> None:
    turned_over("*.sst")(folder)
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.begin()
        rig.until(lambda: {TASK, OTHER} <= rig.handed.keys())
        stores = rig.handed.pop(TASK)
        assert stores is not None
        with pytest.raises(StoreDamaged) as met:
            dict(stores.range("totals"))
        rig.thread.failed(TASK, stores, [], met.value)
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})
        assert rig.told() == ["store_discarded"]


def test_damage_met_by_a_reader_of_a_copy_costs_that_copy_a_restore(folder: Path) -> None:
    turned_over("*.sst")(folder)
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.thread.tail(TASK, None)
        rig.until(lambda: TASK in rig.thread.progress() and rig.thread.progress()[TASK].done)
        for key in sorted({key for key, _ in log.entries})[::20]:
            found: Future[Value | None] = Future()
            rig.thread.peek(TASK, "totals", key, found)
            found.result(60)
        rig.until_told("store_discarded")
        rig.thread.restore(TASK, None, [])
        rig.until(lambda: TASK in rig.handed)
        assert rig.contents(TASK) == (log.state(), {CHANGELOG: log.end})


def test_a_store_that_is_damaged_again_and_again_does_not_keep_the_thread_busy(folder: Path) -> None:
    """A disk that spoils what it is given: once anew at once, then only after growing pauses."""
    with Rig(folder.parents[1], whole()) as rig:
        rig.begin()
        rig.until(lambda: {TASK, OTHER} <= rig.handed.keys())
        for _ in range(2):
            rig.thread.failed(TASK, rig.handed.pop(TASK), [], StoreDamaged("spoilt"))
            rig.until(lambda: TASK in rig.handed)
        assert rig.told() == ["store_discarded"] * 2  # it worked in between, so each is a first one
        book = Stops()
        assert book.begin_anew(TASK, StoreDamaged("spoilt"))
        assert not book.begin_anew(TASK, StoreDamaged("spoilt"))


def test_pauses_grow_to_a_minute_and_a_stop_is_news_once() -> None:
    book = Stops()
    told = [book.pause(TASK, "full", now_ms=0) for _ in range(9)]
    assert [news for _, news in told] == [True] + [False] * 8
    assert [pause for pause, _ in told] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    assert (book.waits(TASK), book.due(59_999), book.due(60_000), book.waits(TASK)) == (True, [], [TASK], False)
    assert (book.over(TASK), book.over(TASK), book.told()) == (True, False, {})


def test_closing_a_stopped_task_lets_it_go(folder: Path) -> None:
    holder = open_task_stores(folder, ["totals"])
    with Rig(folder.parents[1], whole()) as rig:
        rig.begin()
        rig.until_told("task_stopped")
        rig.thread.close(TASK, None)
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
    ]
