"""``rebuild`` on a real RocksDB: as ``write`` for readers, and after a kill data and offsets still fit."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TopicPartition

CHANGELOG = TopicPartition("app-counts-changelog", 3)

KILLED = """
import os, signal, sys
from pathlib import Path
from kstreams_assign.adapters.rocks_memory import RocksMemory
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.model import TopicPartition

stores = open_task_stores(Path(sys.argv[1]), ["counts", "other"], memory=RocksMemory(write_buffer_bytes=64 << 10))
at = 0
for step in sys.argv[2:]:
    for _ in range(int(step.partition("=")[2])):
        if step.startswith("wipe"):
            stores.wipe()
            at = 0
            continue
        writes = [(b"%d" % number, b"v" * 100) for number in range(at, at + 50)]
        at += 50
        apply = stores.rebuild if step.startswith("rebuild") else stores.write
        apply({"counts": writes}, {TopicPartition("app-counts-changelog", 3): at})
os.kill(os.getpid(), signal.SIGKILL)
"""


def after_a_kill(path, *steps):
    """What is there when a process that did these steps was killed: how many records, and the offset."""
    done = subprocess.run([sys.executable, "-c", KILLED, path, *steps], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    stores = open_task_stores(path, ["counts", "other"])
    keys = sorted(int(key) for key, _ in stores.range("counts"))
    offset = stores.offsets().get(CHANGELOG, 0)
    stores.close()
    assert keys == list(range(len(keys)))
    return len(keys), offset


def test_a_kill_while_rebuilding_takes_the_tail_of_data_and_offsets_alike(tmp_path):
    records, offset = after_a_kill(tmp_path / "0_3", "rebuild=300")
    assert records == offset
    assert 0 < records < 15_000


def test_the_first_write_after_rebuilding_makes_all_of_it_outlast_a_kill(tmp_path):
    assert after_a_kill(tmp_path / "0_3", "write=2", "rebuild=40", "write=1") == (2_150, 2_150)


@pytest.mark.parametrize("rebuilt", [0, 1, 100])
def test_what_was_wiped_while_rebuilding_does_not_come_back_after_a_kill(tmp_path, rebuilt):
    records, offset = after_a_kill(tmp_path / "0_3", "write=5", "rebuild=100", "wipe=1", f"rebuild={rebuilt}")
    assert records == offset <= 50 * rebuilt


def test_closing_brings_what_was_rebuilt_to_the_disk(tmp_path):
    stores = open_task_stores(tmp_path, ["counts"])
    stores.rebuild({"counts": [(b"k", b"v")]}, {CHANGELOG: 7})
    stores.close()
    stores = open_task_stores(tmp_path, ["counts"])
    assert (stores.get("counts", b"k"), stores.offsets()) == (b"v", {CHANGELOG: 7})
    stores.close()


keys = st.sampled_from([b"a", b"b", b"c"])
batches = st.lists(st.tuples(st.booleans(), st.lists(st.tuples(keys, st.none() | st.binary(max_size=2)))), max_size=4)


@given(batches)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_readers_cannot_tell_rebuild_from_write(tmp_path_factory, drawn):
    stores = open_task_stores(tmp_path_factory.mktemp("rebuilt"), ["counts"], memory=RocksMemory())
    twin = {}
    for number, (rebuilds, writes) in enumerate(drawn):
        (stores.rebuild if rebuilds else stores.write)({"counts": writes}, {CHANGELOG: number})
        twin |= dict(writes)
        there = {key: value for key, value in twin.items() if value is not None}
        assert dict(stores.range("counts")) == there
        assert stores.get_many("counts", [b"a", b"b", b"c"]) == [there.get(key) for key in (b"a", b"b", b"c")]
        assert stores.offsets() == {CHANGELOG: number}
    stores.close()
