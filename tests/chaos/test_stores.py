"""The checker's own reader of stores tells damage from absence."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TopicPartition
from tests.chaos.facts import Store
from tests.chaos.stores import read_store

CHANGELOG = TopicPartition("chaos-applied-changelog", 2)
NEW = {b"%04d" % number: Random(number).randbytes(100) for number in range(200)}
OLD = [(b"%04d" % number, b"old" * 30) for number in range(30)]
"""Few enough for one block, so that whatever is only here stands in the damaged one."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of two tables: the smaller, older one is written over by the newer, but for one key."""
    path = tmp_path / "0_2"
    for writes in ([*OLD, (b"only here", b"1")], list(NEW.items())):
        stores = open_task_stores(path, ["applied"], memory=RocksMemory())
        stores.write({"applied": writes}, {CHANGELOG: 231})
        stores._flush()
        stores.close()
    return path


def read(folder: Path) -> Store:
    return read_store(folder, "w0.1", 2, [*NEW, b"only here"], harmed=True)


def flip_a_block_of_the_oldest_table(folder: Path) -> None:
    table = min((file for file in folder.glob("*.sst") if b"only here" in file.read_bytes()), key=lambda f: f.name)
    content = bytearray(table.read_bytes())
    content[20] ^= 255
    table.write_bytes(content)


def test_a_whole_store_is_read_whole(folder: Path) -> None:
    assert read(folder) == Store("w0.1", 2, 231, NEW | {b"only here": b"1"}, harmed=True)


def test_damage_hides_only_what_stands_nowhere_else(folder: Path) -> None:
    flip_a_block_of_the_oldest_table(folder)
    content = read(folder)
    assert "block checksum mismatch" in content.damage
    assert (content.offset, content.entries, content.unread) == (231, NEW, {b"only here"})


def test_a_key_that_was_deleted_is_absent_and_not_damaged(folder: Path) -> None:
    stores = open_task_stores(folder, ["applied"])
    stores.write({"applied": [(b"only here", None)]}, {CHANGELOG: 232})
    stores.close()
    content = read(folder)
    assert (content.offset, content.entries, content.damage) == (232, NEW, "")
