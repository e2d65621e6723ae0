"""A MANIFEST cut at every byte, after every life of a database: what opens then is what once was, offsets and all, or
nothing does.

RocksDB opens one that lacks its tail as it was before; what the log says of column families that it does not know is
left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StoreDamaged
from tests.adapters.rocks_lives import LIVES, LOG, REBUILD, Reached, reached


def cut(content: bytes, at: int) -> bytes:
    return content[:at]


def turned(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]


@pytest.mark.parametrize("harm", [cut, turned])
@pytest.mark.parametrize("life", LIVES)
def test_a_manifest_harmed_at_any_byte_never_parts_data_and_offsets(
    life: str, harm: Callable[[bytes, int], bytes], tmp_path: Path
) -> None:
    left, folder = tmp_path / "left", tmp_path / "harmed"
    subprocess.run([sys.executable, "-m", "tests.adapters.rocks_lives", str(left), life], check=True)
    [manifest] = left.glob("MANIFEST-*")
    content, states = manifest.read_bytes(), list(reached(LIVES[life]))
    names = states[-1].data
    verdicts = Counter[str]()
    for at in range(len(content)):
        shutil.copytree(left, folder)
        (folder / manifest.name).write_bytes(harm(content, at))
        try:
            stores = open_task_stores(folder, names)
        except StoreDamaged:
            verdicts["damaged"] += 1
        else:
            now = Reached(stores.offsets().get(LOG, 0), {name: dict(stores.range(name)) for name in names})
            stores.close()
            verdicts["right" if once_was(now, states, ahead=REBUILD in LIVES[life]) else f"wrong at {at}"] += 1
        shutil.rmtree(folder)
    assert verdicts.keys() <= {"damaged", "right"}
    assert verdicts["damaged"]


def once_was(now: Reached, states: list[Reached], *, ahead: bool) -> bool:
    """``ahead``: data may be, as a rebuilt database is flushed with the offsets last."""
    held = {name: entries for name, entries in now.data.items() if entries}
    alike = [state for state in states if held == {name: entries for name, entries in state.data.items() if entries}]
    return any(now.offset == state.offset or (ahead and now.offset < state.offset) for state in alike)
