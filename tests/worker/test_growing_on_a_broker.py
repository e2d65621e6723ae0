"""Topics that grow or appear while a worker runs, on a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.errors import TopologyMismatch
from tests.adapters.confluent_cluster import until
from tests.worker.app import PATIENCE_S, Running, grow

QUICK = {"topic.metadata.refresh.interval.ms": "300"}


class Growing:
    """An application that remembers what it has seen: (topic, partition, value), each in order."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self._folder, self._ends = broker, name, folder, ends
        self.admin = ClusterAdmin(broker)
        self.seen: list[tuple[str, int, bytes | None]] = []

    def remember(self, task: Task, records: Sequence[Record]) -> None:
        self.seen += [(record.topic, record.partition, record.value) for record in records]
        if self.stores:
            task.store("last").put(b"last", records[-1].value or b"")

    def start(self, *, stores: Sequence[str] = (), **sources: object) -> Running:
        self.stores = stores
        config = Config(
            application_id=f"{self.name}-app",
            bootstrap_servers=self.broker,
            state_dir=str(self._folder),
            session_timeout_ms=30_000,
            commit_interval_ms=20,
            client=QUICK,
        )
        running = Running(config, [Subtopology(self.remember, stores=stores, **sources)])  # type: ignore[arg-type]
        self._ends.callback(running.stop)
        return running

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """One record, and wait until it has been seen, once."""
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            producer.produce(topic, partition, b"key", value)
            producer.flush(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while (topic, partition, value) not in self.seen:
            assert time.monotonic() < deadline, self.seen
            threading.Event().wait(0.02)


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Growing]:
    with ExitStack() as ends:
        yield Growing(broker, request.node.name.replace("_", "-")[-60:], tmp_path, ends)


def test_a_source_that_grows_gives_more_tasks(app: Growing) -> None:
    app.admin.create_topics({app.name: 1}, PATIENCE_S)
    running = app.start(sources=[app.name])
    running.until_running(1)
    app.send(app.name, 0, b"before")
    grow(app.broker, app.name, 3)
    running.until_running(3)
    for partition in range(3):
        app.send(app.name, partition, b"after")
    assert len(app.seen) == 4


def test_a_running_task_gets_the_partition_that_another_of_its_sources_has_grown(app: Growing) -> None:
    large, small = f"{app.name}-large", f"{app.name}-small"
    app.admin.create_topics({large: 2, small: 1}, PATIENCE_S)
    running = app.start(sources=[large, small], stores=["last"])
    running.until_running(2)
    app.send(large, 1, b"before")
    grow(app.broker, small, 2)
    app.send(small, 1, b"of the new partition")
    app.send(large, 1, b"after")
    assert len(app.seen) == 3, "nothing is done twice"


def test_a_source_whose_state_has_a_changelog_may_not_grow(app: Growing) -> None:
    app.admin.create_topics({app.name: 2}, PATIENCE_S)
    running = app.start(sources=[app.name], stores=["last"])
    running.until_running(2)
    grow(app.broker, app.name, 4)
    error = running.until_error()
    assert isinstance(error, TopologyMismatch)
    assert (
        f"Existing internal topic {app.name}-app-last-changelog has invalid partitions: expected: 4; actual: 2"
        in str(error)
    )


def test_topics_that_match_a_pattern_are_read_and_those_that_appear_later_too(app: Growing) -> None:
    app.admin.create_topics({f"{app.name}-eu": 1, f"{app.name}-eu-old": 1}, PATIENCE_S)
    running = app.start(sources_pattern=f"{app.name}-(eu|us)", stores=["last"])
    running.until_running(1)
    app.send(f"{app.name}-eu", 0, b"first")
    app.admin.create_topics({f"{app.name}-us": 1}, PATIENCE_S)
    app.send(f"{app.name}-us", 0, b"second")
    app.send(f"{app.name}-eu", 0, b"third")
    assert [value for _, _, value in app.seen] == [b"first", b"second", b"third"]
    until(lambda: running.worker.read("last", b"last"), lambda value: value == b"third")  # once it is committed
