"""A worker whose changelog belongs to another kind of store ends with the store's name, before it restores it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, InputConsumer, RecordProducer
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import AssignedEvent, RunningEvent
from kstreams_assign.model import TopicPartition, changelog_topic
from kstreams_assign.tasks.record import Headers as RecordHeaders
from tests.java.shared import SharedApp
from tests.mixed.stage import until
from tests.worker.app import PARTITIONS, App, Running


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("has-windows", {"cleanup.policy": "compact,delete"}, "windowed and session stores"),
        ("has-versions", {"min.compaction.lag.ms": "86400000"}, "versioned stores"),
    ],
)
def test_it_is_refused_before_it_joins(
    broker: str, tmp_path: Path, name: str, settings: dict[str, str], why: str
) -> None:
    app, changelog = App(broker, name, tmp_path), f"{name}-totals-changelog"
    ClusterAdmin(broker).create_topics({changelog: PARTITIONS}, 60, configs={changelog: settings})
    worker = app.start(1)
    error = worker.until_error()
    assert isinstance(error, ConfigError)
    assert f"store 'totals': {changelog} has {next(iter(settings))} = " in str(error)
    assert why in str(error)
    assert not worker.reported(AssignedEvent)
    worker.stop()


def nothing(_task: Task, _records: Sequence[Record]) -> None:
    """Only the stores count."""


class Headers:
    """A Java application with a store that keeps headers (KIP-1271), one record, and our workers in its group."""

    NAME = "has-headers"

    def __init__(self, broker: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.folder, self._ends = broker, folder, ends
        self.admin, self.topic = ClusterAdmin(broker), f"{self.NAME}-in"
        self.admin.create_topics({self.topic: 1, f"{self.topic}-out": 1}, 20)
        self.java = SharedApp(broker, self.NAME, folder / "java", self.topic, keeps_headers=True)
        ends.callback(self.java.close)
        with closing(RecordProducer(broker, delivery_timeout_ms=10_000)) as producer:
            producer.produce(self.topic, 0, b"key", b"value", [("origin", b"here")])
            producer.flush(20)

    def logged_headers(self, store: str) -> RecordHeaders | None:
        """What Java wrote beside the value."""
        changelog = TopicPartition(changelog_topic(self.NAME, store), 0)
        records: list[Record] = []
        with closing(InputConsumer(self.broker, group_id="looks")) as reader:
            reader.add({changelog: 0})

            def read() -> bool:
                records.extend(reader.poll(100, 0.2).get(changelog, ()))
                return bool(records)

            until(read, 60, f"Java has written to {store}", [self.java])
        return records[0].headers

    def worker(self, headed: Store) -> Running:
        config = Config(
            application_id=self.NAME,
            bootstrap_servers=self.broker,
            state_dir=str(self.folder / "ours"),
            session_timeout_ms=6_000,
        )
        stores = ["plain", Store("stamped", timestamped=True), headed]
        worker = Running(config, [Subtopology(nothing, sources=[self.topic], stores=stores)])
        self._ends.callback(worker.stop)
        return worker


@pytest.mark.usefixtures("java_peer")
def test_a_store_with_headers_is_refused_at_the_first_record_that_has_some(broker: str, tmp_path: Path) -> None:
    with ExitStack() as ends:
        app = Headers(broker, tmp_path, ends)
        assert [app.logged_headers(store) for store in ("plain", "stamped")] == [None, None]
        assert app.logged_headers("headed") == [("origin", b"here")]
        app.java.close()
        worker = app.worker(Store("headed", timestamped=True))
        error = worker.until_error()
        assert isinstance(error, ConfigError)
        assert f"store 'headed': {app.NAME}-headed-changelog has records with headers (origin)" in str(error)
        assert not worker.reported(RunningEvent)
        worker.stop()
        resigned = app.worker(Store("headed", timestamped=True, drop_headers=True))
        resigned.until_running(1)
        assert (resigned.worker.read("headed", b"key") or b"").endswith(b"value")
