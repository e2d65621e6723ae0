"""A changelog partition without bounds, on a real broker: one of its two disks fails, and the partitions there have no
leader; or a leader fails at a look-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.local import LocalBroker
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Event, Purpose, Restored, Restorer
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic, put
from tests.restore.logs import DictStores

RECORDS = [(b"%d" % number, b"v") for number in range(50)]


class TwoDisks:
    """A broker with two log directories; ``fail`` takes the second away, ``mend`` brings it back and restarts."""

    def __init__(self, folder: Path) -> None:
        first, self.second, self._away = folder / "records", folder / "second", folder / "away"
        settings = {
            "log.dirs": f"{first},{self.second}",
            "metadata.log.dir": str(first),
            "log.flush.offset.checkpoint.interval.ms": "200",  # a write that fails is how a broker notices
        }
        self.broker = LocalBroker(data_dir=folder, settings=settings)

    def on_second(self, topic: str, count: int) -> list[int]:
        return [number for number in range(count) if (self.second / f"{topic}-{number}").exists()]

    def fail(self) -> None:
        self.second.rename(self._away)

    def mend(self) -> None:
        self._away.rename(self.second)
        self.broker.restart()


@pytest.fixture
def disks(broker: str, tmp_path: Path) -> Iterator[TwoDisks]:  # noqa: ARG001  # it can run here
    disks = TwoDisks(tmp_path)
    with disks.broker:
        yield disks


def until(loop: Restorer, enough: Callable[[list[Event]], bool]) -> tuple[list[Event], float]:
    """The events until then, and the median of the steps' seconds."""
    events: list[Event] = []
    steps_s: list[float] = []
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not enough(events):
        assert time.monotonic() < deadline, events
        began = time.monotonic()
        events += loop.step(0.05)
        steps_s.append(time.monotonic() - began)
    return events, median(steps_s)


def restored(*tasks: TaskId) -> Callable[[list[Event]], bool]:
    return lambda events: set(tasks) <= {event.task for event in events if isinstance(event, Restored)}


def test_the_task_of_a_partition_without_a_leader_waits_alone_and_goes_on_when_there_is_one(disks: TwoDisks) -> None:
    admin = ClusterAdmin(disks.broker.bootstrap_servers)
    topic = new_topic(admin, 4, cleanup_policy="compact")
    for number in range(4):
        put(disks.broker.bootstrap_servers, TopicPartition(topic, number), RECORDS)
    lost = disks.on_second(topic, 4)
    assert 0 < len(lost) < 4
    disks.fail()
    partitions = [TopicPartition(topic, number) for number in range(4)]
    deadline = time.monotonic() + PATIENCE_S
    while any(admin.bounds_and_ids(partitions, 5, 1)[0][partitions[number]] for number in lost):
        assert time.monotonic() < deadline
    reader = ConfluentChangelogReader(disks.broker.bootstrap_servers, group_id="g", admin=admin)
    loop = Restorer(reader, now_ms=monotonic_ms)
    tasks = {number: TaskId(0, number) for number in range(4)}
    stores = {number: DictStores() for number in range(4)}
    for number, task in tasks.items():
        loop.add(task, stores[number], {partitions[number]: "s"}, Purpose.ACTIVE)
    led = [tasks[number] for number in range(4) if number not in lost]
    events, step_s = until(loop, restored(*led))
    assert sorted(event.task for event in events if isinstance(event, Restored)) == led
    assert step_s < 4, "a step does not wait 5 s for a leader"
    disks.mend()
    until(loop, restored(*(tasks[number] for number in lost)))
    assert all(held.data == {"s": dict(RECORDS)} for held in stores.values())
    reader.close()


Answers = dict[ClientPartition, Future[Any]]


class Failing:
    """The brokers' answers to look-ups of offsets, the first ``times`` with an error about the last partition."""

    def __init__(self, admin: ClusterAdmin, monkeypatch: pytest.MonkeyPatch, code: int, times: int) -> None:
        self._ask, self._code, self._times = admin._admin.list_offsets, code, times
        self.asked = 0
        monkeypatch.setattr(admin._admin, "list_offsets", self._list_offsets)

    def _list_offsets(self, partitions: Any, **options: Any) -> Answers:
        answers: Answers = self._ask(partitions, **options)
        self.asked += 1
        if self.asked > self._times:
            return answers
        failed: Future[Any] = Future()
        failed.set_exception(KafkaException(KafkaError(self._code, "as the broker put it")))
        return {**answers, list(answers)[-1]: failed}


FAILED = [KafkaError.UNKNOWN, KafkaError.INCONSISTENT_TOPIC_ID]


@pytest.mark.parametrize("code", FAILED)
def test_a_look_up_that_failed_at_the_broker_is_asked_again(
    broker: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As by Java's ``OffsetFetcherUtils``."""
    admin = ClusterAdmin(broker)
    topic = new_topic(admin, 2)
    asked = [TopicPartition(topic, number) for number in range(2)]
    put(broker, asked[1], RECORDS)
    failing = Failing(admin, monkeypatch, code, 2)
    assert admin.end_offsets(asked, PATIENCE_S) == {asked[0]: 0, asked[1]: len(RECORDS)}
    assert failing.asked == 3


@pytest.mark.parametrize("code", FAILED)
def test_a_look_up_that_fails_at_the_broker_until_the_deadline_may_be_repeated_later(
    broker: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    admin = ClusterAdmin(broker)
    at = TopicPartition(new_topic(admin, 1), 0)
    Failing(admin, monkeypatch, code, 1_000_000)
    with pytest.raises(BrokerUnavailable, match=rf"offset of {at}: as the broker put it"):
        admin.end_offsets([at], 0.5)


@pytest.mark.parametrize("code", FAILED)
def test_a_partition_whose_bounds_failed_at_the_broker_has_none_for_now(
    broker: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    admin = ClusterAdmin(broker)
    topic = new_topic(admin, 2)
    asked = [TopicPartition(topic, number) for number in range(2)]
    Failing(admin, monkeypatch, code, 1)
    assert sorted(admin.bounds_and_ids(asked, PATIENCE_S, PATIENCE_S)[0].values(), key=bool) == [None, (0, 0)]
    assert admin.bounds_and_ids(asked, PATIENCE_S, PATIENCE_S)[0] == dict.fromkeys(asked, (0, 0))
