"""Global tables on a real broker: every process holds all keys, before its tasks run and while they do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kstreams_assign import Config, GlobalTable, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer, TransactionalProducer
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import ConfigError, StateError
from kstreams_assign.events import (
    AdoptedEvent,
    GlobalTableReadyEvent,
    GlobalTableRebuiltEvent,
    GlobalTableStoppedEvent,
    JoiningEvent,
    StatusEvent,
    WarningsEvent,
)
from tests.worker.app import PATIENCE_S, Running, until

ROOT = Path(__file__).parent.parent.parent
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
        client = AdminClient({"bootstrap.servers": self.broker})
        for future in client.delete_topics([self.table]).values():
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


def test_a_restart_after_kill_9_goes_on_from_the_kept_offsets(countries):
    countries.create()
    countries.send(countries.table, CODES)
    command = [sys.executable, "-m", "tests.worker.holding", countries.broker, countries.name, countries.table]
    with subprocess.Popen(
        [*command, str(countries.folder / "1")], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = next(event for event in map(json.loads, process.stdout) if event["event"] == "global_table_ready")
        assert ready["offsets"] == len(CODES)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    countries.send(countries.table, {b"new": b"founded"})
    running = countries.start(1)
    running.until_event(GlobalTableReadyEvent, offsets=1)
    assert held(running) == {**CODES, b"new": b"founded"}
    assert running.reported(GlobalTableRebuiltEvent) == []


def test_a_damaged_database_is_built_again_before_tasks_run(countries):
    countries.create()
    countries.send(countries.table, CODES)
    first = countries.start(1)
    first.until_event(GlobalTableReadyEvent)
    first.stop()
    for file in (countries.folder / "1" / countries.name / "global" / "countries").glob("MANIFEST-*"):
        file.write_bytes(bytes(100))
    countries.send(countries.input, CODES)
    second = countries.start(1)
    second.until(lambda _: len(countries.seen) == len(CODES))
    assert dict(countries.seen) == CODES
    assert len(second.reported(GlobalTableRebuiltEvent)) == 1
    assert second.reported(GlobalTableReadyEvent)[0].offsets == len(CODES)


def test_a_topic_created_again_under_a_worker_is_read_again_and_its_tasks_go_on(countries):
    countries.create()
    countries.send(countries.table, CODES)
    running = countries.start(1)
    running.until_running(2)
    countries.delete()
    running.until_event(GlobalTableStoppedEvent, table="countries")
    assert held(running) == CODES
    countries.create(PARTITIONS - 1)
    countries.send(countries.table, {b"new": b"founded"})
    until(lambda: held(running) == {b"new": b"founded"})
    assert len(running.reported(GlobalTableRebuiltEvent)) == 1
    countries.send(countries.input, {b"new": b"", b"code-1": b""})
    until(lambda: len(countries.seen) >= 2)
    assert dict(countries.seen) == {b"new": b"founded", b"code-1": None}


def test_a_topic_that_grows_under_a_worker_is_read_whole(countries):
    countries.create(1)
    countries.send(countries.table, CODES)
    running = countries.start(1)
    running.until_event(GlobalTableReadyEvent)
    client = AdminClient({"bootstrap.servers": countries.broker})
    for future in client.create_partitions([NewPartitions(countries.table, 3)]).values():
        future.result(PATIENCE_S)
    more = {b"more-%d" % n: b"%d" % n for n in range(30)}
    countries.send(countries.table, more)
    until(lambda: held(running) == {**CODES, **more})
    assert running.reported(GlobalTableRebuiltEvent) == []


def test_a_topic_that_does_not_exist_is_refused_at_start(countries):
    error = countries.start(1).until_error()
    assert isinstance(error, ConfigError)
    assert str(error) == (
        f"global tables: topics that do not exist: {countries.table} (of countries); create them first, with "
        "cleanup.policy=compact"
    )


def test_a_topic_that_deletes_old_records_is_warned_of(countries):
    countries.create(configs={"cleanup.policy": "delete"})
    running = countries.start(1)
    running.until_event(GlobalTableReadyEvent)
    (warned,) = running.reported(WarningsEvent)
    assert "global table countries: cleanup.policy of topic" in warned.warnings[0]


def test_exactly_once_an_open_transaction_neither_shows_nor_delays_the_start(countries):
    countries.create()
    countries.send(countries.table, {b"it": b"Italy"})
    with closing(TransactionalProducer(countries.broker, group_id="other", transactional_id=countries.table)) as other:
        other.prepare(PATIENCE_S)
        other.begin(PATIENCE_S)
        other.produce_all([(countries.table, b"ch", b"Switzerland", (), None, 0)])
        other.flush(PATIENCE_S)
        running = countries.start(1, processing_guarantee="exactly_once_v2")
        running.until_running(2)
        assert held(running) == {b"it": b"Italy"}
        other.commit(PATIENCE_S)
    until(lambda: held(running) == {b"it": b"Italy", b"ch": b"Switzerland"})


@pytest.mark.parametrize("end", ["close", "drain"])
def test_a_worker_whose_table_cannot_be_kept_waits_without_work_and_can_be_ended(countries, end):
    countries.create()
    countries.send(countries.input, CODES)
    blocked = countries.folder / "1" / countries.name / "global"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where a folder should be")
    running = countries.start(1)
    running.until_event(GlobalTableStoppedEvent)
    running.until_event(StatusEvent)
    getattr(running.worker, end)()
    running.join()
    assert running.error is None
    assert running.reported(JoiningEvent) == []
    assert countries.seen == []
    blocked.unlink()
    countries.start(1)
    until(lambda: len(countries.seen) == len(CODES))
