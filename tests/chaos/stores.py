"""Read the stores on disk after a run, with rocksdict alone: their entries and their changelog offset.

rocksdict's ``items()`` takes a damaged block for the end of the data. Here damage differs from absence: a store that
cannot be read from end to end is read key by key, as a newer table may still hold a value that is lost in an older one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rocksdict import AccessType, Options, Rdict

from tests.chaos.facts import Store
from tests.chaos.processes import Group

_OFFSET, _PARTITION = struct.Struct(">Q"), struct.Struct(">I")
OFFSETS_PREFIX = b"o"
FAMILY_OF_STORE = b"capplied"
"""The key in the default family whose value names the store's family."""


def stores_left(group: Group, application_id: str, keys: Mapping[int, Iterable[bytes]]) -> Iterator[Store]:
    """Yield the stores of the tasks that processes had at the end of the run, if these ended on request.

    ``keys``: the keys of each changelog partition.
    """
    for process in group.current.values():
        if process.popen.returncode == 0 and process.closed_with_all:
            for task in _tasks(process.events):
                folder = group.state_dir(process.number) / application_id / task
                partition = int(task.partition("_")[2])
                harmed = process.number in group.harmed
                yield read_store(folder, process.writer, partition, keys.get(partition, ()), harmed=harmed)


def _tasks(events: Path) -> Iterable[str]:
    """Return the tasks of the last status in the file, which is not older than the group's rest."""
    events_logged = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    statuses = [event for event in events_logged if event["event"] == "status"]
    return statuses[-1]["tasks"] if statuses else ()


def read_store(folder: Path, writer: str, partition: int, keys: Iterable[bytes], *, harmed: bool) -> Store:
    """Read a store; from a damaged one, the readable ``keys`` and the names of the others."""
    alone = _opened(folder, [])
    family = alone[FAMILY_OF_STORE].decode()
    alone.close()
    database = _opened(folder, [family])
    try:
        offset = _offset(database, partition)
        of_family = database.get_column_family(family)
        entries, damage = _entries(of_family)
        unread: frozenset[bytes] = frozenset()
        if damage:
            entries, unread = _read_each(of_family, keys)
    finally:
        database.close()
    return Store(writer, partition, offset, entries, damage=damage, unread=unread, harmed=harmed)


def _opened(folder: Path, families: Iterable[str]) -> Rdict:
    options = {name: Options(raw_mode=True) for name in ("default", *families)}
    return Rdict(str(folder), Options(raw_mode=True), options, access_type=AccessType.read_only())


def _offset(database: Rdict, partition: int) -> int:
    """Return the changelog offset of the partition; 0 if there is none. Raises as rocksdict does."""
    entries, damage = _entries(database)
    if damage:
        raise RuntimeError(damage)
    offsets = [
        _OFFSET.unpack(value)[0]
        for key, value in entries.items()
        if key.startswith(OFFSETS_PREFIX) and _PARTITION.unpack_from(key, 1)[0] == partition
    ]
    return offsets[0] if offsets else 0


def _entries(family: Rdict) -> tuple[dict[bytes, bytes], str]:
    """Return the entries up to the end or to a damaged block, and the error of that block."""
    cursor, entries = family.iter(), {}
    cursor.seek_to_first()
    while cursor.valid():
        entries[cursor.key()] = cursor.value()
        cursor.next()
    with _Damage() as damage:
        cursor.status()
    return entries, damage.text


def _read_each(family: Rdict, keys: Iterable[bytes]) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
    entries, unread = {}, set()
    for key in keys:
        with _Damage() as damage:
            value = family.get(key)
            if value is not None:
                entries[key] = value
        if damage.text:
            unread.add(key)
    return entries, frozenset(unread)


class _Damage:
    """A context that keeps RocksDB's error for a damaged block as ``text``; rocksdict has no class for it."""

    text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if kind is Exception and str(error).startswith("Corruption"):
            self.text = str(error)
        return bool(self.text)
