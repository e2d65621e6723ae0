"""Lives of a task's database, each ended by a kill: ``python -m tests.adapters.rocks_lives FOLDER LIFE`` leads one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.model import TopicPartition

LOG = TopicPartition("log", 0)
RECORDS = 50
WRITE, REBUILD, WIPE = "write", "rebuild", "wipe"

LIVES: Mapping[str, Sequence[str]] = {
    "begun": [WRITE, WRITE],
    "rebuilt": [REBUILD, REBUILD, WRITE],
    "wiped": [WRITE, WIPE, WRITE],
    "wiped in bulk": [REBUILD, WIPE, REBUILD, WRITE],
    "opened again": [WRITE, "open", WRITE],
    "with one store more": [WRITE, "open one more", WRITE],
    "wiped twice": [WRITE, WIPE, WRITE, "open", WIPE, WRITE],
}
"""What is done from the first opening to the kill."""


class Reached(NamedTuple):
    """What is in the stores at some time: the changelog's next offset, 0 without one, and the entries of each."""

    offset: int
    data: Mapping[str, Mapping[bytes, bytes]]


def reached(life: Sequence[str]) -> Iterator[Reached]:
    """All that a life goes through. Keys tell their time, so no two are alike."""
    stores, numbers, offset = {"one": {}}, count(), 0  # type: ignore[var-annotated]
    yield Reached(0, {"one": {}})
    for step in life:
        if step == "open one more":
            stores["two"] = {}
        elif step == WIPE:
            stores, offset = {name: {} for name in stores}, 0
        elif step in (WRITE, REBUILD):
            offset += RECORDS
            for name in stores:
                stores[name].update((b"%d" % next(numbers), b"x" * 50) for _ in range(RECORDS))
        yield Reached(offset, {name: dict(entries) for name, entries in stores.items()})


def lead(folder: Path, life: Sequence[str]) -> None:
    """Up to the kill."""
    names = ["one"]
    stores: RocksTaskStores = open_task_stores(folder, names)
    before = Reached(0, {})
    states = reached(life)
    next(states)
    for step, after in zip(life, states, strict=True):
        if step.startswith("open"):
            names = list(after.data)
            stores.close()
            stores = open_task_stores(folder, names)
        elif step == WIPE:
            stores.wipe()
        else:
            writes = {name: entries.items() for name, entries in after.data.items()}
            (stores.rebuild if step == REBUILD else stores.write)(writes, {LOG: after.offset})
        before = after
    assert stores.offsets().get(LOG, 0) == before.offset
    os._exit(0)


if __name__ == "__main__":
    lead(Path(sys.argv[1]), LIVES[sys.argv[2]])
