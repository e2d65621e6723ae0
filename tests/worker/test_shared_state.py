"""State moves from a real Java application to our worker and back, through changelogs, with both guarantees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import RunningEvent
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Headers
from kstreams_assign.tasks.stamped import ValueAndTime
from kstreams_assign.worker.locating import partition_of
from tests.java.shared import SharedApp, Shown
from tests.worker.app import PATIENCE_S, Running

T = TypeVar("T")
SHOW = b"show"
"""A record of this key makes the worker's function tell what its stores hold."""


class Sent(NamedTuple):
    """An input record; its time is given in milliseconds since the test began."""

    key: bytes
    value: bytes | None
    after_ms: int
    headers: Headers | None = None


FIRST = [
    Sent(b"stays", b"1", 1),
    Sent(b"changes", b"old", 2, [("from", b"java"), ("empty", None)]),
    Sent(b"goes later", b"3", 50),
    Sent(b"gone", b"4", 20),
    Sent(b"gone", None, 3),
    Sent(b"empty", b"", 4),
]
"""Java works on these. The newest time is not the last record's."""
SECOND = [
    Sent(b"changes", b"new", 10, [("from", b"python"), ("from", b"again")]),
    Sent(b"goes later", None, 60),
    Sent(b"fresh", b"5", 70),
    Sent(b"fresh too", b"6", 65),
]
"""And we on these."""


class SeenState(NamedTuple):
    """The state that the worker's function saw."""

    plain: Mapping[bytes, bytes]
    stamped: Mapping[bytes, ValueAndTime[bytes]]
    partition_time: int | None


@dataclass
class Passage:
    """Java, then Python, then Java again: what each read, and what the topics hold in the end."""

    began_ms: int
    from_java: Shown
    ours: SeenState
    from_ours: Shown
    running: RunningEvent
    outputs: Sequence[Message] = ()
    changelogs: Mapping[str, Sequence[Message]] = field(default_factory=dict)

    def kept(self, *sent: Sent) -> dict[bytes, tuple[bytes, int]]:
        """Key -> value and time, as stores should hold them after these."""
        values: dict[bytes, tuple[bytes, int]] = {}
        for record in sent:
            values.pop(record.key, None)
            if record.value is not None:
                values[record.key] = record.value, self.began_ms + record.after_ms
        return values


def values(kept: Mapping[bytes, tuple[bytes, int]]) -> dict[bytes, bytes]:
    return {key: value for key, (value, _) in kept.items()}


def keep_into(seen: list[SeenState], topic: str) -> Subtopology:
    """What ``Shared.java`` does, in Python."""

    def keep(task: Task, records: Sequence[Record]) -> None:
        plain, stamped = task.store("plain"), task.timestamped_store("stamped")
        for record in records:
            assert record.key is not None
            if record.key == SHOW:
                seen.append(
                    SeenState(dict(plain.range()), dict(stamped.range_with_timestamps()), task.partition_time(topic))
                )
                continue
            for store in (plain, stamped):
                if record.value is None:
                    store.delete(record.key)
                else:
                    store.put(record.key, record.value)
            task.emit(f"{topic}-out", record.key, record.value)

    stores = ["plain", Store("stamped", timestamped=True)]
    return Subtopology(keep, sources=[topic], stores=stores, sinks=[f"{topic}-out"])


def until(look: Callable[[], T], good: Callable[[T], bool], timeout_s: float = PATIENCE_S) -> T:
    """Look again and again until the value is good."""
    deadline = time.monotonic() + timeout_s
    while not good(value := look()):
        assert time.monotonic() < deadline, value
    return value


def whole_log(broker: str, topic: str, count: int) -> list[Message]:
    """The first so many committed records of partition 0."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "reads-alone", "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.assign([ClientPartition(topic, 0, 0)])
        messages: list[Message] = []
        until(lambda: messages.extend(consumer.consume(100, 0.1)), lambda _: len(messages) >= count)
    return messages


def send(broker: str, topic: str, began_ms: int, sent: Sequence[Sent]) -> None:
    with closing(RecordProducer(broker, delivery_timeout_ms=60_000)) as producer:
        for key, value, after_ms, headers in sent:
            producer.produce(topic, 0, key, value, headers, began_ms + after_ms)
        producer.flush(PATIENCE_S)


@pytest.fixture(scope="module", params=GUARANTEES)
def passage(
    broker: str,
    java_peer: object,  # noqa: ARG001  # says whether Java can be compiled
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Passage]:
    """One passage for all tests: it is long, and nothing changes it."""
    guarantee = str(request.param)
    name, folder = f"shared-{guarantee.replace('_', '-')}", tmp_path_factory.mktemp("shared")
    with ExitStack() as ends:
        yield pass_over(broker, name, guarantee, folder, ends)


def pass_over(broker: str, name: str, guarantee: str, folder: Path, ends: ExitStack) -> Passage:
    began_ms, topic = int(time.time() * 1000) - 60_000, f"{name}-in"
    ClusterAdmin(broker).create_topics({topic: 1, f"{topic}-out": 1}, PATIENCE_S)

    def java(number: int) -> SharedApp:
        app = SharedApp(broker, name, folder / f"java-{number}", topic, processing_guarantee=guarantee)
        ends.callback(app.close)
        app.until_running()
        return app

    send(broker, topic, began_ms, FIRST)
    first = java(1)
    from_java = until(first.stores, lambda shown: shown.note == began_ms + FIRST[-1].after_ms + 1)
    first.close()

    config = Config(
        application_id=name,
        bootstrap_servers=broker,
        state_dir=str(folder / "ours"),
        session_timeout_ms=30_000,
        processing_guarantee=guarantee,
    )
    seen: list[SeenState] = []
    worker = Running(config, [keep_into(seen, topic)])
    ends.callback(worker.stop)
    send(broker, topic, began_ms, [Sent(SHOW, b"", 5)])
    worker.until(lambda _: bool(seen))
    send(broker, topic, began_ms, SECOND)
    outputs = whole_log(broker, f"{topic}-out", len(FIRST) + len(SECOND))
    worker.stop()

    second = java(2)
    from_ours = until(second.stores, lambda shown: shown.time_ms != -2)
    changelogs = {store: whole_log(broker, f"{name}-{store}-changelog", 10) for store in ("plain", "stamped")}
    return Passage(began_ms, from_java, seen[0], from_ours, worker.reported(RunningEvent)[0], outputs, changelogs)


def test_we_read_javas_plain_store(passage: Passage) -> None:
    kept = values(passage.kept(*FIRST))
    assert passage.ours.plain == passage.from_java.plain == kept
    assert kept[b"empty"] == b""


def test_java_reads_our_plain_store(passage: Passage) -> None:
    assert passage.from_ours.plain == values(passage.kept(*FIRST, *SECOND))


def test_we_read_javas_timestamped_store_with_its_times(passage: Passage) -> None:
    assert passage.ours.stamped == passage.from_java.stamped == passage.kept(*FIRST)


def test_java_reads_our_timestamped_store_with_its_times(passage: Passage) -> None:
    assert passage.from_ours.stamped == passage.kept(*FIRST, *SECOND)


def test_tombstones_go_both_ways(passage: Passage) -> None:
    assert not passage.ours.plain.keys() & {b"gone"}
    assert not passage.ours.stamped.keys() & {b"gone"}
    assert not passage.from_ours.plain.keys() & {b"gone", b"goes later"}
    assert not passage.from_ours.stamped.keys() & {b"gone", b"goes later"}


@pytest.mark.parametrize("store", ["plain", "stamped"])
def test_changelog_records_have_the_time_of_their_cause_in_both_languages(passage: Passage, store: str) -> None:
    records = {(m.key(), m.value(), m.timestamp()[1]) for m in passage.changelogs[store]}
    sent = {(key, value, passage.began_ms + after) for key, value, after, _ in (*FIRST, *SECOND)}
    assert records == sent


def test_outputs_have_their_inputs_time_and_headers_in_both_languages(passage: Passage) -> None:
    records = [(m.key(), m.value(), m.timestamp()[1] - passage.began_ms, m.headers()) for m in passage.outputs]
    assert records == [tuple(sent) for sent in (*FIRST, *SECOND)]


def test_we_go_on_from_javas_partition_time(passage: Passage) -> None:
    assert passage.from_java.time_ms == passage.ours.partition_time == passage.began_ms + 50


def test_javas_stream_time_goes_on_from_ours_and_its_processors_find_their_notes(passage: Passage) -> None:
    assert passage.from_ours.time_ms == passage.began_ms + 70
    assert passage.from_ours.note == passage.from_java.note == passage.began_ms + 5


def test_a_changelog_is_read_to_its_end_behind_the_last_marker(passage: Passage) -> None:
    """A Java transaction leaves one behind each commit; a task that waited for a record there would never run."""
    assert passage.running.restored >= len(passage.kept(*FIRST)) * 2


def test_keys_go_where_javas_producer_puts_them(broker: str, java_peer: object, tmp_path: Path) -> None:  # noqa: ARG001
    """With our own murmur2, which key look-ups use, and through librdkafka."""
    topic, count = "shared-partitions", 7
    keys = [b"", *(bytes(range(first, first + size)) for size in range(1, 60) for first in (0, 140))]
    ClusterAdmin(broker).create_topics({topic: count}, PATIENCE_S)
    with closing(RecordProducer(broker, delivery_timeout_ms=60_000)) as producer:
        placed: dict[bytes, int] = {}
        for key in keys:
            producer.produce(topic, None, key, b"", track=True)
            (at,) = producer.flush(PATIENCE_S)
            placed[key] = at.partition
        producer.produce(topic, 3, b"", b"", track=True)
        assert set(producer.flush(PATIENCE_S)) == {TopicPartition(topic, 3)}
    app = SharedApp(broker, "shared-partitions", tmp_path, f"{topic}-none")
    try:
        assert (
            [placed[key] for key in keys] == app.partitions(keys, count) == [partition_of(key, count) for key in keys]
        )
    finally:
        app.kill()
