"""Ways to damage a task's folder; ``test_damage`` has the outcome of each.

A function damages the folder that it gets, or makes such a function for the files of a pattern.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import rocksdict

from kstreams_assign.adapters.rocksdb import open_task_stores
from tests.worker.damage import CHANGELOG, IN_LOG, STORED


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
        content = bytearray(file.read_bytes() or bytes(100))  # `LOCK` is empty
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


def another_comparator(folder: Path) -> None:
    """A database of rocksdict's own kind, which sorts keys its own way."""
    shutil.rmtree(folder)
    database = rocksdict.Rdict(str(folder))
    database[7] = "another program's"
    database.close()


def values_with_timestamps(folder: Path) -> None:
    shutil.rmtree(folder)
    stores = open_task_stores(folder, ["totals"], timestamped=frozenset({"totals"}))
    stores.identify({CHANGELOG.topic: "id-1"})
    stores.write({"totals": [(b"0001", bytes(8) + b"1")]}, {CHANGELOG: STORED})
    stores.close()


def another_layout(folder: Path) -> None:
    stores = open_task_stores(folder, ["totals"])
    stores._db.put(b"format", b"2")
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
