"""One group of a real Java Kafka Streams application and our worker: tasks and leadership move, no count is lost."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config, Record, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import AssignedEvent, DecisionEvent, EarlyProbeEvent
from tests.java.streams_app import StreamsApp
from tests.status.test_on_a_broker import until
from tests.worker.app import PATIENCE_S, Running, until_newest

PARTITIONS = 4
WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
LONG = struct.Struct(">q")


class Mixed:
    """An application that counts words, as ``StreamsApp`` does, in either language."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self.folder, self._ends = broker, name, folder, ends
        self.topic = f"{name}-words"
        self.sent: Counter[bytes] = Counter()
        ClusterAdmin(broker).create_topics({self.topic: PARTITIONS}, PATIENCE_S)
        self._producer = ends.enter_context(closing(RecordProducer(broker, delivery_timeout_ms=60_000)))

    def java(self, **settings: object) -> StreamsApp:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        app = StreamsApp(self.broker, self.name, self.folder / "java", [self.topic], settings=dotted)
        self._ends.callback(app.close)
        return app

    def python(self, **settings: Any) -> Running:
        config = Config(
            application_id=self.name,
            bootstrap_servers=self.broker,
            state_dir=str(self.folder / "python"),
            application_server="127.0.0.1:7001",
            **{"session_timeout_ms": 30_000, **settings},
        )
        store = f"totals-{self.topic}"

        def count(task: Task, records: Sequence[Record]) -> None:
            totals = task.store(store)
            for record in records:
                assert record.key is not None
                before = totals.get(record.key)
                totals.put(record.key, LONG.pack((LONG.unpack(before)[0] if before else 0) + 1))

        worker = Running(config, [Subtopology(count, sources=[self.topic], stores=[store])])
        self._ends.callback(worker.stop)
        return worker

    def count_more(self) -> None:
        """Send words, and wait until the changelog has their totals."""
        for word in WORDS:
            self._producer.produce(self.topic, None, word, b"x")
        self._producer.flush(PATIENCE_S)
        self.sent.update(WORDS)
        changelog = f"{self.name}-totals-{self.topic}-changelog"
        until_newest(self.broker, changelog, PARTITIONS, self.sent, lambda total: int(LONG.unpack(total)[0]))


@pytest.fixture
def mixed(
    broker: str,
    java_peer: object,  # noqa: ARG001  # skips where Java cannot be compiled
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Mixed]:
    with ExitStack() as ends:
        yield Mixed(broker, re.sub(r"[^a-z0-9]+", "-", request.node.name).strip("-"), tmp_path, ends)


def test_a_worker_joins_a_java_group_and_takes_all_of_it_over(mixed: Mixed) -> None:
    java = mixed.java()
    java.until_tasks(active=PARTITIONS)
    mixed.count_more()
    ours = mixed.python()
    ours.until_running(PARTITIONS // 2)
    java.until_tasks(active=PARTITIONS // 2)
    assert not ours.reported(DecisionEvent), "Java leads"
    assert "the group uses assignor high_availability" in ours.reported(AssignedEvent)[-1].warnings[0]
    mixed.count_more()
    java.close()
    ours.until_running(PARTITIONS)
    assert ours.reported(DecisionEvent)[-1].assignor == "least_movement"
    mixed.count_more()


def test_a_newcomer_asks_a_java_leader_for_its_tasks_once_it_is_warm_and_never_again(mixed: Mixed) -> None:
    java = mixed.java(acceptable_recovery_lag=0)
    java.until_tasks(active=PARTITIONS)
    mixed.count_more()
    ours = mixed.python(acceptable_recovery_lag=0, early_probing_floor_ms=3_000, http="127.0.0.1:0")
    until(ours, "/status.json", 200, "asks for a rebalance once its own replicas have caught up")
    ours.until_running(PARTITIONS // 2)
    java.until_tasks(active=PARTITIONS // 2)
    (asked,) = ours.reported(EarlyProbeEvent)
    assert asked.reason == f"probing rebalance, early: {PARTITIONS // 2} tasks can change hands"
    assert not ours.reported(DecisionEvent), "Java leads"
    mixed.count_more()
    (_,) = ours.reported(EarlyProbeEvent)
    until(ours, "/status.json", 200, "nothing is due")


def test_java_joins_a_group_that_python_leads_and_takes_all_of_it_over(mixed: Mixed) -> None:
    ours = mixed.python()
    ours.until_running(PARTITIONS)
    mixed.count_more()
    java = mixed.java()
    java.until_tasks(active=PARTITIONS // 2)
    ours.until_running(PARTITIONS // 2)
    decisions = [(decision.kind, decision.assignor) for decision in ours.reported(DecisionEvent)]
    assert decisions == [
        ("round", "least_movement"),
        ("round", "high_availability"),
        ("follow_up", "high_availability"),
    ]
    mixed.count_more()
    ours.stop()
    java.until_tasks(active=PARTITIONS)
    mixed.count_more()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_java_processes_a_paused_task_and_hands_the_pause_on(mixed: Mixed, guarantee: str) -> None:
    first = mixed.python(processing_guarantee=guarantee)
    first.until_running(PARTITIONS)
    mixed.count_more()
    assert len(first.worker.pause()) == PARTITIONS
    first.stop()
    java = mixed.java(processing_guarantee=guarantee)
    mixed.count_more()
    java.close()
    again = mixed.python(processing_guarantee=guarantee)
    again.until_running(PARTITIONS)
    assert len(again.worker.paused()) == PARTITIONS
    assert len(again.worker.resume()) == PARTITIONS
    mixed.count_more()
