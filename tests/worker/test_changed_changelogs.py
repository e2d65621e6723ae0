"""A store whose changelog is taken away, and comes back: the restored store is what the changelog holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.rocksdb import open_task_stores, read_offsets, read_unlogged
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.restore.loop import Purpose, Restored, Restorer
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.tasks.stores import Write
from kstreams_assign.worker.opening_stores import open_stores
from tests.restore.logs import Log, LogReader

TASK = TaskId(0, 3)
OWN, SOURCE, OTHER = (TopicPartition(topic, 3) for topic in ("app-t-changelog", "in", "app-other-changelog"))

LOGGED = Store("t")
UNLOGGED = Store("t", logged=False)
UNLOGGED_IN_MEMORY = Store("t", logged=False, in_memory=True)
TABLE = Store("t", source="in")


class Process:
    """One process after the other with the same state directory; a run of it restores the task, then writes."""

    def __init__(self, folder: Path) -> None:
        self.directory = StateDirectory(folder, "app", clock_ms=monotonic_ms)
        self.directory.lock_task(TASK)
        self.reader = LogReader({partition: Log(topic_id="a") for partition in (OWN, SOURCE, OTHER)})

    def run(self, store: Store, *writes: Write) -> dict[bytes, bytes]:
        """Return the entries of the store before the writes."""
        shape = TopologyShape((SubtopologyShape(("in",), (store, Store("other"))),))
        changelogs = shape.changelogs("app", TASK)
        restorer = Restorer(self.reader, now_ms=lambda: self.reader.now_ms)
        stores = open_stores(self.directory, shape, "app", TASK)
        restorer.add(TASK, stores, {partition: name for name, partition in changelogs.items()}, Purpose.ACTIVE)
        while not any(isinstance(event, Restored) for event in restorer.step(0.1)):
            pass
        with closing(stores):
            before = dict(stores.range("t"))
            logs = {changelogs[name]: self.reader.logs[changelogs[name]] for name in changelogs}
            if store.logged:
                logs[changelogs["t"]].append(*writes)
            logs[OTHER].append((b"k", b"v"))
            offsets = {partition: log.end for partition, log in logs.items()}
            stores.write({"t": writes, "other": [(b"k", b"v")]}, offsets)
        return before

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        return dict(read_offsets(self.directory.task_path(TASK)))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.directory.close()


WRITES: list[Write] = [(b"a", b"1"), (b"b", b"1")]
SINCE: list[Write] = [(b"a", b"2"), (b"b", None), (b"c", b"2")]


@pytest.mark.parametrize("without", [UNLOGGED, UNLOGGED_IN_MEMORY], ids=["on disk", "in memory"])
@pytest.mark.parametrize(("before", "changelog"), [(LOGGED, OWN), (TABLE, SOURCE)], ids=["its own", "its source topic"])
def test_a_store_that_is_logged_again_is_what_its_changelog_holds(
    process: Process, before: Store, changelog: TopicPartition, without: Store
) -> None:
    """Another process restores it from the changelog, and must not find another store than this one has."""
    process.run(before, *WRITES)
    assert process.offsets == {changelog: 2, OTHER: 1}
    assert process.run(without, *SINCE) == (dict(WRITES) if without is UNLOGGED else {})
    assert process.offsets == {OTHER: 2}
    assert process.run(before) == dict(WRITES)
    assert process.offsets == {changelog: 2, OTHER: 3}


def test_a_store_that_had_no_entry_left_while_it_was_not_logged_is_restored(process: Process) -> None:
    process.run(LOGGED, *WRITES)
    process.run(UNLOGGED, (b"a", None), (b"b", None))
    assert process.run(LOGGED) == dict(WRITES)


@pytest.mark.parametrize(("first", "second"), [(TABLE, LOGGED), (LOGGED, TABLE)], ids=["source first", "own first"])
def test_a_store_whose_changelog_becomes_another_topic_and_that_again_is_read_from_the_start_each_time(
    process: Process, first: Store, second: Store
) -> None:
    process.run(first, *WRITES)
    assert process.run(second, (b"c", b"2"), (b"c", None)) == {}
    assert process.run(first) == dict(WRITES)
    assert process.run(second) == {}


def test_a_process_that_dies_before_it_has_restored_a_store_that_is_logged_again_leaves_it_to_the_next(
    process: Process,
) -> None:
    process.run(LOGGED, *WRITES)
    process.run(UNLOGGED, *SINCE)
    shape = TopologyShape((SubtopologyShape(("in",), (LOGGED, Store("other"))),))
    open_stores(process.directory, shape, "app", TASK).close()
    assert process.run(LOGGED) == dict(WRITES)


def test_of_a_folder_that_does_not_say_which_changelogs_it_knows_their_names_do(tmp_path: Path) -> None:
    """As an earlier version wrote it. What is known of a store that is not in the topology now stays."""
    gone = TopicPartition("app-gone-changelog", 3)
    with closing(open_task_stores(tmp_path, ["t", "other", "gone", "cache"])) as stores:
        offsets = {OWN: 2, OTHER: 3, gone: 4}
        stores.write({"t": WRITES}, offsets)
        stores.identify({partition.topic: "a" for partition in offsets})
    assert read_unlogged(tmp_path) == ["cache"]
    changelogs = {"other": OTHER.topic}
    for _ in range(2):
        with closing(open_task_stores(tmp_path, ["t", "other"], changelogs=changelogs)) as stores:
            assert (dict(stores.offsets()), dict(stores.identities())) == (
                {OTHER: 3, gone: 4},
                {OTHER.topic: "a", gone.topic: "a"},
            )
            assert dict(stores.range("t")) == dict(WRITES)
    assert read_unlogged(tmp_path) == ["cache", "t"]
