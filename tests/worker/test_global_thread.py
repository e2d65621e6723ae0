"""The thread that keeps global tables, turn by turn: real databases, and topics that the test changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import RocksTaskStores, open_task_stores
from kstreams_assign.errors import BrokerUnavailable, StateError, StoreDamaged
from kstreams_assign.events import (
    BaseEvent,
    Event,
    GlobalTableReadyEvent,
    GlobalTableRebuiltEvent,
    GlobalTableStoppedEvent,
)
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Damaged
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.global_folders import GlobalFolders
from kstreams_assign.status.views import GlobalTableView
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.worker import global_thread
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.global_thread import GlobalThread, TableReaders
from tests.restore.logs import Log, LogReader, records
from tests.worker.damaging import gone

TABLE = GlobalTable("t", topic="topic")
P0, P1, P2 = (TopicPartition("topic", number) for number in range(3))


class Topics(LogReader):
    """The topics; it remembers from where each partition was read."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        super().__init__(logs)
        self.begun: list[Mapping[TopicPartition, int]] = []

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self.begun.append(dict(positions))
        super().add(positions)

    def count(self) -> dict[str, int]:
        self._answer()
        topics = [partition.topic for partition in self.logs]
        return {topic: topics.count(topic) for topic in topics}


class Rig:
    """One process after the other in one state directory."""

    def __init__(self, folder: Path, topics: Topics) -> None:
        self.topics = topics
        self.directory = StateDirectory(folder, "app", clock_ms=lambda: 0)
        self.folders = GlobalFolders(self.directory.path, self.directory.trash)
        self.events: list[Event] = []
        self.open = open_task_stores
        self.start()

    def start(self) -> None:
        self.topics.positions.clear()
        self.topics.begun.clear()
        self.events.clear()
        self.readers = TableReaders([TABLE])
        self.thread = GlobalThread(
            [TABLE],
            self.readers,
            self.topics,
            self.folders,
            lambda table: self.open(self.folders.path_of(table.name), [table.name]),
            self.topics.count,
            EventLog("process", self.events.append),
        )
        self.view = self.readers.views["t"]
        self.thread._begin()

    def turn_until(self, met: Callable[[], bool], turns: int = 200) -> None:
        for _ in range(turns):
            if met():
                return
            self.thread._turn()
        raise AssertionError(self.events)

    def until_ready(self) -> None:
        self.turn_until(lambda: self.status().ready)

    def until_held(self, wanted: dict[bytes, bytes]) -> None:
        self.turn_until(lambda: self.held() == wanted)

    def held(self) -> dict[bytes, bytes] | None:
        try:
            return dict(self.view.range())
        except StateError:
            return None

    def status(self) -> GlobalTableView:
        (view,) = self.thread.view()
        return view

    def reported(self, kind: type[BaseEvent]) -> list[BaseEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    def stop(self) -> None:
        """End as ``run`` does."""
        self.thread.stop()
        ended = threading.Thread(target=self.thread.run)
        self.thread._begin = lambda: None  # it has begun
        ended.start()
        ended.join()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(global_thread, "COUNT_MS", 0)
    monkeypatch.setattr(global_thread, "COUNT_MISSED_MS", 0)
    clock = Topics({P0: Log(entries=records(7), topic_id="a"), P1: Log(entries=records(5, 100), topic_id="a")})
    monkeypatch.setattr(global_thread, "monotonic_ms", lambda: clock.now_ms)
    made = Rig(tmp_path, clock)
    yield made
    made.stop()
    made.directory.close()


def _damaged(*_arguments: object) -> None:
    raise StoreDamaged("a block is damaged")


ALL = dict(records(7) + records(5, 100))


def test_all_partitions_are_in_the_table_before_it_may_be_read_and_then_it_follows(rig):
    assert rig.held() is None
    rig.until_ready()
    assert rig.held() == ALL
    assert rig.thread.ready
    (ready,) = rig.reported(GlobalTableReadyEvent)
    assert (ready.table, ready.topic, ready.offsets) == ("t", "topic", 12)
    rig.topics.logs[P1].append((b"new", b"1"), (b"key-0", b"changed"), (b"key-1", None))
    wanted = {**ALL, b"new": b"1", b"key-0": b"changed"}
    del wanted[b"key-1"]
    rig.until_held(wanted)
    assert rig.status() == GlobalTableView("t", "topic", True, rig.status().lag)


def test_a_topic_that_loses_its_last_records_while_it_is_read_does_not_hold_up_the_table(rig):
    log = rig.topics.logs[P0]
    log.held_back = 4
    rig.turn_until(lambda: rig.topics.positions == {P0: 3, P1: 5})
    assert not rig.status().ready
    del log.entries[3:]
    log.held_back = 0
    rig.until_ready()
    assert rig.held() == dict(records(3) + records(5, 100))
    assert rig.reported(GlobalTableRebuiltEvent) == []


def test_a_restart_goes_on_from_the_kept_offsets_also_where_a_partition_is_empty(rig):
    """One store has all partitions, so entries without an offset of an empty partition are no orphans."""
    rig.topics.logs[P2] = Log(topic_id="a")
    rig.until_held(ALL)
    rig.stop()
    rig.topics.logs[P0].append((b"new", b"1"))
    rig.start()
    rig.until_held({**ALL, b"new": b"1"})
    assert rig.topics.begun == [{P0: 7, P1: 5, P2: 0}]
    assert rig.reported(GlobalTableRebuiltEvent) == []
    assert rig.reported(GlobalTableReadyEvent)[0].offsets == 1


@pytest.mark.parametrize("damage", ["CURRENT", "MANIFEST-*"])
def test_a_database_that_cannot_be_opened_is_built_again_from_the_topic(rig, damage):
    rig.until_ready()
    rig.stop()
    gone(damage)(rig.folders.path_of("t"))
    rig.start()
    rig.until_ready()
    assert rig.held() == ALL
    assert [event.table for event in rig.reported(GlobalTableRebuiltEvent)] == ["t"]
    assert rig.topics.begun == [{P0: 0, P1: 0}]
    assert list(rig.directory.trash.path.iterdir()), "the damaged one is in the trash"


def test_a_table_that_a_reader_cannot_read_is_built_again(rig, monkeypatch):
    rig.until_ready()
    with monkeypatch.context() as broken:
        broken.setattr(RocksTaskStores, "get", _damaged)
        with pytest.raises(StateError, match="a block is damaged"):
            rig.view.get(b"key-0")
    rig.turn_until(lambda: not rig.status().ready)
    rig.until_ready()
    assert rig.held() == ALL
    assert len(rig.reported(GlobalTableRebuiltEvent)) == 1


def test_a_table_that_two_readers_cannot_read_is_built_again_once(rig, monkeypatch):
    rig.until_ready()
    monkeypatch.setattr(rig.readers.reads["t"]._stores, "get", _damaged)
    for _ in range(2):
        with pytest.raises(StateError, match="damaged"):
            rig.view.get(b"key-1")
    rig.turn_until(lambda: rig.reported(GlobalTableRebuiltEvent))
    rig.until_ready()
    assert len(rig.reported(GlobalTableRebuiltEvent)) == 1
    assert not rig.reported(GlobalTableStoppedEvent)


def test_all_partitions_are_read_from_the_start_and_not_only_once_they_are_counted_again(rig, monkeypatch):
    monkeypatch.setattr(global_thread, "COUNT_MS", 1 << 60)
    rig.until_ready()
    assert rig.held() == ALL


def test_an_error_of_a_database_that_was_replaced_meanwhile_is_not_one_of_the_new_one(rig):
    rig.until_ready()
    old = rig.thread._stores["t"]
    rig.readers.failures.put(("t", old.database, StoreDamaged("a block is damaged")))
    rig.turn_until(lambda: not rig.status().ready)
    rig.thread._hear(Damaged(TaskId(-1, 0), old, StoreDamaged("the same block")))
    rig.readers.failures.put(("t", old.database, StoreDamaged("the same block")))  # a reader was that late
    rig.until_ready()
    assert len(rig.reported(GlobalTableRebuiltEvent)) == 1


def test_a_topic_that_is_created_again_while_no_process_ran_is_read_from_its_start(rig):
    rig.until_ready()
    rig.stop()
    rig.topics.logs = {P0: Log(entries=records(30, 200), topic_id="b")}
    rig.start()
    rig.until_ready()
    assert rig.held() == dict(records(30, 200))
    assert len(rig.reported(GlobalTableRebuiltEvent)) == 1


def test_a_topic_that_is_deleted_and_created_again_under_a_process_is_read_again(rig):
    rig.until_ready()
    rig.topics.logs = {}
    rig.turn_until(lambda: bool(rig.reported(GlobalTableStoppedEvent)))
    assert rig.held() == ALL, "readers go on with it"
    assert rig.status().stopped == "its topic topic does not exist; create it again"
    rig.topics.logs = {P0: Log(entries=records(3, 200), topic_id="b")}  # fewer partitions, too
    rig.until_held(dict(records(3, 200)))
    assert rig.status().stopped == ""
    assert len(rig.reported(GlobalTableReadyEvent)) == 2


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_late_answer_about_the_deleted_topic_neither_empties_the_table_again_nor_shows_to_readers(rig, partitions):
    """A broker may refuse an offset of the deleted topic after the new topic was noticed by its id."""
    rig.until_ready()
    rig.topics.logs = {}
    rig.turn_until(lambda: bool(rig.reported(GlobalTableStoppedEvent)))
    again = [Log(entries=records(3, 200), topic_id="b"), Log(entries=records(3, 300), topic_id="b")][:partitions]
    wanted = {key: value for log in again for key, value in log.entries}
    rig.topics.logs = dict(zip((P0, P1), again, strict=False))
    seen = []
    for late in (None, {P0: 7}, {P0: 7, P1: 5}, {P1: 5}, None):
        rig.topics.late = late or {}
        for _ in range(3):
            rig.thread._turn()
            seen.append(rig.held())
    assert len(rig.reported(GlobalTableRebuiltEvent)) == 1
    changes = [held for before, held in zip([None, *seen], seen, strict=False) if held != before]
    assert changes[-2:] == [None, wanted] or changes == [wanted], "once new, never refused or old again"


def test_a_topic_that_grows_is_read_whole(rig):
    rig.until_ready()
    rig.topics.logs[P2] = Log(entries=records(4, 300), topic_id="a")
    rig.until_held({**ALL, **dict(records(4, 300))})
    assert rig.reported(GlobalTableRebuiltEvent) == []
    assert rig.topics.begun[-1] == {P0: 7, P1: 5, P2: 0}


def test_a_topic_that_has_lost_the_kept_offset_is_read_again_as_deletions_may_be_missing(rig):
    rig.until_ready()
    rig.stop()
    rig.topics.logs[P0].append(*records(3, 400))
    rig.topics.logs[P0].truncate_to(8)
    rig.start()
    rig.until_ready()
    assert rig.held() == dict(records(2, 401) + records(5, 100))


def test_a_disk_that_refuses_stops_the_table_until_it_does_not(rig):
    rig.stop()

    def full(*_arguments: object) -> None:
        raise StateError("no space left")

    rig.open = full
    rig.start()
    rig.turn_until(lambda: bool(rig.reported(GlobalTableStoppedEvent)))
    assert rig.held() is None
    with pytest.raises(StateError, match="global table t cannot be read: no space left"):
        rig.view.get(b"a")
    rig.open = open_task_stores
    rig.topics.now_ms += 60_000
    rig.until_ready()
    assert rig.held() == ALL


def test_while_no_broker_answers_the_table_stays_readable(rig):
    rig.until_ready()
    rig.topics.away = True
    for _ in range(5):
        rig.thread._turn()
    assert rig.held() == ALL
    rig.topics.away = False
    rig.topics.logs[P0].append((b"new", b"1"))
    rig.until_held({**ALL, b"new": b"1"})


def test_the_end_closes_the_database_and_refuses_readers(rig):
    rig.until_ready()
    rig.stop()
    with pytest.raises(StateError, match="the worker is not running"):
        rig.view.get(b"key-0")
    open_task_stores(rig.folders.path_of("t"), ["t"]).close()


def test_folders_of_other_tables_and_old_ones_are_retired(rig):
    rig.until_ready()
    rig.stop()
    rig.folders.path_of("other").mkdir()
    rig.folders.retire({"t"}, -1, 10**15)
    assert [folder.name for folder in (rig.directory.path / "global").iterdir()] == ["t"]
    rig.folders.retire({"t"}, 60_000, 10**15)
    assert list((rig.directory.path / "global").iterdir()) == []
    assert sorted(entry.name.split(".")[0] for entry in rig.directory.trash.path.iterdir()) == ["other", "t"]
    rig.directory.trash.empty()
    assert list(rig.directory.trash.path.iterdir()) == []


def test_brokers_that_are_away_at_the_start_are_waited_for(rig, monkeypatch):
    rig.stop()
    monkeypatch.setattr(global_thread, "COUNT_RETRY_S", 0)
    counted = rig.topics.count
    answers = iter([BrokerUnavailable("away"), BrokerUnavailable("away")])

    def count() -> dict[str, int]:
        for failure in answers:
            raise failure
        return counted()

    monkeypatch.setattr(rig.topics, "count", count)
    rig.start()
    rig.until_ready()
    assert rig.held() == ALL
