"""Two subtopologies and the topic between them, on a real broker: created, read, purged; contradictions are refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Subtopology, Task, TopicPartition
from kstreams_assign.adapters.confluent import (
    ClusterAdmin,
    CommittedOffsets,
    RecordProducer,
)
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import AssignmentRefused, TopologyMismatch
from kstreams_assign.events import RunningEvent
from tests.worker.app import PATIENCE_S, Running, until_newest

PARTITIONS = 3
LINES = [b"to be or not to be", b"that is the question"] * 100


def split(task: Task, lines: Sequence[Record]) -> None:
    for line in lines:
        for word in (line.value or b"").split():
            task.emit("words", word, b"")


def count(task: Task, words: Sequence[Record]) -> None:
    counts = task.store("counts")
    for word in words:
        assert word.key is not None
        counts.put(word.key, b"%d" % (int(counts.get(word.key) or b"0") + 1))


class App:
    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self._folder, self._ends = broker, name, folder, ends
        self.admin = ClusterAdmin(broker)
        self.between = [TopicPartition(f"{name}-words-repartition", p) for p in range(PARTITIONS)]
        self.sent: Counter[bytes] = Counter()

    def start(self, number: int = 1, *, reverse: bool = False, **settings: object) -> Running:
        config = Config.from_mapping(
            {
                "application_id": self.name,
                "bootstrap_servers": self.broker,
                "state_dir": str(self._folder / str(number)),
                "session_timeout_ms": 30_000,
                **settings,
            }
        )
        topology = [
            Subtopology(split, sources=[f"{self.name}-lines"], sinks=["words"]),
            Subtopology(count, repartition_sources=["words"], stores=["counts"]),
        ]
        running = Running(config, topology[::-1] if reverse else topology)
        self._ends.callback(running.stop)
        return running

    def send(self) -> None:
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            for number, line in enumerate(LINES):
                producer.produce(f"{self.name}-lines", number % PARTITIONS, None, line)
                self.sent.update(line.split())
            producer.flush(PATIENCE_S)

    def until_counted(self) -> None:
        until_newest(self.broker, f"{self.name}-counts-changelog", PARTITIONS, self.sent, read_committed=True)

    def until_empty(self) -> None:
        """Wait until nothing that is consumed is kept between the two."""
        with closing(CommittedOffsets(self.broker, None, group_id=self.name)) as committed:
            deadline = time.monotonic() + PATIENCE_S
            first, consumed, sent = {}, {TopicPartition("none", 0): 0}, sum(self.sent.values())
            # Before the first commit, and between two of them, both are the same, too.
            while (first != consumed or sum(consumed.values()) < sent) and time.monotonic() < deadline:
                first = self.admin.start_offsets(self.between, PATIENCE_S)
                consumed = {p: committed.read(self.between, PATIENCE_S).get(p, 0) for p in self.between}
        assert first == consumed
        assert sum(consumed.values()) >= sent


@pytest.fixture
def app(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    with ExitStack() as ends:
        name = request.node.name.partition("[")[0].replace("_", "-")[-60:]
        yield App(broker, f"{name}-{len(request.node.name)}", tmp_path, ends)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_words_go_through_the_topic_between_and_are_deleted_once_consumed(app: App, guarantee: str) -> None:
    app.admin.create_topics({f"{app.name}-lines": PARTITIONS}, PATIENCE_S)
    app.start(processing_guarantee=guarantee, repartition_purge_interval_ms=100, commit_interval_ms=20)
    for _ in range(2):
        app.send()
        app.until_counted()
        app.until_empty()


def test_a_topic_between_with_another_number_of_partitions_is_refused_by_both_numbers_and_left_as_it_is(
    app: App,
) -> None:
    app.admin.create_topics({f"{app.name}-lines": PARTITIONS, app.between[0].topic: 2}, PATIENCE_S)
    error = app.start().until_error()
    assert isinstance(error, TopologyMismatch)
    assert f"{app.between[0].topic} has invalid partitions: expected: 3; actual: 2" in str(error)
    assert app.admin.partition_counts([app.between[0].topic], PATIENCE_S) == {app.between[0].topic: 2}


def test_a_follower_with_other_numbers_refuses_its_first_assignment_and_nothing_is_lost(app: App) -> None:
    app.admin.create_topics({f"{app.name}-lines": PARTITIONS}, PATIENCE_S)
    leader = app.start()
    leader.until_running(2 * PARTITIONS)
    app.send()
    other = app.start(2, reverse=True)
    error = other.until_error()
    assert isinstance(error, TopologyMismatch)
    assert "this member's subtopology" in str(error)
    other.stop()
    app.send()
    app.until_counted()
    leader.until_running(2 * PARTITIONS)
    assert not other.reported(RunningEvent)


def test_without_its_source_topic_nothing_is_made(app: App) -> None:
    error = app.start().until_error()
    assert isinstance(error, AssignmentRefused)
    assert f"source topics do not exist: {app.name}-lines; create them" in str(error)
    assert not [topic for topic in app.admin.topics(PATIENCE_S) if topic.startswith(f"{app.name}-")]
