"""Global tables on a real broker: every process holds all keys, before its tasks run and while they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kstreams_assign import Config, GlobalTable, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import StateError
from kstreams_assign.events import (
    AdoptedEvent,
    GlobalTableReadyEvent,
)
from tests.worker.app import PATIENCE_S, Running, until

PARTITIONS = 3
COMPACT = {"cleanup.policy": "compact"}
CODES = {b"code-%d" % n: b"country %d" % n for n in range(60)}
pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own


class Countries:
    """An application that looks the country of each input record up."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self.folder, self._ends = broker, name, folder, ends
        self.input, self.table = f"{name}-in", f"{name}-countries"
        self.admin = ClusterAdmin(broker)
        self.admin.create_topics({self.input: 2, f"{name}-out": 1}, PATIENCE_S)
        self.seen: list[tuple[bytes | None, bytes | None]] = []

    def create(self, partitions: int = PARTITIONS, configs: dict[str, str] | None = None) -> None:
        self.admin.create_topics({self.table: partitions}, PATIENCE_S, configs={self.table: configs or COMPACT})

    def look_up(self, task: Task, records: Sequence[Record]) -> None:
        countries = task.global_table("countries")
        for record in records:
            assert record.key is not None
            self.seen.append((record.key, countries.get(record.key)))

    def start(self, number: int, **settings: object) -> Running:
        config = Config.from_mapping(
            {
                "application_id": self.name,
                "bootstrap_servers": self.broker,
                "state_dir": str(self.folder / str(number)),
                "session_timeout_ms": 30_000,
                "commit_interval_ms": 20,
                **settings,
            }
        )
        running = Running(
            config,
            [Subtopology(self.look_up, sources=[self.input])],
            global_tables=[GlobalTable("countries", topic=self.table)],
        )
        self._ends.callback(running.stop)
        return running

    def send(self, topic: str, records: dict[bytes, bytes | None]) -> None:
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            for key, value in records.items():
                producer.produce(topic, None, key, value)
            producer.flush(PATIENCE_S)

    def delete(self) -> None:
        for future in AdminClient({"bootstrap.servers": self.broker}).delete_topics([self.table]).values():
            future.result(PATIENCE_S)
        until(lambda: self.table not in self.admin.topics(PATIENCE_S))


@pytest.fixture
def countries(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Countries]:
    with ExitStack() as ends:
        name = request.node.name.partition("[")[0].replace("_", "-")[-50:]
        yield Countries(broker, f"{name}-{len(request.node.name)}", tmp_path, ends)


def held(running: Running) -> dict[bytes, bytes]:
    """What a process holds; nothing while it cannot be read."""
    try:
        return dict(running.worker.global_table("countries").range())
    except StateError:
        return {}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_two_processes_hold_every_key_before_their_tasks_run_and_get_updates(countries, guarantee):
    countries.create()
    countries.send(countries.table, CODES)
    countries.send(countries.input, CODES)
    first = countries.start(1, processing_guarantee=guarantee)
    second = countries.start(2, processing_guarantee=guarantee)
    for running in (first, second):
        running.until_event(GlobalTableReadyEvent, table="countries")
        assert held(running) == CODES
        assert running.worker.global_table("countries").get_many([b"code-1", b"none"]) == [b"country 1", None]
    until(lambda: len(countries.seen) == len(CODES))
    assert dict(countries.seen) == CODES
    for running in (first, second):
        running.until_event(AdoptedEvent)
        kinds = [type(event) for event in running.events]
        assert kinds.index(GlobalTableReadyEvent) < kinds.index(AdoptedEvent)
    changed = {b"code-1": b"renamed", b"code-2": None, b"new": b"founded"}
    countries.send(countries.table, changed)
    wanted = {key: value for key, value in {**CODES, **changed}.items() if value is not None}
    for running in (first, second):
        until(lambda running=running: held(running) == wanted)
    countries.send(countries.input, {b"new": b"", b"code-2": b""})
    until(lambda: len(countries.seen) == len(CODES) + 2)
    assert dict(countries.seen[-2:]) == {b"new": b"founded", b"code-2": None}
