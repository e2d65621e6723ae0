"""Reads the stores that a run left on disk, with rocksdict alone: what is in each, and how far of the changelog it is."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from tests.chaos.facts import Store
from tests.chaos.processes import Group, Process

_OFFSET, _PARTITION = struct.Struct(">Q"), struct.Struct(">I")
OFFSETS_PREFIX = b"o"
FAMILY = "s.applied"


def stores_left(group: Group, application_id: str) -> Iterator[Store]:
    """Those of every task that a process had to the last, if it was there to the last and ended as it was asked to."""
    for process in group.current.values():
        if process.popen.returncode == 0 and process.closed_with_all:
            for task in _tasks(process.events):
                yield _read(process, group.state_dir(process.number) / application_id / task)


def _tasks(events: Path) -> Iterable[str]:
    """By its last status in the file: not older than the rest that the group came to."""
    told = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    statuses = [event for event in told if event["event"] == "status"]
    return statuses[-1]["tasks"] if statuses else ()


def _read(process: Process, folder: Path) -> Store:
    partition = int(folder.name.partition("_")[2])
    families = {name: Options(raw_mode=True) for name in ("default", FAMILY)}
    database = Rdict(str(folder), Options(raw_mode=True), families, access_type=AccessType.read_only())
    try:
        offsets = [
            _OFFSET.unpack(value)[0]
            for key, value in database.items()
            if key.startswith(OFFSETS_PREFIX) and _PARTITION.unpack_from(key, 1)[0] == partition
        ]
        entries = dict(database.get_column_family(FAMILY).items())
    finally:
        database.close()
    return Store(process.writer, partition, offsets[0] if offsets else 0, entries)
