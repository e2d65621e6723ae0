"""Entries expire on a real broker: changelog, standbys and restored stores hold the same, also after kills."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import TaskId, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, RecordProducer
from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.model import SubtopologyShape
from kstreams_assign.tasks.expiry import index_of, store_names
from tests.worker.app import PARTITIONS, PATIENCE_S, App
from tests.worker.expiring_process import STORE, store_of
from tests.worker.process import Process

SETTINGS = {"session_timeout_ms": 6_000, "num_standby_replicas": 1, "probing_rebalance_interval_ms": 60_000}
KEYS = 200

Entries = Mapping[int, Mapping[bytes, bytes]]
"""By partition."""


class Sessions(App):
    """The application, its changelog as compaction would leave it, and what its processes have on their disks."""

    def __init__(self, broker: str, name: str, folder: Path, guarantee: str) -> None:
        super().__init__(broker, name, folder)
        self.store = store_of(name)
        self.guarantee = guarantee
        self.processes: list[Process] = []
        self.compacted: dict[int, dict[bytes, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        self.tombstones = 0

    def begin(self, number: int) -> Process:
        settings: dict[str, Any] = {**SETTINGS, "processing_guarantee": self.guarantee}
        process = Process(self, number, module="tests.worker.expiring_process", **settings)
        self.processes.append(process)
        return process

    def send_at(self, prefix: str, time_ms: int) -> set[bytes]:
        keys = {b"%s-%d" % (prefix.encode(), number) for number in range(KEYS)}
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            for key in sorted(keys):
                producer.produce(self.name, None, key, b"of " + key, timestamp_ms=time_ms)
            producer.flush(PATIENCE_S)
        return keys

    def until_changelog(self, reader: ConfluentChangelogReader, met: Callable[[set[bytes]], bool]) -> None:
        """Follow the changelog until the keys of its compacted view are as expected."""
        deadline = time.monotonic() + PATIENCE_S
        while not met(self.keys()):
            assert time.monotonic() < deadline, (len(self.keys()), sorted(self.keys())[:3])
            for batch in reader.poll(0.3):
                self._apply(batch.partition.partition, batch.writes)

    def keys(self) -> set[bytes]:
        return {key for entries in self.compacted.values() for key in entries}

    def _apply(self, partition: int, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in writes:
            if value is None:
                self.compacted[partition].pop(key, None)
                self.tombstones += 1
            else:
                self.compacted[partition][key] = value

    def on_disk(self, number: int) -> Entries:
        """Return the entries of each task of a process that has ended, with their rows in the index."""
        held = {}
        shape = SubtopologyShape((self.name,), (self.store,))
        for partition in range(PARTITIONS):
            path = self.folder / f"state-{number}" / self.name / str(TaskId(0, partition))
            stores = open_task_stores(path, store_names(shape.stores), timestamped=frozenset({STORE}))
            held[partition] = {key: value[8:] for key, value in stores.range(STORE)}
            rows = [row[8:] for row, _ in stores.range(index_of(STORE), bytes(8))]
            assert held[partition].keys() <= set(rows)
            stores.close()
        return held

    def stop(self) -> None:
        super().stop()
        for process in self.processes:
            if process._popen.poll() is None:
                process.kill()


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["stream", "wall"])
def sessions(broker: str, tmp_path: Path, guarantee: str, request: pytest.FixtureRequest) -> Iterator[Sessions]:
    made = Sessions(broker, f"expiring-{guarantee.replace('_', '-')}-{request.param}", tmp_path, guarantee)
    yield made
    made.stop()


@pytest.fixture
def changelog(sessions: Sessions) -> Iterator[ConfluentChangelogReader]:
    admin = ClusterAdmin(sessions.broker)
    reader = ConfluentChangelogReader(sessions.broker, group_id="view", admin=admin, read_committed=True)
    topic = f"{sessions.name}-{STORE}-changelog"
    reader.add({TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)})
    yield reader
    reader.close()


def until_in_sync(process: Process) -> None:
    """Wait until the process has all tasks, and each has the end of its changelog."""
    since = len(process.events)
    process.until(lambda events: any(_in_sync(event) for event in events[since:]))


def _in_sync(event: Mapping[str, Any]) -> bool:
    tasks = event["tasks"] if event["event"] == "status" else {}
    return len(tasks) == PARTITIONS and all(task["lag"] == 0 for task in tasks.values())


def test_store_changelog_and_standby_hold_the_same_entries_after_kills(
    sessions: Sessions, changelog: ConfluentChangelogReader
) -> None:
    wall = sessions.store.ttl_clock == "wall"
    assert sessions.store.ttl_ms is not None
    first, second = sessions.begin(1), sessions.begin(2)
    until_in_sync(first)
    until_in_sync(second)
    begin_ms, step_ms = time.time_ns() // 1_000_000, sessions.store.ttl_ms * 2
    old = sessions.send_at("old", begin_ms)
    sessions.until_changelog(changelog, lambda keys: keys == old)
    first.kill()  # and with it what half of the tasks have not committed
    new = sessions.send_at("new", begin_ms + step_ms)
    sessions.until_changelog(changelog, lambda keys: keys == new)
    assert sessions.tombstones >= KEYS
    second.kill()
    third = sessions.begin(3)  # from the changelog alone
    if wall:
        sessions.until_changelog(changelog, lambda keys: not keys)  # without any input
    else:
        newest = sessions.send_at("newest", begin_ms + 2 * step_ms)
        sessions.until_changelog(changelog, lambda keys: keys == newest)
    again = sessions.begin(1)
    until_in_sync(again)
    until_in_sync(third)
    assert again.close() == 0
    assert sessions.on_disk(1) == sessions.compacted
    until_in_sync(third)
    assert third.close() == 0
    assert sessions.on_disk(3) == sessions.compacted
    assert sessions.keys() == (set() if wall else newest)
