"""Repartition topics beside a real Java Kafka Streams application: both create the same topics and count every word."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.events import AdoptedEvent, DecisionEvent, RunningEvent
from kstreams_assign.topology.flows import Repartition
from tests.adapters.confluent_cluster import until
from tests.java.repartition_app import RepartitionApp
from tests.worker.app import PATIENCE_S, Running, until_newest

PARTITIONS = 3
LONG = struct.Struct(">q")
LINES = [b"to be or not to be", b"that is the question", b"whether tis nobler in the mind to suffer"] * 40


def split(task: Task, lines: Sequence[Record]) -> None:
    for line in lines:
        for word in (line.value or b"").split():
            task.emit("words", word, word, timestamp_ms=line.timestamp_ms)


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in words:
        assert word.key is not None
        before = counts.get(word.key)
        counts.put(word.key, LONG.pack((LONG.unpack(before)[0] if before else 0) + 1))


def nothing(task: Task, records: Sequence[Record]) -> None:
    """Only the topics count."""


def words_of(prefix: str, *, pattern: bool = False) -> list[Subtopology]:
    """In another order than Java's, which the description puts right."""
    lines = {"sources_pattern": f"{prefix}-lines.*"} if pattern else {"sources": [f"{prefix}-lines"]}
    return [
        Subtopology(count, repartition_sources=["words"], stores=["counts"]),
        Subtopology(split, **lines, sinks=["words"]),
    ]


def settings(broker: str, application_id: str, folder: Path) -> Config:
    return Config(
        application_id=application_id,
        bootstrap_servers=broker,
        state_dir=str(folder),
        session_timeout_ms=30_000,
        assignor="high_availability",
        client={"topic.metadata.refresh.interval.ms": "300"},
    )


def made_topics(broker: str, application_id: str) -> dict[str, tuple[int, dict[str, str]]]:
    """Internal topic, without the application's name -> number of partitions, and all its settings."""
    start = f"{application_id}-"
    there = {
        name: n
        for name, n in ClusterAdmin(broker).topics(PATIENCE_S).items()
        if name.startswith(start) and name.endswith(("-repartition", "-changelog"))
    }
    admin = AdminClient({"bootstrap.servers": broker})
    asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in there])
    settings_by_topic = {
        at.name: {key: entry.value for key, entry in future.result(PATIENCE_S).items()} for at, future in asked.items()
    }
    return {name.removeprefix(start): (n, settings_by_topic[name]) for name, n in there.items()}


@pytest.fixture
def ends():
    with ExitStack() as stack:
        yield stack


def keep(task: Task, records: Sequence[Record]) -> None:
    customers = task.store("customers")
    for record in records:
        if record.topic == "every-customers":
            assert record.key is not None
            assert record.value is not None
            customers.put(record.key, record.value)


def everything() -> list[Subtopology]:
    """As ``RepartitionApp.java`` has it."""
    return [
        *words_of("every"),
        Subtopology(nothing, sources=["every-clicks"], sinks=["given"]),
        Subtopology(nothing, repartition_sources=[Repartition("given", 7)], sinks=["every-out"]),
        Subtopology(nothing, sources=["every-orders"], sinks=["joined"]),
        Subtopology(
            keep,
            sources=["every-customers"],
            repartition_sources=["joined"],
            copartitioned=[["every-customers", "joined"]],
            stores=[Store("customers", source="every-customers")],
            sinks=["every-out"],
        ),
    ]


@pytest.mark.usefixtures("java_peer")
def test_java_and_we_make_the_same_topics_for_the_same_topology(broker: str, tmp_path: Path, ends: ExitStack) -> None:
    """A derived and a given number of partitions, one that follows a join, and a table whose source is its changelog.

    Then a worker takes Java's group over, with the table, which no process wrote to a changelog.
    """
    sizes = {"lines": 4, "clicks": 2, "customers": 6, "orders": 3, "out": 1}
    ClusterAdmin(broker).create_topics({f"every-{name}": n for name, n in sizes.items()}, PATIENCE_S)
    java = RepartitionApp(broker, "every-java", tmp_path / "java", "everything", "every")
    ends.callback(java.close)
    tasks = sum(
        (4, 4, 2, 7, 3, 6)
    )  # by the partitions of lines, words, clicks, given, orders, and customers with joined
    java.until_tasks(active=tasks)
    description = java.describe()
    ours = Running(settings(broker, "every-ours", tmp_path / "1"), everything(), topology_description=description)
    ends.callback(ours.stop)
    ours.until_running(tasks)
    made = made_topics(broker, "every-ours")
    assert {name: n for name, (n, _) in made.items()} == {
        "counts-changelog": 4,
        "given-repartition": 7,
        "joined-repartition": 6,
        "words-repartition": 4,
    }
    assert made == made_topics(broker, "every-java")
    ours.stop()
    keys = [b"customer-%d" % n for n in range(60)]
    with closing(RecordProducer(broker, delivery_timeout_ms=60_000)) as producer:
        for key in keys:
            producer.produce("every-customers", None, key, b"name of " + key)
        producer.flush(PATIENCE_S)
    heir = Running(settings(broker, "every-java", tmp_path / "2"), everything(), topology_description=description)
    ends.callback(heir.stop)
    heir.until(lambda _: bool(heir.reported(RunningEvent)))
    java.close()
    heir.until_running(tasks)
    names = {
        b"name of " + key for key in keys
    }  # some of which Java had not worked on, and the heir does so after it has begun to run
    until(lambda: {heir.worker.read("customers", key) for key in keys}, lambda read: read == names)


class Words:
    """An application that counts the words of lines, in either language."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack, *, pattern: bool = False) -> None:
        self.broker, self.name, self.folder, self._ends, self._pattern = broker, name, folder, ends, pattern
        self.sent: Counter[bytes] = Counter()
        self.new_topic("lines", PARTITIONS)
        self._producer = ends.enter_context(closing(RecordProducer(broker, delivery_timeout_ms=60_000)))

    def new_topic(self, name: str, partitions: int) -> None:
        ClusterAdmin(self.broker).create_topics({f"{self.name}-{name}": partitions}, PATIENCE_S)

    def java(self) -> RepartitionApp:
        shape, soon = "pattern" if self._pattern else "words", {"metadata.max.age.ms": 300}
        app = RepartitionApp(self.broker, self.name, self.folder / "java", shape, self.name, soon)
        self._ends.callback(app.close)
        return app

    def python(self, description: str) -> Running:
        config = settings(self.broker, self.name, self.folder / "python")
        worker = Running(config, words_of(self.name, pattern=self._pattern), topology_description=description)
        self._ends.callback(worker.stop)
        return worker

    def count_more(self, topic: str = "lines", partitions: int = PARTITIONS) -> None:
        """Send lines, and wait until the changelog has every word of all lines so far."""
        for number, line in enumerate(LINES):
            self._producer.produce(f"{self.name}-{topic}", number % partitions, None, line)
            self.sent.update(line.split())
        self._producer.flush(PATIENCE_S)
        changelog = f"{self.name}-counts-changelog"
        until_newest(self.broker, changelog, PARTITIONS, self.sent, lambda total: int(LONG.unpack(total)[0]))


@pytest.mark.usefixtures("java_peer")
def test_one_group_of_both_languages_counts_every_word_through_a_repartition_topic(
    broker: str, tmp_path: Path, ends: ExitStack
) -> None:
    words = Words(broker, "words-of-both", tmp_path, ends)
    java = words.java()
    java.until_tasks(active=2 * PARTITIONS)
    words.count_more()
    ours = words.python(java.describe())
    ours.until_running(PARTITIONS)
    java.until_tasks(active=PARTITIONS)
    words.count_more()
    assert {task[0] for task in java.active} | {task[0] for task in ours.reported(AdoptedEvent)[-1].came} == {"0", "1"}
    assert not ours.reported(DecisionEvent), "Java leads"
    java.close()
    ours.until_running(2 * PARTITIONS)
    words.count_more()
    restarted = words.java()
    restarted.until(lambda _: len(restarted.active) == PARTITIONS)
    decisions = ours.reported(DecisionEvent)
    assert decisions, "Python leads"
    assert not [text for decision in decisions for text in decision.warnings if "another topology" in text]
    words.count_more()


@pytest.mark.usefixtures("java_peer")
def test_a_topic_that_appears_and_matches_is_read_with_either_leader(
    broker: str, tmp_path: Path, ends: ExitStack
) -> None:
    """Its partitions belong to tasks that are there already, on both sides."""
    words = Words(broker, "words-by-pattern", tmp_path, ends, pattern=True)
    java = words.java()
    java.until_tasks(active=2 * PARTITIONS)
    ours = words.python(java.describe())
    ours.until_running(PARTITIONS)
    java.until_tasks(active=PARTITIONS)
    words.count_more()
    words.new_topic("lines-under-java", PARTITIONS - 1)
    words.count_more("lines-under-java", PARTITIONS - 1)
    assert not ours.reported(DecisionEvent), "Java leads"
    java.close()
    ours.until_running(2 * PARTITIONS)
    restarted = words.java()
    restarted.until(lambda _: len(restarted.active) == PARTITIONS)
    words.new_topic("lines-under-python", PARTITIONS)
    words.count_more("lines-under-python")
    assert ours.reported(DecisionEvent), "Python leads"
    words.count_more()
