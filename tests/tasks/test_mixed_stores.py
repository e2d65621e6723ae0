"""A task with stores on disk and in memory against a twin: what is on disk outlasts the process, the rest does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.errors import StateError
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.mixed_stores import MixedStores
from kstreams_assign.tasks.stores import Write
from tests.samples import examples

DISK, RAM = TopicPartition("app-kept-changelog", 3), TopicPartition("app-quick-changelog", 3)
STORE_OF = {"kept": DISK, "quick": RAM}


class Disk(MemoryStores):
    """Keeps everything when it is closed, as a disk does. With ``fails`` it takes no write."""

    fails = False
    bulk = False

    def write(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        if self.fails:
            raise StateError("the disk is full")
        self.bulk = False
        super().write(writes, offsets)

    def rebuild(self, writes: Mapping[str, Iterable[Write]], offsets: Mapping[TopicPartition, int]) -> None:
        self.write(writes, offsets)
        self.bulk = True

    def close(self) -> None:
        """The data stays."""


class Twin:
    """What should be in the stores: a dict and an offset for each."""

    def __init__(self) -> None:
        self.data: dict[str, dict[bytes, bytes]] = {"kept": {}, "quick": {}}
        self.offsets: dict[TopicPartition, int] = {}

    def write(self, name: str, key: bytes, value: bytes | None) -> None:
        self.data[name].pop(key, None)
        if value is not None:
            self.data[name][key] = value
        self.offsets[STORE_OF[name]] = self.offsets.get(STORE_OF[name], 0) + 1

    def restart(self) -> None:
        self.data["quick"].clear()
        self.offsets.pop(RAM, None)

    def wipe(self) -> None:
        self.__init__()  # type: ignore[misc]


KEYS, NAMES = st.binary(max_size=1), st.sampled_from(["kept", "quick"])
WRITE = st.tuples(
    st.sampled_from(["write", "rebuild"]),
    st.lists(st.tuples(NAMES, KEYS, st.none() | KEYS), max_size=4),
    st.booleans(),
)
ACTIONS = st.lists(WRITE | st.sampled_from(["restart", "wipe"]), max_size=12)


@settings(max_examples=examples(200))
@given(ACTIONS)
def test_they_hold_what_the_twin_holds(actions: list[object]) -> None:
    disk, twin = Disk(["kept"]), Twin()
    stores = MixedStores(disk, {"quick": RAM})
    for action in actions:
        if action == "restart":
            stores.close()
            stores = MixedStores(disk, {"quick": RAM})
            twin.restart()
        elif action == "wipe":
            stores.wipe()
            twin.wipe()
        else:
            assert isinstance(action, tuple)
            how, entries, fails = action
            writes: dict[str, list[Write]] = {}
            offsets = dict(stores.offsets())
            for name, key, value in entries:
                writes.setdefault(name, []).append((key, value))
                offsets[STORE_OF[name]] = offsets.get(STORE_OF[name], 0) + 1
            changed = {STORE_OF[name]: offsets[STORE_OF[name]] for name in writes}
            disk.fails = fails
            try:
                getattr(stores, how)(writes, changed)
            except StateError:
                assert fails
            else:
                for entry in entries:
                    twin.write(*entry)
            disk.fails = False
        assert {name: dict(stores.range(name)) for name in STORE_OF} == twin.data
        assert dict(stores.offsets()) == twin.offsets


def test_a_write_that_the_disk_refuses_reaches_no_store() -> None:
    disk = Disk(["kept"])
    stores = MixedStores(disk, {"quick": RAM})
    disk.fails = True
    with pytest.raises(StateError, match="full"):
        stores.write({"quick": [(b"k", b"v")], "kept": [(b"k", b"v")]}, {RAM: 1, DISK: 1})
    assert (stores.get("quick", b"k"), stores.get("kept", b"k"), stores.offsets()) == (None, None, {})


def test_the_last_write_of_a_restore_ends_the_rebuild_on_disk_whichever_store_it_is_for() -> None:
    disk = Disk(["kept"])
    stores = MixedStores(disk, {"quick": RAM})
    stores.rebuild({"kept": [(b"k", b"v")]}, {DISK: 1})
    stores.rebuild({"quick": [(b"k", b"v")]}, {RAM: 1})
    assert disk.bulk
    stores.write({"quick": [(b"k", b"w")]}, {RAM: 2})
    assert not disk.bulk


def test_topic_ids_are_where_the_offsets_are() -> None:
    disk = Disk(["kept"])
    stores = MixedStores(disk, {"quick": RAM, "unlogged": None})
    stores.identify({DISK.topic: "a", RAM.topic: "b"})
    assert (stores.identities(), disk.identities()) == ({DISK.topic: "a", RAM.topic: "b"}, {DISK.topic: "a"})
