"""A small application for the worker's tests: it counts words and keeps every event that the worker reports."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions

from kstreams_assign import Config, Event, Record, Store, Subtopology, Task, TopicPartition, Worker
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets, ConfluentChangelogReader, RecordProducer
from kstreams_assign.events import BaseEvent, StatusEvent
from kstreams_assign.worker.on_error import OnError

E = TypeVar("E", bound=BaseEvent)

PARTITIONS = 4
PATIENCE_S = 90.0
"""Enough for a machine that does ten other things; nothing waits this long when all is well."""


def count(task: Task, records: Sequence[Record]) -> None:
    totals = task.store("totals")
    for record in records:
        assert record.key is not None
        total = int(totals.get(record.key) or b"0") + 1
        totals.put(record.key, b"%d" % total)
        task.emit(f"{record.topic}-counts", record.key, b"%d" % total)


def count_and_hang(stuck: threading.Event, free: threading.Event) -> Callable[[Task, Sequence[Record]], None]:
    """Return ``count`` that sets ``stuck`` after its first batches, and returns once ``free`` is set."""

    def slow(task: Task, records: Sequence[Record]) -> None:
        count(task, records)
        if not free.is_set():
            stuck.set()
            assert free.wait(110)

    return slow


def until_newest(
    broker: str,
    changelog: str,
    partitions: int,
    wanted: Mapping[bytes, int],
    read: Callable[[bytes], int] = int,
    *,
    timeout_s: float = PATIENCE_S,
    read_committed: bool = False,
) -> None:
    """Follow a changelog until its newest totals are ``wanted``; ``read`` makes a total of a value."""
    admin = ClusterAdmin(broker)
    reader = ConfluentChangelogReader(broker, group_id="newest", admin=admin, read_committed=read_committed)
    reader.add({TopicPartition(changelog, partition): 0 for partition in range(partitions)})
    totals: dict[bytes, int] = {}
    deadline = time.monotonic() + timeout_s
    while totals != wanted and time.monotonic() < deadline:
        for batch in reader.poll(0.3):
            totals.update((key, read(value)) for key, value in batch.writes if value is not None)
    reader.close()
    off = {key: totals.get(key, 0) - wanted.get(key, 0) for key in totals.keys() | wanted.keys()}
    assert totals == wanted, f"too much or too little: { ({key: by for key, by in off.items() if by}) }"


def until(met: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition that no event reports."""
    deadline = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def send_words(
    broker: str, topic: str, records: Iterable[tuple[bytes | None, bytes]], client: Mapping[str, str]
) -> None:
    """Send keys and values with a producer of its own; return once the broker has them."""
    with closing(RecordProducer(broker, client, delivery_timeout_ms=60_000)) as producer:
        for key, value in records:
            producer.produce(topic, None, key, value)
        producer.flush(PATIENCE_S)


def grow(broker: str, topic: str, partitions: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": broker})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(PATIENCE_S)


class App:
    """One application on the broker: its topics, its workers and what was sent."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.broker, self.name, self.folder = broker, name, folder
        self.sent: Counter[bytes] = Counter()
        self.workers: list[Running] = []
        ClusterAdmin(broker).create_topics({name: PARTITIONS, f"{name}-counts": PARTITIONS}, PATIENCE_S)
        self._producer = RecordProducer(broker, delivery_timeout_ms=60_000)

    def send(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._producer.produce(self.name, None, key, b"x")
        self._producer.flush(PATIENCE_S)
        self.sent.update(keys)

    def send_unflushed(self, key: bytes, value: bytes) -> None:
        """Send a record without waiting until the broker has it."""
        self._producer.produce(self.name, None, key, value)
        self.sent[key] += 1

    def start(
        self,
        number: int,
        process: Callable[[Task, Sequence[Record]], None] = count,
        on_error: OnError = "fail",
        stores: Sequence[str | Store] = ("totals",),
        **settings: Any,
    ) -> Running:
        config = Config(
            application_id=self.name,
            bootstrap_servers=self.broker,
            state_dir=str(self.folder / f"state-{number}"),
            **{"session_timeout_ms": 30_000, "acceptable_recovery_lag": 100, **settings},
        )
        topology = [Subtopology(process, [self.name], stores, [f"{self.name}-counts"], on_error=on_error)]
        running = Running(config, topology)
        self.workers.append(running)
        return running

    def until_counted(self, timeout_s: float = PATIENCE_S, *, read_committed: bool = False) -> None:
        """Follow the changelog until its newest totals are the words sent."""
        changelog = f"{self.name}-totals-changelog"
        until_newest(self.broker, changelog, PARTITIONS, self.sent, timeout_s=timeout_s, read_committed=read_committed)

    def until_committed(self) -> None:
        """Wait until the group has committed all that was sent: no commit is under way then."""
        partitions = [TopicPartition(self.name, partition) for partition in range(PARTITIONS)]
        deadline = time.monotonic() + PATIENCE_S
        with closing(CommittedOffsets(self.broker, None, group_id=self.name)) as committed:
            while sum(committed.read(partitions, PATIENCE_S).values()) != self.sent.total():
                assert time.monotonic() < deadline, "never committed"
                threading.Event().wait(0.05)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()


class Running:
    """A worker in its own thread, and its events."""

    at_work: ClassVar[list[Running]] = []

    def __init__(self, config: Config, topology: Sequence[Subtopology], **arguments: Any) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        self.error: BaseException | None = None
        self.worker = Worker(config, topology, on_event=self._hear, **arguments)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.at_work.append(self)
        self._thread.start()

    @classmethod
    def end_all(cls) -> None:
        """End those that a failed test has left: their threads draw from the random numbers of the next tests."""
        left = list(cls.at_work)  # each takes itself out as it ends
        for running in left:
            running.worker.close()
        for running in left:
            running.join()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:  # noqa: BLE001  # the test reads it
            self.error = error
            with self._news:
                self._news.notify_all()
        finally:
            self.at_work.remove(self)

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def until(self, wanted: Callable[[Sequence[Event]], bool], timeout_s: float = PATIENCE_S) -> None:
        """Wait until the events satisfy ``wanted``."""
        with self._news:
            met = self._news.wait_for(lambda: wanted(self.events) or self.error is not None, timeout_s)
        assert self.error is None, self.error
        assert met, self.events[-5:]

    def until_event(self, kind: type[E], **facts: Any) -> None:
        """Wait until an event of this type has these values."""
        self.until(lambda _: any(all(getattr(e, k) == v for k, v in facts.items()) for e in self.reported(kind)))

    def until_running(self, tasks: int) -> None:
        """Wait until a status from now on reports so many running tasks; the last status may be out of date."""
        since = len(self.events)
        self.until(lambda events: len(_states(events[since:], "running")) == tasks)

    def until_error(self, timeout_s: float = PATIENCE_S) -> BaseException:
        """Wait until the worker ends with an error, and return the error."""
        with self._news:
            assert self._news.wait_for(lambda: self.error is not None, timeout_s), self.events[-5:]
        assert self.error is not None
        return self.error

    def reported(self, kind: type[E]) -> list[E]:
        """Return the events of this type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def stop(self) -> None:
        self.worker.close()
        self.join()

    def join(self) -> None:
        """Wait until the worker has ended."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker did not end"


def _states(events: Sequence[Event], state: str) -> list[str]:
    last = next((e for e in reversed(events) if isinstance(e, StatusEvent)), None)
    return [task for task, task_status in last.tasks.items() if task_status.state == state] if last else []
