"""Stores on a real RocksDB: what is written together stays together, through reopening, killing and damage.

``tests/tasks/test_store_contract.py`` has what they have in common with stores in memory.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading

import pytest

from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores, read_offsets
from kstreams_assign.adapters.store_faults import VERDICTS, Translation
from kstreams_assign.errors import StateError, StoreDamaged
from kstreams_assign.model import TopicPartition

COUNTS, TOTALS = TopicPartition("app-counts-changelog", 3), TopicPartition("app-totals-changelog", 3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "0_3"


@pytest.fixture
def stores(path):
    opened = open_task_stores(path, ["counts", "totals"])
    yield opened
    opened.close()


def test_a_store_that_was_written_with_timestamps_is_not_read_without_them_nor_the_other_way_round(path):
    for before, now, says in (
        (frozenset({"counts"}), frozenset(), "'counts' with timestamps, and it is declared without them now"),
        (frozenset(), frozenset({"counts"}), "'counts' without timestamps, and it is declared with them now"),
    ):
        shutil.rmtree(path, ignore_errors=True)
        for _ in range(2):
            open_task_stores(path, ["counts", "totals"], timestamped=before).close()
        with pytest.raises(StoreDamaged, match=says):
            open_task_stores(path, ["counts", "totals"], timestamped=now)
        assert read_offsets(path) == {}


def test_another_store_may_come_to_a_task_with_or_without_timestamps(path):
    open_task_stores(path, ["counts"]).close()
    open_task_stores(path, ["counts", "totals"], timestamped=frozenset({"totals"})).close()
    opened = open_task_stores(path, ["counts", "totals", "more"], timestamped=frozenset({"totals"}))
    opened.write({"totals": [(b"k", b"v")]}, {TOTALS: 3})
    opened.wipe()
    opened.close()
    open_task_stores(path, ["totals"], timestamped=frozenset({"totals"})).close()


def test_data_and_offsets_are_there_again_when_reopened_in_the_same_process(path):
    unfinished = []
    for round_ in range(3):
        stores = open_task_stores(path, ["counts"])
        assert stores.offsets() == ({} if round_ == 0 else {COUNTS: round_})
        stores.write({"counts": [(b"round", b"%d" % round_)]}, {COUNTS: round_ + 1})
        unfinished.append(stores.range("counts"))
        next(unfinished[-1])
        stores.close()  # with a range half read, which must not keep the database open
    assert [list(rest) for rest in unfinished] == [[]] * 3
    assert read_offsets(path) == {COUNTS: 3}


@pytest.mark.usefixtures("stores")
def test_a_database_is_opened_once_only(path):
    with pytest.raises(StateError, match="is open already") as caught:
        open_task_stores(path, ["counts"])
    assert not isinstance(caught.value, StoreDamaged)


def test_stores_may_pass_from_one_thread_to_another(stores):
    thread = threading.Thread(target=lambda: stores.write({"counts": [(b"k", b"1")]}, {COUNTS: 1}))
    thread.start()
    thread.join()
    assert (stores.get("counts", b"k"), stores.offsets()) == (b"1", {COUNTS: 1})


def test_a_close_while_others_read_waits_for_them_and_they_hear_that_it_is_closed(path):
    """rocksdict lets neither in while the other is at work."""
    keys = [b"%05d" % number for number in range(2_000)]
    for _ in range(5):
        stores, heard = open_task_stores(path, ["counts"]), []
        stores.write({"counts": [(key, b"v" * 100) for key in keys]}, {})
        reading = threading.Barrier(3)

        def read(stores=stores, reading=reading, heard=heard):
            stores.get_many("counts", keys)
            reading.wait()
            try:
                while True:
                    stores.get_many("counts", keys)
            except StateError as error:
                heard.append(str(error).partition(f"{path} ")[2][:9])

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        reading.wait()
        stores.close()
        for reader in readers:
            reader.join()
        assert heard == ["is closed"] * 2
        open_task_stores(path, ["counts"]).close()


def test_a_store_that_a_topology_dropped_and_took_back_is_still_whole(path):
    for names in (["counts", "totals"], ["counts"], ["counts", "totals"]):
        stores = open_task_stores(path, names)
        if "totals" in names:
            stores.write({"totals": [(b"k", b"v")]}, {TOTALS: 1})
        assert stores.offsets() == {TOTALS: 1}
        stores.close()


def test_a_store_that_is_kept_elsewhere_now_is_dropped_with_its_offset_and_the_others_stay(path):
    changelogs = {"counts": COUNTS.topic, "totals": TOTALS.topic}
    for _ in range(2):  # it may come back
        stores = open_task_stores(path, list(changelogs), timestamped=frozenset({"totals"}), changelogs=changelogs)
        stores.write({"counts": [(b"k", b"v")], "totals": [(b"k", b"v")]}, {COUNTS: 3, TOTALS: 5})
        stores.identify({COUNTS.topic: "a", TOTALS.topic: "b"})
        stores.drop("totals")
        stores.drop("totals")
        with pytest.raises(StateError, match="no 'totals'"):
            stores.get("totals", b"k")
        stores.close()
        stores = open_task_stores(path, ["counts", "totals"])  # without timestamps: nothing is left of it
        assert (stores.get("counts", b"k"), stores.get("totals", b"k")) == (b"v", None)
        assert (stores.offsets(), stores.identities()) == ({COUNTS: 3}, {COUNTS.topic: "a"})
        stores.drop("totals")
        stores.close()


def test_a_process_that_dies_after_the_first_step_of_a_drop_has_dropped_the_store(path, monkeypatch):
    stores = open_task_stores(path, ["counts", "totals"], changelogs={"totals": TOTALS.topic})
    stores.write({"totals": [(b"k", b"v")]}, {TOTALS: 5})
    monkeypatch.setattr(type(stores), "_drop_handles", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stores.drop("totals")
    monkeypatch.undo()
    stores.close()
    reopened = open_task_stores(path, ["counts", "totals"])
    assert (reopened.get("totals", b"k"), reopened.offsets()) == (None, {})
    reopened.close()


# Killed processes.

_KILLED = """
import os, signal, sys
from pathlib import Path
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TopicPartition
changelog = TopicPartition("app-counts-changelog", 3)
stores = open_task_stores(Path(sys.argv[1]), ["counts", "totals"])
number = stores.offsets().get(changelog, 0)
while True:
    batch = [(b"%08d" % at, b"x" * 100) for at in range(number, number + 100)]
    number += 100
    stores.write({"counts": batch, "totals": [(b"sum", b"%d" % number)]}, {changelog: number})
    print(number, flush=True)
"""


def test_what_a_killed_process_had_written_is_there_with_its_offsets(path):
    """The process is killed in the middle of writing, three times over; no acknowledged batch may be missing."""
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        acknowledged = 0
        for _ in range(40):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().splitlines()[:-1])])
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL
        [(changelog, offset)] = read_offsets(path).items()
        stores = open_task_stores(path, ["counts", "totals"])
        assert offset >= acknowledged
        assert stores.offsets() == {changelog: offset}
        assert [key for key, _ in stores.range("counts")] == [b"%08d" % at for at in range(offset)]
        assert stores.get("totals", b"sum") == b"%d" % offset
        stores.close()


def test_reading_the_offsets_of_a_killed_process_changes_nothing(path):
    writer = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    writer.stdout.readline()
    writer.kill()
    writer.wait()
    writer.stdout.close()
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert read_offsets(path) == read_offsets(path) != {}
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_folder_without_a_database_has_no_offsets_and_stays_as_it_is(path):
    assert read_offsets(path) == {}
    assert not path.exists()


# Wiping.


def test_a_wiped_store_is_empty_now_and_when_reopened_and_can_be_written(path, stores):
    stores.write({"counts": [(b"%d" % n, b"v") for n in range(1_000)], "totals": [(b"\xff" * 50, b"v")]}, {COUNTS: 9})
    unfinished = stores.range("counts")
    stores.wipe()
    stores.wipe()
    assert list(unfinished) == []
    assert (stores.offsets(), list(stores.range("counts")), list(stores.range("totals"))) == ({}, [], [])
    stores.write({"counts": [(b"new", b"1")]}, {COUNTS: 1})
    stores.close()
    reopened = open_task_stores(path, ["counts", "totals"])
    assert (list(reopened.range("counts")), list(reopened.range("totals")), reopened.offsets()) == (
        [(b"new", b"1")],
        [],
        {COUNTS: 1},
    )
    reopened.close()


def test_a_process_that_dies_after_the_first_step_of_a_wipe_finds_an_empty_store(path, stores):
    """The batch alone empties it; what comes after only gives the space back."""
    stores.write({"counts": [(b"\xff\xff", b"v"), (b"a", b"v")]}, {COUNTS: 9})
    stores._apply(stores._emptying_batch())
    stores.close()
    reopened = open_task_stores(path, ["counts"])
    assert (list(reopened.range("counts")), reopened.offsets()) == ([], {})
    reopened.close()


# Damage.


def damage(path, name, larger_than_bytes=0) -> None:
    """Turn over a stretch, at a third, of every file so named."""
    for file in path.iterdir():
        if name in file.name and file.stat().st_size > larger_than_bytes:
            content = bytearray(file.read_bytes())
            third = len(content) // 3
            content[third : third + 200] = bytes(byte ^ 255 for byte in content[third : third + 200])
            file.write_bytes(content)


@pytest.fixture
def full(path):
    """A closed database whose data lies in table files."""
    stores = open_task_stores(path, ["counts"], memory=RocksMemory(write_buffer_bytes=64 << 10))
    for number in range(0, 20_000, 500):
        stores.write(
            {"counts": [(b"%08d" % n, b"%x" % (n * 7919) * 20) for n in range(number, number + 500)]}, {COUNTS: 1}
        )
    stores.close()
    return path


def test_a_damaged_table_is_an_error_and_not_the_end_of_the_store(full):
    """rocksdict's own iterators stop at the damaged block as if nothing came after it."""
    damage(full, ".sst", larger_than_bytes=10_000)
    stores = open_task_stores(full, ["counts"])
    with pytest.raises(StoreDamaged):
        list(stores.range("counts"))
    with pytest.raises(StoreDamaged):
        list(stores.range("counts", reverse=True))
    with pytest.raises(StoreDamaged):
        stores.get_many("counts", [b"%08d" % n for n in range(20_000)])
    stores.close()
    stores = open_task_stores(full, ["counts"])  # the lock is free although closing met the damage again
    stores.close()


SMALL = {b"%04d" % number: b"%x" % (number * 7919) ** 9 for number in range(400)}
PROBED = sorted(SMALL)[::25]


@pytest.fixture(scope="module")
def two_tables(tmp_path_factory):
    """An older table, half of it written over by a newer one: what is hidden in the newer must not show the older."""
    path = tmp_path_factory.mktemp("whole") / "0_3"
    for writes in ([(key, b"old") for key in sorted(SMALL)[::2]], SMALL.items()):
        stores = open_task_stores(path, ["counts"], memory=RocksMemory())
        stores.write({"counts": writes}, {COUNTS: len(SMALL)})
        stores.close()
    return path


def answers(path):
    """What every way to read says of a store: True where it is the truth, StoreDamaged where it refuses."""
    stores = open_task_stores(path, ["counts"], memory=RocksMemory())  # a cache of its own: all copies look the same
    asked = {
        "offsets": lambda: stores.offsets() == {COUNTS: len(SMALL)},
        "forward": lambda: dict(stores.range("counts")) == SMALL,
        "backward": lambda: dict(stores.range("counts", reverse=True)) == SMALL,
        "slice": lambda: [key for key, _ in stores.range("counts", b"0100", b"0300")] == sorted(SMALL)[100:300],
        "one by one": lambda: all(stores.get("counts", key) == SMALL[key] for key in PROBED),
        "many": lambda: stores.get_many("counts", PROBED) == [SMALL[key] for key in PROBED],
        "absent": lambda: stores.get_many("counts", [b"0100x", b"9"]) == [None, None],
    }
    results = {}
    for name, ask in asked.items():
        try:
            results[name] = ask()
        except StoreDamaged:
            results[name] = StoreDamaged
    stores.close()
    return results


def test_a_byte_flipped_anywhere_in_a_table_is_refused_or_does_not_matter(two_tables, tmp_path):
    """Never a wrong answer, a missing key or an early end: data, index, filter, properties, footer."""
    path, seen = tmp_path / "0_3", set()
    for table in sorted(two_tables.glob("*.sst")):
        for at in range(5, table.stat().st_size, max(50, table.stat().st_size // 12)):
            shutil.copytree(two_tables, path)
            content = bytearray(table.read_bytes())
            content[at] ^= 0x55
            (path / table.name).write_bytes(content)
            try:
                results = answers(path)
            except StoreDamaged:
                results = {"opening": StoreDamaged}
            assert set(results.values()) <= {True, StoreDamaged}, (table.name, at, results)
            seen |= {name for name, answer in results.items() if answer is StoreDamaged}
            shutil.rmtree(path)
    assert seen >= {"opening", "forward", "backward", "slice", "one by one", "many"}


@pytest.mark.parametrize("how", ["write", "rebuild"])
def test_a_compaction_that_meets_damage_makes_the_next_writes_fail(two_tables, tmp_path, how):
    """So a store without readers is repaired, too."""
    path = tmp_path / "0_3"
    shutil.copytree(two_tables, path)
    damage(path, ".sst", larger_than_bytes=2_000)
    stores = open_task_stores(path, ["counts"], memory=RocksMemory(write_buffer_bytes=64 << 10))
    noise = [(b"%04d" % (number % 400), b"%x" % (number + 7) ** 30) for number in range(500)]

    def write_on():
        for turn in range(1, 2_000):
            getattr(stores, how)({"counts": noise}, {COUNTS: len(SMALL) + 500 * turn})

    with pytest.raises(StoreDamaged):
        write_on()
    stores.close()


@pytest.mark.parametrize("file", ["MANIFEST", "CURRENT"])
def test_a_database_that_cannot_be_read_is_damaged(full, file):
    damage(full, file)
    with pytest.raises(StoreDamaged, match="0_3"):
        open_task_stores(full, ["counts"])
    with pytest.raises(StoreDamaged):
        read_offsets(full)


def test_a_missing_table_is_damage(full):
    next(full.glob("*.sst")).unlink()
    with pytest.raises(StoreDamaged):
        open_task_stores(full, ["counts"])


def test_another_layout_is_refused_and_the_database_let_go(path, stores):
    stores._db.put(b"format", b"9")
    stores.close()
    for look in (lambda: open_task_stores(path, ["counts"]), lambda: read_offsets(path)) * 2:
        with pytest.raises(StoreDamaged, match="layout b'9'"):
            look()


TEXTS = {
    "IO error: lock hold by current process, acquire time 1": "is open already",
    "IO error: While lock file: LOCK: Resource temporarily unavailable": "is open already",
    "IO error: No space left on device: While appending to file": "has no space left",
    "IO error: While appending to file: 000029.log: Disk quota exceeded": "has no space left",
    "IO error: While appending to file: 000029.log: File too large": "has no space left",
    "IO error: Space limit reached": "has no space left",
    "Corruption: IO error: While opening 000029.sst: Permission denied": "is not this user's",
    "IO error: While rename a file: Operation not permitted": "is not this user's",
    "IO error: 000029.sst: Read-only file system": "lies on a disk that cannot be written",
    "IO error: While opening 000029.sst: Too many open files": "may open no more files",
    "IO error: While pread: Input/output error": "lies on a disk that fails",
    "DB instance already closed": "is closed",
    "Already mutably borrowed": "is closed or read by another thread just now",
    "Invalid argument: something new": "was refused by RocksDB",
}
DAMAGES = {
    "Corruption: block checksum mismatch": "is damaged",
    "Corruption: IO error: No such file or directory: 000029.sst": "is damaged",
    "IO error: No such file or directory: While opening a file": "lacks a file",
    "Invalid argument: leveldb.BytewiseComparator: does not match existing comparator mine": "was written by another",
    "IO error: While reading file sequentially: 0_3/CURRENT: Is a directory": "has a file where a folder should be",
}
"""What RocksDB or Linux says -> what we say of it, for what a person has to mend and for what is thrown away."""


def test_every_line_of_the_table_of_errors_is_reachable_and_damage_is_told_from_the_rest(path):
    for texts, kind in ((TEXTS, StateError), (DAMAGES, StoreDamaged)):
        for text, says in texts.items():
            error = Translation(path, frozenset()).verdict(text)
            assert type(error) is kind, text
            assert str(error).startswith(f"the store at {path} {says}"), text
            assert str(error).endswith(f": {text}")
    heard = [*TEXTS.values(), *DAMAGES.values()]
    assert [says for _, _, says in VERDICTS if not any(map(says.startswith, heard))] == []


# What damage must not do.


_CRASHED = """
import os, sys
from pathlib import Path
from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TopicPartition
changelog = TopicPartition("app-counts-changelog", 3)
stores = open_task_stores(Path(sys.argv[1]), ["counts"], memory=RocksMemory(write_buffer_bytes=16 << 10))
for number in range(0, 5_000, 100):
    batch = [(b"%08d" % n, b"%x" % (n * 7919) * 20) for n in range(number, number + 100)]
    stores.write({"counts": batch}, {changelog: number + 100})
os._exit(0)
"""


def test_data_and_offsets_do_not_part_where_the_log_is_lost(path):
    """Each family flushed by itself would leave data in tables and its offsets in the log alone."""
    subprocess.run([sys.executable, "-c", _CRASHED, str(path)], check=True)
    for log in path.glob("*.log"):
        log.unlink()
    torn = open_task_stores(path, ["counts"])
    assert 0 < torn.offsets()[COUNTS] < 5_000
    assert [key for key, _ in torn.range("counts")] == [b"%08d" % n for n in range(torn.offsets()[COUNTS])]
    torn.close()


def test_the_ids_of_topics_are_kept_beside_the_offsets_and_wiped_with_them(path, stores):
    stores.write({}, {COUNTS: 5})
    stores.identify({COUNTS.topic: "id-1"})
    stores.close()
    reopened = open_task_stores(path, ["counts"])
    assert (reopened.identities(), reopened.offsets(), read_offsets(path)) == (
        {COUNTS.topic: "id-1"},
        {COUNTS: 5},
        {COUNTS: 5},
    )
    reopened.wipe()
    reopened.close()
    wiped = open_task_stores(path, ["counts"])
    assert (wiped.identities(), wiped.offsets()) == ({}, {})
    wiped.close()


def test_an_offset_that_goes_back_is_another_topic_and_nothing_is_written(stores):
    stores.write({"counts": [(b"k", b"1")]}, {COUNTS: 9})
    with pytest.raises(StoreDamaged, match="deleted and created again"):
        stores.write({"counts": [(b"k", b"2")]}, {COUNTS: 1})
    assert (stores.get("counts", b"k"), stores.offsets()) == (b"1", {COUNTS: 9})


@pytest.mark.parametrize(
    "entry", [(b"o", b""), (b"o\0\0\0\3\xff", b"12345678"), (b"o\0\0\0\3t", b"short"), (b"t", b"\xff")]
)
def test_offsets_that_are_none_are_damage(path, stores, entry):
    stores._db.put(*entry)
    stores.close()
    for look in (lambda: open_task_stores(path, ["counts"]), lambda: read_offsets(path)):
        with pytest.raises(StoreDamaged, match="an offset that is none"):
            look()


def test_a_link_to_nothing_may_be_a_disk_that_is_not_mounted_and_is_left_alone(path, tmp_path):
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(StateError, match="link to nothing") as caught:
        open_task_stores(path, ["counts"])
    assert (type(caught.value), path.is_symlink()) == (StateError, True)
