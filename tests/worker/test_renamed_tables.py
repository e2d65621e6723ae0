"""Stores that trade names and changelogs between versions of an application: each holds what its changelog holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import open_task_stores, read_offsets, read_unlogged
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Purpose, Restored, Restorer, StartedOver
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.opening_stores import open_stores
from tests.restore.logs import Log, LogReader
from tests.samples import examples

TASK = TaskId(0, 3)
SOURCES = ("in", "in-2")
TOPICS = (*SOURCES, *(f"app-{name}-changelog" for name in "abc"))


class Machine:
    """A state directory and the changelogs. Each run is a version of the application in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.directory = StateDirectory(folder, "app", clock_ms=monotonic_ms)
        self.directory.lock_task(TASK)
        self.runs = 0
        logs = {TopicPartition(topic, 3): Log(topic_id=f"id of {topic}") for topic in TOPICS}
        self.reader = LogReader(logs)
        self.started_over = False
        for partition, log in logs.items():
            log.append(*((key, partition.topic.encode()) for key in (b"k0", b"k1", b"k2")))

    def opened(self, *stores: Store) -> TaskStores:
        return open_stores(self.directory, self._shape(stores), "app", TASK)

    def run(self, *stores: Store) -> dict[str, dict[bytes, bytes]]:
        """Restore the task; return the entries of each store; then write and delete some."""
        changelogs = self._shape(stores).changelogs("app", TASK)
        restorer = Restorer(self.reader, now_ms=lambda: self.reader.now_ms)
        restorer.add(
            TASK, self.opened(*stores), {partition: name for name, partition in changelogs.items()}, Purpose.ACTIVE
        )
        restored: list[Restored] = []
        while not restored:
            events = restorer.step(0.1)
            restored = [event for event in events if isinstance(event, Restored)]
            self.started_over |= any(isinstance(event, StartedOver) for event in events)
        with closing(restored[0].stores) as held:
            entries = {store.name: dict(held.range(store.name)) for store in stores}
            self._write(held, stores, changelogs)
        return entries

    def expected(self, *stores: Store) -> dict[str, dict[bytes, bytes]]:
        """Return what a restore into an empty folder makes of the stores that have a changelog."""
        changelogs = self._shape(stores).changelogs("app", TASK)
        return {name: self.reader.logs[partition].state() for name, partition in changelogs.items()}

    def end(self, topic: str) -> int:
        return self.reader.logs[TopicPartition(topic, 3)].end

    @property
    def offsets(self) -> dict[str, int]:
        return {partition.topic: at for partition, at in read_offsets(self.directory.task_path(TASK)).items()}

    @property
    def unlogged(self) -> list[str]:
        return read_unlogged(self.directory.task_path(TASK))

    def _write(self, held: TaskStores, stores: Sequence[Store], changelogs: dict[str, TopicPartition]) -> None:
        self.runs += 1
        written, deleted = (b"k%d" % ((self.runs + shift) % 3) for shift in (0, 1))
        writes = {
            store.name: [(written, b"%d of %s" % (self.runs, store.name.encode())), (deleted, None)] for store in stores
        }
        for name, partition in changelogs.items():
            self.reader.logs[partition].append(*writes[name])
        held.write(writes, {partition: self.reader.logs[partition].end for partition in changelogs.values()})

    @staticmethod
    def _shape(stores: Sequence[Store]) -> TopologyShape:
        return TopologyShape((SubtopologyShape(SOURCES, tuple(stores)),))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.directory.close()


def of(name: str, source: str, *, in_memory: bool = False) -> Store:
    return Store(name, source=source, in_memory=in_memory)


OTHER = Store("c")
A, B = of("a", "in"), of("b", "in-2")
VERSIONS = {
    "another name": [(A, OTHER), (of("b", "in"), OTHER)],
    "another name, the only store": [(A,), (of("b", "in"),)],
    "another name, in memory": [(A, OTHER), (of("b", "in", in_memory=True), OTHER)],
    "another name, no longer in memory": [(of("a", "in", in_memory=True), OTHER), (of("b", "in"), OTHER)],
    "the old name again": [(A, OTHER), (of("b", "in"), OTHER), (A, OTHER)],
    "the old name again, after memory": [(A, OTHER), (of("b", "in", in_memory=True), OTHER), (A, OTHER)],
    "the old name again, and the new one": [(A,), (of("b", "in"),), (A,), (of("b", "in"),)],
    "two trade their topics": [(A, B), (of("a", "in-2"), of("b", "in"))],
    "two trade their topics and back": [(A, B), (of("a", "in-2"), of("b", "in")), (A, B)],
    "two trade, one in memory": [(A, B), (of("a", "in-2", in_memory=True), of("b", "in"))],
    "the topic of one that is given up": [(A, B), (of("a", "in-2"),)],
    "the topic of one that is given up, and both again": [(A, B), (of("a", "in-2"),), (A, B)],
    "a name and a topic move on": [(A, B), (of("b", "in"), of("c", "in-2")), (A, of("c", "in-2"))],
    "its own changelog is another's source": [(Store("a"), OTHER), (of("b", "app-a-changelog"), OTHER), (Store("a"),)],
}


@pytest.mark.parametrize("versions", VERSIONS.values(), ids=VERSIONS.keys())
def test_a_table_holds_its_topic_whatever_name_and_topic_it_had_before(
    machine: Machine, versions: list[tuple[Store, ...]]
) -> None:
    for stores in versions:
        assert machine.expected(*stores) == machine.run(*stores)


@pytest.mark.parametrize("in_memory", [False, True], ids=["on disk", "in memory"])
def test_a_table_under_another_name_takes_the_place_of_the_old_one_and_the_other_stores_stay(
    machine: Machine, in_memory: bool
) -> None:
    """The task's folder is no less restorable than it was, so ``kstreams-assign clean`` may remove it."""
    cache = Store("cache", logged=False)
    machine.run(A, OTHER, cache)
    renamed = of("b", "in", in_memory=in_memory)
    assert machine.run(renamed, OTHER, cache)["cache"] == {b"k1": b"1 of cache"}
    assert not machine.started_over
    in_place = {} if in_memory else {"in": machine.end("in")}
    assert machine.offsets == {"app-c-changelog": machine.end("app-c-changelog"), **in_place}
    assert machine.unlogged == ["cache"]


def test_a_store_that_is_given_up_stays_while_no_other_has_its_topic(machine: Machine) -> None:
    machine.run(A, OTHER)
    machine.run(OTHER)
    assert machine.offsets["in"] == machine.end("in")
    assert machine.expected(A, OTHER) == machine.run(A, OTHER)
    assert not machine.started_over


def test_a_table_in_a_folder_that_notes_no_changelogs_stays_and_may_be_renamed_from_then_on(machine: Machine) -> None:
    """As an earlier version wrote it."""
    with closing(open_task_stores(machine.directory.task_path(TASK), ["a", "c"])) as stores:
        stores.write({"a": [(b"k0", b"in")]}, {TopicPartition("in", 3): 1})
    for declared in (A, of("b", "in")):
        assert machine.expected(declared, OTHER) == machine.run(declared, OTHER)
        assert not machine.started_over


@pytest.mark.parametrize("first", [[(b"k0", b"in")], []], ids=["the old one has entries", "it has none"])
def test_of_two_tables_that_an_earlier_version_noted_with_one_topic_the_declared_one_is_restored_alone(
    machine: Machine, first: list[tuple[bytes, bytes]]
) -> None:
    cache = Store("cache", logged=False)
    machine.run(B, OTHER, cache)
    with closing(open_task_stores(machine.directory.task_path(TASK), ["a", "b", "c", "cache"])) as stores:
        stores.write({"a": first, "b": [(b"k0", b"old")]}, {TopicPartition("in", 3): 1})
        stores._note_changelogs({"a": "in", "b": "in", "c": "app-c-changelog"}, {"in-2"})
    expected = machine.expected(of("b", "in"), OTHER)
    assert machine.run(of("b", "in"), OTHER, cache) == {**expected, "cache": {b"k1": b"1 of cache"}}
    assert not machine.started_over


def test_with_a_store_whose_changelog_is_taken_its_index_is_removed(tmp_path: Path) -> None:
    changelog = TopicPartition("in", 3)
    with closing(open_task_stores(tmp_path, ["a", "a/expiry"], changelogs={"a": "in"})) as stores:
        stores.write({"a": [(b"k", b"v")], "a/expiry": [(b"time", b"")]}, {changelog: 1})
        stores.identify({"in": "id"})
    with closing(open_task_stores(tmp_path, ["b"], changelogs={"b": "in"})) as stores:
        assert (stores.offsets(), stores.identities()) == ({}, {})
    with closing(open_task_stores(tmp_path, ["a", "a/expiry"], changelogs={})) as stores:
        assert (stores.get("a", b"k"), stores.get("a/expiry", b"time")) == (None, None)


KINDS: list[dict[str, object]] = [
    {"source": "in"},
    {"source": "in-2"},
    {"source": "in", "in_memory": True},
    {"source": "app-a-changelog"},
    {},
    {"logged": False},
]


def version_of(kinds: Sequence[dict[str, object] | None]) -> tuple[Store, ...]:
    """Declare stores of these kinds; of two with the same changelog the later one."""
    stores = [Store(name, **kind) for name, kind in zip("abc", kinds, strict=True) if kind is not None]
    return tuple({store.changelog("app") if store.logged else store.name: store for store in stores}.values())


VERSION = st.tuples(*[st.none() | st.sampled_from(KINDS)] * 2, st.just({})).map(version_of)
VERSIONS_AT_RANDOM = st.lists(st.tuples(VERSION, st.sampled_from([False, False, True])), min_size=3, max_size=6)


@settings(max_examples=examples(60))
@given(VERSIONS_AT_RANDOM)
def test_any_versions_after_each_other_restore_what_the_changelogs_hold(
    versions: list[tuple[tuple[Store, ...], bool]],
) -> None:
    """Some processes die before they have restored anything."""
    with TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        with closing(machine.directory):
            for stores, dies in versions:
                if dies:
                    machine.opened(*stores).close()
                    continue
                expected = machine.expected(*stores)
                assert {name: its for name, its in machine.run(*stores).items() if name in expected} == expected
